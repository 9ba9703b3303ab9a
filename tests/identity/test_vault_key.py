import os
import stat

import pytest
from cryptography.fernet import Fernet, MultiFernet

from comity.identity.secrets import load_or_create_vault_keys, new_vault_key
from comity.wire.errors import ConfigError, KeyRefusedError

ONE = "A" * 43 + "="
TWO = "_-" * 21 + "A="


@pytest.fixture
def path(tmp_path):
    return tmp_path / "vault.key"


def test_a_key_is_made_once_and_kept(path):
    (key,) = load_or_create_vault_keys(path, None)
    assert load_or_create_vault_keys(path, None) == [key]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_key_opens_what_it_closed():
    key = new_vault_key()
    assert Fernet(key).decrypt(Fernet(key).encrypt(b"context")) == b"context"
    assert new_vault_key() != key


def test_the_environment_outranks_the_file_and_makes_none(path):
    assert load_or_create_vault_keys(path, ONE) == [ONE.encode()]
    assert not path.exists()


@pytest.mark.parametrize("value", [f"{ONE},{TWO}", f" {ONE} ,\t{TWO}\n", f"{ONE},{TWO},"])
def test_several_keys_keep_their_order(path, value):
    keys = load_or_create_vault_keys(path, value)
    assert keys == [ONE.encode(), TWO.encode()]
    MultiFernet([Fernet(key) for key in keys])


def test_a_file_may_hold_several_keys(path):
    load_or_create_vault_keys(path, None)
    path.write_text(f"{TWO}\r\n\n{ONE}\n", encoding="ascii")
    assert load_or_create_vault_keys(path, None) == [TWO.encode(), ONE.encode()]


@pytest.mark.parametrize(
    "value",
    ["", "  ", ",", "hunter2hunter2", ONE[:-1], ONE + "A", "é" * 44, f"{ONE},hunter2hunter2", f"{ONE} {TWO}"],
)
def test_a_malformed_variable_is_named_and_never_shown(path, value):
    with pytest.raises(ConfigError, match="VCP_CONTEXT_ENCRYPTION_KEY must hold Fernet keys") as refusal:
        load_or_create_vault_keys(path, value)
    assert "hunter2" not in str(refusal.value)
    assert ONE[:20] not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"hunter2", b"\xff\x00", ONE.encode() + b"\nhunter2"])
def test_a_malformed_file_is_refused_and_never_replaced(path, content):
    load_or_create_vault_keys(path, None)
    path.write_bytes(content)
    with pytest.raises(KeyRefusedError, match=f"{path} must hold Fernet keys") as refusal:
        load_or_create_vault_keys(path, None)
    assert "hunter2" not in str(refusal.value)
    assert path.read_bytes() == content


@pytest.mark.skipif(os.name != "posix", reason="mode bits are a matter of POSIX")
def test_a_file_open_to_others_is_refused(path):
    load_or_create_vault_keys(path, None)
    path.chmod(0o604)
    with pytest.raises(KeyRefusedError, match="chmod 600"):
        load_or_create_vault_keys(path, None)
