from msgspec.structs import replace

from comity.extensions.protocol import state as states
from comity.extensions.protocol.state import ExtensionState
from tests.extensions.protocol.test_operations import HOUR, NOW


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
