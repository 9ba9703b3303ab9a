"""The tiny exchange of the simulation: what writers ask, and what a front does with it on its store.

Every question may arrive twice, late, or again after a crash. Its digest is its identity: what was done
for it is kept in the same transaction, so a repeated question gets the first answer. An answer is final:
a refused question stays refused, however often its copies still arrive.
"""

from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from comity.store.audit_chain import AuditDraft, timestamp
from comity.store.interface import (
    Acquire,
    Advance,
    Append,
    ChainKey,
    Fence,
    KeepReply,
    Lease,
    Put,
    Release,
    Store,
    StoreConflict,
    Tip,
)
from comity.wire.machine import Clock

LEASE_SECONDS = 0.15
CONFLICTS = 100
DONE = "done"


class AskTip(Struct, frozen=True, tag="tip"):
    chain: str
    nonce: int


class AskAdvance(Struct, frozen=True, tag="advance"):
    chain: str
    expected: Tip
    writer: str
    nonce: int


class AskIncrement(Struct, frozen=True, tag="increment"):
    counter: str
    writer: str
    nonce: int


class AskLease(Struct, frozen=True, tag="lease"):
    name: str
    writer: str
    nonce: int


class AskFenced(Struct, frozen=True, tag="fenced"):
    lease: Lease
    nonce: int


class AskRelease(Struct, frozen=True, tag="release"):
    lease: Lease
    nonce: int


Question = AskTip | AskAdvance | AskIncrement | AskLease | AskFenced | AskRelease


class Answer(Struct, frozen=True):
    """`ok` says whether it was done; `tip` and `lease` tell how things stand."""

    to: bytes
    ok: bool
    tip: Tip | None = None
    lease: Lease | None = None


class ChainRecord(Struct, frozen=True):
    """What the log of a chain says about one of its numbers."""

    previous: bytes
    hash: bytes
    question: bytes


class FencedRecord(Struct, frozen=True):
    token: int
    holder: str
    question: bytes


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def read_question(data: bytes) -> Question:
    return _questions.decode(data)


def read_answer(data: bytes) -> Answer:
    return _answers.decode(data)


def digest_of(question: bytes) -> bytes:
    return sha256(question).digest()


def hash_after(expected: Tip, question: bytes) -> bytes:
    return sha256(expected.hash + question).digest()


def chain_key(name: str) -> ChainKey:
    return ChainKey("simulation", name, "store")


def chain_log(name: str) -> str:
    return f"chain:{name}"


def fenced_log(name: str) -> str:
    return f"fenced:{name}"


_questions = msgspec.json.Decoder(Question)
_answers = msgspec.json.Decoder(Answer)


async def answer(store: Store, clock: Clock, data: bytes) -> bytes:
    """Do what is asked, once, and say so."""
    question, digest = read_question(data), digest_of(data)
    match question:
        case AskTip():
            return encode(Answer(digest, ok=True, tip=await store.tip(chain_key(question.chain))))
        case AskAdvance():
            return await _advance(store, clock, question, data, digest)
        case AskIncrement():
            return await _increment(store, clock, question, digest)
        case AskLease():
            return await _lease(store, question, digest)
        case AskFenced():
            return await _fenced(store, clock, question, digest)
        case AskRelease():
            await store.commit(Release(name=question.lease.name, token=question.lease.token))
            return encode(Answer(digest, ok=True))


def _draft(clock: Clock, digest: bytes) -> AuditDraft:
    return AuditDraft(
        verification_result="TEST", request_id_hash=digest.hex(), created_at=timestamp(clock.now())
    )


async def _advance(store: Store, clock: Clock, question: AskAdvance, data: bytes, digest: bytes) -> bytes:
    chain = chain_key(question.chain)
    to = Tip(question.expected.seq + 1, hash_after(question.expected, data))
    held = await store.reply(chain, to.seq)
    if held is None:
        reply = encode(Answer(digest, ok=True, tip=to))
        record = ChainRecord(question.expected.hash, to.hash, digest)
        try:
            await store.commit(
                Append(log=chain_log(question.chain), data=encode(record)),
                KeepReply(chain=chain, seq=to.seq, digest=digest, reply=reply, at=clock.now()),
                Advance(chain=chain, expected=question.expected, to=to),
                audit=[_draft(clock, digest)],
            )
        except StoreConflict:
            held = await store.reply(chain, to.seq)
        else:
            return reply
    if held is not None and held.digest == digest and held.reply is not None:
        return held.reply
    return encode(Answer(digest, ok=False, tip=await store.tip(chain)))


async def _increment(store: Store, clock: Clock, question: AskIncrement, digest: bytes) -> bytes:
    reply = encode(Answer(digest, ok=True))
    for _ in range(CONFLICTS):
        if await store.get(DONE, digest.hex()) is not None:
            return reply
        counter = await store.get("counters", question.counter)
        value, version = (int(counter.value), counter.version) if counter else (0, 0)
        try:
            await store.commit(
                Put(space=DONE, key=digest.hex(), value=reply, expect=0),
                Put(space="counters", key=question.counter, value=b"%d" % (value + 1), expect=version),
                audit=[_draft(clock, digest)],
            )
        except StoreConflict:
            continue
        return reply
    raise AssertionError(f"{question.counter} cannot be counted: every attempt conflicts")


async def _lease(store: Store, question: AskLease, digest: bytes) -> bytes:
    try:
        (lease,) = await store.commit(Acquire(name=question.name, holder=question.writer, ttl=LEASE_SECONDS))
    except StoreConflict as conflict:
        return encode(Answer(digest, ok=False, lease=conflict.current))
    return encode(Answer(digest, ok=True, lease=lease))


async def _fenced(store: Store, clock: Clock, question: AskFenced, digest: bytes) -> bytes:
    lease = question.lease
    reply = encode(Answer(digest, ok=True))
    if await store.get(DONE, digest.hex()) is None:
        record = FencedRecord(lease.token, lease.holder, digest)
        try:
            await store.commit(
                Put(space=DONE, key=digest.hex(), value=reply, expect=0),
                Append(log=fenced_log(lease.name), data=encode(record)),
                Fence(name=lease.name, token=lease.token),
                audit=[_draft(clock, digest)],
            )
        except StoreConflict:
            if await store.get(DONE, digest.hex()) is None:
                return encode(Answer(digest, ok=False))
    return reply
