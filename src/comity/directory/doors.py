"""The directory over HTTP (envelope 4): publish, read a card, search, events, lineage.

All of it is public, that is, it needs no token of this node: a publication is proven by its signature,
and reads are open. Answers have the shapes of the contract ("Registry answers"), with some more members. A reader with
a proof (`proven_reader`) also sees its own hidden cards. Numbers outside their range are refused, and unknown parameters
are ignored. The guard's budget stands in front of everything. Every refusal is a status and `{"detail": sentence}`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.routing import BaseRoute, Route

from comity.directory import cards
from comity.directory import events as family_tree
from comity.directory.cards import is_of, read_record, visible_record
from comity.directory.events import DEFAULT_PAGE, PAGE, event_at, event_log
from comity.directory.protocol.reviews import read_review
from comity.directory.protocol.signed_requests import proven_reader
from comity.directory.publish import PublishHandler, read_publication
from comity.directory.reviews import ReviewHandler, reviewed, reviews_of
from comity.directory.superseding import Superseding
from comity.envelopes.protocol.card import Visibility
from comity.envelopes.protocol.errors import NotFoundError
from comity.http.asgi import Endpoint, Receive, Scope, Take, header, read_json_body
from comity.http.guard import caller_of
from comity.identity.protocol.keys import VacantId
from comity.requests.budget import Quota
from comity.requests.caller import vacant
from comity.requests.handler import Call, HandlerDefaults, Identified, Request
from comity.requests.pipeline import Pipeline
from comity.store.interface import Store
from comity.wire import strict_json
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.machine import Clock

PUBLISH_PATH = "/v1/halo"
QUERY_PATH = "/v1/query_capability"
CARD_PREFIX = "/v1/capability_card/"
EVENT_LOG_PREFIX = "/v1/event_log/"
EVENT_PREFIX = "/v1/event/"
LINEAGE_PREFIX = "/v1/lineage/"
REVOCATIONS_PATH = "/v1/revocation_list"
REVIEWS_PATH = "/v1/reviews"
REVIEWS_PREFIX = "/v1/reviews/"

DIRECTORY_PUBLIC_PATHS = frozenset({PUBLISH_PATH, QUERY_PATH, REVOCATIONS_PATH, REVIEWS_PATH})
DIRECTORY_PUBLIC_PREFIXES = (CARD_PREFIX, EVENT_LOG_PREFIX, EVENT_PREFIX, LINEAGE_PREFIX, REVIEWS_PREFIX)

_BODY_LIMIT = 1_048_576
_REVIEW_LIMIT = 4_096
_PARAMETERS = 32


def directory_routes(
    *,
    pipeline: Pipeline,
    store: Store,
    clock: Clock,
    body_limit: int = _BODY_LIMIT,
    quota: Quota | None = None,
    superseding: Superseding | None = None,
) -> list[BaseRoute]:
    publishing = PublishHandler(store, quota, superseding)
    reads = DirectoryReads(store, clock)
    endpoint = partial(Endpoint, feature="directory", record=pipeline.record)
    return [
        Route(PUBLISH_PATH, endpoint("POST", _publish(pipeline, publishing, body_limit))),
        Route(REVIEWS_PATH, endpoint("POST", _review(pipeline, ReviewHandler(store, quota), body_limit))),
        Route(REVIEWS_PREFIX + "{vid}", endpoint("GET", _read(pipeline, reads.reviews))),
        Route(QUERY_PATH, endpoint("POST", _read(pipeline, reads.query))),
        Route(CARD_PREFIX + "{vid}", endpoint("GET", _read(pipeline, reads.card))),
        Route(EVENT_LOG_PREFIX + "{vid}", endpoint("GET", _read(pipeline, reads.event_log))),
        Route(EVENT_PREFIX + "{seq}", endpoint("GET", _read(pipeline, reads.event))),
        Route(LINEAGE_PREFIX + "{vid}", endpoint("GET", _read(pipeline, reads.lineage))),
        Route(REVOCATIONS_PATH, endpoint("GET", _read(pipeline, reads.revocations))),
    ]


def _publish(pipeline: Pipeline, handler: PublishHandler, body_limit: int) -> Take:
    async def take(scope: Scope, receive: Receive) -> Any:
        body = await read_json_body(scope, receive, body_limit, "a publication")
        publication = read_publication(strict_json.loads(body, unique_keys=True))
        request = Request(door="directory", caller=caller_of(scope), body=publication, size=len(body))
        return await pipeline.run(handler, request)

    return take


def _review(pipeline: Pipeline, handler: ReviewHandler, body_limit: int) -> Take:
    async def take(scope: Scope, receive: Receive) -> Any:
        body = await read_json_body(scope, receive, min(body_limit, _REVIEW_LIMIT), "a review")
        review = read_review(strict_json.loads(body, unique_keys=True))
        request = Request(door="directory", caller=caller_of(scope), body=review, size=len(body))
        return await pipeline.run(handler, request)

    return take


def _read(pipeline: Pipeline, handler: "DirectoryReadHandler") -> Take:
    async def take(scope: Scope, _receive: Receive) -> Any:
        question = DirectoryQuery(
            host=header(scope, b"host") or "",
            path=scope["path"],
            query=_query(scope["query_string"]),
            subject=next(iter(scope["path_params"].values()), None),
        )
        return await pipeline.run(handler, Request(door="directory", caller=caller_of(scope), body=question))

    return take


def _query(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS
        )
    except ValueError as reason:  # not ASCII, not UTF-8 behind the escapes, or too many
        raise MalformedError(
            f"the query is not up to {_PARAMETERS} parameters in UTF-8, percent-encoded"
        ) from reason
    query = dict(pairs)
    if len(query) != len(pairs):
        raise MalformedError("a query parameter comes twice; send each once")
    return query


# One handler for each question that an unknown caller may ask.

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
        self.reviews = DirectoryReadHandler("directory_reviews", self._reviews, clock)
        self.revocations = DirectoryReadHandler("directory_revocations", self._revocations, clock)

    async def _card(self, question: DirectoryQuery, reader: VacantId | None) -> dict[str, Any]:
        record = await visible_record(self._store, _subject(question), reader)
        card = record.capability_card()
        return {
            **cards.match_as_json(await self._with_reviews(cards.match_of(record))),
            **({} if record.succeeded_by is None else {"succeeded_by": record.succeeded_by}),
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
        shown = [cards.match_as_json(await self._with_reviews(match)) for match in matches]
        return {"matches": shown, "not_implemented_in_p4": []}

    async def _with_reviews(self, match: cards.HaloMatch) -> cards.HaloMatch:
        found = await reviewed(self._store, match.vacant_id)
        return replace(match, score=found.score, reviews=found.reviews)

    async def _reviews(self, question: DirectoryQuery, reader: VacantId | None) -> dict[str, Any]:
        """Return the last review of each reviewer, with its signature, for who may see the card."""
        record = await visible_record(self._store, _subject(question), reader)
        found = await reviewed(self._store, record.vacant_id)
        return {
            "vacant_id": record.vacant_id,
            "score": found.score,
            "count": found.reviews,
            "reviews": await reviews_of(self._store, _subject(question)),
        }

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
        """Return nothing, for nothing is revoked here: an owner hides a card by publishing it with visibility NONE."""
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
