"""Calls whose chains are stored: after lost replies, restarts and crashes, the next call continues at the right position.

Calls to one target wait in a queue here, so that two envelopes never get the same position in the chain. Calls to
different targets do not wait for each other.
"""

import contextlib
from asyncio import Lock
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final
from uuid import uuid4

from comity.envelopes.client.calls import BusyTargetError, DispatchResult, TargetLimitError, callable_endpoint
from comity.envelopes.client.conversation import Conversation, Retries
from comity.envelopes.client.pair import CALL_BOOK, Pair
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.errors import TargetUnavailableError
from comity.envelopes.protocol.message import A2AMessage
from comity.http.client import HttpCarrier
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.requests.caller import OWN_PROCESS, Caller
from comity.requests.handler import within_request
from comity.requests.record import REQUEST_IDS, Recorder
from comity.store.interface import Store
from comity.wire.errors import ComityError, InvalidError, TargetRefusedError, UnreachableError
from comity.wire.machine import Clock

LEASE_SECONDS: Final = 120.0
"""How long a crashed process keeps others from its pairs. Longer than a request may take."""

_IDLE_PAIRS: Final = 1024
_ONCE: Final = Retries(attempts=1)


class Dispatcher:
    def __init__(
        self,
        store: Store,
        key: SigningKey,
        clock: Clock,
        http: HttpCarrier,
        *,
        retries: Retries | None = None,
        holder: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        record: Recorder | None = None,
        book: str = CALL_BOOK,
        keep_requests: bool = True,
    ) -> None:
        """`holder` names this process among those that share the store and the key. One that comes back under its old
        name need not wait for the lease that it left behind. `record` is that of the node, else one of the store's own.
        `book` holds the chains. Without `keep_requests` what is sent is not stored.
        """
        self._book = book
        self._keep_requests = keep_requests
        self._store = store
        self._key = key
        self._clock = clock
        self._http = http
        self._retries = retries or Retries()
        self._holder = holder or uuid4().hex
        self._lease_seconds = lease_seconds
        self._record = record or Recorder(store, clock)
        self._queues: OrderedDict[VacantId, _TargetQueue] = OrderedDict()

    async def call(
        self,
        card: CapabilityCard,
        payload: A2AMessage,
        *,
        endpoint: str | None = None,
        idempotency_key: str | None = None,
        retries: Retries | None = None,
        until: float | None = None,
        http: HttpCarrier | None = None,
        caller: Caller = OWN_PROCESS,
    ) -> DispatchResult:
        """Call the owner of the card, for `caller`. No attempt begins after the moment `until` of the monotonic clock.
        `http` carries this call, where somebody may reach less than this node does. A card that was made here, and so
        needs no signature, comes with its `endpoint`.

        A call that is repeated under its `idempotency_key`, also after a crash of this process, is the
        same call: as long as no other was made to the target since, it gets the reply that there was.
        """
        endpoint = callable_endpoint(card) if endpoint is None else endpoint
        target = card.vacant_id
        if target == self._key.vacant_id:
            raise InvalidError("a vacant does not call itself; name another target")
        async with self._turn(target, caller) as pair:
            conversation = Conversation(
                pair=pair,
                http=http or self._http,
                clock=self._clock,
                key=self._key,
                retries=retries or self._retries,
                patience=2 * self._lease_seconds,
                card=card,
                endpoint=endpoint,
                payload=payload,
                idempotency_key=idempotency_key or str(uuid4()),
                repeatable=bool(idempotency_key),
                until=until,
            )
            return await conversation.hold()

    async def call_one_of(
        self,
        cards: Sequence[CapabilityCard],
        payload: A2AMessage,
        *,
        idempotency_key: str | None = None,
        until: float | None = None,
        http: HttpCarrier | None = None,
        caller: Caller = OWN_PROCESS,
        passed_over: Callable[[CapabilityCard, ComityError], None] = lambda _card, _why: None,
    ) -> DispatchResult:
        """Call the first of these that takes the call. One that cannot be reached, takes no calls (410, 423)
        or is busy (429, 503) is passed over. The first one that may have carried it out is the last one that is called.
        """
        *others, last = cards
        call = partial(
            self.call, payload=payload, idempotency_key=idempotency_key, until=until, http=http, caller=caller
        )
        for card in others:
            try:
                return await call(card, retries=_ONCE)
            except (UnreachableError, TargetRefusedError, TargetUnavailableError, TargetLimitError) as why:
                passed_over(card, why)
            except BusyTargetError as why:
                if why.status != 503:
                    raise
                passed_over(card, why)
        return await call(last)

    @contextlib.asynccontextmanager
    async def _turn(self, target: VacantId, caller: Caller) -> AsyncIterator[Pair]:
        queue = self._queues.get(target)
        if queue is None:
            queue = self._queues[target] = _TargetQueue(self._pair(target))
        self._queues.move_to_end(target)
        queue.callers += 1
        try:
            async with queue.turn:
                queue.pair.caller = caller
                with within_request(REQUEST_IDS.new):
                    yield queue.pair
        finally:
            queue.callers -= 1
            self._forget_idle_queues()

    def _pair(self, target: VacantId) -> Pair:
        return Pair(
            self._store,
            self._record,
            PairKey(self._key.vacant_id, target),
            holder=self._holder,
            lease_seconds=self._lease_seconds,
            book=self._book,
            keep_requests=self._keep_requests,
        )

    def _forget_idle_queues(self) -> None:
        while len(self._queues) > _IDLE_PAIRS:
            oldest = next(iter(self._queues))
            if self._queues[oldest].callers:
                return
            del self._queues[oldest]


class _TargetQueue:
    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.turn = Lock()
        self.callers = 0
