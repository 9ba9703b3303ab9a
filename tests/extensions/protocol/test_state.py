from msgspec.structs import replace

from comity.extensions.protocol.relational import count_exchange
from comity.extensions.protocol.state import ExtensionState, SessionExtensions
from tests.extensions.protocol.test_operations import HOUR, NOW


class TestAnExchange:
    def test_counts_a_session_once(self):
        state = count_exchange(ExtensionState(), NOW)
        assert (state.session.counted, state.owner.relational.sessions) == (True, 1)
        assert count_exchange(state, NOW + 2 * HOUR) is state

    def test_counts_a_further_session_after_an_hour(self):
        state = count_exchange(ExtensionState(), NOW)
        second = replace(state, session=SessionExtensions())
        assert count_exchange(second, NOW + 10) is second
        assert count_exchange(second, NOW + HOUR).owner.relational.sessions == 2
