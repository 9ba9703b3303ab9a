"""The receiver's signed word on where a pair stands: the way back for a sender that lost its place.

`sequence_no` is the last number that the receiver accepted from the sender (0: none) and `chain_tip`
the hash it ended on. It is signed by the receiver, under a heading of its own, so that no envelope,
card or log entry can be passed off as a statement.

A sender believes a statement only about its own pair, only under the receiver's signature, and only
forwards: a receiver that restores an old copy of its state does not make anybody sign a number twice.
"""

from datetime import datetime
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from comity.envelopes.protocol import members
from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.protocol.envelope import HASH_BYTES, LAST_SEQUENCE_NO
from comity.envelopes.protocol.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ReplayDetectedError,
)
from comity.envelopes.protocol.members import read_time, utc, utc_iso
from comity.identity.protocol.keys import SigningKey, VacantId, verify
from comity.wire.canonical import envelope_form

_HEADING = b"comity chain tip 1\n"


class _Statement(Struct):
    from_vacant_id: str
    to_vacant_id: str
    sequence_no: int
    chain_tip: str
    timestamp: str
    signature: str


class TipStatement(Struct, frozen=True, kw_only=True):
    from_vacant_id: VacantId
    to_vacant_id: VacantId
    sequence_no: int
    chain_tip: bytes
    timestamp: datetime
    signature: bytes = b""

    def __post_init__(self) -> None:
        if type(self.sequence_no) is not int or not 0 <= self.sequence_no <= LAST_SEQUENCE_NO:
            raise EnvelopeFormatError(f"sequence_no must be an integer from 0 to {LAST_SEQUENCE_NO}")
        if type(self.chain_tip) is not bytes or len(self.chain_tip) != HASH_BYTES:
            raise EnvelopeFormatError(f"chain_tip must be exactly {HASH_BYTES} bytes")
        force_setattr(self, "timestamp", utc(self.timestamp))

    @classmethod
    def of(cls, pair: PairKey, state: ReplayState, *, now: datetime) -> Self:
        return cls(
            from_vacant_id=pair.from_vid,
            to_vacant_id=pair.to_vid,
            sequence_no=state.last_sequence_no,
            chain_tip=state.chain_tip,
            timestamp=now,
        )

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `to_json` gave; EnvelopeFormatError for anything else."""
        wire = members.shaped(value, _Statement, "statement")
        try:
            return cls(
                from_vacant_id=members.vacant_id(wire.from_vacant_id, "from_vacant_id"),
                to_vacant_id=members.vacant_id(wire.to_vacant_id, "to_vacant_id"),
                sequence_no=wire.sequence_no,
                chain_tip=members.hex_bytes(wire.chain_tip, "chain_tip"),
                timestamp=read_time(wire.timestamp),
                signature=members.hex_bytes(wire.signature, "signature"),
            )
        except EnvelopeFormatError as reason:
            raise EnvelopeFormatError(f"invalid statement: {reason.message}") from None

    def to_json(self) -> dict[str, Any]:
        return {**self._signed_members(), "signature": self.signature.hex()}

    def state(self) -> ReplayState:
        return ReplayState(self.sequence_no, self.chain_tip)

    def signing_payload(self) -> bytes:
        return _HEADING + envelope_form(self._signed_members())

    def signed(self, key: SigningKey) -> Self:
        return replace(self, signature=key.sign(self.signing_payload()))

    def verify(self) -> bool:
        """Whether the receiver of the pair signed this."""
        return verify(self.to_vacant_id.public, self.signing_payload(), self.signature)

    def _signed_members(self) -> dict[str, Any]:
        return {
            "from_vacant_id": self.from_vacant_id.hex(),
            "to_vacant_id": self.to_vacant_id.hex(),
            "sequence_no": self.sequence_no,
            "chain_tip": self.chain_tip.hex(),
            "timestamp": utc_iso(self.timestamp),
        }


def resynchronised(pair: PairKey, known: ReplayState, statement: TipStatement) -> ReplayState:
    """The position from which the sender continues after `statement`; `known` is its last accepted position."""
    if PairKey(statement.from_vacant_id, statement.to_vacant_id) != pair:
        raise EnvelopeFormatError("the statement is about another pair; it is not believed")
    if not statement.verify():
        raise EnvelopeSignatureError(
            f"the statement is not signed by {statement.to_vacant_id.short()}; it is not believed"
        )
    told = statement.state()
    if told.last_sequence_no < known.last_sequence_no:
        raise ReplayDetectedError(
            f"the statement goes back to {told.last_sequence_no}, "
            f"and {known.last_sequence_no} was accepted already; it is not believed"
        )
    if told.last_sequence_no == known.last_sequence_no and told.chain_tip != known.chain_tip:
        raise ChainForkError(
            f"the statement names another envelope as number {known.last_sequence_no}; it is not believed"
        )
    return told
