import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.uvc import UvcTokenError, canonicalise, hash_form, parse_uvc, same_token
from tests.identity.protocol.uvc.tokens import near_tokens, tokens


@given(near_tokens)
def test_doing_it_twice_changes_nothing(text):
    try:
        once = canonicalise(text)
    except UvcTokenError:
        return
    assert once.isascii()
    assert canonicalise(once) == once


@given(tokens, st.integers(0, 4**600))
def test_spaces_dots_and_case_do_not_make_another_token(token, choices):
    named, colon, namespace = str(token).partition(":")
    loose = ""
    for letter in named.replace(".", ".."):
        choices, choice = divmod(choices, 4)
        loose += (letter, letter.upper(), f" {letter}", f"{letter}\t")[choice]
    canonical = canonicalise(f" .{loose}{colon}{namespace} ")
    assert canonical == canonicalise(str(token))
    assert parse_uvc(canonical).segments == token.segments
    assert parse_uvc(canonical).namespace == token.namespace


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  family.safe.guide  ", "family.safe.guide"),
        ("family . safe\u2003.gu ide", "family.safe.guide"),
        ("..family...safe.guide..", "family.safe.guide"),
        ("\uff26\uff21MILY\uff0esafe.guide", "family.safe.guide"),
        ("\ufb01nance.safe.guide", "finance.safe.guide"),
        ("family.safe.guide@01.002.00000", "family.safe.guide@1.2.0"),
        ("family.safe.guide@^01.2.0-RC.1", "family.safe.guide@^1.2.0-rc.1"),
        ("Family.Safe.Guide@LATEST", "family.safe.guide@latest"),
        ("family.safe.guide\uff201.2.0\uff1aSEC", "family.safe.guide@1.2.0:SEC"),
        ("FAMILY.SAFE.GUIDE.: SEC ", "family.safe.guide:SEC"),
        ("family.safe.guide:sec", "family.safe.guide:sec"),
        ("family.safe.guide@not.a.Version", "family.safe.guide@not.a.version"),
        ("", ""),
        (" . ", ""),
    ],
)
def test_each_step_in_its_order(text, canonical):
    assert canonicalise(text) == canonical


@pytest.mark.parametrize("text", ["family.säfe.guide", "family.safe\u200b.guide", "fam\u0131ly.safe.guide"])
def test_what_is_not_ascii_after_folding_has_no_canonical_form(text):
    with pytest.raises(UvcTokenError):
        canonicalise(text)


def test_a_text_too_long_is_not_worked_on():
    assert canonicalise(" " * 1024) == ""
    with pytest.raises(UvcTokenError):
        canonicalise(" " * 1025)


def test_equal_means_equal_canonical_forms():
    assert same_token(" Family.Safe.Guide@1.02.0:SEC", "family.safe.guide@1.2.0:SEC")
    for other in ["family.safe.guides", "family.safe.guide@1.2.0", "family.safe.guide:SEC"]:
        assert not same_token("family.safe.guide", other)


def test_the_hash_is_of_the_canonical_form():
    expected = "sha256:" + hashlib.sha256(b"family.safe.guide").hexdigest()
    assert hash_form(" FAMILY.safe.guide ") == expected
