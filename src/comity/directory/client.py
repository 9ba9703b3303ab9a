"""The client of a directory: publish a card, fetch one, search, read its events and its lineage.

Answers are read in the shapes of the contract (envelope 4, "Registry answers"), so that the registry of the reference
serves as a directory too.

A directory is not trusted. A card counts only if its owner signed it, and a card that was asked for by id must be of
that id; events are verified where the directory shows their signatures, which that of the reference does not. What does
not hold is refused when it was asked for, and left out when it is one of many matches.

`aggregation_search` is the search function of `call_capability`. Given a key, the client publishes with it, and reads
what is hidden from strangers as its owner (see `proven_reader`).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from comity.directory.cards import DEFAULT_LIMIT, HaloMatch
from comity.directory.events import DEFAULT_PAGE, DEPTH, PAGE, Direction, DirectoryEvent, check_events
from comity.directory.protocol.reviews import SignedReview
from comity.directory.protocol.signed_requests import prove_reader, register_event
from comity.envelopes.client.calls import DETAIL_LIMIT, AggregationSearch
from comity.envelopes.protocol.card import (
    CapabilityCard,
    RuntimeState,
    Visibility,
    deserialize,
    refuse_control_characters,
    serialize,
)
from comity.envelopes.protocol.errors import EnvelopeSignatureError
from comity.http.addresses import read_url
from comity.http.client import TIMEOUT, GuardedHttp, HttpCarrier, HttpResponse
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.runtime.system_clock import SystemClock
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    MalformedError,
    NoAnswerError,
    NotFoundError,
    RetryLaterError,
    UnauthenticatedError,
    UnusableAnswerError,
    printable,
)
from comity.wire.machine import Clock

log = logging.getLogger("comity.directory")

_REFUSALS: dict[int, type[ComityError]] = {
    400: InvalidError,
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
}
_LATER = frozenset({429, 502, 503, 504})

Shape = TypeVar("Shape")


class Published(Struct, frozen=True):
    """What the directory says after a publication."""

    vacant_id: str
    visibility: Visibility
    event_seq: int
    capability_card_hash_hex: str


class _ReviewAnswer(Struct, frozen=True):
    reviews: int


class _CardAnswer(Struct, frozen=True):
    capability_card_blob_hex: str
    succeeded_by: str | None = None


class _StateAnswer(Struct, frozen=True):
    runtime_state: RuntimeState | None = None


class _Match(Struct, frozen=True):
    capability_card_blob_hex: str
    declared_capabilities_json: str = "[]"
    base_model_family: str | None = None
    visibility: Visibility = Visibility.PUBLIC
    score: float = 0.0
    reviews: int = 0


class _MatchesAnswer(Struct, frozen=True):
    matches: list[Any]


class _LineageAnswer(Struct, frozen=True):
    chain: list[str]


def directory_search(url: str, *, timeout: float = TIMEOUT, allow: Iterable[str] = ()) -> AggregationSearch:
    """Return the search of a directory, to be given to `call_capability`. Loopback may be asked, since there is no
    node here that strangers could reach; other addresses that are not public only if `allow` names them.
    """
    http = GuardedHttp(allow=allow, allow_loopback=True, timeout=timeout)
    return DirectoryClient(http, url, clock=SystemClock()).aggregation_search


class DirectoryClient:
    def __init__(self, http: HttpCarrier, url: str, *, clock: Clock, key: SigningKey | None = None) -> None:
        """`url` is where the directory is, without the paths of the contract."""
        self._http = http
        self._url = url.rstrip("/")
        self._clock = clock
        self._key = key

    async def publish(
        self,
        card: CapabilityCard,
        *,
        runtime_state: RuntimeState = RuntimeState.ACTIVE,
        visibility: Visibility = Visibility.PUBLIC,
        base_model: str | None = None,
        base_model_family: str | None = None,
        owner_org: str | None = None,
        declared_capabilities: Sequence[str] | None = None,
        parent_id: VacantId | None = None,
        version: str | int | None = None,
        idempotency_key: str | None = None,
    ) -> Published:
        """Register a signed card under this client's key. A lost answer is asked for again: the same
        request has the same effect, once.
        """
        key = self._key
        if key is None or key.vacant_id != card.vacant_id:
            raise InvalidError("a card is published with the key of its vacant_id; give the client that key")
        refuse_control_characters(card)
        last = await self.last_event(card.vacant_id)
        actor_seq = last.actor_seq + 1 if last else 1
        ts_ms = int(self._clock.now() * 1000)
        event = register_event(
            card,
            visibility,
            idempotency_key=idempotency_key or f"register:{card.vacant_id.hex()}:{ts_ms}:{actor_seq}",
            ts_ms=ts_ms,
            actor_seq=actor_seq,
        ).signed(key)
        stated = {
            "capability_card_blob_hex": serialize(card).hex(),
            "runtime_state": str(runtime_state),
            "visibility": str(visibility),
            "base_model": base_model,
            "base_model_family": base_model_family,
            "owner_org": owner_org,
            "declared_capabilities": None if declared_capabilities is None else list(declared_capabilities),
            "parent_id": None if parent_id is None else parent_id.hex(),
            "version": version,
            "event_ts_ms": ts_ms,
            "event_actor_seq": actor_seq,
            "event_idempotency_key": event.idempotency_key,
            "event_signature_hex": event.signature.hex(),
        }
        asked = {name: value for name, value in stated.items() if value is not None}
        try:
            answer = await self._ask("POST", "/v1/halo", json=asked)
        except NoAnswerError:
            answer = await self._ask("POST", "/v1/halo", json=asked)
        return _as(Published, answer)

    async def review(self, review: SignedReview) -> int:
        """Publish a signed review; return how many there are of its target."""
        answer = await self._ask("POST", "/v1/reviews", json=msgspec.to_builtins(review))
        return _as(_ReviewAnswer, answer).reviews

    async def card(self, vacant_id: VacantId) -> CapabilityCard:
        """Return the card of that id, verified."""
        answer = _as(_CardAnswer, await self._read(f"/v1/capability_card/{vacant_id.hex()}"))
        if answer.succeeded_by:
            raise ConflictError(
                f"{vacant_id} was replaced by {answer.succeeded_by[:64]}; use that id, if its owner says so too"
            )
        card = _verified_card(answer.capability_card_blob_hex)
        if card.vacant_id != vacant_id:
            raise EnvelopeSignatureError(
                f"the directory answered with the card of {card.vacant_id.short()} "
                f"when asked for that of {vacant_id.short()}"
            )
        return card

    async def state_of(self, vacant_id: VacantId) -> RuntimeState | None:
        """Return the state in which the agent was published. None if the directory does not return it, like that of
        the reference.
        """
        return _as(_StateAnswer, await self._read(f"/v1/capability_card/{vacant_id.hex()}")).runtime_state

    async def search(
        self, query: str | None = None, *, family: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> list[HaloMatch]:
        """Return verified matches in the directory's order."""
        asked = {"capability": query, "family": family, "limit": str(limit)}
        answer = await self._ask("POST", "/v1/query_capability", asked)
        matches = []
        for found in _as(_MatchesAnswer, answer).matches[:limit]:
            try:
                matches.append(_verified_match(_as(_Match, found)))
            except ComityError as reason:
                log.warning("a match of %s is left out: %s", self._url, reason)
        return matches

    async def aggregation_search(
        self, *, query: str, include_local: bool = False, limit: int = DEFAULT_LIMIT
    ) -> list[HaloMatch]:
        """Search for `call_capability`. What is local to its node is not in a directory."""
        if include_local:
            raise InvalidError("a directory holds no local cards for others; search with include_local=False")
        return await self.search(query, limit=limit)

    async def event_log(
        self, vacant_id: VacantId, *, from_seq: int = 0, limit: int = DEFAULT_PAGE
    ) -> list[DirectoryEvent]:
        """Return one page of the actor's events, those whose `seq` is greater than `from_seq`."""
        asked = {"from_seq": str(from_seq), "limit": str(limit)}
        answer = await self._read(f"/v1/event_log/{vacant_id.hex()}", asked)
        events = _as(list[DirectoryEvent], answer)
        check_events(vacant_id, events)
        return events

    async def last_event(self, vacant_id: VacantId) -> DirectoryEvent | None:
        """Return the actor's last event; None for one the directory does not know."""
        last: DirectoryEvent | None = None
        try:
            while page := await self.event_log(vacant_id, from_seq=last.seq if last else 0, limit=PAGE):
                if last is not None and page[-1].seq <= last.seq:
                    raise UnusableAnswerError("the directory repeats its events instead of going on")
                last = page[-1]
        except NotFoundError:
            return None
        return last

    async def lineage(
        self, vacant_id: VacantId, *, direction: Direction = "ancestors", depth: int = DEPTH
    ) -> list[VacantId]:
        """Return the nearest first, as the directory says: nobody signs for parents."""
        asked = {"direction": direction, "depth": str(depth)}
        answer = await self._read(f"/v1/lineage/{vacant_id.hex()}", asked)
        try:
            return [VacantId.from_hex(each) for each in _as(_LineageAnswer, answer).chain]
        except MalformedError as reason:
            raise UnusableAnswerError(f"the directory's answer cannot be read: {reason.message}") from None

    async def _read(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Read without a name first: a directory need not know who reads what everybody may."""
        try:
            return await self._ask("GET", path, query)
        except ForbiddenError:
            if self._key is None:
                raise
        where = read_url(self._url + path)
        proof = prove_reader(self._key, host=where.authority, path=where.target, now=self._clock.now())
        return await self._ask("GET", path, {**(query or {}), **proof})

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str | None] | None = None, json: Any = None
    ) -> Any:
        asked = urlencode({name: value for name, value in (query or {}).items() if value is not None})
        answer = await self._http.request(method, self._url + path + (f"?{asked}" if asked else ""), json)
        if answer.status != 200:
            raise _refusal(answer)
        return _read_json(answer.body)


def _refusal(answer: HttpResponse) -> ComityError:
    try:
        detail = _read_json(answer.body).get("detail", "")
    except (UnusableAnswerError, AttributeError):
        detail = ""
    said = printable(str(detail)[:DETAIL_LIMIT])
    sentence = f"the directory refused with status {answer.status}" + (f": {said}" if said else "")
    if answer.status in _LATER:
        return RetryLaterError(sentence)
    return _REFUSALS.get(answer.status, UnusableAnswerError)(sentence)


def _verified_card(blob_hex: str) -> CapabilityCard:
    try:
        blob = bytes.fromhex(blob_hex)
    except ValueError:
        raise UnusableAnswerError("the directory's card is not written in hexadecimal digits") from None
    card = deserialize(blob)
    refuse_control_characters(card)
    if not card.verify():
        raise EnvelopeSignatureError(
            f"the directory's card of {card.vacant_id.short()} is not signed by it; it is not used"
        )
    return card


def _verified_match(match: _Match) -> HaloMatch:
    card = _verified_card(match.capability_card_blob_hex)
    return HaloMatch(
        vacant_id=card.vacant_id.hex(),
        capability_card_hash=card.card_hash(),
        capability_card_sig=card.signature,
        declared_capabilities_json=match.declared_capabilities_json,
        base_model_family=match.base_model_family,
        visibility=match.visibility,
        score=match.score,
        capability_card=card,
        reviews=match.reviews,
    )


def _as(kind: type[Shape], value: Any) -> Shape:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as reason:
        raise UnusableAnswerError(f"the directory's answer cannot be read: {reason}") from None


def _read_json(body: bytes) -> Any:
    try:
        return strict_json.loads(body)
    except MalformedError as reason:
        raise UnusableAnswerError(f"the directory's answer is not JSON: {reason.message}") from None
