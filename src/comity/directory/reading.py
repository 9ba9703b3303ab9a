"""Reading the directory: one handler for each question that an unknown caller may ask.

Answers have the shapes of the contract (envelope 4, "Registry answers"), with some more members. Reading needs no proof. A
reader with a proof (see `proof`) also sees its own hidden cards. Numbers outside their range are refused, and unknown
parameters are ignored.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from comity.directory import cards
from comity.directory import events as family_tree
from comity.directory.cards import is_of, read_record, visible_record
from comity.directory.events import DEFAULT_PAGE, PAGE, event_at, event_log
from comity.envelopes.protocol.card import Visibility
from comity.envelopes.protocol.errors import NotFoundError
from comity.identity.protocol.keys import SigningKey, VacantId, verify
from comity.requests.caller import vacant
from comity.requests.handler import Call, HandlerDefaults, Identified, Request
from comity.store.interface import Store
from comity.wire.canonical import envelope_form
from comity.wire.errors import InvalidError, MalformedError, UnauthenticatedError
from comity.wire.machine import Clock

# How a reader of the directory proves who it is: three query parameters, signed with its own key.


WINDOW_SECONDS = 60.0

_HEADING = b"comity directory read 1\n"
_SIGNATURE = re.compile("[0-9a-fA-F]{128}")
_MILLISECONDS = re.compile("[0-9]{1,16}")


def prove_reader(key: SigningKey, *, host: str, path: str, now: float) -> dict[str, str]:
    """The query parameters that prove the owner of `key`; `host` is what the Host header will say."""
    ts_ms = int(now * 1000)
    signature = key.sign(_signed_bytes(key.vacant_id, host.lower(), path, ts_ms))
    return {
        "caller": key.vacant_id.hex(),
        "caller_ts_ms": str(ts_ms),
        "caller_signature_hex": signature.hex(),
    }


def proven_reader(query: Mapping[str, str], *, host: str, path: str, now: float) -> VacantId | None:
    """Who reads: None for somebody who offers no proof, whatever it calls itself."""
    named = query.get("caller")
    caller = None if named is None else VacantId.from_hex(named)
    ts_text, signature = query.get("caller_ts_ms"), query.get("caller_signature_hex")
    if ts_text is None and signature is None:
        return None
    if caller is None or ts_text is None or signature is None:
        raise InvalidError("a proof is caller, caller_ts_ms and caller_signature_hex; send all three or none")
    if not _MILLISECONDS.fullmatch(ts_text):
        raise MalformedError("caller_ts_ms is a number of milliseconds since 1970")
    if not _SIGNATURE.fullmatch(signature):
        raise MalformedError("caller_signature_hex is written as 128 hexadecimal digits")
    skew = int(ts_text) / 1000 - now
    if abs(skew) > WINDOW_SECONDS:
        raise UnauthenticatedError(
            f"the proof is {abs(skew):.0f} seconds {'ahead of' if skew > 0 else 'behind'} this node's clock, "
            f"{WINDOW_SECONDS:.0f} are allowed; sign a new one, and look at the clock"
        )
    signed = _signed_bytes(caller, host.lower(), path, int(ts_text))
    if not verify(caller.public, signed, bytes.fromhex(signature)):
        raise UnauthenticatedError(
            f"the proof is not signed by {caller.short()} for this host, path and moment"
        )
    return caller


def _signed_bytes(caller: VacantId, host: str, path: str, ts_ms: int) -> bytes:
    read = {"caller": caller.hex(), "host": host, "method": "GET", "path": path, "ts_ms": ts_ms}
    return _HEADING + envelope_form(read)


_NUMBER = re.compile("[0-9]{1,18}")


class DirectoryQuery(Struct, frozen=True, kw_only=True):
    """What a door makes of a request: `subject` is the id or the number in the path, as it was written."""

    host: str
    path: str
    query: Mapping[str, str] = {}
    subject: str | None = None


Answer = Callable[[DirectoryQuery, VacantId | None], Awaitable[Any]]


class DirectoryReadHandler(HandlerDefaults):
    """Takes a DirectoryQuery as the body of its arrival."""

    deadline = 10.0

    def __init__(self, name: str, answer: Answer, clock: Clock) -> None:
        self.name = name
        self._answer = answer
        self._clock = clock

    def identify(self, request: Request) -> Identified:
        question: DirectoryQuery = request.body
        reader = proven_reader(question.query, host=question.host, path=question.path, now=self._clock.now())
        if reader is None:
            return Identified(request.caller)
        caller = vacant(reader.hex(), request.caller.address)
        return Identified(caller, reader)

    async def handle(self, call: Call) -> Any:
        return await self._answer(call.request.body, call.evidence)


class DirectoryReads:
    """The handlers over one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self.card = DirectoryReadHandler("directory_card", self._card, clock)
        self.query = DirectoryReadHandler("directory_query", self._query, clock)
        self.event_log = DirectoryReadHandler("directory_event_log", self._event_log, clock)
        self.event = DirectoryReadHandler("directory_event", self._event, clock)
        self.lineage = DirectoryReadHandler("directory_lineage", self._lineage, clock)
        self.revocations = DirectoryReadHandler("directory_revocations", self._revocations, clock)

    async def _card(self, question: DirectoryQuery, reader: VacantId | None) -> dict[str, Any]:
        record = await visible_record(self._store, _subject(question), reader)
        card = record.capability_card()
        return {
            **cards.match_as_json(cards.match_of(record)),
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
        matches = await cards.search_capability(
            store=self._store,
            query=question.query.get("capability"),
            family=question.query.get("family") or None,
            limit=_number(question, "limit", cards.DEFAULT_LIMIT, 1, cards.LIMIT),
        )
        return {"matches": [cards.match_as_json(match) for match in matches], "not_implemented_in_p4": []}

    async def _event_log(self, question: DirectoryQuery, _reader: VacantId | None) -> list[dict[str, Any]]:
        """Answer everybody who knows the id, also for a hidden card: a client of the contract reads its next number here,
        and has no way to prove who it is. The events hold hashes, never the card.
        """
        subject = _subject(question)
        from_seq = _number(question, "from_seq", 0, 0, 10**18 - 1)
        limit = _number(question, "limit", DEFAULT_PAGE, 1, PAGE)
        return [
            msgspec.to_builtins(event) for event in await event_log(self._store, subject, from_seq, limit)
        ]

    async def _event(self, question: DirectoryQuery, reader: VacantId | None) -> dict[str, Any]:
        """Return no event with an id that a search would not show."""
        number = question.subject or ""
        if not _NUMBER.fullmatch(number):
            raise InvalidError("the number of an event is written with 1 to 18 digits")
        event = await event_at(self._store, int(number))
        if event is not None:
            actor = VacantId.from_hex(event.actor_vacant_id)
            record = await read_record(self._store, actor)
            if record is not None and (record.shown is Visibility.PUBLIC or is_of(record, reader)):
                shown: dict[str, Any] = msgspec.to_builtins(event)
                return shown
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
