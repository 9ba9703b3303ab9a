"""A hello in every place from which it is read, and its answer in every place where somebody looks for it, on both
carriers of a real node.
"""

import contextlib
from types import SimpleNamespace

import pytest

from comity.mcp.protocol.catalog import Selection
from comity.node.mcp_server import Mcp
from comity.testing.nodes import bearer, running_node
from tests.mcp.conversing import Talk, initialize, modern
from tests.mcp.http_talk import Http, repeated

EXTENSION = "space.creed/vcp"
ACKS = ("space.creed/vcp-ack", "space.creed.vcp/ack")
META = ("space.creed/vcp-hello", "space.creed.vcp/capabilities")


def hello(client="c"):
    return {"type": "vcp-hello", "version": "3.1", "extensions": ["VCP-X-Nothing"], "client_id": client}


def in_initialize(said):
    """The places of a legacy hello, the first before all others."""
    return [
        {"initializationOptions": {"vcp": said}},
        {"vcp": said},
        {"capabilities": {"extensions": {EXTENSION: {"hello": said}}}},
        {"capabilities": {"extensions": {EXTENSION: said}}},
        {"capabilities": {"experimental": {EXTENSION: {"hello": said}}}},
        {"capabilities": {"experimental": {EXTENSION: said}}},
        {"_meta": {META[0]: said}},
        {"_meta": {META[1]: said}},
    ]


def in_request(said):
    """The places of a modern hello: capabilities, and more of `_meta`."""
    return [
        ({"extensions": {EXTENSION: {"hello": said}}}, {}),
        ({"extensions": {EXTENSION: said}}, {}),
        ({}, {META[0]: said}),
        ({}, {META[1]: said}),
    ]


@contextlib.asynccontextmanager
async def over_http(node):
    async with Http(f"{node.url}/mcp", **bearer(node)) as http:

        async def ask(message):
            headers = {} if message["method"] == "initialize" else repeated(message)
            return (await http.post(message, **headers)).json()["result"]

        yield ask


@contextlib.asynccontextmanager
async def over_a_stream(node):
    talks = []

    async def ask(message):
        def stream(write):
            return node.runtime.find(Mcp).node_mcp.open_stream(Selection(), 1 << 20, write)

        talks.append(Talk(SimpleNamespace(stream=stream)))
        return (await talks[-1].ask(message))["result"]

    yield ask
    for talk in talks:
        await talk.stream.close(0.0)


@pytest.fixture(params=[over_http, over_a_stream])
async def ask(request):
    async with running_node() as node, request.param(node) as ask:
        yield ask


async def test_a_legacy_hello_is_read_from_every_place_and_answered_in_every_place(ask):
    for place in in_initialize(hello()):
        result = await ask(initialize(**place))
        ack = result["vcp"]
        assert ack["type"] == "vcp-ack", place
        assert ack["unsupported"] == ["VCP-X-Nothing"]
        assert result["serverInfo"]["metadata"]["vcp"] == ack
        assert result["capabilities"]["extensions"][EXTENSION]["ack"] == ack
        assert [result["_meta"][key] for key in ACKS] == [ack, ack]


async def test_without_a_hello_there_is_no_word_of_it(ask):
    for place in in_initialize(None):
        result = await ask(initialize(**place))
        assert "vcp" not in result
        assert "metadata" not in result["serverInfo"]
        assert EXTENSION not in result["capabilities"].get("extensions", {})


async def test_the_first_place_counts(ask):
    wrong = {"type": "vcp-hello", "version": 5}
    places = in_initialize(hello())
    rest = {"capabilities": {"extensions": {EXTENSION: wrong}}, "_meta": {META[0]: wrong}}
    result = await ask(initialize(**{**rest, **places[1], "initializationOptions": {"vcp": wrong}}))
    assert result["vcp"]["type"] == "vcp-error"
    result = await ask(initialize(**{**rest, **places[1]}))
    assert result["vcp"]["type"] == "vcp-ack"
    both = {"extensions": places[2]["capabilities"]["extensions"], "experimental": {EXTENSION: wrong}}
    result = await ask(initialize(capabilities=both, _meta={META[0]: wrong}))
    assert result["vcp"]["type"] == "vcp-ack"


async def test_an_error_stands_where_the_ack_would(ask):
    wrong = {"type": "vcp-hello", "version": 5}
    result = await ask(initialize(vcp=wrong))
    assert result["protocolVersion"] == "2025-11-25"
    error = result["vcp"]
    assert error["type"] == "vcp-error"
    assert result["serverInfo"]["metadata"]["vcp"] == error
    assert result["capabilities"]["extensions"][EXTENSION]["ack"] == error


async def test_a_modern_hello_is_read_from_every_place_and_answered_with_its_result(ask):
    for capabilities, meta in in_request(hello()):
        found = await ask(modern(1, "server/discover", capabilities=capabilities, **meta))
        ack = found["capabilities"]["extensions"][EXTENSION]["ack"]
        assert ack["type"] == "vcp-ack"
        assert found["cacheScope"] == "private"
        assert [found["_meta"][key] for key in ACKS] == [ack, ack]
        params = {"name": "vcp_status", "arguments": {}}
        status = await ask(modern(2, "tools/call", params, capabilities=capabilities, **meta))
        assert status["structuredContent"]["negotiated"] is True
        assert status["_meta"][ACKS[0]]["type"] == "vcp-ack"
        read = await ask(
            modern(3, "resources/read", {"uri": "vcp://capabilities"}, capabilities=capabilities, **meta)
        )
        assert read["_meta"][ACKS[1]]["type"] == "vcp-ack"


async def test_who_only_discovers_learns_what_there_is_to_say_hello_to(ask):
    found = await ask(modern(1, "server/discover"))
    settings = found["capabilities"]["extensions"][EXTENSION]
    assert "3.1" in settings["versions"]
    assert "ack" not in settings
    assert not found["_meta"].keys() & {*ACKS}


async def test_an_error_of_a_modern_hello_leaves_the_request_as_it_is(ask):
    wrong = {"extensions": {EXTENSION: {"hello": {"type": "vcp-hello", "version": 5}}}}
    found = await ask(modern(1, "tools/list", capabilities=wrong))
    assert found["_meta"][ACKS[0]]["type"] == "vcp-error"
    assert found["tools"]
