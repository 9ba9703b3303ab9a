"""A client of one conversation, with nothing below that runs: what it says, and what comes of it."""

import itertools

from comity.mcp.protocol.catalog import Catalog, Selection, Tool
from comity.mcp.protocol.context import HandshakeResult
from comity.mcp.protocol.conversation import Greet, McpConversation, result_of
from comity.mcp.protocol.methods import RunningRequest, Server
from comity.mcp.protocol.results import META_CAPABILITIES, META_VERSION, said
from comity.vcp.protocol.agreement import Session as VcpSession
from comity.vcp.protocol.mcp_places import EXTENSION, VcpHandshake
from comity.wire import jsonrpc, strict_json
from tests.callers import visitor

PERSONAL = "VCP-X-Personal"
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
HELLO = {"type": "vcp-hello", "version": "3.1", "extensions": [PERSONAL]}
ACK = {"type": "vcp-ack", "supported": [PERSONAL]}
SESSION = VcpSession(id="ses_1", version="3.1", extensions=(PERSONAL,))
AGREED = HandshakeResult(reply=ACK, active=frozenset({PERSONAL}), attached=SESSION)
REFUSED = HandshakeResult(reply={"type": "vcp-error", "code": "VERSION_UNSUPPORTED", "message": "no"})


def echo(_context, arguments):
    return said(arguments.get("text", ""))


def tool(name, handler=echo, group="shop", **more):
    return Tool(name=name, handler=handler, group=group, description="For tests.", **more)


def meta(capabilities=None, version="2026-07-28", **more):
    """The `_meta` of a modern request."""
    return {META_VERSION: version, META_CAPABILITIES: capabilities or {}, **more}


def with_hello(hello=None):
    return meta({"extensions": {EXTENSION: hello or HELLO}})


def a_server(catalog=None, **more):
    if catalog is None:
        catalog = Catalog()
        catalog.add_tools([tool("echo", input_schema=TEXT), tool("feel", extension=PERSONAL)])
    settings = {"handshake": VcpHandshake(["3.1"]), **more}
    return Server(catalog=catalog, info={"name": "t", "version": "1"}, **settings)


class Talk:
    def __init__(self, server=None, selection=None):
        self.server = server or a_server()
        self.conversation = McpConversation(self.server, selection or Selection(), caller=visitor("ann"))
        self._ids = itertools.count(1_000_000)

    def hear(self, value):
        """The effects of one message."""
        body = strict_json.dumps(value)
        return self.conversation.receive(jsonrpc.parse(body, batches=self.conversation.batches))

    def request(self, method, params=None, id_=None):
        message = {"jsonrpc": "2.0", "id": next(self._ids) if id_ is None else id_, "method": method}
        return self.hear(message if params is None else {**message, "params": params})

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        return self.hear(message if params is None else {**message, "params": params})

    def cancel(self, id_):
        return self.notify("notifications/cancelled", {"requestId": id_})

    def ask(self, method, params=None, id_=None):
        """The answer to a request that needs no work."""
        return only(self.request(method, params, id_))

    def result(self, method, params=None):
        answer = self.ask(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    def error(self, method, params=None):
        answer = self.ask(method, params)
        assert "result" not in answer, answer
        return answer["error"]

    def modern(self, method, params=None, **declared):
        return self.request(method, {**(params or {}), "_meta": meta(**declared)})

    def initialize(self, version="2025-06-18", **params):
        return self.result("initialize", {"protocolVersion": version, "capabilities": {}, **params})

    def call(self, name="echo", id_=1, arguments=None, **more):
        """The work of a call."""
        params = {"name": name, "arguments": arguments or {"text": "hi"}, **more}
        (work,) = self.request("tools/call", params, id_)
        assert isinstance(work, RunningRequest)
        return work

    def greet(self, method, params, id_=1):
        (greet,) = self.request(method, params, id_)
        assert isinstance(greet, Greet)
        return greet

    def finish(self, work, words="done"):
        """The answer that leaves, read; None when nobody waits for it."""
        reply = self.conversation.reply_of(work)
        done = self.conversation.finish(work, result_of(self.server, work, said(words), reply))
        return None if done is None else strict_json.loads(done)


def only(effects):
    (answer,) = effects
    assert isinstance(answer, bytes), answer
    return strict_json.loads(answer)
