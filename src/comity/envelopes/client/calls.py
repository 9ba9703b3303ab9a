"""Stateless calls: the caller passes the state of the chain and stores the new state.

These are the two functions of the contract. `comity.envelopes.client.dispatcher` stores the state itself, and continues after
lost replies, restarts and crashes.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

from msgspec import Struct

from comity.envelopes.client.replies import read_result, verified_reply
from comity.envelopes.client.targets import (
    AggregationSearch,
    ReputationOracle,
    callable_endpoint,
    dialect_of,
    rank_targets,
)
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.carrier import to_a2a_jsonrpc
from comity.envelopes.protocol.chain import ReplayStore
from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH, Dialect, VacantEnvelope, signed_envelope
from comity.envelopes.protocol.message import A2AMessage
from comity.http.client import TIMEOUT, GuardedHttp
from comity.identity.protocol.keys import AnySigningKey, VacantId


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
    """A signed envelope; made now, and under a random key, unless told otherwise: the core gets both as arguments."""
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
    """A transport over one pool of connections, which ends with the event loop.

    Loopback may be called, since there is no node here that strangers could reach; other addresses that
    are not public only if `allow` names them.
    """
    http = GuardedHttp(allow=allow, allow_loopback=True, timeout=timeout)

    async def transport(url: str, body: dict[str, Any]) -> dict[str, Any]:
        return read_result(await http.request("POST", url, body))

    return transport
