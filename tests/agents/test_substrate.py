"""Substrates, and the agent that thinks with one."""

import json

import pytest
from msgspec import to_builtins

from comity.agents.substrate import (
    OpenAIEndpoint,
    SubstrateAgent,
    SubstrateError,
    SubstrateRateLimitError,
    SubstrateRequest,
    SubstrateResponse,
    SubstrateUnavailableError,
    load_openai,
    substrate_failure,
)
from comity.envelopes.client.calls import CallRefusedError
from comity.envelopes.protocol.errors import CoreError
from comity.vcp.protocol.context import CallerContext, GenerationPreferences
from comity.vcp.protocol.signals import model_safe
from comity.wire.errors import ConfigError, NoAnswerError, TargetRefusedError, UnreachableError
from tests.agents.envelopes import request, said
from tests.http.local_server import reply, serving


class Recorder:
    name = "recorder"
    closed = False

    async def infer(self, asked):
        self.asked = asked
        return SubstrateResponse(text=f"thought of {asked.user_prompt}", model_id="m")

    async def aclose(self):
        self.closed = True


async def test_an_agent_answers_with_what_its_substrate_says():
    substrate = Recorder()
    agent = SubstrateAgent(substrate, "be kind")
    assert said(await agent(request("a", "b"))) == "thought of a b"
    assert substrate.asked == SubstrateRequest(system_prompt="be kind", user_prompt="a b")
    await agent.aclose()
    assert substrate.closed


@pytest.mark.parametrize("asks", [True, False])
async def test_a_substrate_is_told_of_the_caller_where_the_agent_asks(asks):
    context = CallerContext(
        model_safe_context=model_safe({}, None, session_active=True),
        generation_preferences=GenerationPreferences(formality=5),
    )
    substrate = Recorder()
    agent = SubstrateAgent(substrate, "be kind", takes_context=asks)
    await agent(request("a"), context)
    assert substrate.asked.metadata == (to_builtins(context) if asks else {})
    assert ("Formality: 5/5" in substrate.asked.system_prompt) is asks
    await agent(request("a"), None)
    assert substrate.asked == SubstrateRequest(system_prompt="be kind", user_prompt="a")


async def test_a_substrate_that_holds_nothing_needs_no_closing():
    class Plain:
        name = "plain"

        async def infer(self, asked):
            return SubstrateResponse(text="", model_id="m")

    await SubstrateAgent(Plain()).aclose()


def test_requests_and_responses_have_their_defaults():
    asked = SubstrateRequest(system_prompt="s", user_prompt="u")
    assert (asked.tools, asked.metadata) == ([], {})
    answer = SubstrateResponse(text="t", model_id="m")
    assert (answer.usage, answer.proof) == ({}, {})
    assert asked.tools is not SubstrateRequest(system_prompt="s", user_prompt="u").tools


def test_the_errors_stand_in_the_contracts_line():
    assert issubclass(SubstrateError, CoreError)
    assert issubclass(SubstrateUnavailableError, SubstrateError)
    assert issubclass(SubstrateRateLimitError, SubstrateError)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (UnreachableError("x"), SubstrateUnavailableError),
        (NoAnswerError("x"), SubstrateUnavailableError),
        (CallRefusedError(500, "x"), SubstrateUnavailableError),
        (CallRefusedError(503, "x"), SubstrateUnavailableError),
        (CallRefusedError(429, "x"), SubstrateRateLimitError),
        (CallRefusedError(400, "x"), SubstrateError),
        (TargetRefusedError("x"), SubstrateError),
    ],
)
def test_a_failure_on_the_way_is_told_as_one_of_the_substrate(failure, kind):
    shown = substrate_failure("the model", failure)
    assert type(shown) is kind
    assert shown.message.startswith("the model ")


# A model behind an HTTP endpoint, here a small server that plays one.

pytestmark = pytest.mark.usefixtures("patience")

ASKED = SubstrateRequest(system_prompt="be brief", user_prompt="how are you?")
COMPLETION = {
    "id": "1",
    "model": "tiny-2026",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "details": {"cached": 0}},
}


def answering(value, status="200 OK"):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return lambda _: reply(body, status)


async def infer(server, asked=ASKED, path="/v1", **more):
    endpoint = OpenAIEndpoint(server.url(path), "tiny", **more)
    try:
        return await endpoint.infer(asked)
    finally:
        await endpoint.aclose()


async def test_a_prompt_is_answered():
    async with serving(answering(COMPLETION)) as server:
        answer = await infer(server, api_key="sk-1")
    assert answer.text == "fine"
    assert answer.model_id == "tiny-2026"
    assert answer.usage == {"prompt_tokens": 9, "completion_tokens": 1}
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions ")
    assert b"authorization: bearer sk-1" in head.lower()
    assert json.loads(body) == {
        "model": "tiny",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "how are you?"}],
    }


async def test_without_a_system_prompt_and_a_key_neither_is_sent():
    async with serving(answering(COMPLETION)) as server:
        await infer(server, SubstrateRequest(system_prompt="", user_prompt="x"))
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert b"authorization" not in head.lower()
    assert json.loads(body)["messages"] == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/chat/completions"])
async def test_the_url_may_be_written_with_and_without_its_end(path):
    async with serving(answering(COMPLETION)) as server:
        await infer(server, path=path)
    assert server.requests[0].startswith(b"POST /v1/chat/completions ")


@pytest.mark.parametrize(
    ("status", "body", "kind", "sentence"),
    [
        ("401 Unauthorized", {"error": {"message": "bad key sk-1"}}, SubstrateError, "refused our key"),
        ("403 Forbidden", {}, SubstrateError, "refused our key"),
        ("404 Not Found", {"error": {"message": "no such model"}}, SubstrateError, "no such model"),
        ("400 Bad", {"error": "plain words"}, SubstrateError, "plain words"),
        ("400 Bad", [], SubstrateError, "status 400"),
        ("429 Slow", {"error": {"message": "slow down"}}, SubstrateRateLimitError, "limits our calls"),
        ("500 Oops", b"<html>", SubstrateUnavailableError, "status 500"),
        ("503 Busy", {}, SubstrateUnavailableError, "status 503"),
        ("302 Found", b"", SubstrateError, "status 302"),
    ],
)
async def test_a_refusal_is_told_by_its_kind(status, body, kind, sentence):
    async with serving(answering(body, status)) as server:
        with pytest.raises(SubstrateError, match=sentence) as refusal:
            await infer(server, api_key="sk-1")
    assert type(refusal.value) is kind
    assert "sk-1" not in refusal.value.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        [],
        {},
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"message": {"content": None}}]},
        {"choices": [{"message": {"content": [{"type": "text"}]}}]},
        {"choices": {"0": 1}},
        {"choices": ["x"]},
    ],
)
async def test_an_answer_without_a_text_is_refused(body):
    async with serving(answering(body)) as server:
        with pytest.raises(SubstrateError, match="answered without a text"):
            await infer(server)


@pytest.mark.parametrize("more", [{"usage": None}, {"usage": [1]}, {"model": 7}, {"usage": {"a": True}}])
async def test_odd_extras_do_not_spoil_an_answer(more):
    async with serving(answering(COMPLETION | more)) as server:
        answer = await infer(server)
    assert answer.text == "fine"
    assert all(type(count) is int for count in answer.usage.values())


async def test_a_model_that_is_not_there_is_unavailable():
    async with serving(answering({})) as server:
        pass
    with pytest.raises(SubstrateUnavailableError, match="could not be reached"):
        await infer(server)


async def test_a_model_that_takes_too_long_is_unavailable():
    async def silent(reader, writer):
        await reader.read()

    async with serving(silent) as server:
        with pytest.raises(SubstrateUnavailableError, match="within"):
            await infer(server, timeout=0.05)


@pytest.mark.parametrize(
    "spec", ["openai:", "openai:https://a.example/v1", "openai:#m", "openai:https://a/v1#"]
)
def test_a_spec_without_url_or_model_is_refused(spec):
    with pytest.raises(ConfigError, match="openai:https://host/v1#model"):
        load_openai(spec, environ={})


@pytest.mark.parametrize("url", ["ftp://a.example", "https://user:word@a.example/v1", "https://0x7f.1/v1"])
def test_a_url_that_cannot_be_called_is_refused(url):
    with pytest.raises(ConfigError, match="the URL of the model cannot be used"):
        load_openai(f"openai:{url}#m", environ={})


@pytest.mark.parametrize("url", ["http://models.example/v1", "http://10.0.0.7:8000/v1"])
def test_a_key_is_not_sent_in_the_clear(url):
    with pytest.raises(ConfigError, match="in the clear"):
        load_openai(f"openai:{url}#m", environ={"OPENAI_API_KEY": "sk-1"})
    load_openai(f"openai:{url}#m", environ={})


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1234/v1", "http://[::1]:1234/v1", "http://localhost:1234/v1"]
)
def test_a_key_may_stay_on_this_machine(url):
    load_openai(f"openai:{url}#m", environ={"OPENAI_API_KEY": "sk-1"})


async def test_the_key_is_taken_from_the_variable_that_was_named():
    environ = {"OPENAI_API_KEY": "wrong", "MY_KEY": " right\n"}
    async with serving(answering(COMPLETION)) as server:
        endpoint = load_openai(f"openai:{server.url('/v1')}#org/m#x", environ=environ, key_variable="MY_KEY")
        assert endpoint.name.endswith(":org/m#x")
        await endpoint.infer(ASKED)
        await endpoint.aclose()
    assert b"authorization: bearer right\r\n" in server.requests[0].lower()
    assert "right" not in repr(endpoint)


@pytest.mark.parametrize("key", ["sk-ä", "sk 1", "sk\n1", "sk-\u2011x"])
def test_a_key_that_was_copied_badly_is_refused_and_not_shown(key):
    with pytest.raises(ConfigError, match="copy it again") as refusal:
        load_openai("openai:https://a.example/v1#m", environ={"OPENAI_API_KEY": key})
    assert key not in refusal.value.message
