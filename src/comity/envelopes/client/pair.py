"""What a caller must not forget about one target, and the transactions that change it.

- The chain (self → target) of the book `call` ends with the last request that the target is known to have accepted. The
  chain (target → self) ends with the last verified reply.
- `sent` lists the requests after that. The target may have accepted them although no reply came. Each is stored before
  its first byte is sent. At most one of them is the last request that the target accepted.
- A call with an idempotency key has a row of its own (`keys.py`), which changes in the same transactions.
- Every transaction also replaces the record of the pair, and expects the version that was read. So if two processes have
  read the same version, only one of them commits. A lease lets the other one wait, so that this is rare.
"""

import logging
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.client.keys import CallKeys, KeyedCall, old_rows
from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.protocol.envelope import Dialect, VacantEnvelope
from comity.envelopes.queues import chain_of, state_of, tip_of
from comity.identity.protocol.keys import VacantId
from comity.requests.caller import OWN_PROCESS, Caller
from comity.requests.record import Act, Recorder
from comity.store.audit_chain import privacy_hash
from comity.store.audit_log import read_restored
from comity.store.audit_trail import RestoreMark
from comity.store.interface import (
    Acquire,
    Advance,
    ChainKey,
    Operation,
    Put,
    Release,
    Store,
    StoreConflict,
    Tip,
)
from comity.wire.errors import ComityError, MalformedError, StoreCorruptError

CALL_BOOK: Final = "call"
CALL_SPACE: Final = "calls"

_SENT_LIMIT: Final = 8

log = logging.getLogger("comity.calls")


Fate = Literal["open", "accepted", "displaced", "unknown"]
"""What became of an envelope that got no answer: it may still be accepted, it was, another one has its number, or that is not
known any more."""


class AnsweredCall(Struct, frozen=True):
    """A call and its reply, as they were on the wire: how releases before the rows of keys stored the last one."""

    request: bytes
    reply: bytes


class PairRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`contested` is the highest number for which more than one envelope may have been sent, `last` the row of the newest call.
    `replies_lost`: the target has given replies that we shall never see, so its next one need not follow the last one we
    know. `pending` and `answered` are of earlier releases: the newest of `sent`, and the last call.
    """

    sent: tuple[Tip, ...] = ()
    contested: int = 0
    last: str = ""
    pending: bytes = b""
    answered: AnsweredCall | None = None
    replies_lost: bool = False
    dialect: Dialect | None = None

    @property
    def has_old_calls(self) -> bool:
        """Return whether an earlier release stored calls in it."""
        return bool(self.pending or self.answered)


def read_record(value: bytes | None) -> PairRecord:
    """Return a stored record, or an empty one where there is none. Raise MalformedError if it cannot be read."""
    if not value:
        return PairRecord()
    try:
        return msgspec.msgpack.decode(value, type=PairRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError) as reason:
        raise MalformedError(f"the record of a pair cannot be read: {reason}") from None


class _Proof(NamedTuple):
    """The hashes of a request and of the reply to it."""

    request: bytes
    reply: bytes


def reply_check(book: str, reply: bytes) -> str:
    """Return the name of the reply in the entry of an answered call."""
    return f"reply:{book}:{reply.hex()}"


def pair_check(book: str, own: VacantId, expected: int, state: str) -> str:
    """Return the name of the state that a commit leaves, in the entry of that commit. It replaced the record that had
    the version `expected`: so the entries of a pair have an order, whichever process wrote them. `own` is the id of
    this node then, which it may replace.
    """
    return f"pair:{book}:{own.short()}:{expected}:{state}"


def pair_state(record: bytes, requests: Tip, replies: Tip) -> str:
    """Return a hash of all that is stored of a pair: where both chains end, and the record."""
    ends = f"{requests.seq}:{requests.hash.hex()}:{replies.seq}:{replies.hash.hex()}:"
    return sha256(ends.encode() + record).hexdigest()[:32]


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
        keys: CallKeys | None = None,
    ) -> None:
        """`book`: a target that answers at several doors has a chain with us at each. `caller` is for whom the pair is used
        now, and `keyed` the call that it is used for, if that has a key.
        """
        self._keys = keys
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
        self.keyed: KeyedCall | None = None
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
            self.record = read_record(held.value if held else None)
        except MalformedError:
            raise self._corrupt() from None
        self.accepted = state_of(await self._store.tip(self._requests))
        self.replied = state_of(await self._store.tip(self._replies))
        self.restored = await read_restored(self._store)
        self._changed = False
        self.known = True
        if self._keys is not None and self.record.has_old_calls:
            await self._move_old_calls(self._keys)

    async def _move_old_calls(self, keys: CallKeys) -> None:
        """Move the calls that an earlier release stored in the record, as they were sent, to rows of their own."""
        record, operations = self.record, list[Operation]()
        calls = [] if record.answered is None else [(record.answered.request, record.answered.reply)]
        calls += [(record.pending, b"")] if record.pending else []
        try:
            rows = old_rows(calls, keys.clock.now())
        except ComityError:
            raise self._corrupt() from None
        for name, row in rows.items():
            if (await keys.read(name))[0] is None:
                operations += keys.begin(name, row, 0)
            record = replace(record, last=name)
        try:
            await self._commit("CALL_SEALED", replace(record, pending=b"", answered=None), *operations)
        except StoreConflict:  # another process has done it
            await self.read()

    async def fate_of(self, envelope: VacantEnvelope) -> Fate:
        """Return what became of an envelope that was sent and got no answer."""
        if envelope.from_vacant_id != self.key.from_vid:  # of a key that was replaced since
            return "unknown"
        number, last = envelope.sequence_no, self.accepted.last_sequence_no
        if number > last:
            return "open"
        proven = self.accepted.chain_tip if number == last else None
        if proven is None and self._keys is not None:
            proven = await self._keys.proof(self._name, number)
        if proven is None:
            return "unknown"
        return "accepted" if proven == envelope.compute_hash() else "displaced"

    async def note_sent(self, envelope: VacantEnvelope) -> None:
        """Write down what is about to be sent, and keep other processes away until it is answered."""
        tip = tip_of(state_after(envelope))
        sent = self.record.sent if tip in self.record.sent else (*self.record.sent, tip)[-_SENT_LIMIT:]
        lease, *_ = await self._commit(
            "CALL_SENT",
            replace(self.record, sent=sent, last="" if self.keyed is None else self.keyed.name),
            self._acquire,
        )
        self._token = lease.token

    async def keep_away_others(self) -> None:
        """Extend the lease: the call takes longer."""
        (lease,) = await self._store.commit(self._acquire)
        self._token = lease.token

    async def note_answered(self, envelope: VacantEnvelope, replied: ReplayState) -> None:
        """Store that the request was accepted, and that the reply moved its own chain to `replied`: nothing is open now."""
        accepted = state_after(envelope)
        contested = self._contested_besides(accepted)
        proofs = self._proofs(state_before(envelope), accepted) if contested else []
        await self._commit(
            "CALL_ANSWERED",
            PairRecord(
                dialect=envelope.dialect,
                contested=contested if contested > accepted.last_sequence_no else 0,
                last="" if self.keyed is None else self.keyed.name,
            ),
            _advance(self._requests, self.accepted, accepted),
            _advance(self._replies, self.replied, replied),
            *proofs,
            *self._release(),
            proof=_Proof(accepted.chain_tip, replied.chain_tip),
        )
        self._token = None
        self.accepted, self.replied = accepted, replied

    async def note_fetched(self) -> None:
        """Store the reply to a call behind the last one that the target accepted: the chains have gone on."""
        await self._commit("CALL_REPLY_FETCHED", self.record, *self._release())
        self._token = None

    async def note_position(self, state: ReplayState) -> None:
        """Store what the target proved to have accepted. Where that is more than we knew, replies are lost."""
        moved = state != self.accepted
        lost = moved or self.record.replies_lost
        contested = self._contested_besides(state)
        record = PairRecord(
            replies_lost=lost,
            dialect=self.record.dialect,
            contested=contested if contested > state.last_sequence_no else 0,
        )
        await self._commit(
            "CALL_RESYNCHRONISED",
            record,
            *([_advance(self._requests, self.accepted, state), *self._proofs(state)] if moved else []),
        )
        self.accepted = state

    def _contested_besides(self, state: ReplayState) -> int:
        """Return the highest number for which something else was sent than the envelope at `state`."""
        others = (tip.seq for tip in self.record.sent if tip != tip_of(state))
        return max([self.record.contested, *others])

    def _proofs(self, *states: ReplayState) -> list[Operation]:
        """Return what notes which envelopes are proven to be in the chain, for the calls that wanted their numbers too."""
        keys, last = self._keys, self.accepted.last_sequence_no
        return [
            keys.prove(self._name, state.last_sequence_no, state.chain_tip)
            for state in states
            if keys is not None and state.last_sequence_no > last
        ]

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
        self.record = replace(self.record, sent=sent)
        self._changed = True
        if self.keyed is not None:
            self.keyed.refuse()

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

    def _corrupt(self) -> StoreCorruptError:
        return StoreCorruptError(
            f"what is stored about calls to {self.key.to_vid.short()} cannot be read; run `comity doctor`"
        )

    async def _commit(
        self, event: str, record: PairRecord, *operations: Operation, proof: _Proof | None = None
    ) -> tuple[Any, ...]:
        value = msgspec.msgpack.encode(record)
        put = Put(space=CALL_SPACE, key=self._name, value=value, expect=self._version)
        keyed = self.keyed
        change = () if keyed is None else tuple(keyed.change)
        self.known = False  # until it is certain what became of this
        act = self._act(event, proof, self._state_after(value, operations))
        *results, self._version = await self._recorder.commit_counted((*operations, *change, put), act)
        self.known = True
        if keyed is not None and change:
            keyed.committed(results[len(operations) :])
        self.record = record
        self._changed = False
        return tuple(results)

    def _state_after(self, record: bytes, operations: Sequence[Operation]) -> str:
        ends = {self._requests: tip_of(self.accepted), self._replies: tip_of(self.replied)}
        ends |= {each.chain: each.to for each in operations if isinstance(each, Advance)}
        return pair_state(record, *ends.values())

    def _act(self, event: str, proof: _Proof | None, state: str) -> Act:
        target, book = self.key.to_vid, self._requests.book
        hashes = {"content_hash": privacy_hash(f"vacant:{target.hex()}")}
        checks: tuple[str, ...] = (pair_check(book, self.key.from_vid, self._version, state),)
        if proof is not None:
            hashes["request_id_hash"] = f"blake2b:{proof.request.hex()}"
            checks = (reply_check(book, proof.reply), *checks)
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
