import json
import os
import stat

import pytest

from comity.identity.key_files import KeptHere, open_identity, read_identity, write_identity
from comity.identity.passphrase import SealingCost
from comity.identity.protocol.keys import SigningKey
from comity.wire.errors import KeyRefusedError

KEY = SigningKey.from_seed(bytes(range(32)))
CHEAP = SealingCost(passes=1, memory=8192)


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "identity.json"
    write_identity(path, KEY)
    return path


@pytest.fixture
def sealed(tmp_path):
    path = tmp_path / "sealed.json"
    write_identity(path, KEY, passphrase="open sesame", cost=CHEAP)
    return path


def rewrite(path, change):
    """Edit the JSON in place, as somebody with an editor would."""
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


class TestAPlainFile:
    def test_gives_the_key_back(self, plain):
        key = open_identity(plain)
        assert key.vacant_id == KEY.vacant_id
        assert key.seed == KEY.seed

    @pytest.mark.skipif(os.name != "posix", reason="mode bits are a matter of POSIX")
    def test_is_for_its_owner_only(self, plain):
        assert stat.S_IMODE(plain.stat().st_mode) == 0o600

    def test_is_json_that_says_what_it_is(self, plain):
        assert json.loads(plain.read_bytes()) == {
            "format": "comity identity",
            "version": 1,
            "public": KEY.vacant_id.hex(),
            "secret": {"kept": "here", "seed": KEY.seed.hex()},
        }

    def test_does_not_show_the_seed_when_printed(self, plain):
        assert KEY.seed.hex() not in repr(read_identity(plain))
        assert KEY.seed.hex() not in repr(KeptHere(seed=KEY.seed.hex()))

    def test_is_not_opened_by_somebody_who_thinks_it_is_sealed(self, plain):
        with pytest.raises(KeyRefusedError, match="not encrypted"):
            open_identity(plain, passphrase="open sesame")

    def test_is_never_overwritten(self, plain):
        before = plain.read_bytes()
        with pytest.raises(KeyRefusedError, match="never overwritten"):
            write_identity(plain, SigningKey.from_seed(bytes(32)))
        assert plain.read_bytes() == before


class TestASealedFile:
    def test_gives_the_key_back_for_its_passphrase(self, sealed):
        assert open_identity(sealed, passphrase="open sesame").seed == KEY.seed

    def test_does_not_hold_the_seed(self, sealed):
        assert KEY.seed.hex() not in sealed.read_text(encoding="utf-8")

    def test_shows_its_public_key_without_a_passphrase(self, sealed):
        assert read_identity(sealed).public == KEY.vacant_id.hex()

    def test_asks_for_its_passphrase(self, sealed):
        with pytest.raises(KeyRefusedError, match=f"{sealed} is sealed; give its passphrase"):
            open_identity(sealed)

    @pytest.mark.parametrize("passphrase", ["", "sesame"])
    def test_stays_closed_for_another_passphrase(self, sealed, passphrase):
        with pytest.raises(KeyRefusedError, match=f"{sealed} stays closed: the passphrase does not open it"):
            open_identity(sealed, passphrase=passphrase)

    def test_keeps_its_cost(self, sealed):
        assert json.loads(sealed.read_bytes())["secret"]["sealed"]["cost"] == {"passes": 1, "memory": 8192}

    def test_is_costly_by_default(self, tmp_path, monkeypatch):
        from nacl.pwhash import argon2id

        asked = []

        def kdf(size, _password, _salt, *, opslimit, memlimit):
            asked.append((opslimit, memlimit))
            return bytes(size)

        monkeypatch.setattr(argon2id, "kdf", kdf)
        write_identity(tmp_path / "costly.json", KEY, passphrase="open")
        assert asked == [(argon2id.OPSLIMIT_MODERATE, argon2id.MEMLIMIT_MODERATE)]

    def test_a_cost_beyond_all_bounds_is_refused_before_memory_is_taken(self, sealed):
        rewrite(sealed, lambda content: content["secret"]["sealed"]["cost"].update(memory=2**50))
        with pytest.raises(KeyRefusedError, match="damaged or was changed"):
            open_identity(sealed, passphrase="open sesame")

    def test_a_changed_box_stays_closed(self, sealed):
        rewrite(sealed, lambda content: content["secret"]["sealed"].update(box="00" * 72))
        with pytest.raises(KeyRefusedError, match="stays closed"):
            open_identity(sealed, passphrase="open sesame")


OTHER = SigningKey.from_seed(bytes(32))


class TestATamperedFile:
    @pytest.mark.parametrize("name", ["plain", "sealed"])
    def test_with_another_public_key_is_refused(self, request, name):
        path = request.getfixturevalue(name)
        rewrite(path, lambda content: content.update(public=OTHER.vacant_id.hex()))
        with pytest.raises(KeyRefusedError, match="does not belong to its seed"):
            open_identity(path, passphrase="open sesame" if name == "sealed" else None)

    def test_with_another_seed_is_refused(self, plain):
        rewrite(plain, lambda content: content["secret"].update(seed=OTHER.seed.hex()))
        with pytest.raises(KeyRefusedError, match="does not belong to its seed"):
            open_identity(plain)

    @pytest.mark.parametrize("version", [2, 99, 10**30])
    def test_of_a_newer_version_is_refused_and_left_alone(self, plain, version):
        rewrite(plain, lambda content: content.update(version=version, secret={"kept": "elsewhere"}))
        before = plain.read_bytes()
        with pytest.raises(KeyRefusedError, match=rf"version {version}.*knows up to 1; upgrade comity"):
            open_identity(plain)
        assert plain.read_bytes() == before

    @pytest.mark.parametrize(
        "change",
        [
            lambda content: content.update(version=0),
            lambda content: content.update(extra=1),
            lambda content: content.update(public="00"),
            lambda content: content.update(public=None),
            lambda content: content.pop("public"),
            lambda content: content.pop("secret"),
            lambda content: content.update(secret=None),
            lambda content: content["secret"].update(kept="elsewhere"),
            lambda content: content["secret"].update(seed=""),
            lambda content: content["secret"].update(seed="00" * 31),
            lambda content: content["secret"].update(seed="zz" * 32),
            lambda content: content["secret"].update(seed=5),
            lambda content: content["secret"].update(extra=1),
        ],
    )
    def test_is_refused_as_damaged(self, plain, change):
        rewrite(plain, change)
        with pytest.raises(KeyRefusedError, match=f"{plain} is damaged or was changed; restore it"):
            open_identity(plain)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"null",
            b"[]",
            b"{}",
            b"\xff\xfe",
            b"-----BEGIN PRIVATE KEY-----",
            b'{"format":"other","version":1}',
            b'{"format":"comity identity"}',
            b'{"format":"comity identity","version":"1"}',
            b"[" * 50_000,
        ],
    )
    def test_that_is_something_else_is_refused(self, plain, content):
        plain.write_bytes(content)
        with pytest.raises(KeyRefusedError, match=f"{plain} is not an identity file"):
            open_identity(plain)

    def test_no_refusal_shows_the_seed(self, plain):
        rewrite(plain, lambda content: content.update(extra=1))
        with pytest.raises(KeyRefusedError) as refusal:
            open_identity(plain)
        assert KEY.seed.hex() not in str(refusal.value)
        assert refusal.value.__cause__ is None


@pytest.mark.skipif(os.name != "posix", reason="mode bits are a matter of POSIX")
def test_a_file_open_to_others_is_refused_before_it_is_read(plain):
    plain.chmod(0o640)
    with pytest.raises(KeyRefusedError, match=f"chmod 600 {plain}"):
        open_identity(plain)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(KeyRefusedError, match="does not exist"):
        open_identity(tmp_path / "identity.json")
