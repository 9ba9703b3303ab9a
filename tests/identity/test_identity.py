import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from comity.identity.key_files import (
    create_identity,
    has_identity,
    load_identity,
    load_or_create_identity,
    needs_passphrase,
    new_signing_key,
    open_identity,
    read_identity,
    stored_vacant_id,
    write_identity,
)
from comity.identity.passphrase import SealingCost
from comity.identity.protocol.keys import SigningKey
from comity.wire.errors import ConfigError, KeyRefusedError

CHEAP = SealingCost(passes=1, memory=8192)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def test_a_new_folder_gets_an_identity_of_its_own(folder):
    assert not has_identity(folder)
    key = create_identity(folder)
    assert has_identity(folder)
    assert load_identity(folder).seed == key.seed
    assert stored_vacant_id(folder) == key.vacant_id
    assert not needs_passphrase(folder)
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_of_many_who_need_an_identity_at_once_one_makes_it_and_all_use_it(folder):
    together = threading.Barrier(16)

    def start(_number):
        together.wait()
        return load_or_create_identity(folder)

    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(start, range(16)))
    assert {key.vacant_id for key, _made in found} == {stored_vacant_id(folder)}
    assert [made for _key, made in found].count(True) == 1


def test_a_folder_that_cannot_be_used_is_told_and_nothing_is_loaded(folder):
    folder.write_text("no folder")
    with pytest.raises(KeyRefusedError, match="not a folder"):
        load_or_create_identity(folder)


def test_no_two_identities_are_alike():
    assert len({new_signing_key().vacant_id for _ in range(20)}) == 20


def test_an_identity_is_sealed_when_a_passphrase_is_given(folder):
    key = create_identity(folder, passphrase="open", cost=CHEAP)
    assert read_identity(folder / "identity.json").secret.sealed.cost == CHEAP
    assert needs_passphrase(folder)
    assert stored_vacant_id(folder) == key.vacant_id
    assert load_identity(folder, passphrase="open").seed == key.seed
    with pytest.raises(KeyRefusedError, match="give its passphrase"):
        load_identity(folder)


def test_a_known_key_may_be_brought_along(folder):
    key = SigningKey.from_seed(bytes(range(32)))
    assert create_identity(folder, key=key) is key
    assert load_identity(folder).vacant_id == key.vacant_id


def test_an_identity_is_never_replaced(folder):
    key = create_identity(folder)
    with pytest.raises(KeyRefusedError, match="never overwritten"):
        create_identity(folder)
    assert load_identity(folder).seed == key.seed


@pytest.mark.parametrize("obstacle", ["damaged file", "link to nowhere"])
def test_whatever_is_in_the_place_of_an_identity_stays_there(folder, obstacle):
    folder.mkdir(mode=0o700)
    path = folder / "identity.json"
    if obstacle == "damaged file":
        path.write_bytes(b"damaged")
    else:
        path.symlink_to(folder / "nowhere")
    assert has_identity(folder)
    with pytest.raises(KeyRefusedError, match="never overwritten"):
        create_identity(folder)
    assert path.is_symlink() or path.read_bytes() == b"damaged"


@pytest.mark.skipif(os.name != "posix", reason="mode bits are a matter of POSIX")
def test_no_identity_is_put_where_others_may_write(folder):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(KeyRefusedError, match="chmod 700"):
        create_identity(folder)
    assert list(folder.iterdir()) == []


def test_an_exported_identity_is_the_same_one(folder, tmp_path):
    key = create_identity(folder)
    write_identity(tmp_path / "copy.json", key, passphrase="travel", cost=CHEAP)
    assert open_identity(tmp_path / "copy.json", passphrase="travel").seed == key.seed
    assert read_identity(tmp_path / "copy.json").secret.sealed.cost == CHEAP
    with pytest.raises(KeyRefusedError, match="never overwritten"):
        write_identity(tmp_path / "copy.json", key)


def test_keyring_and_passphrase_are_not_mixed(folder):
    with pytest.raises(ConfigError, match="choose the keyring or a passphrase"):
        create_identity(folder, passphrase="open", in_keyring=True)
    assert not folder.exists()


def test_a_folder_without_identity_is_told(folder):
    for ask in (load_identity, stored_vacant_id, needs_passphrase):
        with pytest.raises(KeyRefusedError, match="does not exist"):
            ask(folder)
