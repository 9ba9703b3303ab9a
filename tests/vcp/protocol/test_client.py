import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import UNSET

from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.client import (
    ATTEMPTS,
    ClientMachine,
    ClientPhase,
    Delivered,
    Established,
    GivenUp,
    NotEstablished,
    RetryHello,
    SendContext,
    SessionEnded,
    Withheld,
    outgoing,
)
from comity.vcp.protocol.messages import CONSENSUS, PERSONAL, RELATIONAL, TORCH, Ack, Hello, VcpError, encode
from comity.wire.errors import InvalidError
from comity.wire.machine import (
    Ask,
    CancelTimer,
    Close,
    LinkLost,
    Received,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from comity.wire.rate_limit import RateLimiter
from tests.vcp.protocol.negotiation_samples import (
    ALL_FEATURES,
    NO_FEATURES,
    TOKEN,
    WIRE,
    Conversation,
    negotiate,
    policy,
    registry,
)
from tests.wire.json_values import values

HELLO = Hello(version="3.1", extensions=(PERSONAL, TORCH), client_id="test/1")
REQUEST = {
    "version": "9.9",
    "categorical": {"wire": WIRE},
    "personal": {"signals": {"body_signals": {"category": "pain"}}},
    "relational_context": {"trust_level": "deep"},
    "extensions": {TORCH: {"gift": None}, CONSENSUS: {"ballot": [1]}},
    "generation_preferences": {"depth": 3},
    "prosaic": {"urgency": 0.4},
}


def ack(**members):
    given = {
        "type": "vcp-ack",
        "version": "3.1",
        "supported": [PERSONAL],
        "unsupported": [TORCH],
        "capabilities": {PERSONAL: {"decay": True}},
        "core_features": ALL_FEATURES,
        "session_id": "ses_1",
    } | members
    return {name: member for name, member in given.items() if member is not UNSET}


def error(code="INTERNAL_ERROR", **members):
    return {"type": "vcp-error", "code": code, "message": "because"} | members


class Side:
    """A client whose server and time are the test's."""

    def __init__(self, hello=HELLO, *, random=0.5, **settings):
        self.now = 0.0
        self.machine = ClientMachine(hello, random=lambda: random, **settings)
        self.sent, self.reports, self.timers, self.closed = [], [], {}, None
        self.tell(Started())

    def tell(self, event):
        for effect in self.machine.receive(event, self.now):
            match effect:
                case Send(message):
                    self.sent.append(json.loads(message))
                case SetTimer(name, at):
                    self.timers[name] = at
                case CancelTimer(name):
                    self.timers.pop(name, None)
                case Close(reason):
                    self.closed = reason
                case Ask(_, report):
                    self.reports.append(report)

    def hear(self, message):
        self.tell(Received(message if isinstance(message, bytes) else json.dumps(message).encode()))
        return self.reports[-1] if self.reports else None

    def wait_until(self, moment):
        while self.timers and min(self.timers.values()) <= moment:
            name = min(self.timers, key=self.timers.get)
            self.now = self.timers.pop(name)
            self.tell(TimerFired(name))
        self.now = moment


class TestTheHello:
    def test_is_the_first_thing_that_is_sent(self):
        side = Side()
        assert side.sent == [
            {
                "type": "vcp-hello",
                "version": "3.1",
                "min_version": "1.0",
                "extensions": [PERSONAL, TORCH],
                "identity": None,
                "client_id": "test/1",
            }
        ]

    def test_comes_before_any_context_data(self):
        machine = ClientMachine(HELLO, random=lambda: 0.5)
        (asked,) = machine.receive(SendContext(REQUEST), 0.0)
        assert isinstance(asked.request, Withheld)
        side = Side()
        side.tell(SendContext(REQUEST))
        assert len(side.sent) == 1
        assert {withheld.field for withheld in side.reports[-1].fields} == REQUEST.keys()

    @pytest.mark.parametrize(
        ("members", "fault"),
        [
            ({"version": "3"}, "malformed"),
            ({"version": "3.1.2"}, "without a patch"),
            ({"min_version": "1.0.0"}, "without a patch"),
            ({"min_version": "3.2"}, "must not be above"),
            ({"extensions": ("personal",)}, "extensions"),
            ({"extensions": (PERSONAL, PERSONAL)}, "extensions"),
            ({"extensions": tuple(f"VCP-X-a{n}" for n in range(257))}, "extensions"),
            ({"identity": "x" * 2049}, "identity"),
            ({"identity": "\ud800"}, "surrogate"),
            ({"client_id": ""}, "client_id"),
            ({"client_id": "x" * 257}, "client_id"),
        ],
    )
    def test_that_no_server_need_accept_is_not_sent(self, members, fault):
        with pytest.raises(InvalidError, match=fault):
            ClientMachine(Hello(**{"version": "3.1"} | members), random=lambda: 0.5)
        side = Side()
        side.hear(error("IDENTITY_INVALID"))
        with pytest.raises(InvalidError, match=fault):
            side.tell(RetryHello(Hello(**{"version": "3.1"} | members)))


class TestAnAck:
    def test_makes_a_session_of_what_was_agreed_on(self):
        side = Side()
        report = side.hear(ack())
        session = side.machine.session
        assert isinstance(report, Established)
        assert report.session == session
        assert (report.warnings, report.alerts) == ((), ())
        assert (session.id, session.version, session.extensions) == ("ses_1", "3.1", (PERSONAL,))
        assert session.capabilities == {PERSONAL: {"decay": True}}
        assert side.timers == {}

    def test_may_hold_what_we_do_not_know(self):
        report = Side().hear(ack(future={"x": 1}, capabilities={PERSONAL: {"novel": 1}}))
        assert isinstance(report, Established)

    @pytest.mark.parametrize(
        "members",
        [
            {"unsupported": [TORCH, PERSONAL]},
            {"unsupported": []},
            {"unsupported": [TORCH, RELATIONAL]},
            {"capabilities": {TORCH: {}}},
            {"version": "3.2"},
            {"version": "0.9"},
            {"supported": UNSET},
            {"core_features": {"encryption": 1}},
        ],
    )
    def test_that_breaks_an_invariant_is_refused_whole(self, members):
        side = Side()
        report = side.hear(ack(**members))
        assert isinstance(report, GivenUp)
        assert side.machine.session is None
        assert side.closed == report.reason
        side.tell(SendContext(REQUEST))
        assert len(side.sent) == 1

    def test_below_the_lowest_version_is_refused(self):
        side = Side(Hello(version="3.1", min_version="3.0"))
        assert isinstance(
            side.hear(ack(version="2.0", supported=[], unsupported=[], capabilities={})), GivenUp
        )

    def test_without_unsupported_is_completed(self):
        report = Side().hear(ack(unsupported=UNSET))
        assert report.ack.unsupported == (TORCH,)
        assert report.session.extensions == (PERSONAL,)

    def test_without_core_features_promises_none_and_warns(self):
        report = Side().hear(ack(core_features=UNSET))
        assert report.session.core_features == NO_FEATURES
        assert len(report.warnings) == 2

    def test_without_encryption_warns(self):
        report = Side().hear(ack(core_features=ALL_FEATURES | {"encryption": False}))
        assert len(report.warnings) == 1
        assert "encrypt" in report.warnings[0]

    def test_below_3_1_that_lists_extensions_activates_none_of_them(self):
        report = Side().hear(ack(version="3.0"))
        assert report.session.extensions == ()
        assert report.session.capabilities == {}
        assert "3.0" in report.warnings[0]

    def test_that_promises_less_than_last_time_alerts(self):
        last = Side().hear(ack()).ack
        side = Side(last_ack=last)
        report = side.hear(ack(core_features=ALL_FEATURES | {"encryption": False}))
        assert [alert.name for alert in report.alerts] == ["encryption"]
        less = ack(supported=[], unsupported=[PERSONAL, TORCH], capabilities={})
        assert [alert.name for alert in Side(last_ack=last).hear(less).alerts] == [PERSONAL]

    def test_comes_within_ten_seconds_or_not_at_all(self):
        side = Side()
        side.wait_until(9.999)
        assert side.closed is None
        side.wait_until(10.0)
        assert isinstance(side.reports[-1], GivenUp)
        assert "10 seconds" in side.closed
        side.hear(ack())
        assert side.machine.session is None

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"garbage",
            b"[]",
            b'"vcp-ack"',
            b"{}",
            b'{"type":["vcp-ack"]}',
            b'{"type":"vcp-hello","version":"3.1"}',
            b'{"error":{"code":"X","message":"y"}}',
            b'{"type":"vcp-ack","type":"vcp-ack"}',
            b'{"type":"vcp-error"}',
        ],
    )
    def test_is_what_a_hello_is_answered_with_or_the_connection_is_given_up(self, answer):
        side = Side()
        assert isinstance(side.hear(answer), GivenUp)
        assert side.machine.phase is ClientPhase.ENDED

    def test_of_more_than_65536_bytes_is_not_read(self):
        said = json.dumps(ack()).encode()
        assert isinstance(Side().hear(said + b" " * (65_536 - len(said))), Established)
        assert isinstance(Side().hear(said + b" " * (65_537 - len(said))), GivenUp)

    @given(values())
    def test_of_any_content_is_taken_or_refused(self, value):
        for message in (value, {"type": "vcp-ack", "supported": value}, {"type": "vcp-error", "code": value}):
            side = Side()
            side.hear(json.dumps(message, default=list).encode())
            assert side.machine.phase is ClientPhase.ENDED


class TestAnError:
    @pytest.mark.parametrize(
        "code",
        ["VERSION_UNSUPPORTED", "IDENTITY_REQUIRED", "IDENTITY_INVALID", "EXTENSION_CONFLICT", "NEW_CODE"],
    )
    def test_that_waiting_does_not_cure_is_left_to_the_caller(self, code):
        side = Side()
        report = side.hear(error(code, supported_versions=["1.0"]))
        assert isinstance(report, NotEstablished)
        assert (report.error.code, report.retry_in) == (code, None)
        side.wait_until(10_000)
        assert len(side.sent) == 1

    def test_lets_nothing_leave_but_another_hello(self):
        side = Side()
        side.hear(error("IDENTITY_REQUIRED"))
        side.tell(SendContext(REQUEST))
        assert len(side.sent) == 1
        assert isinstance(side.reports[-1], Withheld)
        side.tell(RetryHello(Hello(version="3.1", extensions=(PERSONAL,), identity=TOKEN)))
        assert side.sent[-1]["identity"] == TOKEN
        assert isinstance(side.hear(ack(unsupported=[])), Established)

    def test_of_a_busy_server_is_waited_for_as_long_as_it_asks(self):
        side = Side(random=0.0)
        report = side.hear(error("RATE_LIMITED", retry_after=7))
        assert report.retry_in == 7
        side.wait_until(6.999)
        assert len(side.sent) == 1
        side.tell(SendContext(REQUEST))
        assert len(side.sent) == 1
        side.wait_until(7)
        assert [said["type"] for said in side.sent] == ["vcp-hello"] * 2
        assert isinstance(side.hear(ack()), Established)

    def test_is_waited_for_longer_each_time_and_not_for_ever(self):
        side = Side(random=0.5)
        waits = []
        for _ in range(ATTEMPTS):
            waits.append(side.hear(error("INTERNAL_ERROR")).retry_in)
            side.wait_until(side.now + (waits[-1] or 0))
        assert waits == [1, 2, 4, 8, None]
        assert side.machine.phase is ClientPhase.REFUSED
        assert len(side.sent) == ATTEMPTS == 5

    def test_with_a_wait_beyond_a_day_is_left_to_the_caller(self):
        for wait in (86_401, 10**400):
            report = Side().hear(error("RATE_LIMITED", retry_after=wait))
            assert report.retry_in is None

    def test_while_waiting_another_hello_may_be_sent_at_once(self):
        side = Side()
        side.hear(error("INTERNAL_ERROR"))
        side.tell(RetryHello(HELLO))
        assert len(side.sent) == 2
        assert list(side.timers) == ["reply"]

    def test_in_a_session_ends_it(self):
        side = Side()
        side.hear(ack())
        report = side.hear(error())
        assert isinstance(report, SessionEnded)
        assert report.error == VcpError(code="INTERNAL_ERROR", message="because")
        assert side.machine.session is None
        side.tell(SendContext(REQUEST))
        assert len(side.sent) == 1

    def test_in_a_session_that_cannot_be_read_ends_it_too(self):
        side = Side()
        side.hear(ack())
        assert isinstance(side.hear({"type": "vcp-error", "code": 5}), GivenUp)
        assert side.machine.session is None

    def test_that_nobody_asked_for_is_overlooked(self):
        side = Side()
        side.hear(error("IDENTITY_REQUIRED"))
        side.hear(ack())
        assert side.machine.session is None


class TestASession:
    def test_sends_only_what_is_active_in_it(self):
        side = Side()
        side.hear(ack())
        side.tell(SendContext(REQUEST))
        assert side.sent[-1] == {
            "version": "3.1",
            "categorical": {"wire": WIRE},
            "personal": {"signals": {"body_signals": {"category": "pain"}}},
            "extensions": {},
            "generation_preferences": {"depth": 3},
            "prosaic": {"urgency": 0.4},
        }
        assert [withheld.field for withheld in side.reports[-1].fields] == [
            "relational_context",
            f"extensions.{TORCH}",
            f"extensions.{CONSENSUS}",
        ]

    @pytest.mark.parametrize(
        ("version", "kept"),
        [
            ("1.0", {"categorical", "extensions", "generation_preferences"}),
            ("2.0", {"categorical", "extensions", "generation_preferences"}),
            ("3.0", {"categorical", "extensions", "generation_preferences", "prosaic"}),
            ("3.1", {"categorical", "extensions", "generation_preferences"}),
        ],
    )
    def test_of_each_version_sends_what_that_version_takes(self, version, kept):
        message, withheld = outgoing(REQUEST, Session(id="s", version=version))
        assert json.loads(message).keys() == kept | {"version"}
        assert json.loads(message)["extensions"] == {}
        left = {ignored.field for ignored in withheld if "." not in ignored.field}
        assert left == REQUEST.keys() - kept - {"version"}

    def test_does_not_send_what_no_version_knows(self):
        message, withheld = outgoing({"secret": 1}, Session(id="s", version="3.1"))
        assert json.loads(message) == {"version": "3.1"}
        assert withheld[0].reason == "unknown field"

    def test_hands_on_what_the_server_says(self):
        side = Side()
        side.hear(ack())
        for message in (b'{"version":"3.1"}', b"garbage", b'{"error":{}}', b"x" * 70_000):
            assert side.hear(message) == Delivered(message)

    def test_is_over_when_the_server_acknowledges_again(self):
        side = Side()
        side.hear(ack())
        assert side.hear(ack()) == GivenUp("the server sent a second ack")

    def test_is_over_when_the_link_is_lost(self):
        side = Side()
        side.hear(ack())
        side.tell(LinkLost("gone"))
        assert side.machine.session is None
        assert side.machine.phase is ClientPhase.ENDED


class TestAgainstOurServer:
    def test_the_same_is_agreed_on_by_both_sides(self):
        talk = Conversation(policy(registry=registry(PERSONAL, CONSENSUS), server_id="comity/1"))
        side = Side(Hello(version="3.1", extensions=(CONSENSUS, TORCH, PERSONAL)))
        side.hear(talk.ask(side.sent[-1]))
        assert side.machine.session == talk.machine.session
        side.tell(SendContext(REQUEST))
        answer = talk.ask(side.sent[-1])
        assert answer["ignored"] == [{"field": "prosaic", "reason": "personal is there as well and counts"}]

    def test_a_limited_client_comes_back_when_it_may(self):
        limiter = RateLimiter(1, 20)
        limiter.take("198.51.100.7", 0.0)
        talk = Conversation(limiter=limiter)
        side = Side(Hello(version="3.1"))
        report = side.hear(talk.ask(side.sent[-1]))
        assert report.error.code == "RATE_LIMITED"
        side.wait_until(report.retry_in)
        talk.wait_until(report.retry_in)
        assert isinstance(side.hear(talk.ask(side.sent[-1])), Established)


ANSWERS = [
    ack(),
    ack(unsupported=[]),
    error("RATE_LIMITED", retry_after=3),
    error("INTERNAL_ERROR"),
    error("IDENTITY_REQUIRED"),
    {"version": "3.1"},
    b"garbage",
]


class AnyServer(RuleBasedStateMachine):
    """Whatever a server does: context leaves in a session only, and a hello is never left without its timer."""

    def __init__(self):
        super().__init__()
        self.side = Side()

    @rule(answer=st.sampled_from(ANSWERS))
    def the_server_says(self, answer):
        if self.side.closed is None:
            self.side.hear(answer)

    @rule(seconds=st.sampled_from([0.0, 1.0, 9.9, 31.0]))
    def time_passes(self, seconds):
        self.side.wait_until(self.side.now + seconds)

    @rule()
    def the_caller_speaks(self):
        before, session = len(self.side.sent), self.side.machine.session
        self.side.tell(SendContext(REQUEST))
        assert (len(self.side.sent) > before) == (session is not None)

    @rule()
    def the_caller_tries_again(self):
        before, phase = len(self.side.sent), self.side.machine.phase
        self.side.tell(RetryHello(HELLO))
        assert (len(self.side.sent) > before) == (phase in {ClientPhase.PAUSED, ClientPhase.REFUSED})

    @invariant()
    def a_session_exists_exactly_while_active(self):
        assert (self.side.machine.session is not None) == (self.side.machine.phase is ClientPhase.ACTIVE)

    @invariant()
    def what_is_waited_for_has_a_timer(self):
        timers = {ClientPhase.ASKED: ["reply"], ClientPhase.PAUSED: ["retry"]}.get(
            self.side.machine.phase, []
        )
        assert list(self.side.timers) == timers


TestAnyServer = AnyServer.TestCase
TestAnyServer.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_an_ack_of_ours_is_read_back_as_it_was_meant():
    sent = negotiate(Hello(version="3.1", extensions=(PERSONAL, TORCH)), policy(), session_id="ses_1")
    report = Side().hear(encode(sent))
    assert isinstance(report.ack, Ack)
    assert report.ack == sent
