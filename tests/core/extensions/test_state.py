import pytest
from msgspec.structs import replace

from comity.core.errors import StoreCorruptError
from comity.core.extensions import state as states
from comity.core.extensions.operations import OPERATIONS
from comity.core.extensions.state import ExtensionState
from tests.core.extensions.consensus.parties import ratified
from tests.core.extensions.test_operations import FACTS, HOUR, NOW, everything


class TestTheEncodedForm:
    def test_gives_the_same_state_back(self):
        state = everything().state
        assert states.decode_session(states.encode_state(state.session)) == state.session
        assert states.decode_owner(states.encode_state(state.owner)) == state.owner
        head = ratified().head
        assert states.decode_head(states.encode_state(head)) == head

    @pytest.mark.parametrize("read", [states.decode_session, states.decode_owner, states.decode_head])
    @pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"personal": 5, "relational": 5, "tip": 5}'])
    def test_that_is_not_ours_is_never_taken_for_an_empty_one(self, read, data):
        with pytest.raises(StoreCorruptError):
            read(data)


class TestAnExchange:
    def test_counts_a_session_once(self):
        state = states.count_exchange(ExtensionState(), NOW)
        assert (state.session.counted, state.owner.relational.sessions) == (True, 1)
        assert states.count_exchange(state, NOW + 2 * HOUR) is state

    def test_counts_a_further_session_after_an_hour(self):
        state = states.count_exchange(ExtensionState(), NOW)
        second = replace(state, session=states.SessionExtensions())
        assert states.count_exchange(second, NOW + 10) is second
        assert states.count_exchange(second, NOW + HOUR).owner.relational.sessions == 2


def test_every_extension_has_a_lifetime():
    assert states.LIFETIMES.keys() == {row.extension for row in OPERATIONS.values()} == FACTS.active
    for row in OPERATIONS.values():
        if row.writes:
            assert states.LIFETIMES[row.extension].scope in row.writes
