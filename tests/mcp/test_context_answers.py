"""What a handler gets for its questions is an object, whatever the client sends."""

import pytest

from comity.mcp.calls import McpCalls
from comity.mcp.protocol.catalog import Catalog, Resources, Selection, Tool
from comity.mcp.protocol.context import McpClient
from comity.mcp.protocol.methods import Server, begin
from comity.mcp.protocol.results import Contents, InputRequest, said
from comity.mcp.protocol.session import Sealer
from comity.mcp.streams import Changes
from comity.testing import VirtualClock
from comity.wire import strict_json
from comity.wire.jsonrpc import RpcRequest
from comity.wire.machine import Clock

WHO = InputRequest("elicitation/create", {"message": "Who?"})


class Carrier:
    """Answers each question with what it was given."""

    session = None

    def __init__(self, answer=None):
        self.answer = answer

    def send(self, message):
        pass

    async def ask(self, request):
        return self.answer

    async def release(self):
        pass


async def asks(context, _arguments):
    return said(str((await context.ask({"who": WHO}))["who"].get("name")))


def server_and_calls() -> tuple[Server, McpCalls]:
    clock: Clock = VirtualClock()
    catalog = Catalog()
    catalog.add_tools([Tool(name="asks", handler=asks, group="t", description="")])
    catalog.add_resources(
        Resources(group="t", owns=lambda uri: uri == "t://1", read=lambda _context, _uri: Contents([]))
    )
    server = Server(catalog=catalog, info={"name": "t", "version": "1"})
    return server, McpCalls(server, clock, sealer=Sealer(bytes(32), bytes), changes=Changes(catalog))


async def call(client: McpClient, carrier: Carrier, **params):
    server, calls = server_and_calls()
    request = RpcRequest(1, "tools/call", {"name": "asks", "arguments": {}, **params})
    return strict_json.loads(await calls.start(begin(server, Selection(), client, request), carrier))


@pytest.mark.parametrize("useless", [12345, None, "ann", ["ann"]])
async def test_a_modern_client_is_asked_again_and_a_legacy_one_is_told(useless):
    modern = McpClient(version="2026-07-28", modern=True, capabilities={"elicitation": {}})
    asked = await call(modern, Carrier(), inputResponses={"who": useless})
    assert asked["resultType"] == "input_required"
    assert list(asked["inputRequests"]) == ["who"]
    legacy = McpClient(version="2025-11-25", modern=False, capabilities={"elicitation": {}})
    result = await call(legacy, Carrier(useless))
    assert result["isError"] is True
    assert "no object" in result["content"][0]["text"]


async def test_an_object_is_the_answer_in_either_era():
    answer = {"name": "ann"}
    modern = McpClient(version="2026-07-28", modern=True, capabilities={"elicitation": {}})
    legacy = McpClient(version="2025-11-25", modern=False, capabilities={"elicitation": {}})
    for result in (
        await call(modern, Carrier(), inputResponses={"who": answer}),
        await call(legacy, Carrier(answer)),
    ):
        assert result["content"][0]["text"] == "ann"


async def test_only_resources_that_are_there_can_be_listened_to():
    server, _ = server_and_calls()
    client = McpClient(version="2026-07-28", modern=True)
    wanted = {"resourceSubscriptions": ["t://1", "t://2"]}
    work = begin(
        server, Selection(), client, RpcRequest(1, "subscriptions/listen", {"notifications": wanted})
    )
    assert work.special.to_json() == {"resourceSubscriptions": ["t://1"]}
