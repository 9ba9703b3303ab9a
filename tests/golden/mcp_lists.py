"""What MCP clients are listed: for each revision, profile, group of tools and kind of caller.

Definitions are stored once; a view names those that its client sees. Clients that see the same stand together.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from comity.mcp.protocol.catalog import Selection
from comity.mcp.protocol.conversation import McpConversation
from comity.mcp.protocol.results import LEGACY, MODERN
from comity.mcp.stream import McpStream
from comity.node.mcp_server import Mcp
from comity.node.node import Node
from comity.release import __version__
from comity.requests.caller import OWN_PROCESS, Caller
from comity.rooms.protocol.tool_table import PROFILES
from comity.runtime.lazy import load_parts
from comity.runtime.settings import AgentSettings
from comity.testing import running_node
from tests.callers import OWNER, STRANGER, visitor
from tests.mcp.conversing import Talk, initialize, modern, request

GROUPS = sorted({part.tool_group for part in load_parts() if part.tool_group})
EXTENSIONS = ("personal", "relational", "consensus", "torch", "intent")
_SESSION = re.compile(r"ses_[0-9a-f]{32}")
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


class Client(NamedTuple):
    name: str
    version: str
    caller: Caller = OWN_PROCESS
    selection: Selection = Selection()


def _clients() -> Iterator[Client]:
    for version in (*LEGACY, *MODERN):
        for profile in PROFILES:
            yield Client(f"{version}, stdio, {profile}", version, selection=Selection(profile=profile))
        yield Client(f"{version}, owner over HTTP", version, OWNER)
        yield Client(f"{version}, visitor", version, visitor("ann"))
        yield Client(f"{version}, visitor with agents", version, replace(visitor("ann"), scopes=("agents",)))
        yield Client(f"{version}, unknown", version, STRANGER)
    for version in (LEGACY[-1], *MODERN):
        for group in GROUPS:
            yield Client(
                f"{version}, stdio, only {group}", version, selection=Selection(groups=frozenset({group}))
            )
        for names in (*((name,) for name in EXTENSIONS), EXTENSIONS):
            vcp = tuple(f"VCP-X-{name.capitalize()}" for name in names)
            yield Client(f"{version}, stdio, with {', '.join(names)}", version, selection=Selection(vcp=vcp))


async def lists() -> dict[str, Any]:
    named = _Named()
    views: dict[str, list[str]] = {}
    async with running_node(agent=AgentSettings(behaviour="echo")) as node:
        for client in _clients():
            view = json.dumps(await _view(node, client, named))
            views.setdefault(view, []).append(client.name)
    return {
        "views": [{"clients": clients, **json.loads(view)} for view, clients in views.items()],
        "what they name": {name: named.values[name] for name in sorted(named.values)},
    }


class _Named:
    """Values by name. Another value of the same name gets a number."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def name(self, wanted: str, value: Any) -> str:
        number, chosen = 1, wanted
        while self.values.setdefault(chosen, value) != value:
            number += 1
            chosen = f"{wanted} ({number})"
        return chosen


class _Conversation:
    """What `Talk` talks to: the stream of a connection of this client to the node."""

    def __init__(self, node: Node, client: Client) -> None:
        self._side = node.runtime.find(Mcp).node_mcp
        self._client = client

    def stream(self, write: Any) -> McpStream:
        conversation = McpConversation(self._side.server, self._client.selection, caller=self._client.caller)
        return McpStream(
            self._side.calls, conversation, limit=1 << 20, write=write, negotiate=self._side.negotiate
        )


async def _view(node: Node, client: Client, named: _Named) -> dict[str, str]:
    talk = Talk(_Conversation(node, client))
    is_modern = client.version in MODERN
    ask = modern if is_modern else request
    begun = await talk.ask(ask(0, "server/discover") if is_modern else initialize(0, client.version))
    view = {"first answer": named.name("first answer", _steady(begun))}
    for number, (method, name) in enumerate(LISTS.items(), 1):
        answer = _steady(await talk.ask(ask(number, method)))["result"]
        kind = method.partition("/")[0].removesuffix("s")
        answer[name] = [named.name(f"{kind} {_name_of(one)}", one) for one in answer[name]]
        view[method] = named.name(method, answer)
    return view


def _name_of(listed: dict[str, Any]) -> str:
    return str(listed.get("name") or listed.get("uri") or listed.get("uriTemplate"))


def _steady(answer: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from release to release, and from run to run."""
    text = json.dumps(answer).replace(f'"version": "{__version__}"', '"version": "VERSION"')
    return dict(json.loads(_SESSION.sub("ses_1", text)))
