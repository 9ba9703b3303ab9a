"""Finding and calling agents of other owners, for a client of this node (ruling 51).

The node signs these calls, so they are only for its own user and for visitors whose access token has the scope `agents`. A
call of a visitor never reaches a loopback or a private address, and a visitor can make only some calls at the same time.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from msgspec import Struct

from comity.agents.tools import LONGEST_CALL, RIGHT, may_see_agents
from comity.requests.caller import Caller
from comity.requests.handler import Arrival, Call, Identified, PlainRoom, Sealed
from comity.wire.errors import ForbiddenError, OverloadedError

MOST_OF_A_VISITOR: Final = 8


class AgentSearch(Struct, frozen=True, kw_only=True):
    """`directory` is the URL of one; None: the one of the settings, or this node's own."""

    capability: str
    directory: str | None
    limit: int


class FoundAgent(Struct, frozen=True, kw_only=True):
    """`offers` are the agent's own words."""

    agent: str
    offers: str
    endpoint: str | None


class FoundAgents(Struct, frozen=True, kw_only=True):
    directory: str
    agents: tuple[FoundAgent, ...]


class AgentCall(Struct, frozen=True, kw_only=True):
    """`agent` is an id, the URL of a node or a card, or a capability. `tell` hears which of the steps is being taken."""

    agent: str
    message: str
    context_id: str | None = None
    seconds: float | None = None
    tell: Callable[[float, str], None] = lambda _step, _doing: None


class AgentReply(Struct, frozen=True, kw_only=True):
    """A verified reply. `number` is the place of the call in the chain with `agent`."""

    agent: str
    number: int
    text: str


class WayOut(Protocol):
    """How other agents are reached. For a visitor private addresses are refused, whatever the owner allows."""

    async def find(self, asked: AgentSearch, caller: Caller) -> FoundAgents: ...

    async def call(self, asked: AgentCall, caller: Caller) -> AgentReply: ...


class AgentsRoom(PlainRoom):
    name = "agents"
    deadline: Final = LONGEST_CALL + 30.0  # the call has its own, and tells more

    def __init__(self, way_out: WayOut) -> None:
        self._way_out = way_out
        self._running: Counter[str] = Counter()

    def identify(self, arrival: Arrival) -> Identified:
        if not may_see_agents(arrival.caller):
            raise ForbiddenError(
                f"agents are found and called for the user of this node, and for access tokens with the scope {RIGHT}"
            )
        return Identified(arrival.caller)

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        """A call may wait for minutes, so a visitor may make only some at a time."""
        owner = call.caller.owner
        if not call.caller.is_local and self._running[owner] >= MOST_OF_A_VISITOR:
            raise OverloadedError(
                f"{MOST_OF_A_VISITOR} searches and calls of yours are running; wait for one to end", 5.0
            )
        self._running[owner] += 1
        try:
            yield
        finally:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]

    async def handle(self, call: Call) -> FoundAgents | AgentReply:
        asked: AgentSearch | AgentCall = call.arrival.body
        if isinstance(asked, AgentSearch):
            return await self._way_out.find(asked, call.caller)
        return await self._way_out.call(asked, call.caller)

    async def seal(self, call: Call, result: Any) -> Sealed:
        return Sealed(reply=result, about=result.agent if isinstance(result, AgentReply) else "search")
