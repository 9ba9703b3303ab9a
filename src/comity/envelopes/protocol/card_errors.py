"""Errors of a directory and of a life cycle, with the names of the contract.

Each is also a subclass of one of our own errors, so that the doors know its status.
"""

from comity.envelopes.protocol.errors import CoreError
from comity.wire import errors


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
