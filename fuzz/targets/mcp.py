"""What a client sends to an MCP server on a stream: every request is answered once, whatever stands in it.

A good request follows the input on a line of its own; it must be served, unless the input is a frame that swallows it.
"""

import json
from typing import Any

from comity.mcp.protocol.catalog import Catalog, Prompt, Selection, Tool, resource
from comity.mcp.protocol.context import HandshakeResult
from comity.mcp.protocol.conversation import INTERNAL, Effect, Greet, McpConversation, result_of
from comity.mcp.protocol.methods import RunningRequest, Server
from comity.mcp.protocol.results import Contents, PromptResult, said
from comity.requests.caller import OWN_PROCESS
from comity.vcp.protocol.mcp_places import VcpHandshake
from comity.wire.jsonrpc import Batch, Incoming, Invalid, RpcRequest, RpcStream

LONGEST = 2048

_INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}\n'
_META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{"extensions":{"space.creed/vcp":{"hello":{"type":"vcp-hello"}}}}}'
)
EXAMPLES = [
    _INITIALIZE + b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]\n',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}\n',
    b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"vdo_send","arguments":[1]}}\n',
    b'{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{%b}}\n' % _META,
    b'{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["a"]},%b}}\n'
    % _META,
    b'{"jsonrpc":"2.0","id":4,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"}}}\n',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
    b'Content-Length: 40\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"ping"}',
]
_LAST = b'\n{"jsonrpc":"2.0","id":"the last","method":"ping"}\n'


def _server() -> Server:
    catalog = Catalog()
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    catalog.add_tools(
        [
            Tool(
                name="echo",
                description="Say it.",
                group="fuzz",
                handler=lambda _context, arguments: said(arguments["text"]),
                input_schema=schema,
            )
        ]
    )
    catalog.add_resources(resource("a:b", lambda _c, uri: Contents([{"uri": uri}]), group="fuzz", name="b"))
    catalog.add_prompts(Prompt(name="p", handler=lambda _c, _given: PromptResult([]), group="fuzz"))
    return Server(
        catalog=catalog, info={"name": "fuzz", "version": "1"}, tasks=True, handshake=VcpHandshake()
    )


_SERVER = _server()


def check(data: bytes) -> None:
    talk = _Talk()
    talk.hear(data)
    before = len(talk.said)
    talk.hear(_LAST)
    for message in talk.stream.end():
        talk.take(message)
    assert talk.asked == talk.answered, (talk.asked, talk.answered)
    assert len(talk.said) > before or b"ontent-" in data.lower() or data.lower().startswith(b"content-")


class _Talk:
    """Works that need a runner are refused at once: what a handler does is not what is looked at here."""

    def __init__(self) -> None:
        self.stream = RpcStream(LONGEST)
        self.conversation = McpConversation(_SERVER, Selection(), caller=OWN_PROCESS)
        self.said: list[bytes] = []
        self.asked = self.answered = 0

    def hear(self, data: bytes) -> None:
        for message in self.stream.receive(data):
            self.take(message)

    def take(self, message: Incoming) -> None:
        self.asked += _answers_due(message)
        for effect in self.conversation.receive(message):
            self._do(effect)
        self.stream.batches = self.conversation.batches

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, RunningRequest):
            done = self._work(effect)
            if done is not None:
                self._say(done)
        elif isinstance(effect, Greet):
            for more in self.conversation.greeted(effect, HandshakeResult(reply={"type": "vcp-error"})):
                self._do(more)
        elif isinstance(effect, bytes):
            self._say(effect)

    def _work(self, work: RunningRequest) -> bytes | None:
        if work.tool is None:
            return self.conversation.refuse(work, INTERNAL)
        answer: Any = work.tool.handler(None, work.params["arguments"])  # type: ignore[arg-type]
        return self.conversation.finish(work, result_of(_SERVER, work, answer))

    def _say(self, body: bytes) -> None:
        value = json.loads(body)
        self.answered += len(value) if isinstance(value, list) else 1
        self.said.append(body)


def _answers_due(message: Incoming) -> int:
    if isinstance(message, Batch):
        return sum(isinstance(item, RpcRequest | Invalid) for item in message.items)
    return int(isinstance(message, RpcRequest | Invalid))
