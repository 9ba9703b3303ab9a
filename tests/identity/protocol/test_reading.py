import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.identity.protocol.revocation import CrlSource, PublicKey, read_list
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.strict_json import dumps
from tests.identity.protocol.samples import (
    HOUR,
    KEY,
    NOW,
    SOURCE,
    STRANGER,
    TRUSTED,
    UNSIGNED_SOURCE,
    alternate,
    crl,
    crl_body,
    entry,
    signed_again,
)


def read(members, source=SOURCE, now=NOW):
    return read_list(dumps(members), source, now=now)


def test_a_signed_list_of_the_issuer_counts_while_it_is_fresh():
    found = read(crl(KEY, entry("j-1", "b-1")))
    assert (found.issuer_id, found.published_at, found.next_update) == ("creed", NOW, NOW + HOUR)
    assert "j-1" in found.jtis
    with pytest.raises(InvalidError, match="out of date"):
        read(crl(KEY), now=NOW + HOUR)


def test_every_changed_member_breaks_the_signature():
    members = crl(KEY, entry("j-1", "b-1"))
    for change in (
        {"published_at": "2025-12-31T23:59:59Z"},
        {"next_update": "2026-01-01T02:00:00Z"},
        {"entries": []},
        {"entries": [members["entries"][0] | {"jti": "j-2"}]},
        {"entries": [members["entries"][0] | {"bundle_id": "b-2"}]},
        {"entries": [members["entries"][0] | {"reason": "superseded"}]},
        {"entries": [members["entries"][0] | {"revoked_at": "2025-12-30T00:00:00Z"}]},
        {"entries": members["entries"] * 2},
        {"note": "added"},
        {"signature": ""},
        {"signature": crl(STRANGER, entry("j-1", "b-1"))["signature"]},
    ):
        with pytest.raises(InvalidError, match="signature"):
            read(members | change)
        if "signature" not in change:
            assert read(signed_again(members | change))


def test_the_list_is_of_the_issuer_that_was_configured():
    with pytest.raises(InvalidError, match="not of creed"):
        read(crl(KEY, issuer_id="other"))


def test_a_signature_without_a_key_of_ours_is_refused():
    with pytest.raises(InvalidError, match="no key"):
        read(crl(KEY), UNSIGNED_SOURCE)
    with pytest.raises(InvalidError, match="no key"):
        read(signed_again(alternate()), UNSIGNED_SOURCE)


def test_the_signed_shape_never_comes_without_a_signature():
    members = crl(KEY)
    del members["signature"]
    for source in (SOURCE, UNSIGNED_SOURCE, replace(SOURCE, accept_unsigned=True)):
        with pytest.raises(MalformedError, match="signature"):
            read(members, source)


def test_entries_make_it_the_signed_shape_whatever_else_is_in_it():
    both = signed_again(crl(KEY, entry("j-1")) | {"revoked": []})
    assert "j-1" in read(both).jtis
    with pytest.raises(InvalidError, match="no key"):
        read(both, UNSIGNED_SOURCE)


class TestTheOtherShape:
    def test_counts_unsigned_only_where_that_was_allowed(self):
        assert "j" in read(alternate("j"), UNSIGNED_SOURCE).jtis
        assert "j" in read(alternate("j"), replace(SOURCE, accept_unsigned=True)).jtis
        with pytest.raises(InvalidError, match="signature"):
            read(alternate("j"))

    def test_counts_signed_as_any_list_does(self):
        assert "j" in read(signed_again(alternate("j"))).jtis
        for source in (SOURCE, replace(SOURCE, accept_unsigned=True)):
            with pytest.raises(InvalidError, match="signature"):
                read(signed_again(alternate("j"), STRANGER), source)
            with pytest.raises(InvalidError, match="signature"):
                read(alternate("j", signature=None), source)

    def test_is_of_the_issuer_and_fresh(self):
        with pytest.raises(InvalidError, match="not of creed"):
            read(alternate(issuer="other"), UNSIGNED_SOURCE)
        with pytest.raises(InvalidError, match="out of date"):
            read(alternate(), UNSIGNED_SOURCE, now=NOW + HOUR)


class TestSources:
    def test_unsigned_lists_are_taken_over_https_only(self):
        with pytest.raises(InvalidError, match="https://"):
            CrlSource(issuer_id="creed", uri="http://creed.example/crl", accept_unsigned=True)
        assert CrlSource(issuer_id="creed", uri="HTTPS://creed.example/crl", accept_unsigned=True)

    def test_a_source_whose_lists_could_never_count_is_refused(self):
        with pytest.raises(InvalidError, match="configure its key"):
            CrlSource(issuer_id="creed", uri="https://creed.example/crl")

    def test_a_source_with_another_key_is_another_source(self):
        other = replace(SOURCE, key=PublicKey(bytes(32)))
        assert len({SOURCE, other, replace(other, key=TRUSTED)}) == 2


def test_two_readers_of_one_signature_never_see_two_lists():
    body = crl_body(KEY, entry("j-1"))
    doubled = body.replace(b'"entries":', b'"entries":[],"entries":', 1)
    with pytest.raises(MalformedError):
        read_list(doubled, SOURCE, now=NOW)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b"\xff",
        b"{" * 9,
        b"[" * 100_000,
        b'{"revoked":NaN}',
        b'{"revoked":[]}',
    ],
)
def test_what_is_no_list_is_malformed(body):
    for source in (SOURCE, UNSIGNED_SOURCE):
        with pytest.raises(MalformedError):
            read_list(body, source, now=NOW)


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_else(body):
    with pytest.raises((MalformedError, InvalidError)):
        read_list(body, SOURCE, now=NOW)
