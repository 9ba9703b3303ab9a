import hashlib
import hmac
import itertools
import json
from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.identity.protocol.revocation import (
    CrlSource,
    Denylist,
    PublicKey,
    Revocable,
    RevocationReason,
    SharedSecret,
    Status,
    Unavailable,
    alternate_outcome,
    proof_status,
    read_alternate,
    read_crl,
    read_list,
    read_moment,
    read_proof,
    read_trust_key,
    revocation_list,
    revocation_status,
    sign_members,
    signature_holds,
    signed_bytes,
    write_moment,
)
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.strict_json import dumps, loads
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
    proof,
    signed_again,
)

names = st.text(min_size=1, max_size=12)


@given(st.lists(st.builds(entry, names, names, st.sampled_from(RevocationReason)), max_size=4))
def test_a_signed_list_reads_back_from_its_json_and_its_signature_holds(entries):
    members = loads(dumps(crl(KEY, *entries)))
    assert read_crl(members).entries == tuple(entries)
    assert signature_holds(members, TRUSTED)


def test_a_list_is_fresh_until_its_next_update():
    found = revocation_list(read_crl(crl(KEY)))
    assert found.is_fresh(NOW + HOUR - 0.001)
    assert not found.is_fresh(NOW + HOUR)
    assert found.is_fresh(NOW + HOUR + 299, grace=300)
    assert not found.is_fresh(NOW + HOUR + 300, grace=300)


def test_ids_lead_to_the_first_reason_given_and_an_empty_id_to_none():
    found = revocation_list(
        read_crl(
            crl(
                KEY,
                entry("j-1", "b-1", RevocationReason.SUPERSEDED),
                entry("j-2", "b-1", RevocationReason.CONTENT_UNSAFE),
                entry("", "b-3"),
                entry("j-4", ""),
            )
        )
    )
    assert found.jtis == {"j-1": "superseded", "j-2": "content_unsafe", "j-4": "key_compromise"}
    assert found.bundle_ids == {"b-1": "superseded", "b-3": "key_compromise"}


ENTRY = {"bundle_id": "b", "jti": "j", "revoked_at": "2025-12-31T00:00:00Z", "reason": "superseded"}


@pytest.mark.parametrize("missing", ["issuer_id", "published_at", "next_update", "entries", "signature"])
def test_a_list_lacks_nothing(missing):
    members = crl(KEY)
    del members[missing]
    with pytest.raises(MalformedError, match=missing):
        read_crl(members)


@pytest.mark.parametrize(
    "fault",
    [
        {"issuer_id": 5},
        {"signature": None},
        {"entries": {}},
        {"entries": "x"},
        {"entries": [5]},
        *({"entries": [{k: v for k, v in ENTRY.items() if k != missing}]} for missing in ENTRY),
        {"entries": [ENTRY | {"reason": "boredom"}]},
        {"entries": [ENTRY | {"reason": ""}]},
        {"entries": [ENTRY | {"revoked_at": "yesterday"}]},
        {"entries": [ENTRY | {"jti": None}]},
        {"entries": [ENTRY | {"jti": "", "bundle_id": ""}]},
    ],
)
def test_a_member_that_is_not_as_it_should_be_spoils_the_list(fault):
    with pytest.raises(MalformedError):
        read_crl(crl(KEY) | fault)


@pytest.mark.parametrize("received", [None, [], "x", 5, {}])
def test_anything_else_is_no_list(received):
    with pytest.raises(MalformedError):
        read_crl(received)


def test_a_refusal_repeats_nothing_of_the_list():
    with pytest.raises(MalformedError) as refusal:
        read_crl(crl(KEY) | {"entries": [ENTRY | {"reason": "forged\nlog line"}]})
    assert "forged" not in str(refusal.value)
    assert "entries[0].reason" in str(refusal.value)


@pytest.mark.parametrize("fault", [{"published_at": "now"}, {"next_update": "2026"}])
def test_a_list_without_moments_is_malformed(fault):
    with pytest.raises(MalformedError, match=next(iter(fault))):
        revocation_list(read_crl(crl(KEY) | fault))


@pytest.mark.parametrize("next_update", [NOW, NOW - 1])
def test_a_list_that_ends_before_it_begins_is_refused(next_update):
    with pytest.raises(InvalidError, match="next_update"):
        revocation_list(read_crl(crl(KEY, next_update=next_update)))


OTHER_ENTRY = {"jti": "j", "reason": "key_compromise", "revoked_at": "2025-12-31T00:00:00Z"}


def outcome(received, jti="j", now=NOW):
    return alternate_outcome(received, issuer="creed", jti=jti, now=now)


def test_what_is_listed_is_revoked_and_nothing_else():
    assert outcome(alternate("i", "j")) == "revoked"
    assert outcome(alternate("i")) == "not_revoked"
    assert outcome(alternate()) == "not_revoked"


def test_a_list_speaks_until_its_next_update():
    assert outcome(alternate(), now=NOW + HOUR - 1) == "not_revoked"
    assert outcome(alternate("j"), now=NOW + HOUR) == "unavailable"


@pytest.mark.parametrize(
    "fault",
    [
        {"issuer": "other"},
        {"issuer": None},
        {"next_update": "2025-12-31T00:00:00Z"},
        {"next_update": "2026-01-01T00:00:00Z"},
        {"updated_at": "2026-01-01T02:00:00Z"},
        {"updated_at": "then"},
        {"updated_at": None},
        {"next_update": 5},
        {"revoked": {}},
        {"revoked": None},
        {"revoked": "j"},
        {"revoked": ["j"]},
        {"revoked": [{k: v for k, v in OTHER_ENTRY.items() if k != "jti"}]},
        {"revoked": [{k: v for k, v in OTHER_ENTRY.items() if k != "reason"}]},
        {"revoked": [{k: v for k, v in OTHER_ENTRY.items() if k != "revoked_at"}]},
        {"revoked": [OTHER_ENTRY | {"reason": ""}]},
        {"revoked": [OTHER_ENTRY | {"reason": " \t"}]},
        {"revoked": [OTHER_ENTRY | {"reason": None}]},
        {"revoked": [OTHER_ENTRY | {"jti": " "}]},
        {"revoked": [OTHER_ENTRY | {"revoked_at": ""}]},
        {"revoked": [OTHER_ENTRY, OTHER_ENTRY]},
        {"revoked": [OTHER_ENTRY, OTHER_ENTRY | {"reason": "superseded"}]},
    ],
)
def test_one_fault_makes_the_whole_list_unavailable(fault):
    assert outcome(alternate(**fault), jti="another") == "unavailable"
    assert outcome(alternate(**fault)) == "unavailable"


@pytest.mark.parametrize("missing", ["issuer", "updated_at", "next_update", "revoked"])
def test_a_list_of_the_other_shape_lacks_nothing(missing):
    received = alternate()
    del received[missing]
    assert outcome(received) == "unavailable"


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5))
def test_anything_else_is_unavailable(received):
    assert outcome(received) == "unavailable"
    with pytest.raises((MalformedError, InvalidError)):
        read_alternate(received)


def test_a_reason_is_free_text_here():
    assert read_alternate(alternate(revoked=[OTHER_ENTRY | {"reason": "lost"}])).jtis == {"j": "lost"}


DAY = 24 * HOUR


def worth(received, now=NOW, **responders):
    return proof_status(received, responders=responders or {"responder": TRUSTED}, now=now)


@given(st.sampled_from(Status), st.text(max_size=20))
def test_a_signed_proof_reads_back_and_says_its_status(status, responder):
    received = loads(dumps(proof(status=status, responder_id=responder)))
    assert read_proof(received).status is status
    assert proof_status(received, responders={responder: TRUSTED}, now=NOW) is status


SKEW = 300


@pytest.mark.parametrize(
    ("fields", "now", "counts"),
    [
        ({}, NOW - SKEW, True),
        ({}, NOW - SKEW - 0.001, False),
        ({"this_update": NOW + HOUR / 2, "produced_at": NOW}, NOW + HOUR / 2 - SKEW, True),
        ({"this_update": NOW + HOUR / 2, "produced_at": NOW}, NOW + HOUR / 2 - SKEW - 0.001, False),
        ({}, NOW + HOUR - 0.001, True),
        ({}, NOW + HOUR, False),
        ({"next_update": NOW + 2 * DAY}, NOW + DAY, True),
        ({"next_update": NOW + 2 * DAY}, NOW + DAY + 0.001, False),
        ({"next_update": NOW - HOUR}, NOW - HOUR, False),
        ({"next_update": NOW - 2 * HOUR}, NOW - HOUR, False),
    ],
)
def test_a_proof_counts_in_its_window_and_for_a_day(fields, now, counts):
    assert worth(proof(**fields), now) is (Status.GOOD if counts else Status.UNKNOWN)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "revoked"},
        {"produced_at": "2025-12-31T23:59:59Z"},
        {"this_update": "2025-12-31T22:00:00Z"},
        {"next_update": "2026-01-01T02:00:00Z"},
        {"responder_id": "second"},
        {"bundle_id": "added"},
        {"signature": ""},
        {"signature": None},
        {"status": "fine"},
        {"produced_at": "now"},
        {"this_update": 5},
        {"next_update": None},
    ],
)
def test_every_changed_member_makes_it_worthless(change):
    assert worth(proof() | change, responder=TRUSTED, second=TRUSTED) is Status.UNKNOWN


@pytest.mark.parametrize("status", [Status.GOOD, Status.REVOKED])
def test_only_a_responder_we_know_is_believed(status):
    assert worth(proof(STRANGER, status=status)) is Status.UNKNOWN
    assert worth(proof(status=status, responder_id="nobody")) is Status.UNKNOWN
    assert proof_status(proof(status=status), responders={}, now=NOW) is Status.UNKNOWN


@pytest.mark.parametrize("received", [None, [], "good", {}, {"status": "good"}])
def test_anything_else_is_worth_nothing(received):
    assert worth(received) is Status.UNKNOWN
    with pytest.raises(MalformedError, match="responder_id"):
        read_proof(received)


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


@given(st.integers(0, 253_402_300_799))
def test_a_moment_reads_back_as_itself(seconds):
    assert read_moment("at", write_moment(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00Z", 1_767_225_600),
        ("2026-01-01T00:00:00.25Z", 1_767_225_600.25),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600),
        ("2025-12-31T19:00:00-05:00", 1_767_225_600),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200),
    ],
)
def test_offsets_and_fractions_are_read(text, seconds):
    assert read_moment("at", text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z",
        "20260101T000000Z",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00+25:00",
        "2026-01-01T00:00:00z",
        "2026-01-01T00:00:00Z\n",
        "1767225600",
        "٢026-01-01T00:00:00Z",
    ],
)
def test_anything_else_is_told_by_the_name_of_its_field(text):
    with pytest.raises(MalformedError, match="produced_at"):
        read_moment("produced_at", text)


RAW = KEY.vacant_id.public
BASE64 = b64encode(RAW).decode()


def pem(public):
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


PEM = pem(ed25519.Ed25519PublicKey.from_public_bytes(RAW))
members = st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.integers(-9, 9), max_size=4)


@given(members)
def test_all_members_but_the_signature_are_signed_as_sorted_ascii_json(content):
    content.pop("signature", None)
    expected = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    assert signed_bytes(content) == expected
    assert signed_bytes(content | {"signature": "x"}) == expected


@given(members)
def test_a_signature_holds_for_what_was_signed_and_by_whom(content):
    signed = content | {"signature": sign_members(content, KEY)}
    assert signature_holds(signed, TRUSTED)
    assert not signature_holds(signed, PublicKey(STRANGER.vacant_id.public))
    assert not signature_holds(signed | {"added on the way": 1}, TRUSTED)


@pytest.mark.parametrize("signature", [None, 5, "", "A", "é", "AAAA", b64encode(bytes(64)).decode(), ["x"]])
def test_anything_else_is_no_signature(signature):
    assert not signature_holds({"a": 1, "signature": signature}, TRUSTED)
    assert not signature_holds({"a": 1, "signature": signature}, SharedSecret(b"secret"))
    assert not signature_holds({"a": 1}, TRUSTED)


def test_a_signature_is_spelled_in_standard_base64():
    content = {"a": 0}
    while not set("+/") & set(sign_members(content, KEY)):
        content["a"] += 1
    signature = sign_members(content, KEY)
    assert signature_holds(content | {"signature": signature}, TRUSTED)
    url_safe = signature.replace("+", "-").replace("/", "_")
    assert not signature_holds(content | {"signature": url_safe}, TRUSTED)
    assert not signature_holds(content | {"signature": signature + "\n"}, TRUSTED)


@pytest.mark.parametrize("text", [PEM, PEM.strip(), PEM.replace("\n", "\r\n"), BASE64, f" {BASE64}\n"])
@pytest.mark.parametrize("hmac_fallback", [False, True])
def test_a_public_key_is_pem_or_base64_and_never_a_secret(text, hmac_fallback):
    assert read_trust_key(text, hmac_fallback=hmac_fallback) == PublicKey(RAW)


@pytest.mark.parametrize(
    "text",
    [
        "-----",
        "-----BEGIN PUBLIC KEY-----",
        PEM.replace("PUBLIC", "PRIVATE"),
        pem(ec.derive_private_key(7, ec.SECP256R1()).public_key()),
        PEM.replace("MCow", "MCox"),
    ],
)
@pytest.mark.parametrize("hmac_fallback", [False, True])
def test_another_pem_is_refused_even_where_a_secret_would_do(text, hmac_fallback):
    with pytest.raises(InvalidError, match="PEM"):
        read_trust_key(text, hmac_fallback=hmac_fallback)


@pytest.mark.parametrize("text", ["shared-secret-01", b64encode(bytes(31)).decode(), "clé"])
def test_a_shared_secret_needs_its_own_setting(text):
    with pytest.raises(InvalidError, match="hmac_fallback"):
        read_trust_key(text)
    key = read_trust_key(text, hmac_fallback=True)
    content = {"a": 1}
    tag = hmac.new(text.encode(), signed_bytes(content), hashlib.sha256).digest()
    assert signature_holds(content | {"signature": b64encode(tag).decode()}, key)
    assert not signature_holds({"a": 2, "signature": b64encode(tag).decode()}, key)
    assert text not in repr(key)


def test_nothing_is_no_key_and_no_secret():
    for text in ("", " "):
        with pytest.raises(InvalidError):
            read_trust_key(text, hmac_fallback=True)


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
