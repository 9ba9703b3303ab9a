"""The states of a session, and what is told of them."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from comity.rooms.protocol.files import Report
from comity.rooms.protocol.message_dispatch import Lifecycle


def life():
    return Lifecycle(reconnect_ms=3000, wall=lambda: 1_800_000_000.0)


def kinds(effects):
    return [effect.kind if isinstance(effect, Report) else type(effect).__name__ for effect in effects]


def test_a_good_start_is_told_in_order():
    one = life()
    assert kinds(one.start()) == ["OpenSignalling"]
    assert one.state == "connecting"
    assert kinds(one.ready({"room": "r"})) == ["connected", "ready"]
    assert one.state == "connected"
    assert one.members()["last_ready_at"] == "2027-01-15T08:00:00.000Z"
    assert one.start() == one.ready({}) == []


def test_no_way_to_the_relay_is_an_error_and_a_lost_one_is_not():
    one = life()
    one.start()
    outcome = one.lost("refused", 3)
    assert kinds(outcome) == ["connect_error", "reconnect_scheduled"]
    assert outcome[1].members == {"reason": "connect_error", "inMs": 3000}
    assert kinds(one.lost("refused", 6.5)) == ["connect_error", "reconnect_scheduled"]
    assert one.members()["reconnect_delay_ms"] == 6500
    one.ready({})
    assert one.members()["reconnect_delay_ms"] == 3000
    outcome = one.lost("closed", 3)
    assert kinds(outcome) == ["disconnected", "reconnect_scheduled"]
    assert outcome[1].members["reason"] == "disconnected"
    assert one.reconnect_count == 3
    assert one.members()["last_disconnected_at"] is not None


def test_nothing_happens_before_the_start_and_after_the_stop():
    one = life()
    assert one.ready({}) == one.lost("x", 1) == []
    one.start()
    assert kinds(one.stop()) == ["stopped"]
    assert one.stop() == one.ready({}) == one.lost("x", 1) == one.start() == []


class Signalling(RuleBasedStateMachine):
    """Whatever the signalling says in whatever order, the states follow each other as stated."""

    @initialize()
    def begin(self):
        self.life = life()
        self.reported = []

    @rule(what=st.sampled_from(["start", "ready", "lost", "stop"]))
    def happen(self, what):
        before = self.life.state
        effects = {
            "start": self.life.start,
            "ready": lambda: self.life.ready({}),
            "lost": lambda: self.life.lost("gone", 3),
            "stop": self.life.stop,
        }[what]()
        self.reported += kinds(effects)
        expected = {
            ("idle", "start"): "connecting",
            ("connecting", "ready"): "connected",
            ("reconnecting", "ready"): "connected",
            ("connecting", "lost"): "reconnecting",
            ("connected", "lost"): "reconnecting",
        }.get((before, what), "stopped" if what == "stop" else before)
        assert self.life.state == expected

    @invariant()
    def each_connection_is_lost_at_most_once(self):
        if hasattr(self, "told"):
            assert 0 <= self.reported.count("connected") - self.reported.count("disconnected") <= 1
            assert self.reported.count("OpenSignalling") <= 1
            assert self.reported.count("stopped") <= 1


TestSignalling = Signalling.TestCase
