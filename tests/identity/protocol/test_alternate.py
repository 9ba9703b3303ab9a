import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.revocation import alternate_outcome, read_alternate
from comity.wire.errors import InvalidError, MalformedError
from tests.identity.protocol.samples import HOUR, NOW, alternate

ENTRY = {"jti": "j", "reason": "key_compromise", "revoked_at": "2025-12-31T00:00:00Z"}


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
        {"revoked": [{k: v for k, v in ENTRY.items() if k != "jti"}]},
        {"revoked": [{k: v for k, v in ENTRY.items() if k != "reason"}]},
        {"revoked": [{k: v for k, v in ENTRY.items() if k != "revoked_at"}]},
        {"revoked": [ENTRY | {"reason": ""}]},
        {"revoked": [ENTRY | {"reason": " \t"}]},
        {"revoked": [ENTRY | {"reason": None}]},
        {"revoked": [ENTRY | {"jti": " "}]},
        {"revoked": [ENTRY | {"revoked_at": ""}]},
        {"revoked": [ENTRY, ENTRY]},
        {"revoked": [ENTRY, ENTRY | {"reason": "superseded"}]},
    ],
)
def test_one_fault_makes_the_whole_list_unavailable(fault):
    assert outcome(alternate(**fault), jti="another") == "unavailable"
    assert outcome(alternate(**fault)) == "unavailable"


@pytest.mark.parametrize("missing", ["issuer", "updated_at", "next_update", "revoked"])
def test_a_list_lacks_nothing(missing):
    received = alternate()
    del received[missing]
    assert outcome(received) == "unavailable"


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5))
def test_anything_else_is_unavailable(received):
    assert outcome(received) == "unavailable"
    with pytest.raises((MalformedError, InvalidError)):
        read_alternate(received)


def test_a_reason_is_free_text_here():
    assert read_alternate(alternate(revoked=[ENTRY | {"reason": "lost"}])).jtis == {"j": "lost"}
