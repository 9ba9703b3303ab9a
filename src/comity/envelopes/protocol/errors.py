"""What can be wrong with an envelope, in the contract's own names.

Each name stands in two lines: the contract's (`CoreError`, `ProtocolError`), for callers who catch by
it, and one of ours (`InvalidError`, `ConflictError`, …), by which the doors know how to speak it.
"""

from comity.wire import errors
from comity.wire.errors import ComityError, ConflictError, InvalidError, RetryLaterError, UnauthenticatedError


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


class TargetNotFoundError(ProtocolError, errors.NotFoundError):
    code = "target_not_found"


class TargetUnavailableError(ProtocolError, RetryLaterError):
    """The target is known and takes no calls in its present state."""

    code = "target_unavailable"


# Errors of a directory and of a life cycle, with the names of the contract.


class InvalidEventError(CoreError, errors.ConflictError):
    """The life cycle has no such transition from the current state."""

    code = "invalid_event"


class RegistryError(CoreError):
    code = "registry"


class RegistryWriteError(RegistryError):
    code = "registry_write"


class SignatureRejected(RegistryWriteError, errors.UnauthenticatedError):  # noqa: N818 - the contract's name
    code = "signature_rejected"


class SequenceMonotonicityError(RegistryWriteError, errors.ConflictError):
    """An actor's events are numbered without gaps, and this is not the next one."""

    code = "sequence_monotonicity"


class FreshnessError(RegistryWriteError, errors.InvalidError):
    """The event is too old, or from too far ahead."""

    code = "freshness"


class IdempotencyConflict(RegistryWriteError, errors.ConflictError):  # noqa: N818 - the contract's name
    """The key was used before, for something else."""

    code = "idempotency_conflict"


class AppendOnlyViolation(RegistryWriteError, errors.ConflictError):  # noqa: N818 - the contract's name
    """What is registered is never taken back or rewritten."""

    code = "append_only_violation"


class VisibilityViolation(RegistryError, errors.ForbiddenError):  # noqa: N818 - the contract's name
    """The card is there, and not for this reader."""

    code = "visibility_violation"


class NotFoundError(RegistryError, errors.NotFoundError):
    code = "registry_not_found"


class ReputationError(CoreError, errors.InvalidError):
    code = "reputation"
