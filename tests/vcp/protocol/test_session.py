import pytest

from comity.vcp.protocol.agreement import V3_1, Identity, Session
from tests.vcp.protocol.negotiation_samples import ALICE, SOMEBODY


def test_an_extension_is_active_or_not_there():
    session = Session(id="s", version="3.1", extensions=("VCP-X-Torch",))
    assert session.active("VCP-X-Torch")
    assert not session.active("VCP-X-Personal")
    assert session.speaks == V3_1


def test_somebody_for_whom_nobody_vouches_owns_nothing():
    assert ALICE.verified
    assert not SOMEBODY.verified
    assert not Identity().verified


def test_sessions_do_not_share_what_they_hold():
    one, other = Session(id="1", version="1.0"), Session(id="2", version="1.0")
    one.capabilities["x"] = {}
    assert other.capabilities == {}
    with pytest.raises(AttributeError):
        one.version = "3.1"
