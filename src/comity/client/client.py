"""The client for programs: it calls agents with the identity of a data folder, as `comity call` does.

    async with comity.Client(data="~/me") as client:
        reply = await client.call("http://127.0.0.1:8420", "good morning")
        print(reply.text)

It signs and numbers each call, verifies the reply and keeps both chains, so that it goes on where it was after a
lost reply, a restart or a crash. Several processes may share a folder, and a node may run on it meanwhile.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

from msgspec import Struct

from comity.contacts.lookup import read_contact
from comity.contacts.protocol.contact import Contact
from comity.directory.cards import DEFAULT_LIMIT, HaloMatch
from comity.directory.client import DirectoryClient
from comity.directory.finding import find_card
from comity.directory.outcomes import CallOutcomes, StoredReputation
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.client.keys import keeping_of
from comity.envelopes.features import Features
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.successions import Successions
from comity.http.client import GuardedHttp
from comity.identity.key_files import load_or_create_identity
from comity.identity.protocol.keys import SigningKey, VacantId, id_of
from comity.identity.succession_files import read_own_line
from comity.receipts.protocol.making import call_bytes
from comity.requests.record import Recorder
from comity.runtime.opening import open_store, open_trail, open_vault
from comity.runtime.settings import Settings
from comity.runtime.settings_file import load_settings
from comity.runtime.system_clock import SystemClock
from comity.store.claim import running_node
from comity.store.interface import Store
from comity.wire.errors import ConfigError, InvalidError, NoAnswerError

CHAIN: Final = "client"
"""The audit chain that a client writes; `client-2` while another one has that."""

Agent = str | VacantId | CapabilityCard | HaloMatch


class Reply(Struct, frozen=True, kw_only=True):
    """A verified reply. `number` is the place of the call in the chain with `agent`; calling again under
    `idempotency_key` gives the same reply.
    """

    text: str
    agent: VacantId
    number: int
    idempotency_key: str
    request: VacantEnvelope
    envelope: VacantEnvelope

    @property
    def receipt(self) -> bytes:
        """Return the receipt of the call: what a file has to hold for `comity verify`."""
        return call_bytes(self.request, self.envelope)


class Client:
    def __init__(
        self,
        *,
        data: str | Path | None = None,
        directory: str | None = None,
        timeout: float | None = None,
        allow: Iterable[str] = (),
        passphrase: str | None = None,
    ) -> None:
        """`data` is the folder of the identity and its chains; both are made when they are missing. `directory`
        is where agents are looked up: else `directory.url` of the settings, else the node running on the folder.
        `allow` names hosts that may be called although their addresses are private; loopback may be.
        """
        flags = {"data": None if data is None else str(data), "directory.url": directory}
        self._settings: Settings = load_settings(flags).settings
        if self._settings.store.is_volatile:
            raise ConfigError(
                f"store.engine {self._settings.store.engine} keeps no chains; a client needs sqlite"
            )
        self._timeout = timeout or self._settings.dispatch.timeout_seconds
        self._passphrase = passphrase
        self._clock = SystemClock()
        allowed = [*allow, *self._settings.dispatch.hosts]
        self.http = GuardedHttp(
            allow=allowed, allow_loopback=True, timeout=self._timeout, pinned_private=True
        )
        self._closing: contextlib.AsyncExitStack | None = None
        self._key: SigningKey
        self._store: Store
        self._dispatcher: Dispatcher

    async def __aenter__(self) -> Self:
        if self._closing is not None:
            raise InvalidError("this client is open already; make another one")
        settings = self._settings
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(self.http.aclose)
            self._key, _made = await asyncio.to_thread(
                load_or_create_identity, settings.data, passphrase=self._passphrase
            )
            trail = open_trail(settings, self._key, CHAIN)
            self._store = await open_store(settings, self._clock, trail)
            closing.push_async_callback(self._store.close)
            self._outcomes = CallOutcomes(self._store, self._clock)
            closing.push_async_callback(self._outcomes.flush)
            record = Recorder(self._store, self._clock, level=settings.audit.level)
            line = read_own_line(settings.data, self._key.vacant_id)
            known = Successions(self._store, record, self._key, line)
            self._dispatcher = Dispatcher(
                self._store,
                self._key,
                self._clock,
                self.http,
                holder=trail.chain,
                record=record,
                features=Features([known]),
                cards=known,
                outcomes=self._outcomes,
                vault=await asyncio.to_thread(open_vault, settings),
                keeping=keeping_of(settings.record),
            )
            self._closing = closing.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        closing, self._closing = self._closing, None
        if closing is not None:
            await closing.aclose()

    @property
    def vacant_id(self) -> VacantId:
        """Return the id that agents see."""
        self._refuse_closed()
        return self._key.vacant_id

    async def call(
        self,
        agent: Agent | Sequence[Agent],
        message: str | A2AMessage,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it also ends the retries
    ) -> Reply:
        """Call an agent and wait for its reply.

        `agent` is the name of a contact, the URL of a node or an endpoint, an id, a card, the path of a card file, or a
        match of `find`.
        Of several, the next one is called when one cannot be reached, takes no calls (410, 423) or is busy
        (429, 503); never when it may have carried the call out.

        There is one reply for one `idempotency_key`, whatever happens between its calls: a call that is repeated goes to
        the agent of the first one. Another message under the key is refused (`IDEMPOTENCY_KEY_REUSED`).

        `AwaitsConsentError` says that the owner of the agent has to agree first: the same call under its key, made again
        later, is sent again as it was.
        """
        self._refuse_closed()
        seconds = timeout or self._timeout
        until = self._clock.monotonic() + seconds
        key_of_call = idempotency_key or str(uuid4())
        payload = message if isinstance(message, A2AMessage) else A2AMessage(parts=(A2APart(text=message),))
        agents = [agent] if isinstance(agent, str | VacantId | CapabilityCard | HaloMatch) else list(agent)
        if not agents:
            raise InvalidError("there is nobody to call: the list of agents is empty")
        try:
            async with asyncio.timeout(seconds):
                result = await self._dispatcher.call_found(
                    partial(self._cards, agents),
                    payload,
                    only=_id_of(agents[0]) if len(agents) == 1 else None,
                    named=len(agents) == 1,
                    idempotency_key=key_of_call,
                    until=until,
                )
        except TimeoutError:
            raise NoAnswerError(
                f"no answer came within {seconds:g} seconds; the call may have been carried out. "
                f"Call again with idempotency_key={key_of_call!r} to get its reply"
            ) from None
        await self._outcomes.flush_if_due()
        reply = result.response_envelope
        return Reply(
            text="\n".join(part.text for part in reply.payload.parts),
            agent=result.target.vacant_id,
            number=result.request_envelope.sequence_no,
            idempotency_key=key_of_call,
            request=result.request_envelope,
            envelope=reply,
        )

    async def find(
        self, capability: str = "", *, family: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> list[HaloMatch]:
        """Return agents in the directory that offer this, without this client. Those whose calls from here went well come
        first, those that did not answer last.
        """
        matches = await self.directory().search(capability or None, family=family, limit=limit)
        others = [match for match in matches if match.vacant_id != self._key.vacant_id.hex()]
        return await self._outcomes.ranked(others, lambda match: match.vacant_id)

    @property
    def reputation(self) -> StoredReputation:
        """Return what this folder knows of agents, as the `reputation_oracle` of `call_capability`."""
        self._refuse_closed()
        return StoredReputation(self._store, self._clock)

    @property
    def directory_url(self) -> str:
        named = self._settings.directory.url.rstrip("/")
        if named:
            return named
        running = running_node(self._settings.data)
        if running is None:
            raise ConfigError("no directory is known: give the client one, Client(directory=URL)")
        return running.url

    def directory(self) -> DirectoryClient:
        """Return the directory itself; its `aggregation_search` fits `call_capability`."""
        self._refuse_closed()
        return DirectoryClient(self.http, self.directory_url, clock=self._clock, key=self._key)

    async def contact(self, who: str) -> Contact | None:
        """Return the contact of that name or id in the data folder."""
        self._refuse_closed()
        return await read_contact(self._store, who)

    async def _cards(self, agents: Sequence[Agent]) -> list[CapabilityCard]:
        return [await self._card(each) for each in agents]

    async def _card(self, agent: Agent) -> CapabilityCard:
        if isinstance(agent, CapabilityCard):
            return agent
        if isinstance(agent, HaloMatch):
            return agent.capability_card
        return await find_card(agent.hex() if isinstance(agent, VacantId) else agent, self)

    def _refuse_closed(self) -> None:
        if self._closing is None:
            raise InvalidError("this client is not open; write `async with comity.Client(...) as client:`")


def _id_of(agent: Agent) -> VacantId | None:
    """Return the id of an agent, if it is known without looking it up."""
    if isinstance(agent, HaloMatch):
        agent = agent.capability_card
    if isinstance(agent, CapabilityCard):
        return agent.vacant_id
    return agent if isinstance(agent, VacantId) else id_of(agent)
