"""Calls whose chains are stored: after lost replies, restarts and crashes, the next call continues at the right position.

Calls to one target wait in a queue here, so that two envelopes never get the same position in the chain. Calls to
different targets do not wait for each other.
"""

import contextlib
import logging
from asyncio import Lock
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol
from uuid import uuid4

from comity.envelopes.client.calls import (
    BusyTargetError,
    DispatchResult,
    IgnoredOutcomes,
    Outcomes,
    TargetLimitError,
)
from comity.envelopes.client.conversation import Conversation, MovedKeyError, Retries
from comity.envelopes.client.keys import CallKeys, IdempotencyKeyReusedError, Keeping, KeyedCall
from comity.envelopes.client.pair import CALL_BOOK, CALL_SPACE, Pair, read_record
from comity.envelopes.client.routes import AnyOf, endpoints_of
from comity.envelopes.features import NO_FEATURES, Features
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.errors import TargetUnavailableError
from comity.envelopes.protocol.message import A2AMessage
from comity.http.client import HttpCarrier
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.requests.caller import OWN_PROCESS, Caller
from comity.requests.handler import within_request
from comity.requests.record import REQUEST_IDS, Recorder
from comity.store.interface import Store, scan_all
from comity.store.vault import Vault
from comity.wire.errors import (
    ComityError,
    InvalidError,
    TargetRefusedError,
    UnreachableError,
)
from comity.wire.machine import Clock

LEASE_SECONDS: Final = 120.0
"""How long a crashed process keeps others from its pairs. Longer than a request may take."""

log = logging.getLogger("comity.calls")

_IDLE_PAIRS: Final = 1024
_ONCE: Final = Retries(attempts=1)


class CardReader(Protocol):
    async def take_card(self, card: CapabilityCard) -> None:
        """Take what a card with a good signature says. Raise if its owner must not be called."""
        ...


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
        vault: Callable[[], Vault] | None = None,
        keeping: Keeping = Keeping(),  # noqa: B008 - it has no state
        features: Features = NO_FEATURES,
        outcomes: Outcomes = IgnoredOutcomes(),  # noqa: B008 - it has no state
        cards: CardReader | None = None,
    ) -> None:
        """`holder` names this process among those that share the store and the key. One that comes back under its old
        name need not wait for the lease that it left behind. `record` is that of the node, else one of the store's own.
        `book` holds the chains. `vault` seals what is stored of calls with a key; without one it is stored as it is.
        `keeping` says how long that is stored. `outcomes` hears what becomes of each call. `features` add to the requests what is not of the envelope. `cards` sees
        each card before its owner is called.
        """
        self._book = book
        self._features = features
        self._outcomes = outcomes
        self._cards = cards
        self._keys = CallKeys(store, clock, vault, keeping)
        self._moved_old_calls = False
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
        alike: bytes = b"",
        until: float | None = None,
        http: HttpCarrier | None = None,
        caller: Caller = OWN_PROCESS,
    ) -> DispatchResult:
        """Call the owner of the card, for `caller`. No attempt begins after the moment `until` of the monotonic clock.
        `http` carries this call, where somebody may reach less than this node does. A card that was made here, and so
        needs no signature, comes with its `endpoint`.

        A call that is repeated under its `idempotency_key`, also after a crash of this process, is the same call, and gets
        the one reply that there is (ruling 65). A call without a key is the same as an `alike` one that has no answer yet.
        """
        keyed = self._keyed(caller, payload, idempotency_key, alike)
        return await self._call(
            card,
            endpoint=endpoint,
            payload=payload,
            keyed=keyed,
            only=card.vacant_id,
            retries=retries,
            until=until,
            http=http,
            caller=caller,
        )

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
        or is busy (429, 503) is passed over. The first one that may have carried it out is the last one that is called,
        also when the call is repeated under its key.
        """

        async def find() -> Sequence[CapabilityCard]:
            return cards

        return await self.call_found(
            find,
            payload,
            idempotency_key=idempotency_key,
            until=until,
            http=http,
            caller=caller,
            passed_over=passed_over,
        )

    async def call_found(
        self,
        find: Callable[[], Awaitable[Sequence[CapabilityCard]]],
        payload: A2AMessage,
        *,
        only: VacantId | None = None,
        named: bool = False,
        idempotency_key: str | None = None,
        alike: bytes = b"",
        until: float | None = None,
        http: HttpCarrier | None = None,
        caller: Caller = OWN_PROCESS,
        calling: Callable[[CapabilityCard], None] = lambda _card: None,
        passed_over: Callable[[CapabilityCard, ComityError], None] = lambda _card, _why: None,
    ) -> DispatchResult:
        """Call the first agent of those that `find` gives, as `call_one_of` does. It is not asked if the call has its reply.
        A call that was sent before goes to the agent of then, whatever is found now; but one agent that was `named`, if only
        by its address, must be that agent. `only` is its id, where that is known. `calling` is called before each agent is.
        """
        keyed = self._keyed(caller, payload, idempotency_key, alike)
        if keyed is not None and (await keyed.read()).row is not None:
            _refuse_another(keyed, only)
            if (result := keyed.result()) is not None:
                return result
        cards = await _found(find, keyed, named=named)
        call: Callable[..., Awaitable[DispatchResult]] = partial(
            self._call,
            payload=payload,
            keyed=keyed,
            only=cards[0].vacant_id if named else only,
            until=until,
            http=http,
            caller=caller,
            named=named,
        )
        *others, last = cards
        for card in others:
            calling(card)
            try:
                return await call(card, retries=_ONCE)
            except (UnreachableError, TargetRefusedError, TargetUnavailableError, TargetLimitError) as why:
                passed_over(card, why)
            except BusyTargetError as why:
                if why.status != 503:
                    raise
                passed_over(card, why)
        calling(last)
        return await call(last)

    async def tidy(self) -> None:
        """Empty what is stored of old calls, and seal what an earlier release stored of calls as it was."""
        await self._keys.tidy()
        if self._moved_old_calls:
            return
        own = f"{self._key.vacant_id.hex()}:"
        async for name, held in scan_all(self._store, CALL_SPACE, own):
            try:
                if read_record(held.value).has_old_calls:
                    async with self._turn(
                        VacantId.from_hex(name.removeprefix(own)), OWN_PROCESS, None
                    ) as pair:
                        await pair.read()
            except ComityError as reason:
                log.warning("calls of an earlier release could not be sealed: %s", reason)
        self._moved_old_calls = True

    def _keyed(self, caller: Caller, payload: A2AMessage, key: str | None, alike: bytes) -> KeyedCall | None:
        return self._keys.call(caller.owner, payload, key=key or "", alike=alike) if key or alike else None

    async def _call(
        self,
        card: CapabilityCard,
        *,
        endpoint: str | None = None,
        payload: A2AMessage,
        keyed: KeyedCall | None,
        only: VacantId | None,
        retries: Retries | None = None,
        until: float | None,
        http: HttpCarrier | None,
        caller: Caller,
        named: bool = True,
    ) -> DispatchResult:
        while True:
            ways = (endpoint,) if endpoint is not None else endpoints_of(card, named=named)
            carrier = http or self._http
            if endpoint is None and self._cards is not None:
                await self._cards.take_card(card)
            if card.vacant_id == self._key.vacant_id:
                raise InvalidError("a vacant does not call itself; name another target")
            async with self._turn(card.vacant_id, caller, keyed) as pair:
                conversation = Conversation(
                    pair=pair,
                    http=AnyOf(carrier, ways) if len(ways) > 1 else carrier,
                    clock=self._clock,
                    key=self._key,
                    retries=retries or self._retries,
                    patience=2 * self._lease_seconds,
                    card=card,
                    endpoint=ways[0],
                    payload=payload,
                    idempotency_key=str(uuid4()),
                    keyed=keyed,
                    until=until,
                    features=self._features,
                    members=await self._features.to_request(card),
                    outcomes=self._outcomes,
                    caller=caller,
                )
                try:
                    result = await conversation.hold()
                except MovedKeyError:
                    pass
                else:
                    break
            assert keyed is not None, "only a key is known from another call"
            _refuse_another(keyed, only or (card.vacant_id if keyed.card is None else None))
            card, endpoint = keyed.card or card, None
        if keyed is not None:
            await self._keys.tidy_sometimes()
        return result

    @contextlib.asynccontextmanager
    async def _turn(self, target: VacantId, caller: Caller, keyed: KeyedCall | None) -> AsyncIterator[Pair]:
        queue = self._queues.get(target)
        if queue is None:
            queue = self._queues[target] = _TargetQueue(self._pair(target))
        self._queues.move_to_end(target)
        queue.callers += 1
        try:
            async with queue.turn:
                queue.pair.caller, queue.pair.keyed = caller, keyed
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
            keys=self._keys,
        )

    def _forget_idle_queues(self) -> None:
        while len(self._queues) > _IDLE_PAIRS:
            oldest = next(iter(self._queues))
            if self._queues[oldest].callers:
                return
            del self._queues[oldest]


async def _found(
    find: Callable[[], Awaitable[Sequence[CapabilityCard]]], keyed: KeyedCall | None, *, named: bool
) -> Sequence[CapabilityCard]:
    """Return whom `find` gives; for a call that was sent before only its first target, also when that is not found."""
    if keyed is None or keyed.row is None:
        return await find()
    known = keyed.card
    try:
        cards = await find()
    except ComityError:
        if known is None:
            raise
        return [known]
    found = [card for card in cards if card.vacant_id == keyed.target]
    if found:
        return found[:1]  # its card may be newer
    if named or known is None:
        _refuse_another(keyed, cards[0].vacant_id)
    return [] if known is None else [known]


def _refuse_another(keyed: KeyedCall, named: VacantId | None) -> None:
    """Refuse a call to somebody else than the one that the key is known from."""
    if named is not None and named != keyed.target:
        raise IdempotencyKeyReusedError(
            f"the key {keyed.key} was used for a call to {keyed.target}, and this one is to {named}; nothing was sent. Use "
            "another key for another call"
        )


class _TargetQueue:
    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.turn = Lock()
        self.callers = 0
