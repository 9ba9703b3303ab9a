"""What a caller must not forget about one target, and the transactions that change it.

- The chain (self → target) of the book `call` ends with the last request that the target is known to have accepted. The
  chain (target → self) ends with the last verified reply.
- `sent` lists the requests after that. The target may have accepted them although no reply came. Each is stored before
  its first byte is sent. At most one of them is the last request that the target accepted.
- Every transaction also replaces the record of the pair, and expects the version that was read. So if two processes have
  read the same version, only one of them commits. A lease lets the other one wait, so that this is rare.
"""

import logging
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.protocol.envelope import Dialect, VacantEnvelope, from_a2a_jsonrpc, recognise
from comity.envelopes.protocol.message import A2AMessage
from comity.envelopes.queues import chain_of, state_of, tip_of
from comity.requests.caller import OWN_PROCESS, Caller
from comity.requests.record import Act, Recorder
from comity.store.audit_chain import privacy_hash
from comity.store.audit_log import RestoreMark, read_restored
from comity.store.interface import Acquire, Advance, ChainKey, Operation, Put, Release, Store, Tip
from comity.wire import strict_json
from comity.wire.errors import ComityError, StoreCorruptError

CALL_BOOK: Final = "call"
CALL_SPACE: Final = "calls"

_SENT_LIMIT: Final = 8

log = logging.getLogger("comity.calls")


class AnsweredCall(Struct, frozen=True):
    """The last call and its reply, as they were on the wire. Kept when its caller gave it a key."""

    request: bytes
    reply: bytes


class PairRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`pending` is the newest of `sent`, as it was on the wire. `replies_lost`: the target has given
    replies that we shall never see, so its next one need not follow the last one we know.
    """

    sent: tuple[Tip, ...] = ()
    pending: bytes = b""
    answered: AnsweredCall | None = None
    replies_lost: bool = False
    dialect: Dialect | None = None


class _Proof(NamedTuple):
    """The hashes of a request and of the reply to it."""

    request: bytes
    reply: bytes


def reply_check(book: str, reply: bytes) -> str:
    """Return the name of the reply in the entry of an answered call."""
    return f"reply:{book}:{reply.hex()}"


class Pair:
    """One caller's place in both chains of a pair. One call at a time uses it in this process."""

    def __init__(
        self,
        store: Store,
        record: Recorder,
        key: PairKey,
        *,
        holder: str,
        lease_seconds: float,
        book: str = CALL_BOOK,
        keep_requests: bool = True,
    ) -> None:
        """`book`: a target that answers at several doors has a chain with us at each. Without `keep_requests` what
        is sent is not stored, and cannot be repeated under its key after a crash. `caller` is for whom the pair is used now.
        """
        self._keep_requests = keep_requests
        self._store = store
        self._recorder = record
        caller, target = key.from_vid.hex(), key.to_vid.hex()
        self._name = f"{caller}:{target}" if book == CALL_BOOK else f"{book}:{caller}:{target}"
        self._requests = chain_of(key, book)
        self._replies = chain_of(PairKey(key.to_vid, key.from_vid), book)
        self._acquire = Acquire(name=f"call:{self._name}", holder=holder, ttl=lease_seconds)
        self._version = 0
        self._token: int | None = None
        self._changed = False
        self.known = False
        self.caller: Caller = OWN_PROCESS
        self.key = key
        self.record = PairRecord()
        self.accepted = ReplayState()
        self.replied = ReplayState()
        self.restored: RestoreMark | None = None

    async def read(self) -> None:
        # The record first: every change of a chain also sets the record, so a stale picture is noticed.
        held = await self._store.get(CALL_SPACE, self._name)
        self._version = held.version if held else 0
        try:
            self.record = msgspec.msgpack.decode(held.value, type=PairRecord) if held else PairRecord()
        except msgspec.MsgspecError:
            raise self._corrupt() from None
        self.accepted = state_of(await self._store.tip(self._requests))
        self.replied = state_of(await self._store.tip(self._replies))
        self.restored = await read_restored(self._store)
        self._changed = False
        self.known = True

    async def note_sent(self, envelope: VacantEnvelope, body: bytes) -> None:
        """Write down what is about to be sent, and keep other processes away until it is answered."""
        tip = tip_of(state_after(envelope))
        sent = self.record.sent if tip in self.record.sent else (*self.record.sent, tip)[-_SENT_LIMIT:]
        lease, *_ = await self._commit(
            "CALL_SENT",
            replace(self.record, sent=sent, pending=body if self._keep_requests else b""),
            self._acquire,
        )
        self._token = lease.token

    async def keep_away_others(self) -> None:
        """Extend the lease: the call takes longer."""
        (lease,) = await self._store.commit(self._acquire)
        self._token = lease.token

    async def note_answered(
        self, envelope: VacantEnvelope, replied: ReplayState, kept: AnsweredCall | None
    ) -> None:
        """Store that the request was accepted, and that the reply moved its own chain to `replied`: nothing is open now."""
        accepted = state_after(envelope)
        await self._commit(
            "CALL_ANSWERED",
            PairRecord(answered=kept, dialect=envelope.dialect),
            _advance(self._requests, self.accepted, accepted),
            _advance(self._replies, self.replied, replied),
            *self._release(),
            proof=_Proof(accepted.chain_tip, replied.chain_tip),
        )
        self._token = None
        self.accepted, self.replied = accepted, replied

    async def note_position(self, state: ReplayState) -> None:
        """Store what the target proved to have accepted. Where that is more than we knew, replies are lost."""
        moved = state != self.accepted
        lost = moved or self.record.replies_lost
        record = PairRecord(replies_lost=lost, dialect=self.record.dialect)
        await self._commit(
            "CALL_RESYNCHRONISED",
            record,
            *([_advance(self._requests, self.accepted, state)] if moved else []),
        )
        self.accepted = state

    async def forget(self) -> None:
        """Begin again at number 1: for a target that has lost its memory. Raises StoreConflict while a call is
        under way. What the target asked of us is in another book, and stays.
        """
        await self.keep_away_others()
        await self.read()
        start = ReplayState()
        await self._commit(
            "CALL_CHAIN_FORGOTTEN",
            PairRecord(),
            _advance(self._requests, self.accepted, start),
            _advance(self._replies, self.replied, start),
            *self._release(),
        )
        self._token = None
        self.accepted = self.replied = start

    def note_refused(self, envelope: VacantEnvelope) -> None:
        """Note a refusal for the next transaction: until then the record only says too much."""
        tip = tip_of(state_after(envelope))
        sent = tuple(other for other in self.record.sent if other != tip)
        self.record = replace(self.record, sent=sent, pending=b"")
        self._changed = True

    async def leave(self) -> None:
        """Let the next process have the pair. At worst its lease runs out by itself."""
        if self._token is None:
            return
        try:
            if self._changed:
                await self._commit("CALL_FAILED", self.record, *self._release())
            else:
                await self._store.commit(*self._release())
        except ComityError as reason:
            log.warning("the lease of a pair could not be given back: %s", reason)
        self._token = None

    def open_request(self, idempotency_key: str, payload: A2AMessage) -> VacantEnvelope | None:
        """Return what was sent under this key and may still be answered."""
        return self._same_call(self.record.pending, idempotency_key, payload)

    def answered_request(
        self, idempotency_key: str, payload: A2AMessage
    ) -> tuple[VacantEnvelope, Any] | None:
        """Return what was sent under this key and has been answered, and the body of the answer."""
        answered = self.record.answered
        if answered is None:
            return None
        envelope = self._same_call(answered.request, idempotency_key, payload)
        return None if envelope is None else (envelope, strict_json.loads(answered.reply))

    def _same_call(self, body: bytes, idempotency_key: str, payload: A2AMessage) -> VacantEnvelope | None:
        """Return the envelope that was kept, if it is the one of this call."""
        if not body:
            return None
        try:
            envelope = recognise(from_a2a_jsonrpc(strict_json.loads(body)))
        except ComityError:
            envelope = None
        if envelope is None:
            raise self._corrupt()
        same = envelope.idempotency_key == idempotency_key and envelope.payload == payload
        return envelope if same else None

    def _corrupt(self) -> StoreCorruptError:
        return StoreCorruptError(
            f"what is stored about calls to {self.key.to_vid.short()} cannot be read; run `comity doctor`"
        )

    async def _commit(
        self, event: str, record: PairRecord, *operations: Operation, proof: _Proof | None = None
    ) -> tuple[Any, ...]:
        put = Put(
            space=CALL_SPACE, key=self._name, value=msgspec.msgpack.encode(record), expect=self._version
        )
        self.known = False  # until it is certain what became of this
        *results, self._version = await self._recorder.commit_counted(
            (*operations, put), self._act(event, proof)
        )
        self.known = True
        self.record = record
        self._changed = False
        return tuple(results)

    def _act(self, event: str, proof: _Proof | None) -> Act:
        target = self.key.to_vid
        hashes = {"content_hash": privacy_hash(f"vacant:{target.hex()}")}
        checks: tuple[str, ...] = ()
        if proof is not None:
            hashes["request_id_hash"] = f"blake2b:{proof.request.hex()}"
            checks = (reply_check(self._requests.book, proof.reply),)
        return Act(
            feature="calls",
            result=event,
            caller=self.caller,
            checks=checks,
            about=target.short(),
            hashes=hashes,
        )

    def _release(self) -> list[Operation]:
        return [] if self._token is None else [Release(name=self._acquire.name, token=self._token)]


def state_after(envelope: VacantEnvelope) -> ReplayState:
    """Return where a chain stands once it has accepted `envelope`."""
    return ReplayState(envelope.sequence_no, envelope.compute_hash())


def state_before(envelope: VacantEnvelope) -> ReplayState:
    return ReplayState(envelope.sequence_no - 1, envelope.prev_envelope_hash)


def positions_of(pair: Pair) -> list[ReplayState]:
    """Return every place where the target may stand: the last one that is proven, then what was sent since."""
    return [pair.accepted, *map(state_of, pair.record.sent)]


def _advance(chain: ChainKey, known: ReplayState, to: ReplayState) -> Advance:
    return Advance(chain=chain, expected=tip_of(known), to=tip_of(to))
