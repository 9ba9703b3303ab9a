import hmac
import os
import re
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.secrets import load_or_create_token, new_token, read_token, same_token
from comity.wire.errors import KeyRefusedError


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
