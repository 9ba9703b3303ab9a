"""Taking part: what the users of this node do in deliberations, wherever those are kept (rulings 47 and 50a).

- In a deliberation that this node keeps, an act becomes an entry at once.
- In one that is kept elsewhere, an act is signed, stored as waiting, and sent. The keeper answers with the entry, which
  is verified and stored; or it names a newer tip: then the log is read on and the act is signed again for its new
  place. When the keeper does not answer, the act waits here; `send_waiting` tries again.
- An act that was sent and whose answer never came is looked for in the log before it is signed again: it is never
  done twice, whoever of the two was killed when.
- Nothing that a keeper says is believed: each entry is followed (`log.follow`), and each tip is held against our own log.
  Two entries with one number are kept as proof of fraud; from then on this node takes no further part.
- In a deliberation that is kept elsewhere one process at a time acts, by a lease.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Protocol, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.texts import refuse_injection
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import OWN_PROCESS, Caller
from comity.requests.record import Act, Recorder
from comity.store.interface import Acquire, Operation, Release, Store, StoreConflict
from comity.system import is_loopback
from comity.vcp.protocol.extension_calls import Code, ExtensionError, invalid, refused
from comity.votes.logs import (
    MAX_DELIBERATIONS,
    MAX_OF_A_VISITOR,
    MAX_WAITING,
    SCAN_THRESHOLD,
    KeptDeliberation,
    Ledger,
    Read,
    WaitingAct,
    fraud_by,
    fraud_error,
    same_entry,
)
from comity.votes.protocol.acts import after_act
from comity.votes.protocol.log import (
    OPEN,
    ConflictingRecord,
    DeliberationEntry,
    HostAnswer,
    KeptTip,
    LogHead,
    admit,
    follow,
    fraud_between,
    propose,
    read_answer,
    tip_of,
    write_act,
    write_question,
)
from comity.votes.protocol.vote import Voice, stakeholder_of
from comity.wire.errors import ComityError, OverloadedError, PeerError, RetryLaterError, StoreError
from comity.wire.machine import Clock

log = logging.getLogger("comity.deliberations")

FEATURE: Final = "deliberation"
LEASE_SECONDS: Final = 120.0

_CODES: Final = frozenset(get_args(Code))
_MAX_SENTENCE_LENGTH: Final = 500
_SHORT: Final = 12
_TRIES: Final = 16
_LOOK_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 20.0


class HostPost(Protocol):
    """How messages get to other nodes. What may be tried again later is raised as RetryLaterError. With `public_only`
    private addresses and this machine's own are refused.
    """

    async def identify(self, url: str, *, public_only: bool) -> str:
        """The id of the node that answers there."""
        ...

    async def post(self, url: str, node: str, text: bytes, *, public_only: bool) -> bytes:
        """The text of the signed answer."""
        ...


class ActOutcome(Struct, frozen=True, kw_only=True):
    """`entry` is what the act became; None while it waits for the keeper, and `why` says why."""

    kept: KeptDeliberation
    entry: DeliberationEntry | None = None
    why: str = ""


class Elsewhere(Struct, frozen=True):
    """A node that has a log, and where it answers. `public_only`: somebody else than the owner named the address."""

    url: str
    node: str
    public_only: bool


class VoteParty:
    def __init__(
        self,
        *,
        store: Store,
        ledger: Ledger,
        record: Recorder,
        clock: Clock,
        key: SigningKey,
        post: HostPost,
        holder: str,
    ) -> None:
        """`holder` names this process among those that share the store."""
        self.ledger = ledger
        self._store = store
        self._record = record
        self._clock = clock
        self._key = key
        self._self = key.vacant_id.hex()
        self._post = post
        self._holder = holder

    def voice(self, name: str | None = None) -> Voice:
        """How the owner of this node speaks in deliberations, or somebody in whose name it signs."""
        return Voice(self._self, name)

    async def open(
        self, delib_id: str, args: Mapping[str, Any], voice: Voice, caller: Caller = OWN_PROCESS
    ) -> KeptDeliberation:
        """Open a deliberation that this node keeps. `delib_id` is random."""
        refuse_injection(args, SCAN_THRESHOLD)
        if args.get("keeper") not in {None, self._self}:
            raise invalid("keeper is the node that opens; leave it out", "keeper")
        await self._refuse_too_many(voice)
        given = {**args, "keeper": self._self}
        entry = propose(None, delib_id, OPEN, given, self._key, self._clock.now(), on_behalf=voice.on_behalf)
        head, taken = admit(None, entry, self._key, self._clock.now())
        kept = KeptDeliberation(head=head)
        await self._commit(self.ledger.adding(None, kept, [taken]), "OPENED", taken, caller)
        return kept

    async def find(self, delib_id: str) -> KeptDeliberation:
        return (await self._find(delib_id)).kept

    async def those_of(self, voice: Voice) -> list[KeptDeliberation]:
        """Those in which this voice takes part."""
        return [kept for kept in await self.ledger.all() if _takes_part(kept, voice)]

    async def act(
        self, op: str, args: Mapping[str, Any], voice: Voice, caller: Caller = OWN_PROCESS
    ) -> ActOutcome:
        """Add an entry to a deliberation. Raises ExtensionError for what is refused; then nothing has changed."""
        refuse_injection(args, SCAN_THRESHOLD)
        delib_id = args.get("delib_id")
        if not isinstance(delib_id, str):
            raise refused("delib_id", "must name a deliberation")
        kept = await self.find(delib_id)
        if kept.fraud is not None:
            raise fraud_error(kept.fraud)
        given = dict(args)
        if kept.deliberation.keeper == self._self:
            return await self._act_here(delib_id, op, given, voice, caller)
        async with self._alone(delib_id):
            return await self._act_there(delib_id, op, given, voice, caller)

    async def join(
        self,
        url: str,
        delib_id: str,
        voice: Voice,
        caller: Caller = OWN_PROCESS,
        *,
        keeper: str | None = None,
    ) -> KeptDeliberation:
        """Fetch a deliberation from its keeper, or hold our own copy against what another node has.

        `keeper` is its id, where that is known; else the node that answers at `url` is believed the first time.
        """
        url = url.rstrip("/")
        public_only = not _is_of_this_machine(caller)
        node = await self._post.identify(url, public_only=public_only)
        if node == self._self:
            raise invalid(
                "url is the address of this node itself, which has its own deliberations already", "url"
            )
        if keeper is not None and node != keeper:
            raise ExtensionError("FORBIDDEN", f"another node answers at this address: {node}", "url")
        async with self._alone(delib_id):
            read = await self.ledger.find(delib_id)
            if read is None:
                await self._refuse_too_many(voice)
                kept = await self._fetch(Elsewhere(url, node, public_only), delib_id, voice, caller)
            elif read.kept.deliberation.keeper == node:
                read = await self._moved(read, url, caller)
                kept = (await self._read_on(read, caller)).kept
            else:
                kept = (await self._read_on(read, caller, Elsewhere(url, node, public_only))).kept
            stakeholder_of(kept.deliberation, voice)
        return kept

    async def refresh(self, delib_id: str, caller: Caller = OWN_PROCESS) -> KeptDeliberation:
        """Read on what the keeper has. Raises RetryLaterError or PeerError when it gives no answer to use."""
        read = await self._find(delib_id)
        if read.kept.deliberation.keeper == self._self or read.kept.fraud is not None:
            return read.kept
        async with self._alone(delib_id):
            return (await self._read_on(await self._find(delib_id), caller)).kept

    async def send_waiting(self, caller: Caller = OWN_PROCESS) -> None:
        """Try again to send what waits, in its order. An act that is refused now is kept with the refusal; what
        cannot be sent goes on waiting.
        """
        for delib_id in dict.fromkeys(act.delib_id for act in await self.ledger.waiting() if not act.refusal):
            try:
                async with self._alone(delib_id):
                    for act in await self.ledger.waiting(delib_id):
                        if not act.refusal:
                            await self._send_late(act, caller)
            except StoreError:
                raise
            except ComityError as reason:
                log.info("acts in %s wait on: %s", delib_id, reason)

    async def remove(self, delib_id: str, caller: Caller = OWN_PROCESS) -> None:
        """Remove our copy; where this node keeps the log, the deliberation is gone."""
        async with self._alone(delib_id):
            await self._find(delib_id)
            operations = await self.ledger.removing(delib_id)
            await self._record.commit(operations, self._note("REMOVED", caller))

    async def _find(self, delib_id: str) -> Read:
        read = await self.ledger.find(delib_id)
        if read is None:
            raise ExtensionError("NOT_FOUND", "there is no such deliberation here; join it first", "delib_id")
        return read

    async def _act_here(
        self, delib_id: str, op: str, args: dict[str, Any], voice: Voice, caller: Caller
    ) -> ActOutcome:
        async with self.ledger.turns.of(delib_id):
            for _ in range(_TRIES):
                read = await self._find(delib_id)
                now = self._clock.now()
                entry = propose(read.kept.head, delib_id, op, args, self._key, now, on_behalf=voice.on_behalf)
                head, taken = admit(read.kept.head, entry, self._key, now)
                kept = replace(read.kept, head=head)
                with contextlib.suppress(StoreConflict):
                    await self._commit(self.ledger.adding(read, kept, [taken]), "ACTED", taken, caller)
                    return ActOutcome(kept=kept, entry=taken)
        raise OverloadedError("others act in this deliberation all the time; try again")

    async def _act_there(
        self, delib_id: str, op: str, args: dict[str, Any], voice: Voice, caller: Caller
    ) -> ActOutcome:
        read = await self._find(delib_id)
        before = await self.ledger.waiting(delib_id)
        if len(before) >= MAX_WAITING:
            raise ExtensionError(
                "LIMIT_EXCEEDED", f"{MAX_WAITING} acts wait for the keeper already; nothing was added"
            )
        now = self._clock.now()
        if all(act.refusal for act in before):
            read = await self._refuse_plain_faults(read, voice, op, args, caller)
        head = read.kept.head
        entry = propose(head, delib_id, op, args, self._key, now, on_behalf=voice.on_behalf)
        place = before[-1].place + 1 if before else 1
        act = WaitingAct(delib_id=delib_id, place=place, entry=entry, since=now)
        await self._commit((self.ledger.holding(act, now),), "WAITING", entry, caller)
        try:
            await self._send_those_before(act, caller)
            return await self._send(act, caller)
        except ExtensionError:
            await self._commit((self.ledger.releasing(act),), "REFUSED", entry, caller)
            raise
        except StoreError:
            raise
        except ComityError as unknown:  # whether the keeper took it will be seen in the log
            return ActOutcome(kept=await self.find(delib_id), why=unknown.message)

    async def _refuse_plain_faults(
        self, read: Read, voice: Voice, op: str, args: dict[str, Any], caller: Caller
    ) -> Read:
        """What cannot be right is refused here, also while the keeper does not answer. Our copy may be behind, so
        the log is read on before; where that cannot be, the phase is left to the keeper to judge.
        """
        try:
            after_act(read.kept.deliberation, voice, op, args, self._clock.now())
        except ExtensionError as refusal:
            try:
                read = await self._read_on(read, caller)
            except (RetryLaterError, PeerError):
                if refusal.wire_code == "PRECONDITION_FAILED":
                    return read
                raise refusal from None
            after_act(read.kept.deliberation, voice, op, args, self._clock.now())
        return read

    async def _send_those_before(self, last: WaitingAct, caller: Caller) -> None:
        """What waits longer than `last` goes first. What is refused now is kept with the refusal, to be told."""
        for act in await self.ledger.waiting(last.delib_id):
            if not act.refusal and act.place < last.place:
                await self._send_late(act, caller)

    async def _send_late(self, act: WaitingAct, caller: Caller) -> None:
        try:
            await self._send(act, caller)
        except ExtensionError as refusal:
            told = self.ledger.holding(replace(act, refusal=refusal.message), self._clock.now())
            await self._commit((told,), "REFUSED", act.entry, caller)

    async def _send(self, act: WaitingAct, caller: Caller) -> ActOutcome:
        """Until the act is an entry of the log. Raises what the keeper refuses it with."""
        for _ in range(_TRIES):
            read = await self._find(act.delib_id)
            head, entry = read.kept.head, act.entry
            known = await self.ledger.entry(act.delib_id, entry.number)
            if known is not None and same_entry(entry, known):
                await self._commit((self.ledger.releasing(act),), "ACTED", known, caller)
                return ActOutcome(kept=read.kept, entry=known)
            if entry.prev != head.tip.hash:
                act = replace(act, entry=self._signed_again(head, entry))
                # who has lost the lease must not sign: another process may have done it
                holding = self._lease(act.delib_id), self.ledger.holding(act, self._clock.now())
                await self._commit(holding, "WAITING", act.entry, caller)
            answer = await self._ask(read, write_act(act.entry, head.tip))
            if answer.entry is not None and same_entry(act.entry, answer.entry):
                after = await self._following(read, [answer.entry])
                adding = self.ledger.adding(read, after, [answer.entry])
                await self._commit((*adding, self.ledger.releasing(act)), "ACTED", answer.entry, caller)
                return ActOutcome(kept=after, entry=answer.entry)
            refusal = _refusal_in(answer)
            if refusal.wire_code != "CONFLICT" or refusal.field not in {"number", "prev"}:
                raise refusal
            await self._read_on(read, caller)
        raise OverloadedError("others act in this deliberation all the time; try again")

    def _signed_again(self, head: LogHead, entry: DeliberationEntry) -> DeliberationEntry:
        action = entry.action
        return propose(
            head,
            entry.delib_id,
            action.op,
            action.args,
            self._key,
            self._clock.now(),
            on_behalf=entry.on_behalf,
        )

    async def _refuse_too_many(self, voice: Voice) -> None:
        """Those in whose name this node signs have a share, so that they leave room for its owner."""
        if await self.ledger.count() >= MAX_DELIBERATIONS:
            raise ExtensionError(
                "LIMIT_EXCEEDED", f"a node has at most {MAX_DELIBERATIONS:,} deliberations; remove one"
            )
        if voice.on_behalf is None:
            return
        brought = [
            kept
            for kept in await self.those_of(voice)
            if kept.deliberation.keeper != self._self or kept.deliberation.author == voice.stakeholder_id
        ]
        if len(brought) >= MAX_OF_A_VISITOR:
            raise ExtensionError(
                "LIMIT_EXCEEDED",
                f"you have opened or joined {MAX_OF_A_VISITOR} deliberations here, the most that are kept for you; "
                "ask the owner of this node to remove some",
            )

    async def _fetch(self, at: Elsewhere, delib_id: str, voice: Voice, caller: Caller) -> KeptDeliberation:
        """The whole log, for the first time. It is stored page by page, once the first entry is verified."""
        answer = _entries_in(await self._said(at, write_question(delib_id, 0, None)))
        if not answer:
            raise ExtensionError("NOT_FOUND", "there is no such deliberation there", "delib_id")
        head: LogHead | None = None
        for entry in answer:
            head = follow(head, entry)
        assert head is not None, "there was an entry"
        if head.deliberation.id != delib_id:
            raise ExtensionError("NOT_FOUND", "the node answered with another deliberation", "delib_id")
        if head.deliberation.keeper != at.node:
            raise ExtensionError(
                "FORBIDDEN",
                f"this node has a copy only; join at the address of the keeper {head.deliberation.keeper}",
                "url",
            )
        kept = KeptDeliberation(head=head, url=at.url, public_only=at.public_only)
        await self._commit(self.ledger.adding(None, kept, answer), "JOINED", answer[-1], caller)
        try:
            kept = (await self._read_on(await self._find(delib_id), caller)).kept
            stakeholder_of(kept.deliberation, voice)
        except ComityError as why:
            # the fetched entries are kept for the next attempt only if the caller is a party
            if isinstance(why, ExtensionError) or not _takes_part(await self.find(delib_id), voice):
                await self._record.commit(await self.ledger.removing(delib_id), self._note("REFUSED", caller))
            raise
        return kept

    async def _read_on(self, read: Read, caller: Caller, at: Elsewhere | None = None) -> Read:
        """Read the log from where our copy ends. `at` is another node than the keeper: its log is compared too."""
        while True:
            kept = read.kept
            question = write_question(kept.id, kept.head.tip.number, kept.head.tip)
            answer = await self._ask(read, question, at)
            entries = _entries_in(answer)
            if not entries:
                return read
            after = await self._following(read, entries, at)
            await self._commit(self.ledger.adding(read, after, entries), "READ", entries[-1], caller)
            read = await self._find(kept.id)
            if not answer.more:
                return read

    async def _following(
        self, read: Read, entries: list[DeliberationEntry], at: Elsewhere | None = None
    ) -> KeptDeliberation:
        head = read.kept.head
        try:
            for entry in entries:
                head = follow(head, entry)
        except ExtensionError as refusal:
            if refusal.field in {"number", "prev"}:
                await self._look_for_fraud(read, at)
            raise
        return replace(read.kept, head=head)

    async def _ask(self, read: Read, text: bytes, at: Elsewhere | None = None) -> HostAnswer:
        """Ask the keeper, or another node that has the log, and hold the tip that it tells against ours."""
        kept = read.kept
        answer = await self._said(at or _at_keeper(kept), text)
        if answer.tip is not None:
            await self._hear(read, answer.tip)
        return answer

    async def _said(self, at: Elsewhere, text: bytes) -> HostAnswer:
        return read_answer(await self._post.post(at.url, at.node, text, public_only=at.public_only))

    async def _hear(self, read: Read, tip: KeptTip) -> None:
        kept = read.kept
        if tip.delib_id != kept.id or not tip.is_signed_by(kept.deliberation.keeper):
            raise ExtensionError(
                "BAD_SIGNATURE", "the node that answered tells a tip that the keeper did not sign", "tip"
            )
        fraud = await fraud_by(self.ledger, kept, tip)
        if fraud is not None:
            await self._keep_fraud(read, fraud)

    async def _look_for_fraud(self, read: Read, at: Elsewhere | None) -> None:
        """The keeper goes on from another entry than ours: find the first number that it has given out twice."""
        kept, number, more = read.kept, 0, True
        while more:
            answer = await self._said(at or _at_keeper(kept), write_question(kept.id, number, None))
            theirs = _entries_in(answer)
            ours = await self.ledger.entries(kept.id, number, len(theirs))
            for own, other in zip(ours, theirs, strict=False):
                fraud = fraud_between(kept.deliberation.keeper, tip_of(own), tip_of(other))
                if fraud is not None:
                    await self._keep_fraud(read, fraud)
            number += len(theirs)
            more = answer.more and len(ours) == len(theirs)

    async def _keep_fraud(self, read: Read, fraud: ConflictingRecord) -> None:
        """Keep the proof, and say so."""
        if read.kept.fraud is None:
            change = self.ledger.changing(read, replace(read.kept, fraud=fraud))
            act = self._note("FRAUD", OWN_PROCESS, fraud.keeper[:_SHORT])
            await self._record.commit((change,), replace(act, failed_step="fraud"))
        raise fraud_error(fraud)

    async def _moved(self, read: Read, url: str, caller: Caller) -> Read:
        """The keeper answers at another address now."""
        if read.kept.url == url:
            return read
        change = self.ledger.changing(read, replace(read.kept, url=url))
        await self._record.commit((change,), self._note("MOVED", caller))
        return await self._find(read.kept.id)

    async def _commit(
        self, operations: tuple[Operation, ...], what: str, entry: DeliberationEntry, caller: Caller
    ) -> None:
        act = self._note(what, caller, f"{entry.action.op} #{entry.number}")
        await self._record.commit(operations, replace(act, hashes={"content_hash": f"sha256:{entry.hash()}"}))

    def _note(self, what: str, caller: Caller, about: str = "") -> Act:
        return Act(feature=FEATURE, result=f"DELIBERATION_{what}", caller=caller, about=about)

    @contextlib.asynccontextmanager
    async def _alone(self, delib_id: str) -> AsyncIterator[None]:
        """One at a time in this process, and one process at a time. Others may read our copy meanwhile: two nodes that
        ask each other must not wait for each other.
        """
        async with self.ledger.turns.of(f"elsewhere {delib_id}"):
            lease = await self._leased(self._lease(delib_id))
            try:
                yield
            finally:
                with contextlib.suppress(ComityError):  # at worst it runs out by itself
                    await self._store.commit(lease)

    def _lease(self, delib_id: str) -> Acquire:
        return Acquire(name=f"deliberation:{delib_id}", holder=self._holder, ttl=LEASE_SECONDS)

    async def _leased(self, acquire: Acquire) -> Release:
        give_up = self._clock.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                (lease,) = await self._store.commit(acquire)
                return Release(name=lease.name, token=lease.token)
            except StoreConflict:
                if self._clock.monotonic() > give_up:
                    raise OverloadedError(
                        "another process of this node is at work in this deliberation; try again in a moment"
                    ) from None
                await self._clock.sleep(_LOOK_SECONDS)


def _is_of_this_machine(caller: Caller) -> bool:
    """Whether the caller could reach private addresses without us: the owner, and VCP clients on the same machine."""
    return caller.is_local or (caller.kind == "vcp" and is_loopback(caller.address))


def _at_keeper(kept: KeptDeliberation) -> Elsewhere:
    return Elsewhere(kept.url, kept.deliberation.keeper, kept.public_only)


def _takes_part(kept: KeptDeliberation, voice: Voice) -> bool:
    try:
        stakeholder_of(kept.deliberation, voice)
    except ExtensionError:
        return False
    return True


def _refusal_in(answer: HostAnswer) -> ExtensionError:
    if answer.error is None:
        return ExtensionError("BAD_SIGNATURE", "the keeper answered with another entry than was sent")
    told = answer.error
    code = told.code if told.code in _CODES else "INVALID_ARGUMENT"
    return ExtensionError(cast("Code", code), _one_line(told.message), told.field and _one_line(told.field))


def _one_line(foreign: str) -> str:
    """What another node wrote, as one line."""
    return "".join(c if c.isprintable() else " " for c in foreign[:_MAX_SENTENCE_LENGTH])


def _entries_in(answer: HostAnswer) -> list[DeliberationEntry]:
    if answer.entries is None:
        raise _refusal_in(answer)
    return list(answer.entries)
