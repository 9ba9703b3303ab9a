"""Witnesses in rooms: the hellos between our nodes carry heads of their audit records, as signed calls do.

A hello is written at once, and a witness needs the store. So a hello carries what was made ready before: first our head;
after the first hello of a node also what we hold of its record, and the proof from what it holds of ours. Hellos are
repeated every minute, so both nodes have both proofs a minute or two after they have met.
"""

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from comity.identity.protocol.keys import VacantId
from comity.rooms.protocol.effects import WitnessReady
from comity.wire.errors import ComityError
from comity.wire.machine import Clock

if TYPE_CHECKING:
    from comity.envelopes.witness import Witnesses

log = logging.getLogger("comity.rooms")

_SOON: Final = 30.0
_LATER: Final = 3600.0
_OPENING: Final = 3
"""Exchanges in which each may hear for the first time what the other holds; a proof may be missing in all but the last."""
_MAX_NODES: Final = 256


class RoomWitness:
    """The witnesses of one session."""

    def __init__(self, witnesses: "Witnesses", clock: Clock) -> None:
        self._witnesses = witnesses
        self._clock = clock
        self._turns: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def next_turn(self, node: str) -> int:
        """Return which exchange with this node begins now, from 1; 0 if it is too early: after a few there is one in an hour."""
        turn, due = self._turns.get(node, (0, 0.0))
        now = self._clock.monotonic()
        if turn and now < due:
            return 0
        self._turns[node] = turn + 1, now + (_SOON if turn + 1 < _OPENING else _LATER)
        self._turns.move_to_end(node)
        if len(self._turns) > _MAX_NODES:
            self._turns.popitem(last=False)
        return turn + 1

    async def announcement(self) -> WitnessReady | None:
        """Return what is said to a node of which nothing is known yet: our head."""
        signed = await self._witnesses.own_head()
        if signed is None:
            return None
        return WitnessReady("", {"head": msgspec.to_builtins(signed.head), "sig": signed.signature})

    async def exchange(self, node: str, given: dict[str, Any], turn: int) -> WitnessReady | None:
        """Take what the hello of a node said, and return what is said to it from now on."""
        try:
            made = await self._witnesses.exchange(
                VacantId.from_hex(node), given, may_lack_proof=turn < _OPENING
            )
        except ComityError as reason:
            log.warning("the witness of %s in a room is not kept: %s", node[:12], reason)
            return None
        return None if made is None else WitnessReady(node, made)
