"""Stateless calls: the caller passes the state of the chain and stores the new state.

These are the two functions of the contract. `comity.envelopes.client.dispatcher` stores the state itself, and continues after
lost replies, restarts and crashes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol
from uuid import uuid4

from msgspec import Struct

from comity.contacts.protocol.errors import WaitsForConsentError
from comity.envelopes.protocol.card import CapabilityCard, refuse_control_characters
from comity.envelopes.protocol.chain import ReplayState, ReplayStore, check_chain
from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    Dialect,
    VacantEnvelope,
    from_a2a_result,
    recognise,
    reply_is_bound,
    signed_envelope,
    to_a2a_jsonrpc,
)
from comity.envelopes.protocol.errors import (
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ProtocolError,
    TargetNotFoundError,
    TargetUnavailableError,
)
from comity.envelopes.protocol.message import A2AMessage
from comity.http.client import TIMEOUT, GuardedHttp, HttpResponse
from comity.identity.protocol.keys import AnySigningKey, VacantId
from comity.requests.caller import Caller
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    MalformedError,
    NoAnswerError,
    OverloadedError,
    PeerError,
    RateLimitedError,
    UnreachableError,
    printable,
)

# Errors of outgoing calls. Each says what happened to the call; what can happen to any request is in `wire/errors.py`.
#
# | raised             | the call                                     |
# |--------------------|----------------------------------------------|
# | CallRefusedError   | arrived; the answer is a refusal             |
# | AwaitsConsentError | was not taken; the owner there has to agree  |
# | BusyTargetError    | was not taken (502: maybe), and may be later |
# | TargetLimitError   | was not taken: too many of ours came (429)   |
# | ReplyLostError     | was accepted; its reply is lost              |

DETAIL_LIMIT: Final = 500


class CallRefusedError(ProtocolError, PeerError):
    """`status` and `detail` are the target's own; `detail` is text of a stranger."""

    code = "call_refused"

    def __init__(self, status: int, detail: str, retry_after: float = 0.0) -> None:
        detail = printable(detail[:DETAIL_LIMIT])
        said = f": {detail}" if detail else ""
        super().__init__(f"the target refused the call with status {status}{said}")
        self.status = status
        self.detail = detail
        self.retry_after = retry_after


class BusyTargetError(CallRefusedError, OverloadedError):
    """Whom we called, or a gateway before it, cannot take the call now (502, 503)."""

    code = "target_busy"


class TargetLimitError(CallRefusedError, RateLimitedError):
    """The target limits our calls (429)."""

    code = "target_limit"


class AwaitsConsentError(CallRefusedError):
    """The owner of the agent has to agree first. Nothing was carried out; the same call runs when it is made again after
    that.
    """

    code = "awaits_consent"

    def __init__(self, status: int, detail: str, retry_after: float = 0.0) -> None:
        super().__init__(status, detail, retry_after)
        self.args = (
            "the owner of the agent has to agree first; nothing was carried out, and the same call can be made again",
        )


class ReplyLostError(ProtocolError, PeerError):
    code = "reply_lost"


Outcome = Literal["answered", "late", "refused", "failed"]
_LATE_SECONDS: Final = 30.0
_TOO_SHORT_SECONDS: Final = 5.0
_TAKES_NONE: Final = frozenset({403, 410, 423, 429, 502, 503})


class Outcomes(Protocol):
    """Who wants to know what becomes of calls."""

    def watch(self, target: VacantId, caller: Caller, /) -> AbstractContextManager[None]:
        """Note what becomes of the call in this block."""
        ...


class IgnoredOutcomes:
    def watch(self, _target: VacantId, _caller: Caller) -> AbstractContextManager[None]:
        return nullcontext()


def outcome_of(end: BaseException | None, seconds: float) -> Outcome | None:
    """Return what a call that ended so, after these seconds, says of the agent; None if it says nothing: the fault was
    the caller's own, or the caller gave up at once.
    """
    match end:
        case None:
            return "late" if seconds > _LATE_SECONDS else "answered"
        case TargetUnavailableError():
            return "refused"
        case AwaitsConsentError():
            return None
        case CallRefusedError():
            if end.status in _TAKES_NONE:
                return "refused"
            return "failed" if end.status >= 500 else None
        case NoAnswerError() | TimeoutError() | asyncio.CancelledError():
            return "late" if seconds >= _TOO_SHORT_SECONDS else None
        case UnreachableError() | PeerError() | EnvelopeSignatureError() | EnvelopeFormatError():
            return "failed"
        case _:
            return None


def explained(refusal: ComityError, card: CapabilityCard) -> str:
    """Return what the refusal means to the user who made the call."""
    who, where = card.vacant_id, printable(card.endpoint or "")
    if isinstance(refusal, TargetUnavailableError):
        return f"{who} takes no calls: {refusal.message}"
    if not isinstance(refusal, CallRefusedError) or isinstance(refusal, AwaitsConsentError):
        return refusal.message
    said = refusal.detail or "it gave no reason"
    match refusal.status:
        case 401:
            return f"{who} does not accept the signature of this call ({said}); nothing was carried out"
        case 404 | 405:
            return f"no agent takes calls at {where} (status {refusal.status}); its card may be out of date"
        case 409:
            return (
                f"{who} expects another number or hash in the chain with this node ({said}); "
                f"`comity chain show {who.hex()}` shows the chain as stored here. If the agent lost its chain, "
                f"`comity chain forget {who.hex()}` begins again"
            )
        case 421:
            return f"another agent answers at {where} ({said}); the card with this address is out of date or false"
        case 429:
            return f"{who} answers that too many calls came (status 429: {said}); nothing was carried out, try again later"
        case 503:
            return f"{who} answers that it is busy (status 503: {said}); nothing was carried out, try again later"
        case status if status >= 500:
            return f"{who} failed on this call with status {status}: {said}"
        case status:
            return f"{who} refused the call with status {status}: {said}"


# Which agent to call, and whether its card may be used (envelope 4).

AggregationSearch = Callable[..., Awaitable[Iterable[Any]]]
"""Called as `search(query=…, include_local=False, limit=20)`. A match is a card, or holds one as
`capability_card`."""

SEARCH_LIMIT: Final = 20
DIMENSIONS: Final = ("factual", "logical", "relevance", "honesty", "adoption")


class ReputationOracle(Protocol):
    async def score(self, vacant_id: str, dimensions: Sequence[str], /) -> float: ...


def callable_endpoint(card: CapabilityCard) -> str:
    """Return where the owner of the card takes calls."""
    if not card.endpoint:
        raise TargetNotFoundError(f"target {card.vacant_id.short()} has no endpoint URL")
    if not card.verify():
        raise EnvelopeSignatureError(f"target capability card for {card.vacant_id.short()} does not verify")
    refuse_control_characters(card)
    return card.endpoint


def binds_replies(card: CapabilityCard) -> bool:
    """Return whether the owner promised that each reply names its request (ruling 6)."""
    return card.substrate_spec.policy.get("bind_replies") is True


def dialect_of(card: CapabilityCard) -> Dialect | None:
    """Return the dialect that the owner asks to be called in; None when the card does not say."""
    match card.substrate_spec.policy.get("dialect"):
        case "seed":
            return "seed"
        case "selfeval":
            return "selfeval"
        case _:
            return None


async def rank_targets(
    query: str, search: AggregationSearch | None, oracle: ReputationOracle | None
) -> list[CapabilityCard]:
    """Return those who offer it, best first: in the order in which they were found, or by their score."""
    if search is None:
        raise TargetNotFoundError("call_capability: aggregation_search is required for discovery")
    matches = await search(query=query, include_local=False, limit=SEARCH_LIMIT)
    cards = [card for card in map(_card_of, matches) if card.endpoint]
    if not cards:
        raise TargetNotFoundError(f"no public vacant offers capability {query!r}")
    if oracle is None:
        return cards
    scores = [await oracle.score(card.vacant_id.hex(), DIMENSIONS) for card in cards]
    order = sorted(range(len(cards)), key=scores.__getitem__, reverse=True)  # stable: ties stay in place
    return [cards[place] for place in order]


def _card_of(match: Any) -> CapabilityCard:
    card = match if isinstance(match, CapabilityCard) else getattr(match, "capability_card", None)
    if not isinstance(card, CapabilityCard):
        raise EnvelopeFormatError(
            f"a search match must be a CapabilityCard or hold one as capability_card, "
            f"not {type(match).__name__}"
        )
    return card


# What the target answered, and whether it is its reply to us and to this request (envelope 4).

_MAX_RETRY_AFTER: Final = 30.0

FORBIDDEN = 403
GONE = 410
ASLEEP = 423


def read_result(answer: HttpResponse) -> dict[str, Any]:
    """Return the JSON object of a successful answer; raise the refusal that any other one is."""
    if not 200 <= answer.status < 300:
        raise refusal_of(answer)
    try:
        body = strict_json.loads(answer.body, unique_keys=True)
    except MalformedError as reason:
        raise EnvelopeFormatError(f"transport response is not a valid A2A result: {reason.message}") from None
    if not isinstance(body, dict):
        raise EnvelopeFormatError("transport response is not a valid A2A result: not a JSON object")
    return body


def refusal_of(answer: HttpResponse) -> CallRefusedError | TargetUnavailableError:
    body = read_refusal(answer)
    detail = body.get("detail", "")
    held = answer.status == FORBIDDEN and body.get("code") == WaitsForConsentError.code
    kind = AwaitsConsentError if held else CallRefusedError
    refused = kind(answer.status, detail if isinstance(detail, str) else str(detail), retry_after(answer))
    if answer.status in {GONE, ASLEEP}:
        return TargetUnavailableError(refused.detail or f"the target takes no calls ({answer.status})")
    return refused


def retry_after(answer: HttpResponse) -> float:
    """Return the seconds to wait; a date, or nonsense, counts as none."""
    given = answer.headers.get("retry-after", "")
    return min(float(given), _MAX_RETRY_AFTER) if given.isdecimal() and len(given) < 10 else 0.0


def read_refusal(answer: HttpResponse) -> dict[str, Any]:
    """Return the members of a refusal's body; none when it is no JSON object."""
    try:
        body = strict_json.loads(answer.body, unique_keys=True)
    except MalformedError:
        return {}
    return body if isinstance(body, dict) else {}


def verified_reply(body: Any, *, request: VacantEnvelope, card: CapabilityCard) -> VacantEnvelope:
    """Return the envelope in `body`, once it is proven to be the target's reply to `request`."""
    received = from_a2a_result(body)
    target, requester = card.vacant_id, request.from_vacant_id
    reply = recognise(received, target)
    if reply is None:
        raise EnvelopeSignatureError(
            f"response envelope signature did not verify for target {target.short()}"
        )
    if reply.from_vacant_id != target:
        raise EnvelopeFormatError(
            f"response envelope from_vacant_id {reply.from_vacant_id.short()} != target {target.short()}"
        )
    if reply.to_vacant_id != requester:
        raise EnvelopeFormatError(
            f"response envelope to_vacant_id {reply.to_vacant_id.short()} != requester {requester.short()}"
        )
    _refuse_unbound(reply, request, card)
    return reply


def advanced_by_reply(known: ReplayState, reply: VacantEnvelope, *, replies_lost: bool) -> ReplayState:
    """Return where the chain of replies stands after `reply`.

    When replies are known to be lost, their numbers are missing to us for good: then a reply may be
    ahead of the next number, and is never behind it.
    """
    if replies_lost and reply.sequence_no > known.last_sequence_no + 1:
        return ReplayState(reply.sequence_no, reply.compute_hash())
    return check_chain(known, reply)


def _refuse_unbound(reply: VacantEnvelope, request: VacantEnvelope, card: CapabilityCard) -> None:
    bound = reply_is_bound(reply, request)
    target = card.vacant_id.short()
    if bound is False:
        raise EnvelopeFormatError(f"the response of {target} answers another request; it is not accepted")
    if bound is None and binds_replies(card):
        raise EnvelopeFormatError(
            f"the response of {target} does not say which request it answers, although its card promises that"
        )


def build_envelope(
    *,
    from_vid: VacantId,
    to_vid: VacantId,
    payload: A2AMessage,
    sequence_no: int = 1,
    prev_envelope_hash: bytes = EMPTY_PREV_HASH,
    idempotency_key: str | None = None,
    timestamp: datetime | None = None,
    signing_key: AnySigningKey,
    dialect: Dialect = "seed",
) -> VacantEnvelope:
    """Return a signed envelope; made now, and under a random key, unless given: the core gets both as arguments."""
    return signed_envelope(
        from_vid=from_vid,
        to_vid=to_vid,
        payload=payload,
        sequence_no=sequence_no,
        prev_envelope_hash=prev_envelope_hash,
        idempotency_key=idempotency_key or str(uuid4()),
        timestamp=timestamp or datetime.now(UTC),
        signing_key=signing_key,
        dialect=dialect,
    )


DispatchTransport = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Carries a JSON body to a URL and brings back the JSON object that answers it."""


class DispatchResult(Struct, frozen=True):
    request_envelope: VacantEnvelope
    response_envelope: VacantEnvelope
    target: CapabilityCard


class Requester(Protocol):
    """A resident form, or whatever else has an identity."""

    @property
    def identity(self) -> VacantId: ...


async def call_local(
    *,
    target_card: CapabilityCard,
    requester: Requester | VacantId,
    requester_signing_key: AnySigningKey,
    payload: A2AMessage,
    transport: DispatchTransport,
    sequence_no: int = 1,
    prev_envelope_hash: bytes = EMPTY_PREV_HASH,
    caller_response_replay_store: ReplayStore | None = None,
) -> DispatchResult:
    """Call the owner of a card that is at hand."""
    endpoint = callable_endpoint(target_card)
    request = build_envelope(
        from_vid=requester if isinstance(requester, VacantId) else requester.identity,
        to_vid=target_card.vacant_id,
        payload=payload,
        sequence_no=sequence_no,
        prev_envelope_hash=prev_envelope_hash,
        signing_key=requester_signing_key,
        dialect=dialect_of(target_card) or "seed",
    )
    body = await transport(endpoint, to_a2a_jsonrpc(request))
    reply = verified_reply(body, request=request, card=target_card)
    if caller_response_replay_store is not None:
        await caller_response_replay_store.check_and_advance(reply)
    return DispatchResult(request, reply, target_card)


async def call_capability(
    query: str,
    *,
    requester: Requester | VacantId,
    requester_signing_key: AnySigningKey,
    payload: A2AMessage,
    transport: DispatchTransport,
    aggregation_search: AggregationSearch | None = None,
    reputation_oracle: ReputationOracle | None = None,
    sequence_no: int = 1,
    prev_envelope_hash: bytes = EMPTY_PREV_HASH,
    caller_response_replay_store: ReplayStore | None = None,
) -> DispatchResult:
    """Find an agent that offers the capability, and call it directly. The directory is asked once and sees no call."""
    best, *_others = await rank_targets(query, aggregation_search, reputation_oracle)
    return await call_local(
        target_card=best,
        requester=requester,
        requester_signing_key=requester_signing_key,
        payload=payload,
        transport=transport,
        sequence_no=sequence_no,
        prev_envelope_hash=prev_envelope_hash,
        caller_response_replay_store=caller_response_replay_store,
    )


def make_httpx_transport(timeout: float = TIMEOUT, *, allow: Iterable[str] = ()) -> DispatchTransport:
    """Return a transport over one pool of connections, which ends with the event loop.

    Loopback may be called, since there is no node here that strangers could reach; other addresses that
    are not public only if `allow` names them.
    """
    http = GuardedHttp(allow=allow, allow_loopback=True, timeout=timeout)

    async def transport(url: str, body: dict[str, Any]) -> dict[str, Any]:
        return read_result(await http.request("POST", url, body))

    return transport
