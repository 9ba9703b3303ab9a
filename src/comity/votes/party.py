"""Taking part: what the users of this node do in votes, wherever those are hosted (rulings 47 and 50a).

- In a vote that this node hosts, an act becomes an entry at once.
- In one that is hosted elsewhere, an act is signed, stored as waiting, and sent. The host replies with the entry, which
  is verified and stored; or it names a newer tip: then the log is read on and the act is signed again for its new
  position. If the host does not reply, the act waits here, and `send_waiting` tries again.
- An act that was sent and whose reply never came is looked for in the log before it is signed again: it is never
  done twice, whichever of the two nodes was killed, and when.
- An act belongs to the phase in which it was said: it is never signed again for another phase, whose text may differ. It
  keeps the time of the person's act, so that it counts if that was before the deadline (ruling 67).
- A phase whose host is this node is closed here at its deadline (`close_due`). One that a host closed too early is not
  followed until our own clock allows it; that, and acts of ours that were left out, are kept and shown.
- Nothing that a host says is trusted: each entry is followed (`log.follow`), and each tip is compared with our own log.
  Two entries with one number are stored as conflicting records; after that this node takes no further part.
- One process at a time acts in a vote that is hosted elsewhere, by a lease.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.texts import read_moment, refuse_injection
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.requests.caller import OWN_PROCESS, Caller
from comity.requests.record import Act, Recorder
from comity.store.interface import Acquire, Operation, Release, Store, StoreConflict
from comity.system import is_loopback
from comity.vcp.protocol.extension_calls import ExtensionError, invalid, refused, shaped
from comity.votes.client import LogAddress, VoteHostClient, address_of_host, entries_in, refusal_in
from comity.votes.logs import (
    FEATURE,
    MAX_OF_A_VISITOR,
    MAX_VOTES,
    MAX_WAITING,
    SCAN_THRESHOLD,
    EarlyClose,
    Ledger,
    StoredVote,
    VersionedVote,
    WaitingAct,
    conflict_error,
    find_conflict,
    refuse_another_phase,
    same_entry,
)
from comity.votes.protocol import log
from comity.votes.protocol.acts import CLOSE, OpenArguments, after_act, open_vote
from comity.votes.protocol.rules import RULES
from comity.votes.protocol.vote import Voice, Vote, is_voice_in, stakeholder_of
from comity.wire.errors import ComityError, OverloadedError, PeerError, RetryLaterError, StoreError
from comity.wire.machine import SKEW_SECONDS, Clock

_logger = logging.getLogger("comity.deliberations")

LEASE_SECONDS: Final = 15.0  # of a process that was killed; one at work renews it

_MAX_TRIES: Final = 16
_POLL_SECONDS: Final = 0.05
_MAX_LEASE_WAIT_SECONDS: Final = 125.0  # longer than what another process does in a vote
_VOTE: Final = "consensus.vote"
_ADVANCE: Final = "consensus.advance"
_STALE_SECONDS: Final = SKEW_SECONDS / 2
_BUSY: Final = "others act in this vote all the time; try again"


class ActOutcome(Struct, frozen=True, kw_only=True):
    """`entry` is what the act became. It is None while the act waits for the host, and `why` is the reason."""

    stored: StoredVote
    entry: log.VoteEntry | None = None
    why: str = ""


class VoteParty:
    def __init__(
        self,
        *,
        store: Store,
        ledger: Ledger,
        record: Recorder,
        clock: Clock,
        key: SigningKey,
        client: VoteHostClient,
        holder: str,
        former: Iterable[VacantId] = (),
    ) -> None:
        """`holder` names this process among those that share the store. `former` are keys of this node that were replaced:
        their votes can be read and verified, and end where they are.
        """
        self.ledger = ledger
        self._store = store
        self._record = record
        self._clock = clock
        self._key = key
        self._self = key.vacant_id.hex()
        self.former = frozenset(each.hex() for each in former)
        self._client = client
        self._holder = holder

    def voice(self, name: str | None = None) -> Voice:
        """Return how the owner of this node speaks, or somebody in whose name it signs."""
        return Voice(self._self, name)

    async def open(
        self, delib_id: str, args: Mapping[str, Any], voice: Voice, caller: Caller = OWN_PROCESS
    ) -> StoredVote:
        """Open a vote that this node hosts. `delib_id` is random."""
        refuse_injection(args, SCAN_THRESHOLD)
        if args.get("keeper") not in {None, self._self}:
            raise invalid("keeper is the node that opens; leave it out", "keeper")
        if args.get("rules") not in {None, RULES}:
            raise invalid(f"rules must be {RULES}; leave it out", "rules")
        await self._refuse_too_many(voice)
        given = {**args, "keeper": self._self, "rules": RULES}
        # before it is signed, so that a refusal speaks of the vote and not of the size of an entry
        open_vote(delib_id, voice, shaped(given, OpenArguments), self._clock.now())
        proposed = self._propose(None, delib_id, log.OPEN, given, voice.on_behalf)
        head, entry = log.admit(None, proposed, self._key, self._clock.now())
        stored = StoredVote(head=head)
        await self._commit(self.ledger.adding(None, stored, [entry]), "OPENED", entry, caller)
        return stored

    async def find(self, delib_id: str) -> StoredVote:
        return (await self._find(delib_id)).stored

    async def those_of(self, voice: Voice) -> list[StoredVote]:
        """Return the votes in which this voice takes part."""
        known = await self.ledger.all()
        return [stored for stored in known if is_voice_in(stored.vote, self.voice_in(stored.vote, voice))]

    def voice_in(self, vote: Vote, voice: Voice) -> Voice:
        """Return the voice under that key of this node which takes part."""
        if voice.actor == self._self and not is_voice_in(vote, voice):
            for actor in self.former:
                if is_voice_in(vote, under := replace(voice, actor=actor)):
                    return under
        return voice

    async def act(
        self, op: str, args: Mapping[str, Any], voice: Voice, caller: Caller = OWN_PROCESS
    ) -> ActOutcome:
        """Add an entry to a vote. Raise ExtensionError if it is refused; then nothing has changed."""
        refuse_injection(args, SCAN_THRESHOLD)
        delib_id = args.get("delib_id")
        if not isinstance(delib_id, str):
            raise refused("delib_id", "must name a vote")
        stored = await self.find(delib_id)
        if stored.conflict is not None:
            raise conflict_error(stored.conflict)
        if stored.vote.host in self.former:
            raise ExtensionError(
                "PRECONDITION_FAILED",
                "the key that hosts this vote was replaced, so it takes no acts; open a new one",
            )
        if stored.vote.host == self._self:
            return await self._act_here(delib_id, op, dict(args), voice, caller)
        async with self._locked(delib_id):
            return await self._act_there(delib_id, op, dict(args), voice, caller)

    async def join(
        self, url: str, delib_id: str, voice: Voice, caller: Caller = OWN_PROCESS, *, host: str | None = None
    ) -> StoredVote:
        """Fetch a vote from its host, or compare our copy with the log of another node.

        `host` is its id, if it is known; else the node that answers at `url` is believed the first time.
        """
        url = url.rstrip("/")
        public_only = not _is_of_this_machine(caller)
        node = await self._client.identify(url, public_only=public_only)
        if node == self._self:
            raise invalid("url is the address of this node itself, which has its own votes already", "url")
        if host is not None and node != host:
            raise ExtensionError("FORBIDDEN", f"another node answers at this address: {node}", "url")
        address = LogAddress(url, node, public_only)
        async with self._locked(delib_id):
            version = await self.ledger.find(delib_id)
            if version is None:
                await self._refuse_too_many(voice)
                stored = await self._fetch(address, delib_id, voice, caller)
            elif version.stored.vote.host == node:
                version = await self._move(version, url, caller)
                stored = (await self._read_on(version, caller)).stored
            else:
                stored = (await self._read_on(version, caller, address)).stored
            stakeholder_of(stored.vote, voice)
        return stored

    async def refresh(self, delib_id: str, caller: Caller = OWN_PROCESS) -> StoredVote:
        """Read new entries from the host. Raise RetryLaterError or PeerError if it gives no usable reply."""
        stored = await self.find(delib_id)
        if stored.vote.host in {self._self, *self.former} or stored.conflict is not None:
            return stored
        async with self._locked(delib_id):
            return (await self._read_on(await self._find(delib_id), caller)).stored

    async def look(self, delib_id: str) -> None:
        """Read new entries from the host, if it answers."""
        try:
            await self.refresh(delib_id)
        except StoreError:
            raise
        except ComityError as reason:
            _logger.info("nothing new of %s: %s", delib_id, reason)

    async def send_waiting(self, caller: Caller = OWN_PROCESS) -> None:
        """Try again to send the waiting acts in their order. A refused act is kept with the refusal; an act that cannot be
        sent goes on waiting.
        """
        for delib_id in dict.fromkeys(act.delib_id for act in await self.ledger.waiting() if not act.refusal):
            try:
                async with self._locked(delib_id):
                    await self._send_waiting_in(delib_id, caller)
            except StoreError:
                raise
            except ComityError as reason:
                _logger.info("acts in %s wait on: %s", delib_id, reason)

    async def close_due(self, grace: float) -> None:
        """Close the phases of votes hosted here whose deadline is `grace` seconds ago: acts signed in time may be late."""
        due = self._clock.now() - grace
        for stored in await self.ledger.all():
            vote = stored.vote
            if vote.host != self._self or stored.conflict is not None or (vote.deadline or due + 1) > due:
                continue
            args = {"delib_id": vote.id, "phase": vote.phase}
            try:
                await self._act_here(vote.id, CLOSE, args, self.voice(), OWN_PROCESS)
            except ExtensionError as refusal:  # an act or another process was faster
                _logger.info("%s was not closed: %s", vote.id, refusal)

    async def remove(self, delib_id: str, caller: Caller = OWN_PROCESS) -> None:
        """Remove our copy. If this node is the host, the vote is gone."""
        async with self._locked(delib_id):
            await self._find(delib_id)
            operations = await self.ledger.removing(delib_id)
            await self._record.commit(operations, self._note("REMOVED", caller))

    async def _find(self, delib_id: str) -> VersionedVote:
        version = await self.ledger.find(delib_id)
        if version is None:
            raise ExtensionError("NOT_FOUND", "there is no such vote here; join it first", "delib_id")
        return version

    def _propose(
        self,
        head: log.LogHead | None,
        delib_id: str,
        op: str,
        args: dict[str, Any],
        on_behalf: str | None,
        time: float | None = None,
    ) -> log.VoteEntry:
        at = self._clock.now() if time is None else time
        return log.propose(head, delib_id, op, args, self._key, at, on_behalf=on_behalf)

    async def _act_here(
        self, delib_id: str, op: str, args: dict[str, Any], voice: Voice, caller: Caller
    ) -> ActOutcome:
        async with self.ledger.locks.of(delib_id):
            for _ in range(_MAX_TRIES):
                version = await self._find(delib_id)
                proposed = self._propose(version.stored.head, delib_id, op, args, voice.on_behalf)
                head, entry = log.admit(version.stored.head, proposed, self._key, self._clock.now())
                stored = replace(version.stored, head=head)
                self.ledger.refuse_full(version.stored, entry)
                with contextlib.suppress(StoreConflict):
                    await self._commit(self.ledger.adding(version, stored, [entry]), "ACTED", entry, caller)
                    return ActOutcome(stored=stored, entry=entry)
        raise OverloadedError(_BUSY)

    async def _act_there(
        self, delib_id: str, op: str, args: dict[str, Any], voice: Voice, caller: Caller
    ) -> ActOutcome:
        version = await self._find(delib_id)
        before = await self.ledger.waiting(delib_id)
        if len(before) >= MAX_WAITING:
            message = f"{MAX_WAITING} acts wait for the host already; nothing was added"
            raise ExtensionError("LIMIT_EXCEEDED", message)
        ask = all(act.refusal for act in before)
        version, in_phase = await self._refuse_plain_faults(version, voice, op, args, caller, ask=ask)
        now, vote = self._clock.now(), version.stored.vote
        entry = self._propose(version.stored.head, delib_id, op, args, voice.on_behalf, now)
        place = before[-1].place + 1 if before else 1
        again = [self.ledger.releasing(one) for one in before if one.is_replaced_by(entry)]
        act = WaitingAct(
            delib_id=delib_id,
            place=place,
            entry=entry,
            since=now,
            round=len(vote.phase_history) if in_phase else None,
            deadline=vote.deadline,
        )
        await self._commit((*again, self.ledger.holding(act, now)), "WAITING", entry, caller)
        try:
            await self._send_waiting_in(delib_id, caller, before=place)
            return await self._send(act, caller)
        except ExtensionError as refusal:
            await self._commit((await self._after_refusal(act, refusal),), "REFUSED", entry, caller)
            raise
        except StoreError:
            raise
        except ComityError as unknown:  # the log will show whether the host has accepted it
            return ActOutcome(stored=await self.find(delib_id), why=unknown.message)

    async def _refuse_plain_faults(
        self,
        version: VersionedVote,
        voice: Voice,
        op: str,
        args: dict[str, Any],
        caller: Caller,
        *,
        ask: bool,
    ) -> tuple[VersionedVote, bool]:
        """Refuse what cannot be valid, even while the host does not reply. Return the vote as it is known now, and whether
        the act is valid in it.

        Our copy may be behind, so the log is read on first (`ask`); if that is not possible, a wrong phase is left to the
        host to judge. But nobody votes on a text that was not seen here.
        """
        try:
            after_act(version.stored.vote, voice, op, args, self._clock.now())
        except ExtensionError as refusal:
            if ask:
                try:
                    version = await self._read_on(version, caller)
                except (RetryLaterError, PeerError) as silent:
                    if op == _VOTE:
                        message = f"{refusal.message}, as far as is known here: {silent.message}; try again"
                        raise ExtensionError(refusal.wire_code, message, refusal.field) from None
                else:
                    after_act(version.stored.vote, voice, op, args, self._clock.now())
                    return version, True
            if op == _VOTE or (ask and refusal.wire_code != "PRECONDITION_FAILED"):
                raise
            return version, False
        return version, True

    async def _send_waiting_in(self, delib_id: str, caller: Caller, before: int | None = None) -> None:
        """Send the waiting acts of one vote, those before a place or all. Keep a refused act with its refusal."""
        for act in await self.ledger.waiting(delib_id):
            if act.refusal or (before is not None and act.place >= before):
                continue
            try:
                await self._send(act, caller)
            except ExtensionError as refusal:
                operation = await self._after_refusal(act, refusal, keep=True)
                await self._commit((operation,), "REFUSED", act.entry, caller)

    async def _after_refusal(
        self, act: WaitingAct, refusal: ExtensionError, *, keep: bool = False
    ) -> Operation:
        """Return the operation that keeps a refused act to be shown, or because the host left it out, or deletes it."""
        stored = await self.find(act.delib_id)
        left_out = act.is_left_out_of(stored) or act.is_valid_in(stored)
        if not keep and not left_out:
            return self.ledger.releasing(act)
        kept = replace(act, refusal=refusal.message, left_out=left_out)
        return self.ledger.holding(kept, self._clock.now())

    async def _send(self, act: WaitingAct, caller: Caller) -> ActOutcome:
        """Send until the act is an entry of the log. Raise the refusal of the host."""
        looked = False
        for _ in range(_MAX_TRIES):
            version = await self._find(act.delib_id)
            head, entry = version.stored.head, act.entry
            known = await self.ledger.entry(act.delib_id, entry.number)
            if known is not None and same_entry(entry, known):
                await self._commit((self.ledger.releasing(act),), "ACTED", known, caller)
                return ActOutcome(stored=version.stored, entry=known)
            late = self._starts_a_phase_late(act)
            if late and not looked:  # it may be in the log
                looked = True
                await self._read_on(version, caller)
                continue
            if entry.prev != head.tip.hash or late:
                refuse_another_phase(act, version.stored)
                action, on_behalf = entry.action, entry.on_behalf
                time = None if action.op == _ADVANCE else act.since
                entry = self._propose(head, act.delib_id, action.op, action.args, on_behalf, time)
                act = replace(act, entry=entry)
                # without the lease it must not be signed: another process may have done it
                holding = self._lease(act.delib_id), self.ledger.holding(act, self._clock.now())
                await self._commit(holding, "WAITING", entry, caller)
            reply = await self._ask(version, log.write_act(entry, head.tip))
            if reply.entry is not None and same_entry(entry, reply.entry):
                after, _ = await self._follow_all(version, [reply.entry])
                adding = self.ledger.adding(version, after, [reply.entry])
                await self._commit((*adding, self.ledger.releasing(act)), "ACTED", reply.entry, caller)
                return ActOutcome(stored=after, entry=reply.entry)
            refusal = refusal_in(reply)
            if refusal.wire_code != "CONFLICT" or refusal.field not in {"number", "prev"}:
                with contextlib.suppress(RetryLaterError, PeerError):  # the act may have been left out
                    await self._read_on(version, caller)
                raise refusal
            version = await self._read_on(version, caller)
            if version.stored.early is not None and version.stored.head == head:
                raise ExtensionError("PRECONDITION_FAILED", version.stored.early.why, "time")
        raise OverloadedError(_BUSY)

    def _starts_a_phase_late(self, act: WaitingAct) -> bool:
        """Return whether an `advance` has waited too long: the phase begins with its signature."""
        late = self._clock.now() - read_moment(act.entry.time, "time") > _STALE_SECONDS
        return late and act.entry.action.op == _ADVANCE

    async def _refuse_too_many(self, voice: Voice) -> None:
        """Limit the votes of this node, and of each visitor in whose name it signs, so that the owner has room too."""
        if await self.ledger.count() >= MAX_VOTES:
            raise ExtensionError("LIMIT_EXCEEDED", f"a node has at most {MAX_VOTES:,} votes; remove one")
        if voice.on_behalf is None:
            return
        brought = [
            stored
            for stored in await self.those_of(voice)
            if stored.vote.host != self._self or stored.vote.author == voice.stakeholder_id
        ]
        if len(brought) >= MAX_OF_A_VISITOR:
            raise ExtensionError(
                "LIMIT_EXCEEDED",
                f"you have opened or joined {MAX_OF_A_VISITOR} votes here, which is the limit; ask the owner of this node "
                "to remove some",
            )

    async def _fetch(self, address: LogAddress, delib_id: str, voice: Voice, caller: Caller) -> StoredVote:
        """Read a whole log for the first time. It is stored page by page, once the first entry is verified."""
        entries = entries_in(await self._exchange(address, log.write_read(delib_id, 0, None)))
        if not entries:
            raise ExtensionError("NOT_FOUND", "there is no such vote there", "delib_id")
        head = log.follow(None, entries[0])
        stored = StoredVote(head=head, url=address.url, public_only=address.public_only)
        if head.vote.id != delib_id:
            raise ExtensionError("NOT_FOUND", "the node replied with another vote", "delib_id")
        if head.vote.host != address.node:
            message = f"this node has only a copy; join at the address of the host {head.vote.host}"
            raise ExtensionError("FORBIDDEN", message, "url")
        stored, followed = self._followed(stored, entries[1:])
        entries = [entries[0], *followed]
        await self._commit(self.ledger.adding(None, stored, entries), "JOINED", entries[-1], caller)
        try:
            stored = (await self._read_on(await self._find(delib_id), caller)).stored
            stakeholder_of(stored.vote, voice)
        except ComityError as why:
            # the fetched entries are kept for the next attempt only if the caller is a party
            if isinstance(why, ExtensionError) or not is_voice_in((await self.find(delib_id)).vote, voice):
                await self._record.commit(await self.ledger.removing(delib_id), self._note("REFUSED", caller))
            raise
        return stored

    async def _read_on(
        self, version: VersionedVote, caller: Caller, address: LogAddress | None = None
    ) -> VersionedVote:
        """Read the entries after our copy, from the host or from another node, whose log is compared with ours."""
        while True:
            stored = version.stored
            request = log.write_read(stored.id, stored.head.tip.number, stored.head.tip)
            reply = await self._ask(version, request, address)
            entries = entries_in(reply)
            if not entries:
                return version
            after, followed = await self._follow_all(version, entries, address)
            if after != stored:
                adding = self.ledger.adding(version, after, followed)
                await self._commit(adding, "READ", entries[max(len(followed) - 1, 0)], caller)
                version = await self._find(stored.id)
            if not reply.more or len(followed) < len(entries):
                return version

    async def _follow_all(
        self, version: VersionedVote, entries: list[log.VoteEntry], address: LogAddress | None = None
    ) -> tuple[StoredVote, list[log.VoteEntry]]:
        try:
            return self._followed(version.stored, entries)
        except ExtensionError as refusal:
            if refusal.field in {"number", "prev"}:
                await self._find_first_conflict(version, address)
            raise

    def _followed(
        self, stored: StoredVote, entries: list[log.VoteEntry]
    ) -> tuple[StoredVote, list[log.VoteEntry]]:
        """Return the vote after the entries, and those that were followed: all of them, or those before an entry that
        closes a phase too early.
        """
        head, now = stored.head, self._clock.now()
        for index, entry in enumerate(entries):
            try:
                head = log.follow(head, entry, now)
            except log.EarlyCloseError as early:
                seen = stored.early or EarlyClose(entry=entry, seen_at=now, why=early.message)
                return replace(stored, head=head, early=seen), entries[:index]
        return replace(stored, head=head), entries

    async def _ask(
        self, version: VersionedVote, request: bytes, address: LogAddress | None = None
    ) -> log.HostReply:
        """Send a request to the host, or to another node that has the log, and compare the tip of its reply with ours."""
        reply = await self._exchange(address or address_of_host(version.stored), request)
        if reply.tip is not None:
            await self._check_tip(version, reply.tip)
        return reply

    async def _exchange(self, address: LogAddress, request: bytes) -> log.HostReply:
        return log.read_reply(
            await self._client.post(address.url, address.node, request, public_only=address.public_only)
        )

    async def _check_tip(self, version: VersionedVote, tip: log.SignedTip) -> None:
        stored = version.stored
        if tip.delib_id != stored.id or not tip.is_signed_by(stored.vote.host):
            raise ExtensionError("BAD_SIGNATURE", "the reply has a tip that the host did not sign", "tip")
        conflict = await find_conflict(self.ledger, stored, tip)
        if conflict is not None:
            await self._store_conflict(version, conflict)

    async def _find_first_conflict(self, version: VersionedVote, address: LogAddress | None) -> None:
        """Find the first number that the host has given out twice, and raise that; return if there is none."""
        stored, number, more = version.stored, 0, True
        while more:
            reply = await self._exchange(
                address or address_of_host(stored), log.write_read(stored.id, number, None)
            )
            theirs = entries_in(reply)
            ours = await self.ledger.entries(stored.id, number, len(theirs))
            for own, other in zip(ours, theirs, strict=False):
                conflict = log.conflict_between(stored.vote.host, log.tip_of(own), log.tip_of(other))
                if conflict is not None:
                    await self._store_conflict(version, conflict)
            number += len(theirs)
            more = reply.more and 0 < len(theirs) == len(ours)

    async def _store_conflict(self, version: VersionedVote, conflict: log.ConflictingRecord) -> None:
        """Store the proof, and raise it as an error."""
        if version.stored.conflict is None:
            change = self.ledger.changing(version, replace(version.stored, conflict=conflict))
            act = self._note("FRAUD", OWN_PROCESS, conflict.host[:12])
            await self._record.commit((change,), replace(act, failed_step="fraud"))
        raise conflict_error(conflict)

    async def _move(self, version: VersionedVote, url: str, caller: Caller) -> VersionedVote:
        """Store the new address of the host."""
        if version.stored.url == url:
            return version
        change = self.ledger.changing(version, replace(version.stored, url=url))
        await self._record.commit((change,), self._note("MOVED", caller))
        return await self._find(version.stored.id)

    async def _commit(
        self, operations: tuple[Operation, ...], what: str, entry: log.VoteEntry, caller: Caller
    ) -> None:
        act = self._note(what, caller, f"{entry.action.op} #{entry.number}")
        await self._record.commit(operations, replace(act, hashes={"content_hash": f"sha256:{entry.hash()}"}))

    def _note(self, what: str, caller: Caller, about: str = "") -> Act:
        return Act(feature=FEATURE, result=f"DELIBERATION_{what}", caller=caller, about=about)

    @contextlib.asynccontextmanager
    async def _locked(self, delib_id: str) -> AsyncIterator[None]:
        """Let one task in this process, and one process, act at a time. Others may read our copy meanwhile: two nodes that
        read from each other must not wait for each other.
        """
        async with self.ledger.locks.of(f"elsewhere {delib_id}"):
            wanted = self._lease(delib_id)
            lease = await self._acquire(wanted)
            renewing = asyncio.ensure_future(self._renew(wanted))
            try:
                yield
            finally:
                renewing.cancel()
                with contextlib.suppress(ComityError):  # at worst it expires
                    await self._store.commit(lease)

    def _lease(self, id_: str) -> Acquire:
        return Acquire(name=f"deliberation:{id_}", holder=self._holder, ttl=LEASE_SECONDS)

    async def _renew(self, held: Acquire) -> None:
        with contextlib.suppress(ComityError):  # if it is lost, what is signed next is refused
            while True:
                await self._clock.sleep(LEASE_SECONDS / 3)
                await self._store.commit(held)

    async def _acquire(self, acquire: Acquire) -> Release:
        deadline = self._clock.monotonic() + _MAX_LEASE_WAIT_SECONDS
        while True:
            try:
                (lease,) = await self._store.commit(acquire)
                return Release(name=lease.name, token=lease.token)
            except StoreConflict:
                if self._clock.monotonic() > deadline:
                    raise OverloadedError("another process is at work in this vote; try again soon") from None
                await self._clock.sleep(_POLL_SECONDS)


def _is_of_this_machine(caller: Caller) -> bool:
    """Return whether the caller can reach private addresses without us: the owner, and VCP clients on this machine."""
    return caller.is_local or (caller.kind == "vcp" and is_loopback(caller.address))
