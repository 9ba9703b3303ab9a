"""The replay window and the allowances of a peer."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from comity.rooms.protocol.admission import MAX_HELD, MAX_HELD_BYTES, PeerAllowance, ReplayWindow, RoomPeer

NOW = 1_000_000
SKEW = 300_000


def test_what_was_heard_is_not_heard_again():
    window = ReplayWindow()
    assert window.take(1000, "a", NOW) == "taken"
    assert window.take(1000, "a", NOW) == "replay"
    assert window.take(1000, "b", NOW) == "taken"
    assert window.take(999, "c", NOW) == "taken"


def test_nothing_is_too_old_before_something_is_forgotten():
    window = ReplayWindow()
    assert window.take(NOW + 10 * SKEW, "ahead", NOW) == "taken"
    assert window.take(0, "an hour back", NOW) == "taken"


def test_a_flood_raises_the_window_instead_of_filling_memory():
    window = ReplayWindow(most=10)
    for moment in range(100):
        assert window.take(moment, f"n{moment}", NOW) == "taken"
    assert len(window) == 10
    assert window.take(95, "n95", NOW) == "replay"
    assert window.take(50, "n50", NOW) == "too old"
    assert window.take(89, "y", NOW) == "too old"
    assert window.take(90, "y", NOW) == "taken"


def test_what_is_stamped_far_ahead_is_forgotten_last_and_never_closes_the_window():
    window = ReplayWindow(most=10)
    assert window.take(NOW + 12 * SKEW, "ahead", NOW) == "taken"
    for moment in range(100):
        assert window.take(NOW + moment, f"n{moment}", NOW) == "taken"
    for number in range(20):
        assert window.take(NOW + 12 * SKEW, f"all ahead {number}", NOW) == "taken"
    assert window.take(NOW + SKEW + 1, "honest again", NOW) == "taken"


class Replays(RuleBasedStateMachine):
    """Nothing stamped at most five minutes ahead is ever taken twice, however much is forgotten."""

    def __init__(self):
        super().__init__()
        self.window = ReplayWindow(most=8)
        self.taken = set()

    @rule(moment=st.integers(0, NOW + SKEW), number=st.integers(0, 40))
    def handle(self, moment, number):
        if self.window.take(moment, f"{moment} {number}", NOW) == "taken":
            assert (moment, number) not in self.taken
            self.taken.add((moment, number))

    @rule(near=st.integers(0, 5), number=st.integers(0, 2))
    def handle_near(self, near, number):
        self.handle(near, number)

    @invariant()
    def bounded(self):
        assert len(self.window) <= 8


TestReplays = Replays.TestCase


@given(st.lists(st.floats(0, 200), min_size=1, max_size=50).map(sorted))
def test_an_allowance_is_never_exceeded_within_its_span(moments):
    allowance = PeerAllowance(5, 60)
    taken = [moment for moment in moments if allowance.take(moment)]
    for moment in taken:
        assert sum(moment <= other < moment + 30 for other in taken) <= 10


def test_an_allowance_comes_back():
    allowance = PeerAllowance(2, 60)
    assert [allowance.take(0), allowance.take(1), allowance.take(2)] == [True, True, False]
    assert allowance.take(61)


@given(st.lists(st.integers(1, 300_000), max_size=100))
def test_what_is_held_stays_within_its_limits(sizes):
    peer = RoomPeer("u", "viewer", None, 0, 0)
    held = [size for size in sizes if peer.hold(size, size)]
    assert len(held) <= MAX_HELD
    assert sum(held) <= MAX_HELD_BYTES
    assert [message for message, _ in peer.release_held()] == held
    assert peer.release_held() == []
