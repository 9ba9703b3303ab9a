"""Tokens for programs: made once, kept as hashes, read again when the file changes, refused when they end."""

import json
import os
import stat

import pytest

from comity.identity.secrets import (
    DAY,
    MAX_TOKENS,
    TOKEN_BOOK_FILE,
    TokenBook,
    list_tokens,
    make_token,
    revoke_token,
)
from comity.testing import VirtualClock
from comity.wire.errors import ConflictError, InvalidError, KeyRefusedError, NotFoundError


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
