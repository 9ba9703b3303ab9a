import inspect

import pytest

from comity.envelopes.protocol import errors
from comity.envelopes.protocol.errors import CoreError
from comity.wire.errors import ComityError, NotFoundError, http_status

CLASSES = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_stands_in_the_contracts_line(kind):
    assert issubclass(kind, CoreError)
    assert issubclass(kind, ComityError)
    assert kind("a reason").message == "a reason"


def test_every_error_has_a_code_of_its_own():
    assert len({kind.code for kind in CLASSES}) == len(CLASSES)


def test_a_card_that_is_not_there_is_not_found_like_anything_else():
    assert issubclass(errors.NotFoundError, NotFoundError)
    assert issubclass(errors.NotFoundError, errors.RegistryError)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.EnvelopeFormatError, 400),
        (errors.UnsupportedHaloVersionError, 400),
        (errors.StaleEnvelopeError, 400),
        (errors.HashChainError, 400),
        (errors.TypeIntegrityError, 400),
        (errors.EnvelopeSignatureError, 401),
        (errors.SignatureVerificationError, 401),
        (errors.TargetNotFoundError, 404),
        (errors.ReplayDetectedError, 409),
        (errors.ChainForkError, 409),
        (errors.TargetUnavailableError, 503),
        (errors.FreshnessError, 400),
        (errors.ReputationError, 400),
        (errors.SignatureRejected, 401),
        (errors.VisibilityViolation, 403),
        (errors.NotFoundError, 404),
        (errors.SequenceMonotonicityError, 409),
        (errors.IdempotencyConflict, 409),
        (errors.AppendOnlyViolation, 409),
        (errors.InvalidEventError, 409),
    ],
)
def test_the_doors_know_how_to_speak_it(kind, status):
    assert http_status(kind("a reason")) == status


@pytest.mark.parametrize(
    "kind",
    [
        errors.SignatureRejected,
        errors.SequenceMonotonicityError,
        errors.FreshnessError,
        errors.IdempotencyConflict,
        errors.AppendOnlyViolation,
    ],
)
def test_what_a_registry_does_not_write_can_be_caught_as_one(kind):
    assert issubclass(kind, errors.RegistryWriteError)
    assert issubclass(kind, errors.RegistryError)


@pytest.mark.parametrize(
    "kind",
    [
        errors.EnvelopeSignatureError,
        errors.EnvelopeFormatError,
        errors.UnsupportedHaloVersionError,
        errors.ReplayDetectedError,
        errors.ChainForkError,
        errors.TargetUnavailableError,
        errors.TargetNotFoundError,
    ],
)
def test_what_the_protocol_refuses_can_be_caught_as_one(kind):
    assert issubclass(kind, errors.ProtocolError)
