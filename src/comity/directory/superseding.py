"""Publishing under a new key: the card of the old key is retired, and a search shows the new one.

- The card of the new key carries the statements (`policy.succession`). A false line is refused with the publication. A line
  that this directory does not follow, because it does not know the recovery key, or it is in conflict, retires nothing.
- A key that was replaced publishes nothing any more. If the recovery key takes an identity back, the card of the thief is
  retired as well.
- All of it is one transaction with the publication.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from comity.directory.cards import keep_record, read_record
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.successions import RECOVERY, Successions, first_recovery, line_of
from comity.identity.protocol.keys import VacantId
from comity.identity.protocol.succession import (
    KnownLine,
    SuccessionRefusedError,
    read_line,
    read_recovery_hash,
)
from comity.requests.record import Act
from comity.store.interface import Operation, Store
from comity.wire.errors import ConflictError

log = logging.getLogger("comity.directory")


class Superseded(NamedTuple):
    """What goes with a publication. `act` is for the record once it is stored."""

    operations: tuple[Operation, ...] = ()
    act: Act | None = None


class Superseding:
    def __init__(self, store: Store, successions: Successions) -> None:
        self._store = store
        self._successions = successions

    async def by(self, card: CapabilityCard) -> Superseded:
        """Return what the publication of this card changes for other keys. Raise if its key was replaced."""
        own, policy = card.vacant_id.hex(), card.substrate_spec.policy
        line = read_line(policy["succession"]) if "succession" in policy else ()
        before = await line_of(self._store, own)
        recovery = read_recovery_hash(policy)
        seen = first_recovery(own, recovery, await self._store.get(RECOVERY, own))
        change = None
        if line:
            try:
                change = await self._successions.change(line, card.vacant_id, self._knows)
            except SuccessionRefusedError as reason:
                log.warning("the line of %s is not followed: %s", card.vacant_id, reason)
        after = before if change is None else change.after
        if after is None:
            return Superseded(seen)
        _refuse_replaced(after, card.vacant_id)
        if after.state != "followed" or after.current != own:
            return Superseded((*seen, *(change.operations if change else ())), change.act if change else None)
        others = {*after.ids(), *(change.before.ids() if change else ())} - {own}
        retired = await self._retire(others, own)
        if change is None or not change.operations:
            return Superseded((*seen, *retired))
        return Superseded((*seen, *retired, *change.operations), change.act)

    def note(self, act: Act) -> None:
        self._successions.note(act)

    async def _retire(self, ids: Iterable[str], successor: str) -> tuple[Operation, ...]:
        operations: list[Operation] = []
        for each in sorted(ids):
            record = await read_record(self._store, VacantId.from_hex(each))
            if record is not None and record.succeeded_by != successor:
                operations += keep_record(replace(record, succeeded_by=successor))
        return tuple(operations)

    async def _knows(self, vacant_id: VacantId) -> bool:
        return await read_record(self._store, vacant_id) is not None


def _refuse_replaced(line: KnownLine, vacant_id: VacantId) -> None:
    own = vacant_id.hex()
    contradicts = line.conflict is not None and line.conflict.new == own
    waits = own in {each.new for each in line.steps[line.followed :]}
    if own == line.current or waits or contradicts:
        return
    raise ConflictError(
        f"{vacant_id} was replaced by {line.current}, and its card is retired; publish the card of the new key"
    )
