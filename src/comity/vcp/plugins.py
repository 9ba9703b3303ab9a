"""VCP extensions of others: from a part of the node, an installed package or a module of the owner.

- An extension is a `VcpExtension`: its id, its capability, its dependencies and conflicts, and a function that answers
  its data in a context request. Supported means that it works (ruling 16), so the function is required.
- A module is named in `vcp.plugins` as `module:NAME`, and searched in the working folder first; one that cannot be used
  ends the start. Installed packages announce theirs in the entry point group `comity.vcp_extensions`; one that cannot
  be used is left out, with a warning in the log.
- An error of a function goes to the log; the message of an `InvalidError` goes to the client.
"""

import asyncio
import importlib.metadata
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct

from comity.runtime.part import OpenNode
from comity.system import import_user_module
from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.built_in import BUILT_IN
from comity.vcp.protocol.context import ContextRequest
from comity.vcp.protocol.registry import Dependency, Extension
from comity.vcp.protocol.signals import ContextError
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConfigError, InvalidError

log = logging.getLogger("comity.vcp")

GROUP: Final = "comity.vcp_extensions"
ANSWER_SECONDS: Final = 5.0

Answer = Callable[[Mapping[str, Any], Session], Any]
"""From a payload to an object for the answer, or an awaitable of one."""


class VcpExtension(Struct, frozen=True, kw_only=True):
    """`capability` is the object of the ack. `dependencies` name flags in it that say whether another extension is active; of
    two that conflict a client may request one.
    """

    id: str
    answer: Answer
    capability: Mapping[str, Any] = {}
    dependencies: tuple[Dependency, ...] = ()
    conflicts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.registration()
        if self.id in BUILT_IN:
            raise ConfigError(f"{self.id} is an extension of VCP itself; choose another id")
        if not callable(self.answer):
            raise ConfigError(f"{self.id} needs an answer, a function of a payload and a session")
        try:
            strict_json.dumps(dict(self.capability))
        except (ComityError, TypeError, ValueError):
            raise ConfigError(f"the capability of {self.id} must be a JSON object") from None

    def registration(self) -> Extension:
        return Extension(
            id=self.id,
            capability=lambda: self.capability,
            dependencies=self.dependencies,
            conflicts=self.conflicts,
        )


@runtime_checkable
class BringsExtensions(Protocol):
    """The class of a part that brings extensions of VCP, each with its dependencies and conflicts."""

    def vcp_extensions(self, runtime: OpenNode) -> Iterable[VcpExtension]: ...


def named_extensions(specs: Iterable[str]) -> tuple[VcpExtension, ...]:
    """Return those that the settings name. Raises ConfigError."""
    return tuple(_load(spec) for spec in specs)


def announced_extensions() -> tuple[VcpExtension, ...]:
    """Return those of installed packages."""
    found = []
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found.append(_load(point.value))
        except ConfigError as refusal:
            log.warning("an installed VCP extension was left out: %s", refusal.message)
    return tuple(found)


async def answers_of(
    extensions: Mapping[str, VcpExtension], request: ContextRequest, session: Session
) -> dict[str, Any]:
    """Return the answers of these extensions to their data, by id. Raises ContextError."""
    answers = {}
    for id_, payload in request.extensions.items():
        extension = extensions.get(id_)
        if extension is not None:
            answers[id_] = await _answer(extension, payload, session)
    return answers


async def _answer(extension: VcpExtension, payload: Mapping[str, Any], session: Session) -> dict[str, Any]:
    field = f"extensions.{extension.id}"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            given = extension.answer(payload, session)
            if inspect.isawaitable(given):
                given = await given
        answer: dict[str, Any] = strict_json.loads(strict_json.dumps(dict(given)))
    except InvalidError as fault:
        raise ContextError("INVALID", fault.message, field) from None
    except Exception:
        log.exception("the VCP extension %s failed", extension.id)
        raise ComityError(f"{extension.id} could not answer; try again later") from None
    return answer


def _load(spec: str) -> VcpExtension:
    module_name, _, name = spec.partition(":")
    try:
        found = getattr(import_user_module(module_name), name, None)
    except ConfigError as fault:
        raise ConfigError(f"the VCP extension {spec} cannot be used: {fault.message}") from None
    except Exception as failure:  # noqa: BLE001 - a module of others may raise anything
        raise ConfigError(
            f"the VCP extension {spec} cannot be imported: {type(failure).__name__}: {failure}"
        ) from None
    if not isinstance(found, VcpExtension):
        raise ConfigError(
            f"the VCP extension {spec} cannot be used: {module_name} has no comity.VcpExtension called {name}"
        )
    return found
