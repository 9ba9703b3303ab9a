"""The looks of errors: every one has a deliberate look, and none shows strangers what is inside."""

import importlib
import pkgutil

import pytest

import comity
from comity.agents.substrate import SubstrateError
from comity.cli.demo_nodes import SceneFailedError
from comity.testing.loop import DeadlockError
from comity.vcp.client_session import VcpRefusedError
from comity.vcp.protocol.messages import HandshakeError
from comity.vcp.protocol.signals import ContextError
from comity.wire import errors, jsonrpc
from comity.wire.errors import (
    ComityError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    http_status,
    public_message,
    rpc_code,
)

SECRETS = (
    "/home/somebody/.local/share/comity/comity.db",
    "UNIQUE constraint failed: chain.sender",
    "SELECT id FROM chain",
)
SPOKEN_ELSEWHERE = {
    SceneFailedError: "told in the terminal",
    VcpRefusedError: "met on the way out",
    SubstrateError: "reaches a door as the failure of a behaviour",
    ContextError: "an error message of its own (vcp 4.3)",
    HandshakeError: "vcp-error",
}
INSIDE = "this node cannot serve the request right now; its log says why"


def every_error():
    for module in pkgutil.walk_packages(comity.__path__, "comity."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, waiting = [], [ComityError]
    for kind in waiting:
        waiting.extend(kind.__subclasses__())
        if kind.__module__.startswith("comity.") and kind is not DeadlockError:
            found.append(kind)
    return found


def made(kind, text="something"):
    """An error of this kind, however its own constructor is called."""
    error = kind.__new__(kind)
    error.args = (text,)
    error.retry_after = 1.0
    return error


LOOKS = {
    errors.MalformedError: (400, jsonrpc.PARSE_ERROR),
    errors.InvalidError: (400, jsonrpc.INVALID_PARAMS),
    errors.ActionError: (400, jsonrpc.INVALID_PARAMS),
    errors.TooLargeError: (413, jsonrpc.INVALID_REQUEST),
    errors.UnauthenticatedError: (401, jsonrpc.INVALID_REQUEST),
    errors.ForbiddenError: (403, jsonrpc.INVALID_REQUEST),
    errors.NotFoundError: (404, jsonrpc.INVALID_PARAMS),
    errors.ConflictError: (409, jsonrpc.INVALID_REQUEST),
    errors.RateLimitedError: (429, jsonrpc.INVALID_REQUEST),
    errors.RetryLaterError: (503, jsonrpc.INTERNAL_ERROR),
    errors.OverloadedError: (503, jsonrpc.INTERNAL_ERROR),
    errors.StorageFullError: (507, jsonrpc.INVALID_REQUEST),
    errors.DeadlineError: (504, jsonrpc.INTERNAL_ERROR),
    errors.PeerError: (502, jsonrpc.INTERNAL_ERROR),
    errors.TargetRefusedError: (403, jsonrpc.INVALID_REQUEST),
    errors.PinRefusedError: (403, jsonrpc.INVALID_REQUEST),
    errors.UnreachableError: (503, jsonrpc.INTERNAL_ERROR),
    errors.NoAnswerError: (503, jsonrpc.INTERNAL_ERROR),
    errors.UnusableAnswerError: (502, jsonrpc.INTERNAL_ERROR),
    errors.ConfigError: (500, jsonrpc.INTERNAL_ERROR),
    errors.KeyRefusedError: (500, jsonrpc.INTERNAL_ERROR),
    errors.StoreError: (503, jsonrpc.INTERNAL_ERROR),
    errors.StoreCorruptError: (503, jsonrpc.INTERNAL_ERROR),
    errors.StoreVersionError: (503, jsonrpc.INTERNAL_ERROR),
    errors.StoreUnavailableError: (503, jsonrpc.INTERNAL_ERROR),
    errors.StoreFullError: (507, jsonrpc.INTERNAL_ERROR),
    errors.ComityError: (500, jsonrpc.INTERNAL_ERROR),
}


@pytest.mark.parametrize("kind", LOOKS, ids=lambda kind: kind.__name__)
def test_each_error_of_the_core_looks_as_it_should(kind):
    error = made(kind)
    assert (http_status(error), rpc_code(error)) == LOOKS[kind]


def test_the_core_has_no_error_that_is_missing_here():
    defined = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ComityError)
    }
    assert defined == set(LOOKS)


def test_no_error_of_any_room_falls_through_to_internal_by_oversight():
    """What is raised (the ends of the tree) states how it looks, or one of its kin does."""
    overlooked = [
        f"{kind.__module__}.{kind.__name__}"
        for kind in every_error()
        if not kind.__subclasses__()
        and not issubclass(kind, tuple(SPOKEN_ELSEWHERE))
        and next(base for base in kind.__mro__ if "_answer" in vars(base)) is ComityError
    ]
    assert overlooked == []


def test_every_error_has_a_code_of_its_own_kind():
    for kind in every_error():
        assert kind.code
        assert kind.code == kind.code.lower() or kind.code == "IDEMPOTENCY_KEY_REUSED", kind  # ruling 65
        if http_status(made(kind)) != 500:
            assert kind.code != "internal", kind


@pytest.mark.parametrize("kind", [StoreError, StoreCorruptError, StoreFullError, StoreUnavailableError])
@pytest.mark.parametrize("secret", SECRETS)
def test_strangers_see_nothing_of_the_store(kind, secret):
    assert public_message(kind(f"{secret} is damaged")) == INSIDE


def test_whatever_looks_internal_or_comes_from_the_store_keeps_its_words_to_itself():
    for kind in every_error():
        error = made(kind, SECRETS[0])
        if isinstance(error, StoreError) or type(error) in (
            ComityError,
            errors.ConfigError,
            errors.KeyRefusedError,
        ):
            assert public_message(error) == INSIDE, kind


def test_who_made_the_mistake_is_told_what_it_was():
    assert public_message(errors.InvalidError("the nonce is too long")) == "the nonce is too long"
    assert "1,000 bytes" in public_message(errors.TooLargeError("the body", 1000))
