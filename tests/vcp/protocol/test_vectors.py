"""Known answers of the handshake: recorded negotiations, the schema, the literal messages of both documents."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol import agreement
from comity.vcp.protocol.client import ClientMachine, Established, NotEstablished
from comity.vcp.protocol.messages import ERROR_CODES, Hello, encode, is_extension_id, read_hello
from comity.vcp.protocol.registry import HANDSHAKE_SCHEMA, Extension, ExtensionRegistry
from comity.vcp.protocol.server import ServerPhase
from comity.wire.errors import ConfigError, MalformedError
from comity.wire.machine import Ask, Received, Send, Started
from comity.wire.rate_limit import RateLimiter
from tests.places import ROOT
from tests.vcp.protocol.known_answers import (
    is_context_request,
    is_handshake,
    judge,
    policy_of,
    seed_messages,
    structural,
)
from tests.vcp.protocol.negotiation_samples import (
    ALL_FEATURES,
    EVERY_EXTENSION,
    HANGS,
    NO_FEATURES,
    TOKEN,
    Conversation,
    hello_object,
    policy,
    registry,
)

COMPARED = ("type", "version", "supported", "unsupported", "capabilities", "core_features", "server_id")
COMPARED += ("session_id", "code", "supported_versions", "retry_after", "negotiated", "capability_contains")
COMPARED += ("message_contains", "rejected")


@format_runner("vcp", "negotiation")
def test_vector_vcp_negotiation_is_answered_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected", "origin")
    known_keys(case["input"], "client_hello", "server")
    expected = case["expected"].get("lenient", case["expected"])
    known_keys(expected, *COMPARED)
    said, server = case["input"]["client_hello"], case["input"]["server"]
    try:
        settings = policy_of(server)
    except ConfigError:
        assert expected == {"rejected": True}
        return
    identity = said.get("identity")
    talk = Conversation(
        settings,
        identity=structural(identity) if isinstance(identity, str) else None,
        session_id=server.get("session_id", "ses_1"),
    )
    judge(talk.ask(said), expected)


@format_runner("vcp", "negotiation", takes=lambda case: "strict" in case["expected"])
def test_vector_vcp_negotiation_is_answered_as_recorded_in_strict_mode(case):
    server = policy_of(case["input"]["server"])
    strict = policy(registry=server.registry, core_features=server.core_features, strict=True)
    judge(Conversation(strict).ask(case["input"]["client_hello"]), case["expected"]["strict"])


def parts_of(schema):
    for part in (*schema["$defs"], "whole"):
        yield part, (part, schema)


def judges(schema, part):
    if part == "whole":
        return jsonschema.Draft202012Validator(schema)
    return jsonschema.Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{part}"})


@format_runner("vcp", "handshake.schema", cases=parts_of)
def test_vector_vcp_schema_accepts_everything_that_is_sent(case):
    part, schema = case
    judge_of_part = judges(schema, part)
    if part == "version":
        agree(
            judge_of_part,
            st.from_regex(r"[0-9]{1,10}\.[0-9]{1,10}") | st.text("0123456789.", max_size=8),
            is_version,
        )
    elif part == "extension_id":
        names = st.from_regex(r"VCP-X-[A-Za-z0-9-]{0,130}", fullmatch=True) | st.text(max_size=10)
        agree(judge_of_part, names, is_extension_id)
    else:
        messages = {"hello": hellos_sent, "ack": acks_sent, "error": errors_sent, "whole": everything_sent}[
            part
        ]()
        assert len(messages) > 3
        for message in messages:
            judge_of_part.validate(message)


@pytest.mark.parametrize("part", ["version", "extension", "hello", "ack", "error", "whole"])
def test_the_schema_that_is_shipped_accepts_everything_that_is_sent(part):
    jsonschema.Draft202012Validator.check_schema(HANDSHAKE_SCHEMA)
    judge_of_part = judges(HANDSHAKE_SCHEMA, part)
    if part == "version":
        agree(judge_of_part, st.text("0123456789.", max_size=8), is_version)
    elif part == "extension":
        agree(judge_of_part, st.from_regex(r"VCP-X-[A-Za-z0-9-]{0,130}", fullmatch=True), is_extension_id)
    else:
        sent = {"hello": hellos_sent, "ack": acks_sent, "error": errors_sent, "whole": everything_sent}
        for message in sent[part]():
            judge_of_part.validate(message)
            for other in {"hello", "ack", "error"} - {part, "whole"} if part != "whole" else ():
                assert not judges(HANDSHAKE_SCHEMA, other).is_valid(message)


@pytest.mark.parametrize(
    "broken",
    [
        {"version": "3"},
        {"version": "03.1"},
        {"min_version": 3.1},
        {"extensions": ["personal"]},
        {"extensions": ["VCP-X-A", "VCP-X-A"]},
        {"identity": 7},
        {"client_id": ""},
        {"type": "vcp-bye"},
    ],
)
def test_the_schema_that_is_shipped_refuses_a_hello_that_is_wrong(broken):
    assert not judges(HANDSHAKE_SCHEMA, "whole").is_valid({**hello_object(), **broken})
    assert judges(HANDSHAKE_SCHEMA, "whole").is_valid(hello_object())


def test_the_schema_in_the_docs_is_the_one_that_is_shipped():
    page = ROOT / "schemas" / "vcp-capability-handshake.schema.json"
    assert json.loads(page.read_text("utf-8")) == HANDSHAKE_SCHEMA


def is_version(text):
    try:
        return str(agreement.parse(text)) == text
    except MalformedError:
        return False


def agree(judge_of_part, texts, ours):
    @given(texts)
    def same(text):
        # a JSON Schema pattern knows of no end of text but "$", which Python lets stand before a newline
        assert judge_of_part.is_valid(text) == ours(text) or text.endswith("\n")

    same()


def hellos_sent():
    longest = "VCP-X-" + "a" * 122
    return [
        sent_by_client(Hello(version="3.1")),
        sent_by_client(Hello(version="3.10", min_version="3.9", extensions=EVERY_EXTENSION, identity=TOKEN)),
        sent_by_client(Hello(version="0.0", min_version="0.0", client_id="x" * 256, identity="y" * 2048)),
        sent_by_client(Hello(version="1.0", extensions=(longest, *(f"VCP-X-a{n}" for n in range(255))))),
    ]


def acks_sent():
    wanted = [*EVERY_EXTENSION, "VCP-X-Unknown", "not an id"]
    answers = []
    for version in ("1.0", "2.0", "3.0", "3.1"):
        for features in (ALL_FEATURES, NO_FEATURES, {"encryption": True, "more": False}):
            for environment in ("development", "production"):
                if environment == "development" or features["encryption"]:
                    settings = policy(core_features=features, environment=environment, server_id="comity/1")
                    answers.append(Conversation(settings).ask(hello_object(*wanted, version=version)))
    answers.append(Conversation().ask(hello_object(identity=TOKEN, client_id="x")))
    assert {answer["type"] for answer in answers} == {"vcp-ack"}
    return answers


def errors_sent():
    broken = ["version", "extensions", "client_id", "identity", "min_version"]
    rival = Extension(id="VCP-X-Rival", capability=dict, conflicts=("VCP-X-Other",))
    other = Extension(id="VCP-X-Other", capability=dict)
    exclusive = policy(registry=ExtensionRegistry([rival, other]))
    many = policy(versions=tuple(agreement.Version(10**8, minor) for minor in range(64)))
    busy = RateLimiter(1, 60)
    busy.take("198.51.100.7", 0.0)
    slow = Conversation(identity=HANGS)
    slow.say(hello_object(identity=TOKEN))
    second = Conversation()
    second.ask(hello_object())
    lossy = Conversation()
    lossy.ask(hello_object())
    lossy.lose_features(NO_FEATURES)
    answers = [
        *(Conversation().ask(hello_object(**{member: 5})) for member in broken),
        Conversation(many).ask(hello_object()),
        Conversation().ask(hello_object(version="9" * 60_000)),
        Conversation(policy(identity="required")).ask(hello_object("VCP-X-Torch")),
        Conversation(identity=None).ask(hello_object(identity="?")),
        Conversation(exclusive).ask(hello_object("VCP-X-Rival", "VCP-X-Other")),
        Conversation(limiter=busy).ask(hello_object()),
        Conversation(policy(core_features=NO_FEATURES, environment="prod")).ask(hello_object()),
        Conversation(policy(core_features=NO_FEATURES, environment="prod")).ask(b"5"),
        Conversation().ask(b" " * 65_537),
        *slow.wait_until(4.5),
        second.ask(hello_object()),
        lossy.sent[-1],
    ]
    assert {answer["code"] for answer in answers} == set(ERROR_CODES)
    return answers


def everything_sent():
    return hellos_sent() + acks_sent() + errors_sent()


def sent_by_client(hello):
    send, _timer = ClientMachine(hello, random=lambda: 0.5).receive(Started(), 0.0)
    assert isinstance(send, Send)
    return json.loads(send.message)


@format_runner("vcp", "seed_messages", cases=seed_messages, takes=is_handshake)
def test_vector_vcp_messages_of_the_documents_are_understood(case):
    message = case["message"]
    if message["type"] == "vcp-hello":
        hello = read_hello(message)
        assert [*hello.extensions] == message.get("extensions", [])
        assert (hello.version, hello.identity) == (message["version"], message.get("identity"))
        answer = Conversation(policy(registry=registry("VCP-X-Personal", "VCP-X-Torch"))).ask(message)
        assert answer["type"] == ("vcp-error" if message["version"] == "4.0" else "vcp-ack")
    elif message["type"] == "vcp-ack":
        requested = (*message["supported"], *message.get("unsupported", ()))
        hello = Hello(version=message["version"], min_version=message["version"], extensions=requested)
        (report,) = reports_of(hello, message)
        assert isinstance(report, Established)
        assert report.session.extensions == tuple(message["supported"])
    else:
        assert message["type"] == "vcp-error"
        (report,) = reports_of(Hello(version="3.1"), message)
        assert isinstance(report, NotEstablished)
        assert (report.error.code, report.error.message) == (message["code"], message["message"])


@format_runner("vcp", "seed_messages", cases=seed_messages, takes=is_context_request)
def test_vector_vcp_context_request_of_the_document_is_accepted_whole(case):
    talk = Conversation(policy(registry=registry("VCP-X-Personal", "VCP-X-Torch")))
    talk.ask(case["beside"]["hello"])
    answer = talk.ask(case["message"])
    assert set(answer["accepted"]) == case["message"].keys() - {"version"}
    assert answer["ignored"] == []
    assert answer["generation_preferences"] == case["message"]["generation_preferences"]
    assert talk.machine.phase is ServerPhase.ACTIVE


def reports_of(hello, answer):
    machine = ClientMachine(hello, random=lambda: 0.5)
    machine.receive(Started(), 0.0)
    effects = machine.receive(Received(json.dumps(answer).encode()), 1.0)
    return [effect.request for effect in effects if isinstance(effect, Ask)]


@given(st.data())
def test_any_hello_gets_an_answer_that_our_own_client_accepts(data):
    extensions = data.draw(
        st.lists(st.sampled_from([*EVERY_EXTENSION, "VCP-X-New", "VCP-X-z-9"]), unique=True)
    )
    version = data.draw(st.sampled_from(["1.0", "2.0", "3.0", "3.1", "3.7", "12.0"]))
    known = data.draw(st.lists(st.sampled_from(EVERY_EXTENSION), unique=True, min_size=1))
    hello = Hello(version=version, extensions=tuple(extensions))
    answer = Conversation(policy(registry=registry(*known))).ask(encode(hello))
    (report,) = reports_of(hello, answer)
    assert isinstance(report, Established)
    assert report.alerts == ()
