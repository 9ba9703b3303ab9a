"""The chain rule (envelope 2): each envelope of a directed pair has the next number and names the last.

A→B and B→A are two pairs. The rule does not look at signatures: verify first, advance afterwards.
Peers look for the beginnings of the three refusals in the text, so they stay as they are.
"""

from datetime import datetime
from typing import Protocol, Self, runtime_checkable

from msgspec import Struct

from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH, VacantEnvelope
from comity.envelopes.protocol.errors import ChainForkError, ReplayDetectedError, StaleEnvelopeError
from comity.identity.protocol.keys import VacantId


class PairKey(Struct, frozen=True):
    from_vid: VacantId
    to_vid: VacantId

    @classmethod
    def from_envelope(cls, env: VacantEnvelope) -> Self:
        return cls(env.from_vacant_id, env.to_vacant_id)


class ReplayState(Struct, frozen=True):
    """The position of a pair: its last number and hash. A new pair has 0 and zeros."""

    last_sequence_no: int = 0
    chain_tip: bytes = EMPTY_PREV_HASH


@runtime_checkable
class ReplayStore(Protocol):
    """Whatever keeps where pairs stand, and accepts each envelope of a pair once and in its turn."""

    async def get(self, key: PairKey, /) -> ReplayState: ...

    async def check_and_advance(self, env: VacantEnvelope, /) -> None:
        """Raises where the envelope does not come next; the signature is the caller's to check first."""


def comes_early(state: ReplayState, envelope: VacantEnvelope) -> bool:
    """Whether envelopes between the last one of the pair and this one are missing. After them it may be taken."""
    return envelope.sequence_no > state.last_sequence_no + 1


def check_chain(state: ReplayState, envelope: VacantEnvelope) -> ReplayState:
    """Where the pair stands after `envelope`, or the reason why it does not come next."""
    last, sequence_no = state.last_sequence_no, envelope.sequence_no
    if sequence_no <= last:
        raise ReplayDetectedError(f"replay/out-of-order envelope: seq {sequence_no} <= last_seen {last}")
    if comes_early(state, envelope):
        raise ReplayDetectedError(f"non-monotonic sequence_no: expected {last + 1}, got {sequence_no}")
    if envelope.prev_envelope_hash != state.chain_tip:
        raise ChainForkError(
            f"prev_envelope_hash mismatch: expected {state.chain_tip.hex()}, "
            f"got {envelope.prev_envelope_hash.hex()}"
        )
    return ReplayState(sequence_no, envelope.compute_hash())


def check_freshness(envelope: VacantEnvelope, *, now: datetime, window: float) -> None:
    """Refuse what was signed more than `window` seconds before or after `now`.

    The contract has no such rule; a node applies it only where its owner set a window.
    """
    age = (now - envelope.timestamp).total_seconds()
    if abs(age) > window:
        where = "behind" if age > 0 else "ahead of"
        raise StaleEnvelopeError(
            f"timestamp {envelope.timestamp.isoformat()} is {abs(age):,.0f} s {where} this node's clock, "
            f"beyond the window of {window:,g} s; set the clock right and sign again"
        )


def check_stamped_after(envelope: VacantEnvelope, moment: datetime) -> None:
    """Refuse what was signed up to `moment`, when a node was restored from a backup.

    Its chains went back to an earlier place, so it may have accepted the envelope before and not know it any more.
    """
    if envelope.timestamp <= moment:
        raise StaleEnvelopeError(
            f"timestamp {envelope.timestamp.isoformat()} is not after {moment.isoformat()}, when this node was restored "
            "from a backup; what was signed before may have been accepted already. Sign the message again"
        )
