import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.revocation import RevocationReason, read_crl, revocation_list, signature_holds
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.strict_json import dumps, loads
from tests.identity.protocol.samples import HOUR, KEY, NOW, TRUSTED, crl, entry

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
