"""What can be wrong with an envelope, in the contract's own names.

Each name stands in two lines: the contract's (`CoreError`, `ProtocolError`), for callers who catch by
it, and one of ours (`InvalidError`, `ConflictError`, …), by which the doors know how to speak it.
"""

from comity.wire.errors import (
    ComityError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RetryLaterError,
    UnauthenticatedError,
)


class CoreError(ComityError):
    """Root of the contract's line."""

    code = "core"


class CryptoError(CoreError):
    code = "crypto"


class SignatureVerificationError(CryptoError, UnauthenticatedError):
    code = "signature_verification"


class HashChainError(CoreError, InvalidError):
    """An entry does not follow from the one before it."""

    code = "hash_chain"


class TypeIntegrityError(CoreError, InvalidError):
    """A value contradicts the hash that came with it."""

    code = "type_integrity"


class ProtocolError(CoreError):
    code = "protocol"


class EnvelopeFormatError(ProtocolError, InvalidError):
    """Not an envelope, a card or a reply as the contract writes them."""

    code = "envelope_format"


class UnsupportedHaloVersionError(ProtocolError, InvalidError):
    code = "unsupported_halo_version"


class StaleEnvelopeError(ProtocolError, InvalidError):
    """Signed too far from now, where a freshness window is set; or before the node was restored from a backup."""

    code = "stale_envelope"


class EnvelopeSignatureError(ProtocolError, UnauthenticatedError):
    code = "envelope_signature"


class ReplayDetectedError(ProtocolError, ConflictError):
    """The number of the envelope is not the next one of its pair."""

    code = "replay_detected"


class ChainForkError(ProtocolError, ConflictError):
    """The number is right, and the envelope follows another one than we know."""

    code = "chain_fork"


class TargetNotFoundError(ProtocolError, NotFoundError):
    code = "target_not_found"


class TargetUnavailableError(ProtocolError, RetryLaterError):
    """The target is known and takes no calls in its present state."""

    code = "target_unavailable"
