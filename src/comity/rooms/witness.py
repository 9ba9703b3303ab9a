"""Witnesses in rooms: the hellos between our nodes carry heads of their audit records, as signed calls do.

A hello is written at once, and a witness needs the store. So a hello carries what was made ready before: first our head;
after the first hello of a node also what we hold of its record, and the proof from what it holds of ours. Hellos are
repeated every minute, so both nodes have both proofs a minute or two after they have met.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from comity.identity.protocol.keys import VacantId
from comity.rooms.protocol.effects import TakeWitness, WitnessReady
from comity.store.interface import StoreConflict
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
    """The witnesses of one session; none where the node gives none."""

    def __init__(self, witnesses: "Witnesses | None", clock: Clock) -> None:
        self._witnesses = witnesses
        self._clock = clock
        self._turns: OrderedDict[str, tuple[int, float]] = OrderedDict()

    async def announce(self, tell: Callable[[WitnessReady], None]) -> None:
        """Say what nodes of which nothing is known yet are told: our head."""
        signed = None if self._witnesses is None else await self._witnesses.own_head()
        if signed is not None:
            tell(WitnessReady("", {"head": msgspec.to_builtins(signed.head), "sig": signed.signature}))

    async def take(self, said: TakeWitness, tell: Callable[[WitnessReady], None]) -> None:
        """Take what the hello of a node said, and say what it is told from now on."""
        turn = 0 if self._witnesses is None else self._next_turn(said.node)
        if self._witnesses is None or not turn:
            return
        try:
            made = await self._witnesses.exchange(
                VacantId.from_hex(said.node), said.witness, may_lack_proof=turn < _OPENING
            )
        except StoreConflict:  # a call exchanged heads with the same node: later again
            self._turns[said.node] = turn - 1, self._clock.monotonic() + _SOON
            return
        except ComityError as reason:
            log.warning("the witness of %s in a room is not kept: %s", said.node[:12], reason)
            return
        if made is not None:
            tell(WitnessReady(said.node, made))

    def _next_turn(self, node: str) -> int:
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
