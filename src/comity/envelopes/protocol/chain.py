"""The chain rule (envelope 2): each envelope of a directed pair has the next number and names the last.

A→B and B→A are two pairs. The rule does not look at signatures: verify first, advance afterwards.
Peers look for the beginnings of the three refusals in the text, so they stay as they are.
"""

from datetime import datetime
from typing import Any, Protocol, Self, runtime_checkable

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from comity.envelopes.protocol import message
from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    HASH_BYTES,
    LAST_SEQUENCE_NO,
    VacantEnvelope,
    reply_key,
    signed_envelope,
    spoken_in,
)
from comity.envelopes.protocol.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ProtocolError,
    ReplayDetectedError,
    StaleEnvelopeError,
)
from comity.envelopes.protocol.message import A2AMessage, read_time, utc, utc_iso
from comity.identity.protocol.keys import SigningKey, VacantId, verify
from comity.wire.canonical import envelope_form
from comity.wire.errors import ComityError, ConflictError, ErrorAnswer


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
        """Raise if the envelope does not come next; the signature is the caller's to check first."""


def comes_early(state: ReplayState, envelope: VacantEnvelope) -> bool:
    """Return whether envelopes between the last one of the pair and this one are missing. After them it may be taken."""
    return envelope.sequence_no > state.last_sequence_no + 1


def check_chain(state: ReplayState, envelope: VacantEnvelope) -> ReplayState:
    """Return where the pair stands after `envelope`, or the reason why it does not come next."""
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


def signed_reply(
    request: VacantEnvelope, payload: A2AMessage, *, replied: ReplayState, key: SigningKey, now: datetime
) -> VacantEnvelope:
    """Sign the reply to a request. `replied` is the position of the chain of replies before it."""
    return signed_envelope(
        from_vid=key.vacant_id,
        to_vid=request.from_vacant_id,
        payload=spoken_in(request.dialect, payload),
        sequence_no=replied.last_sequence_no + 1,
        prev_envelope_hash=replied.chain_tip,
        idempotency_key=reply_key(request),
        timestamp=now,
        signing_key=key,
        dialect=request.dialect,
    )


def check_freshness(envelope: VacantEnvelope, *, now: datetime, window: float) -> None:
    """Refuse what was signed more than `window` seconds before or after `now`.

    The contract has no such rule; a node applies it only where its owner set a window.
    """
    age = (now - envelope.timestamp).total_seconds()
    if abs(age) > window:
        where = "behind" if age > 0 else "ahead of"
        raise StaleEnvelopeError(
            f"timestamp {envelope.timestamp.isoformat()} is {abs(age):,.0f} s {where} this node's clock "
            f"({now.isoformat(timespec='seconds')}), beyond the window of {window:,g} s; set the clock right and sign again"
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


# The receiver's signed word on where a pair stands: the way back for a sender that lost its place.

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
        wire = message.shaped(value, _Statement, "statement")
        try:
            return cls(
                from_vacant_id=message.vacant_id(wire.from_vacant_id, "from_vacant_id"),
                to_vacant_id=message.vacant_id(wire.to_vacant_id, "to_vacant_id"),
                sequence_no=wire.sequence_no,
                chain_tip=message.hex_bytes(wire.chain_tip, "chain_tip"),
                timestamp=read_time(wire.timestamp),
                signature=message.hex_bytes(wire.signature, "signature"),
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
        """Return whether the receiver of the pair signed this."""
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
    """Return the position from which the sender continues after `statement`; `known` is its last accepted position."""
    if PairKey(statement.from_vacant_id, statement.to_vacant_id) != pair:
        raise EnvelopeFormatError("the statement is about another pair; it is not believed")
    if not statement.verify():
        raise EnvelopeSignatureError(
            f"the statement is not signed by {statement.to_vacant_id.short()}; it is not believed"
        )
    stated = statement.state()
    if stated.last_sequence_no < known.last_sequence_no:
        raise ReplayDetectedError(
            f"the statement goes back to {stated.last_sequence_no}, "
            f"and {known.last_sequence_no} was accepted already; it is not believed"
        )
    if stated.last_sequence_no == known.last_sequence_no and stated.chain_tip != known.chain_tip:
        raise ChainForkError(
            f"the statement names another envelope as number {known.last_sequence_no}; it is not believed"
        )
    return stated


# What an envelope can be refused for once it is well formed, beyond its signature.


class MisdirectedError(ProtocolError):
    """It is addressed to somebody else."""

    code = "misdirected"
    _answer = ErrorAnswer(421, -32052)

    def __init__(self, addressee: VacantId, server: VacantId) -> None:
        super().__init__(f"envelope addressed to {addressee.short()}; this server is {server.short()}")
        self.addressee = addressee


class VacantGoneError(ProtocolError):
    """It will never answer again."""

    code = "vacant_gone"
    _answer = ErrorAnswer(410, -32054)


class VacantAsleepError(ProtocolError):
    """It does not answer now."""

    code = "vacant_asleep"
    _answer = ErrorAnswer(423, -32054)


class BehaviourError(ComityError):
    """The agent's own code failed; the pair is where it was."""

    code = "behaviour_failed"
    _answer = ErrorAnswer(500, -32603)


class OutOfChainError(ConflictError):
    """Not the next envelope of its pair. It carries the signed way back; its cause is the chain's own error."""

    code = "out_of_chain"

    def __init__(self, message: str, pair: PairKey, state: ReplayState, statement: TipStatement) -> None:
        super().__init__(message)
        self.pair = pair
        self.state = state
        self.statement = statement

    def body(self) -> dict[str, Any]:
        return {
            "detail": self.message,
            "expected_sequence_no": self.state.last_sequence_no + 1,
            "chain_tip": self.state.chain_tip.hex(),
            "statement": self.statement.to_json(),
        }
