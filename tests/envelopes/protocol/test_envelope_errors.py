import inspect

import pytest

from comity.envelopes.protocol import errors
from comity.http.statuses import http_status
from comity.wire.errors import ComityError

CLASSES = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_stands_in_the_contracts_line(kind):
    assert issubclass(kind, errors.CoreError)
    assert issubclass(kind, ComityError)
    assert kind("a reason").message == "a reason"


def test_every_error_has_a_code_of_its_own():
    assert len({kind.code for kind in CLASSES}) == len(CLASSES)


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
    ],
)
def test_the_doors_know_how_to_speak_it(kind, status):
    assert http_status(kind("a reason")) == status
