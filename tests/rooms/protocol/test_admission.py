"""The replay window and the allowances of a peer."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from comity.rooms.protocol.admission import MAX_HELD, MAX_HELD_BYTES, PeerAllowance, ReplayWindow, RoomPeer


def test_what_was_heard_is_not_heard_again():
    window = ReplayWindow()
    assert window.take(1000, "a")
    assert not window.take(1000, "a")
    assert window.take(1000, "b")
    assert window.take(999, "a")


def test_what_is_older_than_the_window_is_refused_unseen():
    window = ReplayWindow(span=100)
    window.take(1000, "a")
    assert window.take(901, "late")
    assert not window.take(900, "too late")


def test_a_flood_raises_the_window_instead_of_filling_memory():
    window = ReplayWindow(span=10**9, most=10)
    for moment in range(100):
        assert window.take(moment, "x")
    assert len(window) <= 10
    assert not window.take(50, "x")
    assert not window.take(89, "y")


class Replays(RuleBasedStateMachine):
    """Nothing is ever taken twice, however much is forgotten."""

    def __init__(self):
        super().__init__()
        self.window = ReplayWindow(span=20, most=8)
        self.taken = set()

    @rule(moment=st.integers(0, 60), nonce=st.sampled_from("ab"))
    def handle(self, moment, nonce):
        if self.window.take(moment, nonce):
            assert (moment, nonce) not in self.taken
            self.taken.add((moment, nonce))

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
