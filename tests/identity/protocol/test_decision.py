import itertools

import pytest

from comity.identity.protocol.revocation import (
    Denylist,
    Revocable,
    RevocationReason,
    Status,
    Unavailable,
    read_crl,
    revocation_list,
    revocation_status,
)
from tests.identity.protocol.samples import HOUR, KEY, NOW, STRANGER, TRUSTED, crl, entry, proof

SUBJECT = Revocable(("j-1",), "b-1")

DENYLISTS = {
    "denied": Denylist(jtis=frozenset({"j-1"})),
    "denied with its bundle": Denylist(bundle_ids=frozenset({"b-1"})),
    "not denied": Denylist(jtis=frozenset({"b-1", "j-2"}), bundle_ids=frozenset({"j-1", "b-2"})),
}
PROOFS = {
    "good": proof(),
    "revoked": proof(status=Status.REVOKED),
    "unknown": proof(status=Status.UNKNOWN),
    "forged": proof(STRANGER),
    "late": proof(next_update=NOW),
    "garbage": 5,
    "none": None,
}


def listing(*entries, **fields):
    return revocation_list(read_crl(crl(KEY, *entries, **fields)))


LISTS = {
    "clear": listing(entry("j-2", "b-2")),
    "by jti": listing(entry("j-1", "b-2", RevocationReason.CONTENT_UNSAFE)),
    "by bundle": listing(entry("j-2", "b-1", RevocationReason.SUPERSEDED)),
    "by both": listing(
        entry("j-2", "b-1", RevocationReason.SUPERSEDED), entry("j-1", "b-3", RevocationReason.CONTENT_UNSAFE)
    ),
    "crossed": listing(entry("b-1", "j-1")),
    "out of date": listing(published_at=NOW - HOUR, next_update=NOW),
    "unreachable": Unavailable("nobody there"),
    "none": None,
}


def expected(denied, stapled, listed):
    if denied != "not denied":
        return "revoked", "denylist", "revoked on this node"
    if stapled in ("good", "revoked"):
        return stapled, "stapled", ""
    return {
        "clear": ("good", "crl", ""),
        "by jti": ("revoked", "crl", "content_unsafe"),
        "by bundle": ("revoked", "crl", "superseded"),
        "by both": ("revoked", "crl", "content_unsafe"),
        "crossed": ("good", "crl", ""),
        "out of date": ("unknown", "fail_closed", "the list is out of date"),
        "unreachable": ("unknown", "fail_closed", "nobody there"),
        "none": ("good", "crl", "the issuer publishes no list"),
    }[listed]


@pytest.mark.parametrize(("denied", "stapled", "listed"), list(itertools.product(DENYLISTS, PROOFS, LISTS)))
def test_the_sources_are_asked_in_their_order(denied, stapled, listed):
    found = revocation_status(
        SUBJECT,
        crl=LISTS[listed],
        now=NOW,
        stapled=PROOFS[stapled],
        responders={"responder": TRUSTED},
        denylist=DENYLISTS[denied],
    )
    status, source, detail = expected(denied, stapled, listed)
    assert (found.status, found.source, found.detail) == (status, source, detail)
    assert found.refuses is (status != "good")


def test_a_list_out_of_date_is_taken_within_the_grace_only():
    late = LISTS["out of date"]
    assert revocation_status(SUBJECT, crl=late, now=NOW + 299, grace=300).status is Status.GOOD
    assert revocation_status(SUBJECT, crl=late, now=NOW + 300, grace=300).status is Status.UNKNOWN
    listed = listing(entry("j-1"), published_at=NOW - HOUR, next_update=NOW)
    assert revocation_status(SUBJECT, crl=listed, now=NOW + 1, grace=300).status is Status.REVOKED


def test_any_of_several_ids_is_found():
    several = Revocable(("j-8", "j-9", "j-1"))
    assert revocation_status(several, crl=LISTS["by jti"], now=NOW).detail == "content_unsafe"
    assert revocation_status(several, crl=None, now=NOW, denylist=DENYLISTS["denied"]).refuses
    assert not revocation_status(several, crl=LISTS["by bundle"], now=NOW).refuses


def test_without_a_bundle_only_the_ids_are_looked_up():
    alone = Revocable(("j-5",))
    assert not revocation_status(
        alone, crl=LISTS["by both"], now=NOW, denylist=DENYLISTS["not denied"]
    ).refuses
