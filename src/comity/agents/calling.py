"""How the tools of this node reach other agents: the directory, the cards, and signed calls that keep their chains.

- An agent is named by its id, by the address of its node or card, or by what it offers; then the best match that takes
  the call is called, as `comity call --capability` does. No file is ever read for a name.
- A call without an answer may have been carried out. The same call made again by the same caller is sent again as it
  was, so that the agent carries it out once and gives the reply it has. A call with an idempotency key gets one reply,
  however often it is made. Callers do not see each other's keys.
- A visitor's call goes through an HTTP client of its own, for which the owner's exceptions do not hold: every loopback
  and private address is refused, be it a node, a directory, or an endpoint in the card of somebody else.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, Final, Protocol

from msgspec import UNSET, Struct, UnsetType

from comity.agents.tools import MAX_CALL_SECONDS, RIGHT, may_see_agents
from comity.contacts.lookup import read_contact
from comity.contacts.protocol.contact import Contact
from comity.directory.cards import LIMIT, HaloMatch, search_capability, visible_record
from comity.directory.client import DirectoryClient
from comity.directory.finding import card_at, card_of_contact, is_address, with_scheme
from comity.directory.outcomes import CallOutcomes
from comity.envelopes.client.calls import CallRefusedError, DispatchResult, explained
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.errors import TargetUnavailableError
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.http.client import HttpCarrier
from comity.identity.protocol.keys import SigningKey, VacantId, id_of
from comity.receipts.protocol.format import hash_of
from comity.receipts.protocol.making import call_bytes
from comity.requests.caller import Caller
from comity.requests.handler import Call, HandlerDefaults, HandlerResult, Identified, Request
from comity.store.interface import Store
from comity.wire.errors import (
    ComityError,
    ConfigError,
    ForbiddenError,
    InvalidError,
    NoAnswerError,
    NotFoundError,
    OverloadedError,
)
from comity.wire.machine import Clock

# Finding and calling agents of other owners, for a client of this node (ruling 51).

MAX_OF_A_VISITOR: Final = 8


class AgentSearch(Struct, frozen=True, kw_only=True):
    """`directory` is the URL of one; None: the one of the settings, or this node's own."""

    capability: str
    directory: str | None
    limit: int


class FoundAgent(Struct, frozen=True, kw_only=True):
    """`offers` are the agent's own words, `name` is that of the contact."""

    agent: str
    offers: str
    endpoint: str | None
    name: str | UnsetType = UNSET


class FoundAgents(Struct, frozen=True, kw_only=True):
    directory: str
    agents: tuple[FoundAgent, ...]


class AgentCall(Struct, frozen=True, kw_only=True):
    """`agent` is an id, the URL of a node or a card, or a capability. `idempotency_key`: empty is none. `progress` is
    called with each step and its name.
    """

    agent: str
    message: str
    context_id: str | None = None
    idempotency_key: str = ""
    seconds: float | None = None
    progress: Callable[[float, str], None] = lambda _step, _doing: None


class AgentReply(Struct, frozen=True, kw_only=True):
    """A verified reply. `number` is the place of the call in the chain with `agent`, `receipt` the name of its receipt, if
    it can have one; `name` that of the contact, `seconds` when it came.
    """

    agent: str
    number: int
    text: str
    receipt: str | None
    name: str | None = None
    seconds: float


class AgentCaller(Protocol):
    """Reaches other agents. For a visitor private addresses are refused, whatever the owner allows."""

    async def find(self, asked: AgentSearch, caller: Caller) -> FoundAgents: ...

    async def call(self, asked: AgentCall, caller: Caller) -> AgentReply: ...


class AgentsHandler(HandlerDefaults):
    name = "agents"
    deadline: Final = MAX_CALL_SECONDS + 30.0  # the call has a timeout of its own, with a better message

    def __init__(self, agents: AgentCaller) -> None:
        self._agents = agents
        self._running: Counter[str] = Counter()

    def identify(self, request: Request) -> Identified:
        if not may_see_agents(request.caller):
            raise ForbiddenError(
                f"agents are found and called for the user of this node, and for access tokens with the scope {RIGHT}"
            )
        return Identified(request.caller)

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        """Let a visitor make only some calls at a time, for a call may wait for minutes."""
        owner = call.caller.owner
        if not call.caller.is_local and self._running[owner] >= MAX_OF_A_VISITOR:
            raise OverloadedError(
                f"{MAX_OF_A_VISITOR} searches and calls of yours are running; wait for one to end", 5.0
            )
        self._running[owner] += 1
        try:
            yield
        finally:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]

    async def handle(self, call: Call) -> FoundAgents | AgentReply:
        asked: AgentSearch | AgentCall = call.request.body
        if isinstance(asked, AgentSearch):
            return await self._agents.find(asked, call.caller)
        return await self._agents.call(asked, call.caller)

    async def seal(self, call: Call, result: Any) -> HandlerResult:
        return HandlerResult(reply=result, about=result.agent if isinstance(result, AgentReply) else "search")


OWN_DIRECTORY: Final = "this node"
MESSAGE_LIMIT: Final = 1024 * 1024 - 4096
"""Bytes. A request of one mebibyte is the most that a target reads; the rest of it is the envelope."""

_TRIED: Final = 20
_MAX_OFFER_LENGTH: Final = 300


class OutgoingCalls:
    def __init__(
        self,
        store: Store,
        key: SigningKey,
        clock: Clock,
        *,
        dispatcher: Dispatcher,
        outcomes: CallOutcomes,
        http: HttpCarrier,
        public_http: HttpCarrier,
        directory: str,
        seconds: float,
    ) -> None:
        """`http` carries the calls of the owner, `public_http` those of everybody else. `directory` is the URL of the one
        that is asked; empty: the cards that were published on this node. A call takes `seconds` unless it says more.
        """
        self._store = store
        self._key = key
        self._clock = clock
        self._dispatcher = dispatcher
        self._outcomes = outcomes
        self._http = http
        self._public_http = public_http
        self._directory = directory.rstrip("/")
        self._chosen_directory = self._client(http, self._directory) if self._directory else None
        self._seconds = seconds

    async def find(self, asked: AgentSearch, caller: Caller) -> FoundAgents:
        where, directory = self._directory or OWN_DIRECTORY, self._chosen_directory
        if asked.directory is not None:
            where = with_scheme(asked.directory).rstrip("/")
            directory = self._client(self._http_for(caller), where)
        try:
            async with asyncio.timeout(self._seconds):
                matches = await self._ranked(
                    await self._search(directory, asked.capability, asked.limit), caller
                )
        except TimeoutError:
            raise NoAnswerError(f"the directory did not answer within {self._seconds:g} seconds") from None
        found = [await self._found(match.capability_card, caller) for match in matches[: asked.limit]]
        return FoundAgents(directory=where, agents=tuple(found))

    async def call(self, asked: AgentCall, caller: Caller) -> AgentReply:
        if len(asked.message.encode("utf-8", "replace")) > MESSAGE_LIMIT:
            raise InvalidError(f"message is limited to {MESSAGE_LIMIT:,} bytes; say less or split it")
        http = self._http_for(caller)
        seconds = asked.seconds or self._seconds
        until = self._clock.monotonic() + seconds
        contact = await self._contact(asked.agent.strip(), caller)
        named = VacantId.from_hex(contact.id) if contact is not None else _named(asked.agent)
        cards: list[CapabilityCard] = []
        card: CapabilityCard | None = None

        async def find() -> list[CapabilityCard]:
            asked.progress(1, "looking for the agent")
            cards.extend(await self._cards(asked.agent, named, http, caller))
            return cards

        def calling(next_one: CapabilityCard) -> None:
            nonlocal card
            if card is None:
                asked.progress(2, f"calling {next_one.vacant_id.short()}")
            card = next_one

        def passed_over(former: CapabilityCard, why: ComityError) -> None:
            place = cards.index(former) + 1
            following = cards[place].vacant_id.short()
            asked.progress(2 + place / len(cards), f"{explained(why, former)}; calling {following}")

        try:
            async with asyncio.timeout(seconds):
                result = await self._dispatcher.call_found(
                    find,
                    A2AMessage(parts=(A2APart(text=asked.message),), context_id=asked.context_id),
                    only=named if isinstance(named, VacantId) else None,
                    named=named is not None,
                    idempotency_key=asked.idempotency_key,
                    alike=_digest(asked),
                    until=until,
                    http=http,
                    caller=caller,
                    calling=calling,
                    passed_over=passed_over,
                )
        except (TimeoutError, NoAnswerError) as end:
            if card is None and isinstance(end, NoAnswerError):
                raise
            raise NoAnswerError(_no_answer(card, seconds, asked.idempotency_key)) from None
        except (CallRefusedError, TargetUnavailableError) as refusal:
            assert card is not None, "only an agent that was called refuses a call"
            refusal.args = (explained(refusal, card), *refusal.args[1:])
            raise
        asked.progress(3, "the reply is verified")
        return AgentReply(
            agent=result.target.vacant_id.hex(),
            number=result.request_envelope.sequence_no,
            text="\n".join(part.text for part in result.response_envelope.payload.parts),
            receipt=_receipt_name(result),
            name=await self._name_of(result.target.vacant_id, caller),
            seconds=self._clock.now(),
        )

    async def _contact(self, who: str, caller: Caller) -> Contact | None:
        """Return the contact that the owner names, as it is stored now. Visitors learn nothing of contacts."""
        if not caller.is_local or not who:
            return None
        try:
            return await read_contact(self._store, who)
        except ConfigError as fault:
            raise InvalidError(fault.message) from None

    async def _name_of(self, vacant_id: VacantId, caller: Caller) -> str | None:
        contact = await self._contact(vacant_id.hex(), caller)
        return None if contact is None else contact.name

    async def _found(self, card: CapabilityCard, caller: Caller) -> FoundAgent:
        offers = " ".join(card.capability_text.split())
        if len(offers) > _MAX_OFFER_LENGTH:
            offers = f"{offers[: _MAX_OFFER_LENGTH - 1]}…"
        return FoundAgent(
            agent=card.vacant_id.hex(),
            offers=offers,
            endpoint=card.endpoint,
            name=await self._name_of(card.vacant_id, caller) or UNSET,
        )

    def _http_for(self, caller: Caller) -> HttpCarrier:
        return self._http if caller.is_local else self._public_http

    async def _ranked(self, matches: list[HaloMatch], caller: Caller) -> list[HaloMatch]:
        """Return them in the order of what the owner's calls came to. Visitors learn nothing of these."""
        if not caller.is_local:
            return matches
        return await self._outcomes.ranked(matches, lambda match: match.vacant_id)

    async def _cards(
        self, agent: str, named: VacantId | str | None, http: HttpCarrier, caller: Caller
    ) -> list[CapabilityCard]:
        if isinstance(named, VacantId):
            if named == self._key.vacant_id:
                raise InvalidError("that is the id of this node, and a node cannot call itself")
            return [await self._card(named, http, caller)]
        if named is not None:
            return [await card_at(named, http)]
        wanted = agent.strip()
        matches = await self._ranked(await self._search(self._chosen_directory, wanted, _TRIED), caller)
        offering = [match.capability_card for match in matches]
        callable_ = [card for card in offering if card.endpoint]
        if not callable_:
            raise NotFoundError(
                f"no agent in {self._named} offers {wanted[:80]!r}; use fewer or other words, or give an id or the "
                f"address of a node{self._elsewhere}"
            )
        return callable_

    async def _card(self, vacant_id: VacantId, http: HttpCarrier, caller: Caller) -> CapabilityCard:
        contact = await self._contact(vacant_id.hex(), caller)
        if contact is None:
            return await self._listed_card(vacant_id)
        return await card_of_contact(contact, http, self._listed_card)

    async def _listed_card(self, vacant_id: VacantId) -> CapabilityCard:
        try:
            if self._chosen_directory is not None:
                return await self._chosen_directory.card(vacant_id)
            record = await visible_record(self._store, vacant_id, self._key.vacant_id)
        except NotFoundError:
            raise NotFoundError(
                f"no card of {vacant_id} is in {self._named}; give the address of its node{self._elsewhere}"
            ) from None
        if not record.in_service:  # ruling 42: whatever its card says
            raise NotFoundError(f"{vacant_id} takes no calls any more: its state is {record.runtime_state}")
        return record.capability_card()

    @property
    def _named(self) -> str:
        return f"the directory at {self._directory}" if self._directory else "the directory of this node"

    @property
    def _elsewhere(self) -> str:
        """Return what else the owner can do where no directory is set."""
        return "" if self._directory else "; the setting directory.url names another directory"

    async def _search(
        self, directory: DirectoryClient | None, capability: str, limit: int
    ) -> list[HaloMatch]:
        """Search in that directory, or among the cards that were published here; without this node itself."""
        query, limit = capability or None, min(limit + 1, LIMIT)  # because this node may be among them
        if directory is None:
            matches = await search_capability(store=self._store, query=query, limit=limit)
        else:
            matches = await directory.search(query, limit=limit)
        own = self._key.vacant_id.hex()
        return [match for match in matches if match.vacant_id != own]

    def _client(self, http: HttpCarrier, url: str) -> DirectoryClient:
        return DirectoryClient(http, url, clock=self._clock, key=self._key)


def _named(agent: str) -> VacantId | str | None:
    """Return the one agent that is meant, by its id or its address; None for a capability."""
    named = agent.strip()
    if not named:
        raise InvalidError(
            "agent is empty; give an id, the address of a node, or what the agent should offer"
        )
    try:
        vacant_id = id_of(named)
    except ConfigError as fault:
        raise InvalidError(fault.message) from None
    return vacant_id or (named if is_address(named) else None)


def _digest(asked: AgentCall) -> bytes:
    """Return the same for the same call."""
    return sha256(repr((asked.agent, asked.message, asked.context_id)).encode()).digest()


def _receipt_name(result: DispatchResult) -> str | None:
    try:
        return hash_of(call_bytes(result.request_envelope, result.response_envelope))
    except InvalidError:  # an agent may number its replies beyond what a receipt can hold
        return None


def _no_answer(card: CapabilityCard | None, seconds: float, key: str) -> str:
    if card is None:
        return f"the agent was not found within {seconds:g} seconds; nothing was sent"
    same = f"the same call again, with the same idempotency_key {key}," if key else "the same call again"
    return (
        f"no answer of {card.vacant_id} came within {seconds:g} seconds; the call may have been carried out. "
        f"Make {same} to get its reply, with a longer timeout_s if it needs one; it is carried out once"
    )
