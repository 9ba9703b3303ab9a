"""Calling an action: look it up, check its input, run it and check its result (actions 1.2, steps 6 to 8).

- All calls of actions use this module: a line, a JSON-RPC request, an HTTP call, a signed envelope.
  What is raised is a ComityError whose sentence goes to the caller as it is.
- If a handler raises another exception, or returns something invalid, that is an internal error. It goes to the log, and
  the caller gets an error.
- Work that needs a page or a worker process is returned as `Work`, for a runner. Its result goes to `settled`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from comity.actions.protocol.action import Action, Fetch, Handler, Outcome
from comity.actions.protocol.registry import RegisteredAction, Registry
from comity.actions.protocol.validation import Check
from comity.wire.errors import ActionError, ComityError, NotFoundError

INTERNAL: Final = "Internal error"

_UNCERTAINTIES: Final = frozenset({"low", "medium", "high"})

HandlerOf = Callable[[Action], Handler]
Fault = Callable[[str, BaseException], None]
"""Is told of an action that failed on our side, and how."""


class Work(Struct, frozen=True):
    """A call that cannot be answered at once. With `fetch` its pages are all that is missing; without, it
    is slow, or long, and has not begun. `id` is the machine's own mark.
    """

    entry: RegisteredAction
    input: Mapping[str, Any]
    fetch: Fetch | None = None
    id: Any = None


Settled = Outcome | ComityError


class ActionCalls:
    def __init__(self, registry: Registry, handler_of: HandlerOf, fault: Fault) -> None:
        """`handler_of` prepares an action when it is first called, and remembers it."""
        self.registry = registry
        self._handler_of = handler_of
        self._fault = fault
        self._called: dict[str, RegisteredAction] = {}

    def entry(self, name: str) -> RegisteredAction:
        try:
            entry = self.registry.entry(name)
        except Exception as failure:  # noqa: BLE001 - a skill that cannot be loaded is a fault like any other
            raise self.failed(name, failure) from None
        if entry is None:
            where = "Use tools/list" if self.registry.mode == "compat" else "Call list_actions"
            raise NotFoundError(f"Unknown action: '{name}'. {where} to see available actions.")
        return entry

    def begin(
        self, name: str, given: Mapping[str, Any], *, work_here: bool = True
    ) -> tuple[RegisteredAction, Outcome | Work]:
        """The outcome, or what is left to do for it. Without `work_here` nothing more is done than to look whether
        the action can use this input.
        """
        entry = self._called.get(name)
        if entry is None:
            entry = self._called[name] = self.entry(name)
        try:
            if entry.mode == "enhanced":
                given = entry.renamed(given)
            faults = entry.check(given)
            if faults:
                raise ActionError(f"Input validation failed for action '{name}': {'; '.join(faults)}")  # noqa: TRY301 - the guard lets it pass
            if entry.action.slow or not work_here:
                return entry, Work(entry, given)
            result = self._handler_of(entry.action)(given, self.registry.mode)
        except ActionError:
            raise
        except Exception as failure:  # noqa: BLE001 - the guard of every handler
            raise self.failed(name, failure) from None
        return entry, Work(entry, given, result) if isinstance(result, Fetch) else result

    def data(self, entry: RegisteredAction, settled: Settled) -> dict[str, Any]:
        """The data of a reply (actions 1.1), its keys in order; raises what the work ended in."""
        if isinstance(settled, ComityError):
            raise settled
        try:
            assumptions, output = settled.assumptions, settled.output
            if entry.check_output is not None:
                _hold_to_schema(settled, entry.check_output)
            return {
                "action": entry.action.name,
                "boundaryNotice": entry.contract.boundary,
                "uncertainty": settled.uncertainty,
                "assumptions": assumptions if type(assumptions) is list else list(assumptions),
                "output": output if type(output) is dict else dict(output),
            }
        except Exception as failure:  # noqa: BLE001 - what a handler returned may be anything
            raise self.failed(entry.name, failure) from None

    def failed(self, name: str, failure: BaseException) -> ComityError:
        self._fault(name, failure)
        return ComityError(INTERNAL)


def _hold_to_schema(outcome: Outcome, check: Check) -> None:
    if outcome.uncertainty not in _UNCERTAINTIES:
        raise ValueError(f"the uncertainty is {outcome.uncertainty!r}, not low, medium or high")
    if faults := check(dict(outcome.output)):
        raise ValueError(f"the output breaks its own schema: {'; '.join(faults)}")
