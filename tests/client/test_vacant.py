"""A vacant as two MCP tools."""

import httpx
import pytest

from comity.client.toolkit import VacantAsMCPServer
from comity.envelopes.app import build_a2a_app
from comity.envelopes.protocol.card import RuntimeState
from comity.envelopes.protocol.envelope import from_a2a_message, to_a2a_jsonrpc, to_a2a_message
from comity.envelopes.protocol.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ReplayDetectedError,
)
from comity.envelopes.replay_stores import InMemoryReplayStore
from tests.envelopes.peers import SERVER, Caller, echo
from tests.envelopes.residents import resident


@pytest.fixture
def replay():
    return InMemoryReplayStore()


@pytest.fixture
def server(replay):
    return VacantAsMCPServer(resident(), SERVER, echo, replay)


async def call(server, envelope):
    return await server.call_tool("vacant_call", {"envelope": to_a2a_jsonrpc(envelope)})


def test_two_tools_are_listed(server):
    tools = {tool["name"]: tool for tool in server.list_tools()}
    assert list(tools) == ["vacant_call", "vacant_describe"]
    assert tools["vacant_call"]["title"] == "Call this vacant"
    assert tools["vacant_call"]["inputSchema"]["required"] == ["envelope"]
    assert tools["vacant_call"]["inputSchema"]["properties"]["envelope"]["type"] == "object"
    assert tools["vacant_describe"]["title"] == "Describe this vacant"


async def test_the_description_is_the_card_and_holds_no_secret(server):
    described = await server.call_tool("vacant_describe", {})
    assert described == {
        "vacant_id": SERVER.vacant_id.hex(),
        "capability_text": "says what it was told",
        "halo_version": 1,
        "endpoint": "http://127.0.0.1/a2a/message/send",
    }
    assert not any(word in str(described) for word in ("private", "secret", "signing_key", "seed"))


async def test_without_a_card_there_is_only_the_id(replay):
    server = VacantAsMCPServer(resident(capability_card=None), SERVER, echo, replay)
    described = await server.call_tool("vacant_describe", {})
    assert described["vacant_id"] == SERVER.vacant_id.hex()
    assert described["capability_text"] is described["endpoint"] is None


async def test_a_call_is_answered_by_a_signed_message(server):
    answer = await call(server, Caller().next("hello"))
    reply = from_a2a_message(answer["message"])
    assert reply.verify(SERVER.vacant_id)
    assert reply.payload.parts[0].text == "echo hello"


async def test_the_bare_message_is_taken_too(server):
    answer = await server.call_tool("vacant_call", {"envelope": to_a2a_message(Caller().next())})
    assert from_a2a_message(answer["message"]).sequence_no == 1


async def test_a_number_used_here_is_used_over_http(server, replay):
    caller = Caller()
    await call(server, caller.next())
    app = build_a2a_app(self_form=resident(), self_signing_key=SERVER, behavior=echo, replay_store=replay)
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")
    refused = await http.post("/a2a/message/send", json=to_a2a_jsonrpc(Caller().next("other")))
    assert refused.status_code == 409


async def test_a_misdirected_call_is_told_both_ids(server):
    other = Caller("other").key.vacant_id
    answer = await call(server, Caller().next(to_vid=other))
    assert answer == {"error": f"envelope_to_mismatch: expected {SERVER.vacant_id.hex()}, got {other.hex()}"}


async def test_a_sunk_vacant_says_so(replay):
    server = VacantAsMCPServer(resident(runtime_state=RuntimeState.SUNK), SERVER, echo, replay)
    assert await call(server, Caller().next()) == {"error": "vacant SUNK; not accepting calls"}


async def test_bad_format_signature_and_chain_are_raised(server):
    with pytest.raises(EnvelopeFormatError):
        await server.call_tool("vacant_call", {"envelope": {"params": {}}})
    for arguments in ({}, {"envelope": 5}, None):
        with pytest.raises(EnvelopeFormatError, match="envelope"):
            await server.call_tool("vacant_call", arguments)
    unsigned = to_a2a_jsonrpc(Caller().next())
    unsigned["params"]["message"]["metadata"]["urn:vacant:v1"]["caller_signature"] = "00" * 64
    with pytest.raises(EnvelopeSignatureError):
        await server.call_tool("vacant_call", {"envelope": unsigned})
    caller = Caller()
    await call(server, caller.next())
    with pytest.raises(ReplayDetectedError):
        await call(server, Caller().next("other"))
    with pytest.raises(ChainForkError):
        await call(server, caller.next(prev_envelope_hash=b"x" * 32))


async def test_an_unknown_tool_is_named(server):
    assert await server.call_tool("vacant_fly", {}) == {"error": "unknown tool 'vacant_fly'"}
