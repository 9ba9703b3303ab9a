"""Reading the directory: one room for each question that a stranger may ask.

Answers have the shapes of the contract (envelope 4, "Registry answers"), with some more members. Reading needs no proof. A
reader with a proof (see `proof`) also sees its own hidden cards. Numbers outside their range are refused, and unknown
parameters are ignored.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from comity.directory import lineage as family_tree
from comity.directory import search
from comity.directory.cards import is_of, read_record, visible_record
from comity.directory.events import DEFAULT_PAGE, PAGE, event_at, event_log
from comity.directory.proof import proven_reader
from comity.envelopes.protocol.card_errors import NotFoundError
from comity.envelopes.protocol.lifecycle import Visibility
from comity.identity.protocol.keys import VacantId
from comity.requests.caller import vacant
from comity.requests.handler import Arrival, Call, Identified, PlainRoom
from comity.store.interface import Store
from comity.wire.clock import Clock
from comity.wire.errors import InvalidError

_NUMBER = re.compile("[0-9]{1,18}")


class DirectoryQuery(Struct, frozen=True, kw_only=True):
    """What a door makes of a request: `subject` is the id or the number in the path, as it was written."""

    host: str
    path: str
    query: Mapping[str, str] = {}
    subject: str | None = None


Answer = Callable[[DirectoryQuery, VacantId | None], Awaitable[Any]]


class ReadRoom(PlainRoom):
    """Takes a DirectoryQuery as the body of its arrival."""

    deadline = 10.0

    def __init__(self, name: str, answer: Answer, clock: Clock) -> None:
        self.name = name
        self._answer = answer
        self._clock = clock

    def identify(self, arrival: Arrival) -> Identified:
        question: DirectoryQuery = arrival.body
        reader = proven_reader(question.query, host=question.host, path=question.path, now=self._clock.now())
        if reader is None:
            return Identified(arrival.caller)
        caller = vacant(reader.hex(), arrival.caller.address)
        return Identified(caller, reader)

    async def handle(self, call: Call) -> Any:
        return await self._answer(call.arrival.body, call.evidence)


class DirectoryReads:
    """The rooms over one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self.card = ReadRoom("directory_card", self._card, clock)
        self.query = ReadRoom("directory_query", self._query, clock)
        self.event_log = ReadRoom("directory_event_log", self._event_log, clock)
        self.event = ReadRoom("directory_event", self._event, clock)
        self.lineage = ReadRoom("directory_lineage", self._lineage, clock)
        self.revocations = ReadRoom("directory_revocations", self._revocations, clock)

    async def _card(self, question: DirectoryQuery, reader: VacantId | None) -> dict[str, Any]:
        record = await visible_record(self._store, _subject(question), reader)
        card = record.capability_card()
        return {
            **search.match_as_json(search.match_of(record)),
            "capability_text": card.capability_text,
            "endpoint": card.endpoint,
            "halo_version": card.halo_version,
            "runtime_state": str(record.runtime_state),
            "base_model": record.base_model,
            "owner_org": record.owner_org,
            "declared_capabilities": list(record.declared_capabilities),
            "parent_id": record.parent_id,
            "version": record.version,
            "event_seq": record.event_seq,
        }

    async def _query(self, question: DirectoryQuery, _reader: VacantId | None) -> dict[str, Any]:
        matches = await search.search_capability(
            store=self._store,
            query=question.query.get("capability"),
            family=question.query.get("family") or None,
            limit=_number(question, "limit", search.DEFAULT_LIMIT, 1, search.LIMIT),
        )
        return {"matches": [search.match_as_json(match) for match in matches], "not_implemented_in_p4": []}

    async def _event_log(self, question: DirectoryQuery, _reader: VacantId | None) -> list[dict[str, Any]]:
        """Open to whoever knows the id, also for a hidden card: a client of the contract reads its next number here,
        and has no way to prove who it is. The events hold hashes, never the card.
        """
        subject = _subject(question)
        from_seq = _number(question, "from_seq", 0, 0, 10**18 - 1)
        limit = _number(question, "limit", DEFAULT_PAGE, 1, PAGE)
        return [
            msgspec.to_builtins(event) for event in await event_log(self._store, subject, from_seq, limit)
        ]

    async def _event(self, question: DirectoryQuery, reader: VacantId | None) -> dict[str, Any]:
        """Whoever counts through the numbers learns no id that a search would not show."""
        number = question.subject or ""
        if not _NUMBER.fullmatch(number):
            raise InvalidError("the number of an event is written with 1 to 18 digits")
        event = await event_at(self._store, int(number))
        if event is not None:
            actor = VacantId.from_hex(event.actor_vacant_id)
            record = await read_record(self._store, actor)
            if record is not None and (record.shown is Visibility.PUBLIC or is_of(record, reader)):
                told: dict[str, Any] = msgspec.to_builtins(event)
                return told
        raise NotFoundError(f"there is no event {number} in this directory that you may read")

    async def _lineage(self, question: DirectoryQuery, reader: VacantId | None) -> dict[str, Any]:
        subject = _subject(question)
        direction = question.query.get("direction", "ancestors")
        depth = _number(question, "depth", family_tree.DEPTH, 1, family_tree.DEPTH)
        start = await visible_record(self._store, subject, reader)
        found = await family_tree.lineage(self._store, start, direction, depth)
        return {
            "vacant_id": subject.hex(),
            "direction": direction,
            "chain": [node.vacant_id for node in found.nodes],
            "depth": depth,
            "nodes": [msgspec.to_builtins(node) for node in found.nodes],
            "truncated": found.truncated,
        }

    async def _revocations(self, _question: DirectoryQuery, _reader: VacantId | None) -> list[str]:
        """Nothing is revoked here: an owner hides a card by publishing it with visibility NONE."""
        return []


def _subject(question: DirectoryQuery) -> VacantId:
    return VacantId.from_hex(question.subject or "")


def _number(question: DirectoryQuery, name: str, default: int, least: int, most: int) -> int:
    text = question.query.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise InvalidError(f"{name} must be a number from {least} to {most}")
    return int(text)
