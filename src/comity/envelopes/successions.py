"""Which keys of other identities were replaced, as far as this node knows, and what it says of its own.

- A line of statements comes with the first call of a new key, with a card that is called, or with a card that is published
  in the directory of this node. `identity/protocol/succession.py` decides what to make of it.
- Only identities are followed that this node knows: it has a chain with one of their keys, or their card. So nobody makes it
  store lines of keys that it never met; the number of lines is limited as well.
- The recovery hash of a key is kept from the first card that was seen of it.
- To follow a line is to show two keys as one identity. It gives a new key no right that its owner did not prove.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from comity.contacts.lookup import is_contact
from comity.envelopes.client.pair import CALL_BOOK
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.queues import SERVE_BOOK, chain_of
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.identity.protocol.succession import (
    Continues,
    KnownLine,
    Succession,
    SuccessionRefusedError,
    read_line,
    read_recovery_hash,
    take_line,
)
from comity.identity.succession_files import OwnLine
from comity.requests.caller import Caller
from comity.requests.record import Act, Recorder
from comity.store.interface import Operation, Put, Store, StoreConflict, Tip, scan_all
from comity.wire.errors import ComityError, StoreCorruptError

MAX_LINES: Final = 2_000
LINES: Final = "succession-lines"
IDS: Final = "succession-ids"
RECOVERY: Final = "recovery-hashes"

_COUNT: Final = "count"
_ATTEMPTS: Final = 8
_REMEMBERED: Final = 1024
_RESULTS: Final = {
    "followed": "SUCCESSION_FOLLOWED",
    "waits": "SUCCESSION_WAITS",
    "conflict": "SUCCESSION_CONFLICT",
}

log = logging.getLogger("comity.envelopes")

IsKnown = Callable[[VacantId], Awaitable[bool]]


class LineChange(NamedTuple):
    """What a line that was taken changes: the operations that store it, and what to record."""

    before: KnownLine
    after: KnownLine
    operations: tuple[Operation, ...]
    act: Act


class Successions:
    """The feature `succession` of signed calls (`envelopes/features.py`)."""

    member = "succession"
    unasked = False
    introduces = True

    def __init__(self, store: Store, record: Recorder, key: SigningKey, line: OwnLine) -> None:
        self._store = store
        self._record = record
        self._key = key
        self._line = line
        self._taken: OrderedDict[bytes, None] = OrderedDict()

    async def to_request(self, card: CapabilityCard) -> Mapping[str, Any] | None:
        """Return the own line for the first call to an agent that knows a former key."""
        line, peer = self._line, card.vacant_id
        if not line.statements or (await self._tip(line.current, peer, CALL_BOOK)).seq:
            return None
        for former in line.former:
            tip = await self._tip(former, peer, CALL_BOOK)
            if tip.seq:
                continues = Continues.signed(
                    self._key, old=former.hex(), peer=peer.hex(), seq=tip.seq, tip=tip.hash.hex()
                )
                return {"line": _as_json(line.statements), "continues": msgspec.to_builtins(continues)}
            if (await self._tip(peer, former, SERVE_BOOK)).seq:
                return {"line": _as_json(line.statements)}
        return None

    async def to_reply(self, peer: VacantId, given: Mapping[str, Any] | None, *, known: bool) -> None:
        """Take what came with the first call of a peer."""
        if given is not None and not known:
            await self.take(read_line(given.get("line")), peer, continues=given.get("continues"))

    def note(self, act: Act) -> None:
        """Record what was stored in the commit of another act."""
        self._record.note(act)

    async def take_reply(self, card: CapabilityCard, given: Mapping[str, Any]) -> None:
        """Take nothing: a callee says it in its card."""

    async def take_card(self, card: CapabilityCard) -> None:
        """Take what a verified card says of the keys of its owner, before the owner is called. Refuse the call to a key that
        the recovery key of its identity has given up. A false line is logged, and the call goes on.
        """
        policy = card.substrate_spec.policy
        if "succession" in policy and card.signature not in self._taken:
            try:
                if await self.take(read_line(policy["succession"]), card.vacant_id) is not None:
                    self._remember(card.signature)
            except ComityError as reason:
                log.warning("what the card of %s says of its keys is ignored: %s", card.vacant_id, reason)
        line = await line_of(self._store, card.vacant_id.hex())
        if line is not None and is_given_up(line, card.vacant_id.hex()):
            raise SuccessionRefusedError(
                f"{card.vacant_id} was replaced by its recovery key; call {line.current} instead"
            )
        if recovery := read_recovery_hash(policy):
            await self._note_recovery(card.vacant_id.hex(), recovery)

    def _remember(self, signature: bytes) -> None:
        """Spare the next calls the check of a line that was taken."""
        self._taken[signature] = None
        if len(self._taken) > _REMEMBERED:
            self._taken.popitem(last=False)

    async def take(
        self, line: Sequence[Succession], sender: VacantId, *, continues: Any = None
    ) -> KnownLine | None:
        """Store what the line says. None where this node knows none of its former keys."""
        for attempt in range(1, _ATTEMPTS + 1):
            change = await self.change(line, sender, self._knows)
            if change is None:
                return None
            if change.operations:
                change = await self._joined(change, continues)
                try:
                    await self._record.commit_counted(change.operations, change.act)
                except StoreConflict:
                    if attempt == _ATTEMPTS:
                        raise
                    continue
            return change.after
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def change(self, line: Sequence[Succession], sender: VacantId, knows: IsKnown) -> LineChange | None:
        """Return what the line of a proven sender changes; None where none of its former keys is known."""
        if line[-1].new != sender.hex():
            raise SuccessionRefusedError(
                f"the succession ends at {line[-1].new[:12]}, and {sender.short()} sent it; each key sends its own"
            )
        held = await self._held(line, knows)
        if held is None:
            return None
        before, version = held
        after = take_line(before, line, ask=await self._has_contact(before))
        if after is before:
            return LineChange(before, after, (), _act_of(before, sender))
        await self._refuse_used(before, after, sender)
        return LineChange(
            before, after, await self._operations(before, after, version), _act_of(after, sender)
        )

    async def _held(self, line: Sequence[Succession], knows: IsKnown) -> tuple[KnownLine, int] | None:
        """Return what is stored about the line, or a new line that begins at the oldest key that is known."""
        for each in line:
            root = await self._store.get(IDS, each.old)
            if root is not None:
                return await read_known_line(self._store, root.value.decode())
        for each in line:
            if await knows(VacantId.from_hex(each.old)):
                recovery = await self._store.get(RECOVERY, each.old)
                seen = recovery.value.decode() if recovery else ""
                return KnownLine(root=each.old, recovery=seen), 0
        return None

    async def _operations(self, before: KnownLine, after: KnownLine, version: int) -> tuple[Operation, ...]:
        added = set(after.ids()) - set(before.ids()) if version else set(after.ids())
        if after.conflict is not None:
            added.add(after.conflict.new)
        counted: tuple[Operation, ...] = ()
        if not version:
            held = await self._store.get(LINES, _COUNT)
            count = int(held.value) if held else 0
            if count >= MAX_LINES:
                raise SuccessionRefusedError(
                    f"this node keeps at most {MAX_LINES:,} successions; remove chains that are not needed any more"
                )
            counted = (
                Put(space=LINES, key=_COUNT, value=b"%d" % (count + 1), expect=held.version if held else 0),
            )
        return (
            Put(space=LINES, key=after.root, value=msgspec.json.encode(after), expect=version),
            *(Put(space=IDS, key=each, value=after.root.encode()) for each in sorted(added)),
            *counted,
        )

    async def _refuse_used(self, before: KnownLine, after: KnownLine, sender: VacantId) -> None:
        """Refuse a line to a key that is something else here."""
        own = {self._line.current.hex(), *(each.hex() for each in self._line.former)}
        added = {*after.ids(), *([after.conflict.new] if after.conflict else ())} - set(before.ids())
        for each in added:
            root = await self._store.get(IDS, each)
            if each in own and sender != self._line.current:
                raise SuccessionRefusedError(f"the succession names {each[:12]}, a key of this node")
            if root is not None and root.value.decode() != after.root:
                raise SuccessionRefusedError(f"the succession names {each[:12]}, a key of another identity")
            card = await self._store.get(RECOVERY, each)
            if each != after.root and card is not None and card.value.decode() != after.recovery:
                raise SuccessionRefusedError(
                    f"the succession names {each[:12]}, a key that is in use: its card names another recovery key"
                )

    async def _joined(self, change: LineChange, continues: Any) -> LineChange:
        """Keep where the old chain of a followed line ended, if the new key names what this node has."""
        if continues is None or change.after.state == "conflict":
            return change
        try:
            said = msgspec.convert(continues, Continues)
        except msgspec.ValidationError:
            raise SuccessionRefusedError(
                "continues of a succession must have seq, tip and signature"
            ) from None
        for step in reversed(change.after.steps):
            tip = await self._tip(VacantId.from_hex(step.old), self._line.current, SERVE_BOOK)
            if (said.seq, said.tip) == (tip.seq, tip.hash.hex()):
                new = change.after.steps[-1].new
                if not said.verify(old=step.old, new=new, peer=self._line.current.hex()):
                    raise SuccessionRefusedError(f"continues of the succession is not signed by {new[:12]}")
                after = replace(change.after, seq=said.seq, tip=said.tip)
                put = change.operations[0]
                assert isinstance(put, Put)
                put = replace(put, value=msgspec.json.encode(after))
                return change._replace(after=after, operations=(put, *change.operations[1:]))
        return change

    async def _note_recovery(self, vacant_id: str, recovery: str) -> None:
        if await self._store.get(RECOVERY, vacant_id) is None:
            await self._store.commit(*first_recovery(vacant_id, recovery, None))

    async def _has_contact(self, line: KnownLine) -> bool:
        """Return whether a key of the line is a contact, of whom only the owner says who it is now."""
        return any([await is_contact(self._store, each) for each in line.ids()])

    async def _knows(self, vacant_id: VacantId) -> bool:
        id_ = vacant_id.hex()
        if await self._store.get(RECOVERY, id_) is not None or await is_contact(self._store, id_):
            return True
        return await self._has_chain(vacant_id)

    async def _has_chain(self, peer: VacantId) -> bool:
        for own in (self._line.current, *self._line.former):
            if (await self._tip(peer, own, SERVE_BOOK)).seq or (await self._tip(own, peer, CALL_BOOK)).seq:
                return True
        return False

    async def _tip(self, sender: VacantId, receiver: VacantId, book: str) -> Tip:
        return await self._store.tip(chain_of(PairKey(sender, receiver), book))


def is_given_up(line: KnownLine, vacant_id: str) -> bool:
    """Return whether the recovery key has taken the identity away from a key of the line."""
    if line.conflict is not None and line.conflict.new == vacant_id:
        return False
    replaced = next((each for each in line.steps if each.old == vacant_id), None)
    return replaced.by_recovery if replaced is not None else vacant_id not in set(line.ids())


def first_recovery(vacant_id: str, recovery: str, held: object | None) -> tuple[Operation, ...]:
    """Return what keeps the recovery hash of a key, if none was seen before."""
    if held is not None or not recovery:
        return ()
    return (Put(space=RECOVERY, key=vacant_id, value=recovery.encode()),)


async def read_known_line(store: Store, root: str) -> tuple[KnownLine, int]:
    """Return a stored line and the version to expect when it is changed."""
    held = await store.get(LINES, root)
    try:
        line = None if held is None else msgspec.json.decode(held.value, type=KnownLine)
    except msgspec.MsgspecError:
        line = None
    if held is None or line is None:
        raise StoreCorruptError(
            f"what is stored about the succession of {root[:12]} cannot be read; run `comity doctor`"
        )
    return line, held.version


async def line_of(store: Store, vacant_id: str) -> KnownLine | None:
    """Return the line that a key belongs to, also as a key that was given up or is in conflict."""
    root = await store.get(IDS, vacant_id)
    return None if root is None else (await read_known_line(store, root.value.decode()))[0]


async def former_keys(store: Store, vacant_id: str) -> tuple[str, ...]:
    """Return the keys that this one took the place of, the newest first, as far as that is followed."""
    line = await line_of(store, vacant_id)
    if line is None or line.state == "conflict":
        return ()
    ids = [line.root, *(each.new for each in line.steps[: line.followed])]
    return tuple(reversed(ids[: ids.index(vacant_id)])) if vacant_id in ids else ()


async def known_lines(store: Store, most: int | None = None) -> list[KnownLine]:
    """Return the lines that this node knows, those that need a decision first; all, or `most` of them."""
    lines = []
    async for key, held in scan_all(store, LINES):
        if key != _COUNT:
            lines.append(msgspec.json.decode(held.value, type=KnownLine))
        if len(lines) == most:
            break
    return sorted(lines, key=lambda line: tuple(_RESULTS).index(line.state), reverse=True)


def keep_line(line: KnownLine, version: int) -> Put:
    """Return what stores a line after the owner decided about it."""
    return Put(space=LINES, key=line.root, value=msgspec.json.encode(line), expect=version)


def in_words(line: KnownLine) -> str:
    """Return how a line stands, for people."""
    if line.conflict is not None:
        return f"CONFLICT: two statements of one key; not followed; `comity id follow {line.root[:12]}`"
    if line.state == "waits":
        return f"says {line.steps[-1].new[:12]}; waits for you: `comity id follow {line.root[:12]}`"
    return f"is now {line.current[:12]}" + (f", after message {line.seq:,}" if line.seq else "")


def _as_json(line: Sequence[Succession]) -> list[dict[str, Any]]:
    return [each.as_json() for each in line]


def _act_of(line: KnownLine, sender: VacantId) -> Act:
    return Act(
        feature="calls",
        result=_RESULTS[line.state],
        caller=Caller(kind="vacant", id=sender.hex()),
        about=f"{line.root[:12]} → {sender.short()}",
        hashes={"content_hash": f"succession:{line.root}:{sender.hex()}"},
    )
