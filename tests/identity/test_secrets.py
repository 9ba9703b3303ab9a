"""Tokens for programs: made once, kept as hashes, read again when the file changes, refused when they end."""

import hmac
import json
import os
import re
import stat

import pytest
from cryptography.fernet import Fernet, MultiFernet
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.secrets import (
    DAY,
    MAX_TOKENS,
    TOKEN_BOOK_FILE,
    TokenBook,
    list_tokens,
    load_or_create_token,
    load_or_create_vault_keys,
    make_token,
    new_token,
    new_vault_key,
    read_token,
    revoke_token,
    same_token,
)
from comity.testing import VirtualClock
from comity.wire.errors import ConfigError, ConflictError, InvalidError, KeyRefusedError, NotFoundError


@pytest.fixture
def clock():
    return VirtualClock()


def made(folder, clock, name="prometheus", can="metrics", days=None):
    return make_token(folder, name, can, now=clock.now(), days=days)[1]


def test_a_token_is_found_by_itself_alone(tmp_path, clock):
    token, book = made(tmp_path, clock), TokenBook(tmp_path, clock)
    assert (book.find(token).name, book.find(token).can) == ("prometheus", "metrics")
    for wrong in ("", token[:-1], token + "x", token.upper(), list_tokens(tmp_path)[0].sha256, "\ud800"):
        assert book.find(wrong) is None


def test_the_file_holds_no_token_and_is_private(tmp_path, clock):
    token, path = made(tmp_path, clock), tmp_path / TOKEN_BOOK_FILE
    assert token not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 40
    assert made(tmp_path, clock, "other") != token


def test_a_running_node_learns_of_new_and_of_revoked_tokens(tmp_path, clock):
    book = TokenBook(tmp_path, clock)
    assert book.find("nothing yet") is None
    first = made(tmp_path, clock, "first")
    assert book.find(first) is not None
    second = made(tmp_path, clock, "second", can="act")
    assert book.find(second).can == "act"
    assert revoke_token(tmp_path, "first").name == "first"
    assert book.find(first) is None
    assert book.find(second) is not None
    (tmp_path / TOKEN_BOOK_FILE).unlink()
    assert book.find(second) is None


def test_a_token_expires_to_the_second(tmp_path, clock):
    token, book = made(tmp_path, clock, days=1), TokenBook(tmp_path, clock)
    clock.jump(DAY - 1)
    assert book.find(token) is not None
    clock.jump(1)
    assert book.find(token) is None
    assert made(tmp_path, clock, days=1) != token  # the name is free again


def test_a_name_stands_for_one_token(tmp_path, clock):
    token = made(tmp_path, clock)
    with pytest.raises(ConflictError, match="comity token revoke prometheus"):
        made(tmp_path, clock)
    assert TokenBook(tmp_path, clock).find(token) is not None


@pytest.mark.parametrize("name", ["", "-a", "A", "a b", "a/b", "a" * 33, "a\n", "ä"])
def test_a_name_that_could_be_mistaken_is_refused(tmp_path, clock, name):
    with pytest.raises(InvalidError, match="1 to 32 characters"):
        made(tmp_path, clock, name)
    assert not (tmp_path / TOKEN_BOOK_FILE).exists()


@pytest.mark.parametrize("days", [0, -1, 3651, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(tmp_path, clock, days):
    with pytest.raises(InvalidError, match="at most 3,650 days"):
        made(tmp_path, clock, days=days)


def test_there_is_a_limit_of_tokens(tmp_path, clock):
    for number in range(MAX_TOKENS):
        made(tmp_path, clock, f"t{number}")
    with pytest.raises(ConflictError, match=f"there are {MAX_TOKENS} tokens"):
        made(tmp_path, clock, "one-more")


def test_what_is_not_there_cannot_be_revoked(tmp_path):
    with pytest.raises(NotFoundError, match="comity token list"):
        revoke_token(tmp_path, "nobody")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text("no JSON"),
        lambda path: path.write_text(json.dumps({"version": 2, "tokens": []})),
        lambda path: path.write_text(json.dumps({"tokens": [{"name": "a", "can": "everything"}]})),
        lambda path: path.chmod(0o644),
        lambda path: (path.rename(path.with_name("x")), path.symlink_to("x")),
    ],
    ids=["garbage", "newer", "unknown right", "open to others", "a link"],
)
def test_a_file_that_cannot_be_trusted_lets_nobody_in_and_is_not_overwritten(tmp_path, clock, damage):
    token, path = made(tmp_path, clock), tmp_path / TOKEN_BOOK_FILE
    book = TokenBook(tmp_path, clock)
    assert book.find(token) is not None
    damage(path)
    left = path.read_bytes()
    assert book.find(token) is None
    for act in (
        lambda: list_tokens(tmp_path),
        lambda: made(tmp_path, clock, "b"),
        lambda: revoke_token(tmp_path, "a"),
    ):
        with pytest.raises(KeyRefusedError):
            act()
    assert path.read_bytes() == left


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX alone")
def test_a_token_is_durable_before_it_is_shown_and_revoked_for_good_before_that_is_said(
    tmp_path, clock, monkeypatch
):
    path, seen, real = tmp_path / TOKEN_BOOK_FILE, [], os.fsync

    def fsync(opened):
        what = "folder" if stat.S_ISDIR(os.fstat(opened).st_mode) else "file"
        seen.append((what, len(list_tokens(tmp_path)) if path.exists() else None))
        real(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    made(tmp_path, clock)
    assert seen == [("file", None), ("folder", 1)]
    seen.clear()
    revoke_token(tmp_path, "prometheus")
    assert seen == [("file", 1), ("folder", 0)]


def test_tokens_are_long_and_never_alike():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", token) for token in tokens)


def test_a_token_is_made_once_and_kept(tmp_path):
    path = tmp_path / "token"
    token = load_or_create_token(path)
    assert load_or_create_token(path) == token == read_token(path)
    assert path.read_text(encoding="ascii") == token + "\n"
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_missing_token_is_not_made_by_reading(tmp_path):
    with pytest.raises(KeyRefusedError, match="does not exist"):
        read_token(tmp_path / "token")
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("content", [b"", b"short", b"with a blank in the middle", b"\xff" * 40, b"x" * 513])
def test_a_file_without_a_token_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "token"
    load_or_create_token(path)
    path.write_bytes(content)
    with pytest.raises(KeyRefusedError, match=r"holds no token.*remove it") as refusal:
        load_or_create_token(path)
    assert path.read_bytes() == content
    assert "blank" not in str(refusal.value)


@pytest.mark.skipif(os.name != "posix", reason="mode bits are a matter of POSIX")
def test_a_token_open_to_others_is_refused(tmp_path):
    path = tmp_path / "token"
    load_or_create_token(path)
    path.chmod(0o644)
    with pytest.raises(KeyRefusedError, match="chmod 600"):
        load_or_create_token(path)


@given(st.text(), st.text())
def test_tokens_are_compared_whatever_they_hold(one, other):
    assert same_token(one, one)
    assert same_token(one, other) == (one == other)


def test_half_a_surrogate_pair_is_compared_too():
    assert same_token("\ud800", "\ud800")
    assert not same_token("\ud800", "\ud801")


def test_the_comparison_takes_the_same_time_for_every_guess(monkeypatch):
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: compared.append((one, other)) or True)
    same_token("given", "expected")
    assert compared == [(b"given", b"expected")]


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
