import pytest

from comity.vcp.protocol.context import FIELDS, inactive_reason, reason_to_ignore
from comity.vcp.protocol.messages import PERSONAL, RELATIONAL
from tests.vcp.protocol.samples import session


def taken(current):
    return {field for field in FIELDS if reason_to_ignore(field, current) is None}


CORE = {"categorical", "generation_preferences", "generation_prefs", "extensions"}


@pytest.mark.parametrize(
    ("current", "members"),
    [
        (session(version="1.0"), CORE),
        (session(version="2.0"), CORE | {"constitution", "stapled_proof"}),
        (session(version="3.0"), CORE | {"constitution", "stapled_proof", "prosaic"}),
        (session(version="3.1"), CORE | {"constitution", "stapled_proof"}),
        (
            session(PERSONAL),
            CORE | {"constitution", "stapled_proof", "prosaic", "personal", "preset_id", "transition"},
        ),
        (session(RELATIONAL), CORE | {"constitution", "stapled_proof", "relational_context"}),
    ],
)
def test_a_session_takes_what_its_version_and_extensions_know(current, members):
    assert taken(current) == members


def test_the_reason_names_what_is_missing():
    assert reason_to_ignore("personal", session()) == "VCP-X-Personal is not active in this session"
    assert (
        reason_to_ignore("personal", session(PERSONAL, version="3.0"))
        == "a VCP 3.0 session has no extensions"
    )
    assert reason_to_ignore("prosaic", session(version="2.0")) == "a VCP 2.0 session has no personal state"
    assert reason_to_ignore("mood", session()) == "unknown field"
    assert inactive_reason("VCP-X-New", session()) == "VCP-X-New is not active in this session"
