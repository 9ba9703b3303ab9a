"""The server's machine up to its one answer; what comes after is in `test_server_session`."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.messages import PERSONAL, TORCH
from comity.vcp.protocol.negotiation import (
    CheckIdentity,
    ExchangeContext,
    Happened,
    RunOperation,
    SessionEndedError,
)
from comity.vcp.protocol.server import MAX_QUEUED, ServerMachine, ServerPhase
from comity.wire.errors import (
    ComityError,
    ForbiddenError,
    InvalidError,
    MalformedError,
    OverloadedError,
    StoreError,
    UnauthenticatedError,
)
from comity.wire.machine import Answered, Ask, Close, Received, Refused, Send, Started, TimerFired
from comity.wire.rate_limit import RateLimiter
from tests.vcp.protocol.negotiation_samples import (
    ALICE,
    ALL_FEATURES,
    HANGS,
    NO_FEATURES,
    SOMEBODY,
    TOKEN,
    WIRE,
    Conversation,
    encoded,
    hello_object,
    policy,
)
from tests.wire.json_values import values

CONTEXT = {"version": "1.0", "categorical": {"wire": WIRE}, "generation_preferences": {"depth": 4}}
SECOND = "new connection"


def padded_hello(size):
    empty = len(encoded(hello_object(padding="")))
    return encoded(hello_object(padding="x" * (size - empty)))


class TestTheHelloTimer:
    """vcp 10.1 and 10.2."""

    def test_a_hello_just_in_time_is_acknowledged(self):
        talk = Conversation()
        talk.wait_until(4.9)
        assert talk.ask(hello_object(PERSONAL))["supported"] == [PERSONAL]
        assert talk.machine.session.mode == "negotiated"
        talk.wait_until(20)
        assert len(talk.sent) == 1

    def test_silence_for_five_seconds_is_a_session_that_is_told_nothing(self):
        talk = Conversation()
        assert talk.wait_until(4.999) == []
        assert talk.machine.phase is ServerPhase.WAITING
        assert talk.wait_until(5.0) == []
        session = talk.machine.session
        assert (session.version, session.mode, session.extensions) == ("1.0", "implicit", ())
        assert session.core_features == NO_FEATURES

    def test_a_hello_after_that_is_refused_and_the_session_stays(self):
        talk = Conversation()
        talk.wait_until(5.0)
        session = talk.machine.session
        answer = talk.ask(hello_object(PERSONAL))
        assert (answer["type"], answer["code"]) == ("vcp-error", "INTERNAL_ERROR")
        assert SECOND in answer["message"]
        assert talk.machine.session is session
        assert talk.ask(CONTEXT)["version"] == "1.0"

    def test_the_timer_may_be_two_seconds(self):
        talk = Conversation(policy(hello_seconds=2.0))
        talk.wait_until(1.999)
        assert talk.machine.session is None
        talk.wait_until(2.0)
        assert talk.machine.session.mode == "implicit"

    def test_data_that_is_no_hello_is_served_at_once_without_an_ack(self):
        talk = Conversation()
        talk.wait_until(0.1)
        answer = talk.ask(CONTEXT)
        assert "type" not in answer
        assert answer["accepted"] == ["categorical", "generation_preferences"]
        assert talk.machine.session.mode == "implicit"
        assert "hello" not in talk.timers
        assert talk.wait_until(30) == []

    def test_legacy_clients_are_served_by_a_server_that_offers_no_1_0(self):
        talk = Conversation(policy(versions=policy().versions[1:]))
        assert talk.ask(CONTEXT)["accepted"]
        assert talk.ask(hello_object(version="1.0"))["code"] == "INTERNAL_ERROR"

    def test_a_timer_that_fires_late_changes_nothing(self):
        talk = Conversation()
        talk.ask(hello_object())
        session = talk.machine.session
        talk.tell(TimerFired("hello"))
        talk.tell(TimerFired("identity"))
        talk.tell(TimerFired("nonsense"))
        assert talk.machine.session is session
        assert len(talk.sent) == 1


class TestTheFirstMessage:
    """vcp 10.3, ruling 14."""

    def test_of_65536_bytes_is_read(self):
        message = padded_hello(65_536)
        assert len(message) == 65_536
        assert Conversation().ask(message)["type"] == "vcp-ack"

    @pytest.mark.parametrize("message", [padded_hello(65_537), b"[" * 65_537, b"\xff" * 1_000_000])
    def test_of_one_byte_more_is_refused_unread_and_the_connection_closed(self, message, monkeypatch):
        monkeypatch.setattr("comity.wire.strict_json.loads", None)
        talk = Conversation()
        answer = talk.ask(message)
        assert (answer["type"], answer["code"]) == ("vcp-error", "INTERNAL_ERROR")
        assert "65,536" in answer["message"]
        assert talk.closed
        assert talk.say(hello_object()) == []

    @pytest.mark.parametrize(
        "message",
        [
            b"",
            b"[]",
            b'[{"type":"vcp-hello","version":"3.1"}]',
            b'"vcp-hello"',
            b"5",
            b"null",
            b"\xff\xfe",
            b"not json",
            b'{"type":"vcp-hello","version":"3.1","x":NaN}',
            b'{"type":"vcp-hello","version":"3.1"',
            b"[" * 60_000,
            b"{}",
            b'{"type":"vcp-ack"}',
            b'{"type":"VCP-HELLO","version":"3.1"}',
            b'{"a":1,"a":2}',
            b"GET / HTTP/1.1",
        ],
    )
    def test_that_is_no_hello_is_told_so_within_a_session_of_1_0(self, message):
        talk = Conversation()
        answer = talk.ask(message)
        assert answer.keys() == {"error"}
        assert answer["error"].keys() == {"code", "message", "field"}
        assert talk.machine.session.mode == "implicit"
        assert talk.ask(hello_object())["code"] == "INTERNAL_ERROR"
        assert talk.ask(CONTEXT)["accepted"]

    @pytest.mark.parametrize(
        "message",
        [
            hello_object(version=3.1),
            {"type": "vcp-hello"},
            hello_object(extensions="VCP-X-Personal"),
            hello_object(identity=5),
            b'{"type":"vcp-hello","version":"3.1","version":"3.1"}',
            b'{"type":"vcp-hello","version":"3.1","x":{"a":1,"a":2}}',
            b'{"type":"vcp-hello","version":"3.1","x":' + b"[" * 600 + b"]" * 600 + b"}",
            b'{"type":"vcp-hello","version":"3.1","x":' + b"[" * 32_000 + b"]" * 32_000 + b"}",
            b'{"type":"vcp-hello","version":"3.1","client_id":"\\udead"}',
        ],
    )
    def test_that_is_an_invalid_hello_is_refused_and_another_may_follow(self, message):
        talk = Conversation()
        assert talk.ask(message)["type"] == "vcp-error"
        assert talk.machine.session is None
        assert talk.closed is None
        assert talk.ask(hello_object(TORCH))["supported"] == [TORCH]

    def test_is_not_quoted_at_length(self):
        key = "k" * 20_000
        for start in ('"type":"vcp-hello",', ""):
            answer = Conversation().ask(f'{{{start}"{key}":1,"{key}":2}}'.encode())
            assert len(answer.get("error", answer)["message"]) <= 1024

    @given(st.binary(max_size=200) | values().map(lambda value: json.dumps(value, default=list).encode()))
    @example(b"")
    @example(b'{"type":"vcp-hello","version":"3.1"}')
    @example(b'{"type":"vcp-hello"}')
    @example(b'{"categorical":"x"}')
    @example(encoded(CONTEXT))
    def test_gets_exactly_one_answer_whatever_it_is(self, message):
        talk = Conversation()
        assert len(talk.say(message)) == 1
        assert talk.closed is None
        assert talk.machine.phase in {ServerPhase.ACTIVE, ServerPhase.REFUSED}
        assert talk.wait_until(100) == []

    @given(
        values(), st.sampled_from(["version", "min_version", "extensions", "identity", "client_id", "new"])
    )
    def test_that_says_hello_gets_an_ack_or_an_error_whatever_else_it_says(self, value, member):
        message = json.dumps(hello_object(PERSONAL, **{member: value})).encode()
        assert Conversation().ask(message)["type"] in {"vcp-ack", "vcp-error"}


class TestTheIdentityCheck:
    """vcp 10.4."""

    def test_decides_whose_session_it_is(self):
        talk = Conversation(identity=ALICE)
        assert talk.ask(hello_object(PERSONAL, identity=TOKEN))["type"] == "vcp-ack"
        assert talk.machine.session.identity == ALICE
        assert "identity" not in talk.timers
        assert talk.asked[0] == ("identity:1", CheckIdentity(TOKEN))

    def test_is_not_asked_for_without_a_token(self):
        talk = Conversation()
        talk.ask(hello_object(PERSONAL))
        assert talk.machine.session.identity is None
        assert not any(isinstance(request, CheckIdentity) for _, request in talk.asked)

    def test_is_not_asked_for_when_there_is_no_version(self):
        talk = Conversation()
        talk.ask(hello_object(version="0.1", identity=TOKEN))
        assert talk.asked == []

    def test_that_hangs_is_answered_before_five_seconds_and_never_again(self):
        talk = Conversation(identity=HANGS)
        talk.wait_until(1.0)
        assert talk.say(hello_object(PERSONAL, identity=TOKEN)) == []
        (answer,) = talk.wait_until(5.9)
        assert (answer["type"], answer["code"]) == ("vcp-error", "INTERNAL_ERROR")
        assert answer["retry_after"] >= 1
        talk.wait_until(7.0)
        talk.tell(Answered("identity:1", ALICE))
        talk.tell(Refused("identity:1", UnauthenticatedError("late")))
        assert len(talk.sent) == 1
        assert talk.machine.session is None

    def test_that_is_late_does_not_answer_the_next_hello(self):
        talk = Conversation(identity=HANGS)
        talk.say(hello_object(identity=TOKEN))
        talk.wait_until(4.5)
        talk.say(hello_object(identity=TOKEN))
        talk.tell(Answered("identity:1", ALICE))
        assert talk.machine.phase is ServerPhase.CHECKING
        talk.tell(Answered("identity:2", SOMEBODY))
        assert talk.machine.session.identity == SOMEBODY

    @pytest.mark.parametrize(
        "verdict",
        [
            None,
            True,
            "alice",
            UnauthenticatedError("no"),
            ForbiddenError("no"),
            InvalidError("no"),
            MalformedError("no"),
        ],
    )
    def test_that_says_no_is_an_invalid_identity(self, verdict):
        answer = Conversation(identity=verdict).ask(hello_object(identity=TOKEN))
        assert (answer["code"], answer["retry_after"]) == ("IDENTITY_INVALID", None)

    @pytest.mark.parametrize(
        "failure", [StoreError("disk at /secret"), ComityError("x"), OverloadedError("busy")]
    )
    def test_that_fails_says_nothing_about_the_token(self, failure):
        answer = Conversation(identity=failure).ask(hello_object(identity=TOKEN))
        assert answer["code"] == "INTERNAL_ERROR"
        assert "secret" not in answer["message"]

    def test_leaves_what_comes_meanwhile_for_later(self):
        talk = Conversation(identity=HANGS)
        talk.say(hello_object(identity=TOKEN))
        assert talk.say(CONTEXT) == []
        assert talk.say(hello_object()) == []
        talk.tell(Answered("identity:1", ALICE))
        ack, response, refusal = talk.sent
        assert ack["type"] == "vcp-ack"
        assert response["accepted"]
        assert SECOND in refusal["message"]

    def test_that_fails_tells_what_waited_that_there_is_no_session(self):
        talk = Conversation(identity=HANGS)
        talk.say(hello_object(identity=TOKEN))
        talk.say(CONTEXT)
        talk.tell(Answered("identity:1", None))
        error, refusal = talk.sent
        assert error["code"] == "IDENTITY_INVALID"
        assert refusal["error"]["code"] == "NO_SESSION"
        assert talk.machine.session is None

    @pytest.mark.parametrize(("message", "count"), [(b"{}", MAX_QUEUED), (b" " * 65_536, 4)])
    def test_is_full_when_as_many_messages_wait_as_may_wait(self, message, count):
        talk = Conversation(identity=HANGS)
        talk.say(hello_object(identity=TOKEN))
        for _ in range(count):
            assert not talk.machine.is_full
            talk.say(message)
        assert talk.machine.is_full
        assert talk.closed is None
        talk.tell(Answered("identity:1", ALICE))
        assert not talk.machine.is_full
        assert len(talk.sent) == 1 + count


class TestAHelloAfterAnError:
    """vcp 10.5."""

    def test_is_welcome_and_the_next_one_is_not(self):
        talk = Conversation(policy(identity="required"))
        assert talk.ask(hello_object(PERSONAL))["code"] == "IDENTITY_REQUIRED"
        assert talk.machine.session is None
        assert talk.ask(hello_object(PERSONAL, identity=TOKEN))["supported"] == [PERSONAL]
        session = talk.machine.session
        third = talk.ask(hello_object(PERSONAL, identity=TOKEN))
        assert (third["type"], third["code"]) == ("vcp-error", "INTERNAL_ERROR")
        assert talk.machine.session is session
        assert talk.ask(CONTEXT)["session_id"] == "ses_1"

    def test_is_all_that_helps_context_data_is_not_served(self):
        talk = Conversation(policy(identity="required"))
        talk.ask(hello_object(PERSONAL))
        assert talk.ask(CONTEXT)["error"]["code"] == "NO_SESSION"
        assert talk.ask(b"garbage")["error"]["code"] == "NO_SESSION"
        assert not any(isinstance(request, ExchangeContext) for _, request in talk.asked)
        talk.wait_until(200)
        assert talk.machine.session is None

    def test_is_still_limited_in_size(self):
        talk = Conversation()
        talk.ask(hello_object(version="0.1"))
        assert talk.ask(b" " * 65_537)["code"] == "INTERNAL_ERROR"
        assert talk.closed

    @pytest.mark.parametrize("again", [hello_object(), b'{"type":"vcp-hello","a":1,"a":2}'])
    def test_in_a_session_changes_nothing_even_if_it_is_invalid(self, again):
        talk = Conversation()
        talk.ask(hello_object(TORCH))
        session = talk.machine.session
        assert SECOND in talk.ask(again)["message"]
        assert talk.machine.session is session


class TestTheRateLimit:
    """vcp 10.6."""

    def test_refuses_the_hello_beyond_it_and_says_when_to_come_back(self):
        limiter = RateLimiter(3, 60)
        talk = Conversation(limiter=limiter)
        for _ in range(3):
            assert talk.ask(hello_object(version="0.1"))["code"] == "VERSION_UNSUPPORTED"
        answer = talk.ask(hello_object())
        assert (answer["code"], answer["retry_after"]) == ("RATE_LIMITED", 20)
        talk.wait_until(19.9)
        assert talk.ask(hello_object())["retry_after"] == 1
        talk.wait_until(20.9)
        assert talk.ask(hello_object())["type"] == "vcp-ack"

    def test_counts_the_address_and_not_what_a_client_calls_itself(self):
        limiter = RateLimiter(2, 60)
        for name in ("a", "b"):
            assert Conversation(limiter=limiter).ask(hello_object(client_id=name))["type"] == "vcp-ack"
        for name in ("c", "a"):
            answer = Conversation(limiter=limiter).ask(hello_object(client_id=name, identity=TOKEN))
            assert answer["code"] == "RATE_LIMITED"
            assert type(answer["retry_after"]) is int
            assert answer["retry_after"] >= 1
        assert Conversation(limiter=limiter, peer="203.0.113.1").ask(hello_object())["type"] == "vcp-ack"

    def test_counts_hellos_that_are_invalid(self):
        limiter = RateLimiter(1, 60)
        assert (
            Conversation(limiter=limiter).ask(b'{"type":"vcp-hello","a":1,"a":1}')["code"] == "INTERNAL_ERROR"
        )
        assert Conversation(limiter=limiter).ask(hello_object())["code"] == "RATE_LIMITED"

    def test_does_not_count_legacy_clients(self):
        limiter = RateLimiter(1, 60)
        for _ in range(3):
            assert Conversation(limiter=limiter).ask(CONTEXT)["accepted"]

    @given(st.floats(0.001, 10_000), st.integers(1, 5))
    @settings(max_examples=50)
    def test_waiting_as_long_as_told_is_enough(self, per_seconds, capacity):
        talk = Conversation(policy(idle_seconds=1e6), limiter=RateLimiter(capacity, per_seconds))
        for _ in range(capacity):
            talk.ask(hello_object(version="0.1"))
        answer = talk.ask(hello_object())
        assert answer["retry_after"] >= 1
        talk.wait_until(answer["retry_after"])
        assert talk.ask(hello_object())["type"] == "vcp-ack"


class TestProductionWithoutEncryption:
    def unsafe(self):
        return policy(environment="production", core_features=ALL_FEATURES | {"encryption": False})

    def test_refuses_every_hello(self):
        assert Conversation(self.unsafe()).ask(hello_object())["code"] == "INTERNAL_ERROR"

    def test_refuses_clients_without_a_hello_too(self):
        talk = Conversation(self.unsafe())
        assert talk.ask(CONTEXT)["code"] == "INTERNAL_ERROR"
        assert talk.closed
        silent = Conversation(self.unsafe())
        (answer,) = silent.wait_until(5.0)
        assert answer["code"] == "INTERNAL_ERROR"
        assert silent.closed
        assert silent.machine.session is None


class Server:
    def __init__(self, greeted=True):
        limiter = RateLimiter(1e9, 1)
        self.machine = ServerMachine(policy(), peer="p", session_id="ses_1", limiter=limiter)
        self.take(Started())
        if greeted:
            self.take(Received(encoded(hello_object())))

    def take(self, event):
        """What was said, and what was asked for."""
        effects = self.machine.receive(event, 0.0)
        asked = [
            one
            for one in effects
            if isinstance(one, Ask) and isinstance(one.request, RunOperation | ExchangeContext)
        ]
        self.closed = any(isinstance(one, Close) for one in effects)
        self.happened = [
            one.request.what for one in effects if isinstance(one, Ask) and isinstance(one.request, Happened)
        ]
        return [json.loads(one.message) for one in effects if isinstance(one, Send)], asked

    def call(self, id_, op="personal.get", **args):
        said, asked = self.take(Received(encoded({"type": "vcp-call", "id": id_, "op": op, "args": args})))
        assert said == []
        return asked[0]


def test_answers_bear_the_id_of_their_call_in_whatever_order_they_come():
    server = Server()
    first, second = server.call("a"), server.call("b", "torch.generate", to=None)
    assert second.request.call.op == "torch.generate"
    assert server.take(Answered(second.tag, {"x": 1})) == (
        [{"type": "vcp-result", "id": "b", "ok": True, "result": {"x": 1}}],
        [],
    )
    [answer], _ = server.take(Answered(first.tag, {}))
    assert answer["id"] == "a"


def test_two_calls_may_have_one_id():
    server = Server()
    tags = {server.call("a").tag, server.call("a").tag}
    assert [server.take(Answered(tag, {}))[0][0]["id"] for tag in tags] == ["a", "a"]


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (
            ExtensionError("STALE", "too old", "torch"),
            {"code": "STALE", "message": "too old", "field": "torch"},
        ),
        (ExtensionError("CONFLICT", "again"), {"code": "CONFLICT", "message": "again"}),
        (
            StoreError("/var/secret"),
            {"code": "CONFLICT", "message": "the operation could not be run; try again later"},
        ),
    ],
)
def test_a_refusal_is_told_and_nothing_from_inside(error, result):
    server = Server()
    [answer], _ = server.take(Refused(server.call("a").tag, error))
    assert answer == {"type": "vcp-result", "id": "a", "ok": False, "error": result}


def test_a_call_waits_for_the_context_request_before_it_and_not_for_those_behind_it():
    server = Server()
    running = server.call("a")
    _, [exchange] = server.take(Received(encoded(CONTEXT)))
    assert server.take(Received(encoded({"type": "vcp-call", "id": "b", "op": "personal.get"}))) == ([], [])
    [answer], _ = server.take(Answered(running.tag, {}))  # it ran already, and is answered meanwhile
    assert answer["id"] == "a"
    said, asked = server.take(Refused(exchange.tag, StoreError("x")))
    assert len(said) == 1
    assert asked[0].request.call.id == "b"


def test_a_session_that_has_to_end_ends_with_the_call_that_finds_out():
    server = Server()
    said, _ = server.take(Refused(server.call("a").tag, SessionEndedError("IDENTITY_INVALID", "revoked")))
    assert (said[0]["type"], said[0]["code"], server.closed) == ("vcp-error", "IDENTITY_INVALID", True)


def test_a_wrong_call_is_answered_and_on_record():
    server = Server()
    [answer], asked = server.take(Received(encoded({"type": "vcp-call", "id": "a", "op": "x", "args": 7})))
    assert (answer["id"], answer["error"]["field"], asked) == ("a", "args", [])
    assert server.happened == ["CALL_REFUSED"]


def test_a_call_as_the_first_message_is_run_in_a_session_of_vcp_1_0():
    server = Server(greeted=False)
    asked = server.call("a")
    assert asked.request.session.extensions == ()


def test_an_answer_after_the_end_is_nobodys():
    server = Server()
    first, second = server.call("a"), server.call("b")
    server.take(Refused(first.tag, SessionEndedError("IDENTITY_INVALID", "revoked")))
    assert server.take(Answered(second.tag, {})) == ([], [])
