"""How a session stays connected to its signalling."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from comity.core.machine import CancelTimer, SetTimer
from comity.core.peering.file_work import Report
from comity.core.peering.lifecycle import CloseSignalling, Lifecycle, OpenSignalling


def life():
    return Lifecycle(reconnect_ms=3000, max_reconnect_ms=30_000, wall=lambda: 1_800_000_000.0)


def kinds(effects):
    return [effect.kind if isinstance(effect, Report) else type(effect).__name__ for effect in effects]


def test_a_good_start_is_told_in_order():
    one = life()
    assert kinds(one.start()) == ["OpenSignalling"]
    assert one.state == "connecting"
    assert kinds(one.opened()) == ["connected"]
    assert kinds(one.ready({"room": "r"})) == ["ready"]
    assert one.state == "connected"
    assert one.members()["last_ready_at"] == "2027-01-15T08:00:00.000Z"


def test_the_delay_doubles_to_its_maximum_and_starts_anew():
    one = life()
    one.start()
    delays = []
    for _ in range(6):
        told = [effect for effect in one.failed("no", 0) if isinstance(effect, Report)]
        delays.append(told[-1].members["inMs"])
        one.time_is_up()
    assert delays == [3000, 6000, 12000, 24000, 30000, 30000]
    one.ready({})
    assert one.delay_ms == 3000
    assert one.reconnect_count == 6


def test_two_losses_at_once_schedule_one_reconnect():
    one = life()
    one.start()
    one.ready({})
    assert "SetTimer" in kinds(one.lost(0))
    assert one.lost(0) == one.failed("x", 0) == []


def test_nothing_happens_after_the_stop():
    one = life()
    one.start()
    assert kinds(one.stop()) == ["CancelTimer", "CloseSignalling", "stopped"]
    assert (
        one.stop()
        == one.opened()
        == one.ready({})
        == one.lost(0)
        == one.failed("x", 0)
        == one.time_is_up()
        == []
    )


class Signalling(RuleBasedStateMachine):
    """At most one connection is being made, at most one timer runs, and one of both while it is not connected."""

    @initialize()
    def begin(self):
        self.life = life()
        self.opening = 0
        self.timer = False
        self.now = 0.0
        self.do(self.life.start())

    def do(self, effects):
        for effect in effects:
            if isinstance(effect, OpenSignalling):
                self.opening += 1
            elif isinstance(effect, SetTimer):
                assert not self.timer
                assert 3 <= effect.at - self.now <= 30
                self.timer = True
            elif isinstance(effect, CancelTimer):
                self.timer = False
            elif isinstance(effect, CloseSignalling):
                self.opening = 0

    @rule()
    def succeed(self):
        if self.opening:
            self.do(self.life.opened())
            self.do(self.life.ready({}))
            assert self.life.state == "connected"

    @rule(how=st.sampled_from(["lost", "failed"]))
    def break_(self, how):
        if self.opening:
            self.opening = 0
            self.do(self.life.lost(self.now) if how == "lost" else self.life.failed("x", self.now))

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds):
        self.now += seconds
        if self.timer:
            self.timer = False
            self.do(self.life.time_is_up())

    @invariant()
    def one_way_forward(self):
        if hasattr(self, "life"):
            assert self.opening <= 1
            assert self.life.state == "stopped" or bool(self.opening) != self.timer
            assert 3000 <= self.life.delay_ms <= 30_000


TestSignalling = Signalling.TestCase
