import json
import sys
from types import ModuleType

import pytest

from comity.identity import key_files
from comity.identity.key_files import (
    create_identity,
    ensure_recovery,
    keep_recovery_public,
    load_identity,
    needs_passphrase,
    open_recovery,
)
from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.succession import make_succession
from comity.identity.succession_files import replace_identity
from comity.wire.errors import KeyRefusedError

KEY = SigningKey.from_seed(bytes(range(32)))


class Backend:
    """A keyring as the library offers one: an object with a priority and two calls."""

    priority = 5

    def __init__(self):
        self.entries = {}

    def set_password(self, service, username, password):
        self.entries[service, username] = password

    def get_password(self, service, username):
        return self.entries.get((service, username))

    def delete_password(self, service, username):
        del self.entries[service, username]


@pytest.fixture
def backend(monkeypatch):
    library = ModuleType("keyring")
    library.chosen = Backend()
    library.get_keyring = lambda: library.chosen
    monkeypatch.setitem(sys.modules, "keyring", library)
    return library.chosen


def test_a_seed_is_kept_under_its_public_key(backend):
    key_files.usable_keyring()
    key_files.store(KEY)
    assert backend.entries == {("comity", KEY.vacant_id.hex()): KEY.seed.hex()}
    assert key_files.load(KEY.vacant_id).seed == KEY.seed


def test_the_identity_of_a_folder_may_be_kept_there(backend, tmp_path):
    key = create_identity(tmp_path / "data", in_keyring=True)
    content = json.loads((tmp_path / "data" / "identity.json").read_bytes())
    assert content["secret"] == {"kept": "keyring"}
    assert load_identity(tmp_path / "data").seed == key.seed
    assert not needs_passphrase(tmp_path / "data")


def test_a_new_key_takes_the_place_of_the_old_one_there_and_the_recovery_key_goes_when_it_is_printed(
    backend, tmp_path
):
    old, new = create_identity(tmp_path, in_keyring=True), KEY
    recovery = open_recovery(tmp_path, None)
    assert {name for _, name in backend.entries} == {old.vacant_id.hex(), recovery.vacant_id.hex()}
    statement = make_succession(
        (), old=old.vacant_id, new=new, signer=old, time="2026-01-31T08:15:00.000000Z", reason="planned"
    )
    replace_identity(tmp_path, (statement,), new, passphrase=None, in_keyring=True)
    assert load_identity(tmp_path).seed == new.seed
    keep_recovery_public(tmp_path, recovery.vacant_id)
    assert {name for _, name in backend.entries} == {new.vacant_id.hex()}
    with pytest.raises(KeyRefusedError, match="only the public half"):
        open_recovery(tmp_path, None)


def test_of_two_recovery_keys_that_are_made_at_once_one_stays(backend, tmp_path, monkeypatch):
    create_identity(tmp_path, in_keyring=True)
    before = dict(backend.entries)
    monkeypatch.setattr("comity.identity.key_files.has_recovery", lambda _: next(seen))
    seen = iter((False, True))  # the other process made it in between
    ensure_recovery(tmp_path, None, in_keyring=True)
    assert backend.entries == before


def test_a_refused_identity_leaves_nothing_in_the_keyring(backend, tmp_path):
    create_identity(tmp_path)
    with pytest.raises(KeyRefusedError, match="never overwritten"):
        create_identity(tmp_path, in_keyring=True)
    assert backend.entries == {}


def test_a_seed_that_is_gone_is_told(backend):
    with pytest.raises(KeyRefusedError, match="holds no seed of vacant:03a107bff3ce"):
        key_files.load(KEY.vacant_id)


@pytest.mark.parametrize("kept", ["", "00", "zz" * 32, "00" * 32, 5])
def test_a_seed_of_somebody_else_is_refused(backend, kept):
    backend.entries["comity", KEY.vacant_id.hex()] = kept
    with pytest.raises(KeyRefusedError, match="is not its seed"):
        key_files.load(KEY.vacant_id)


def test_a_keyring_that_forgets_at_once_is_none(backend, monkeypatch):
    monkeypatch.setattr(backend, "set_password", lambda *_: None)
    with pytest.raises(KeyRefusedError, match="holds no seed"):
        key_files.store(KEY)


def test_a_locked_keyring_is_told_without_its_secrets(backend, monkeypatch):
    class KeyringLocked(Exception):  # noqa: N818 - named as the library names it
        pass

    def locked(*arguments):
        raise KeyringLocked(*arguments)

    monkeypatch.setattr(backend, "set_password", locked)
    monkeypatch.setattr(backend, "get_password", locked)
    with pytest.raises(KeyRefusedError, match=r"did not take the seed \(KeyringLocked\)") as refusal:
        key_files.store(KEY)
    assert KEY.seed.hex() not in str(refusal.value)
    with pytest.raises(KeyRefusedError, match=r"could not be read \(KeyringLocked\); unlock it"):
        key_files.load(KEY.vacant_id)


def test_a_stand_in_that_only_fails_is_no_keyring(backend):
    backend.priority = 0
    for ask in (
        key_files.usable_keyring,
        lambda: key_files.store(KEY),
        lambda: key_files.load(KEY.vacant_id),
    ):
        with pytest.raises(KeyRefusedError, match=r"without a desktop session.*key file instead"):
            ask()


def test_a_library_that_cannot_choose_is_told(monkeypatch):
    library = ModuleType("keyring")
    monkeypatch.setitem(sys.modules, "keyring", library)
    with pytest.raises(KeyRefusedError, match=r"no keyring can be chosen here \(AttributeError\)"):
        key_files.usable_keyring()


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(
        KeyRefusedError, match=r"the package keyring is not installed; run: .* keyring; or keep"
    ):
        key_files.usable_keyring()


def test_the_real_library_without_a_desktop_is_refused_clearly(monkeypatch):
    keyring = pytest.importorskip("keyring")
    from keyring.backends import fail

    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())
    try:
        with pytest.raises(KeyRefusedError, match="without a desktop session"):
            key_files.store(KEY)
    finally:
        keyring.set_keyring(before)


def test_the_real_library_with_a_keyring_keeps_a_seed():
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend

    class InMemory(KeyringBackend):
        priority = 1

        def __init__(self):
            super().__init__()
            self.entries = {}

        def set_password(self, service, username, password):
            self.entries[service, username] = password

        def get_password(self, service, username):
            return self.entries.get((service, username))

        def delete_password(self, service, username):
            del self.entries[service, username]

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())
    try:
        key_files.store(KEY)
        assert key_files.load(KEY.vacant_id).seed == KEY.seed
    finally:
        keyring.set_keyring(before)
