import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.revocation import Status, proof_status, read_proof
from comity.wire.errors import MalformedError
from comity.wire.strict_json import dumps, loads
from tests.identity.protocol.samples import HOUR, NOW, STRANGER, TRUSTED, proof

DAY = 24 * HOUR


def worth(received, now=NOW, **responders):
    return proof_status(received, responders=responders or {"responder": TRUSTED}, now=now)


@given(st.sampled_from(Status), st.text(max_size=20))
def test_a_signed_proof_reads_back_and_says_its_status(status, responder):
    received = loads(dumps(proof(status=status, responder_id=responder)))
    assert read_proof(received).status is status
    assert proof_status(received, responders={responder: TRUSTED}, now=NOW) is status


@pytest.mark.parametrize(
    ("fields", "now", "counts"),
    [
        ({}, NOW - HOUR, True),
        ({}, NOW - HOUR - 0.001, False),
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
