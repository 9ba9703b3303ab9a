"""The registry of actions (actions 1.5, ruling 33), and the call of one: look it up, check its input, run it and check its result (actions 1.2, steps 6 to 8).

- All calls of actions use this module: a line, a JSON-RPC request, an HTTP call, a signed envelope.
  What is raised is a ComityError whose sentence goes to the caller as it is.
- If a handler raises another exception, or returns something invalid, that is an internal error. It goes to the log, and
  the caller gets an error.
- Work that needs a page or a worker process is returned as `Work`, for a runner. Its result goes to `data`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from comity.actions.protocol.action import (
    Action,
    Check,
    Contract,
    Fetch,
    Handler,
    Mode,
    Outcome,
    check_for,
    plain,
    schema_check,
)
from comity.wire.errors import ActionError, ComityError, NotFoundError

NAMES: Final = (
    "wcagaaa_check",
    "accessibility_audit",
    "rewrite_depression_sensitive_content",
    "supportive_reply",
    "cognitive_accessibility_audit",
    "cultural_context_check",
    "deescalation_plan",
    "empathetic_reframe",
    "grief_support_response",
    "neurodiversity_design_check",
    "age_inclusive_design_check",
)
ALIASES: Final = ("text", "message", "content")
"""Names that callers use for the text of an action, besides the name in its contract."""
_OF_1_0: Final = tuple(name for name in NAMES if name not in {"wcagaaa_check", "grief_support_response"})
_LISTED: Final[Mapping[Mode, tuple[str, ...]]] = {
    "strict": tuple(name for name in NAMES if name != "accessibility_audit"),
    "compat": _OF_1_0,
    "enhanced": _OF_1_0,
}
_NEAREST: Final[Mapping[Mode, tuple[Mode, ...]]] = {
    "strict": ("strict", "compat", "enhanced"),
    "compat": ("compat", "enhanced", "strict"),
    "enhanced": ("enhanced", "compat", "strict"),
}


BuiltIn = Callable[[str], Action]


class RegisteredAction(Struct, frozen=True, kw_only=True, dict=True):
    """An action as it is called in one mode. Input and output of a foreign one, of a plugin, are checked by its schemas. The
    checks are made for the first call, because a list of actions needs none.
    """

    action: Action
    contract: Contract
    mode: Mode
    foreign: bool = False

    @functools.cached_property
    def check(self) -> Check:
        return check_for(self.contract.input_schema, "enhanced" if self.foreign else self.mode)

    @functools.cached_property
    def check_output(self) -> Check | None:
        return schema_check(self.contract.output_schema) if self.foreign else None

    @functools.cached_property
    def text_field(self) -> str | None:
        """The field of the main text of the action: the first that is required and takes any text."""
        properties = self.contract.input_schema.get("properties", {})
        for name in self.contract.input_schema.get("required", ()):
            rule = properties.get(name, {})
            if rule.get("type") == "string" and "enum" not in rule:
                return str(name)
        return None

    def renamed(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the input with the names of the contract. In the enhanced mode the text may also come as `text`, `message` or
        `content`, where the contract has no other use for that name.
        """
        field = self.text_field
        if self.mode != "enhanced" or field is None or given.get(field) not in (None, ""):
            return given
        properties = self.contract.input_schema["properties"]
        alias = next((name for name in ALIASES if name in given and name not in properties), None)
        if alias is None:
            return given
        return {field: given[alias], **{name: given[name] for name in given if name not in (alias, field)}}

    @property
    def name(self) -> str:
        return self.action.name


class Registry:
    def __init__(self, mode: Mode, plugins: Sequence[Action] = (), *, built_in: BuiltIn) -> None:
        """`built_in` returns one of `NAMES` when it is first called or described."""
        self.mode = mode
        self._make = built_in
        self._plugins = {action.name: action for action in plugins}
        self._built_in = frozenset(_OF_1_0 if mode == "compat" else NAMES)
        self._entries: dict[str, RegisteredAction] = {}

    @property
    def listed(self) -> tuple[str, ...]:
        """The names in `list_actions`, in its order."""
        more = self._plugins if self.mode == "enhanced" else ()
        return (*_LISTED[self.mode], *more)

    def entry(self, name: str) -> RegisteredAction | None:
        """Return the action with exactly that name, or None."""
        entry = self._entries.get(name)
        if entry is None and (name in self._built_in or name in self._plugins):
            entry = self._entries[name] = self._register(name)
        return entry

    def entries(self) -> list[RegisteredAction]:
        """Return the listed actions."""
        return [entry for name in self.listed if (entry := self.entry(name)) is not None]

    def listing(self) -> list[dict[str, Any]]:
        """Return the items of `list_actions`."""
        return [self._listed_as(entry) for entry in self.entries()]

    def description(self, entry: RegisteredAction) -> dict[str, Any]:
        """Return the reply of `describe_action`: an action with its schemas in full."""
        contract = entry.contract
        return {
            "skill": contract.skill,
            "action": entry.name,
            "description": contract.description,
            "inputSchema": plain(contract.input_schema),
            "outputSchema": plain(contract.output_schema),
            "safetyBoundary": contract.boundary,
        }

    def descriptions(self) -> list[dict[str, Any]]:
        return list(map(self.description, self.entries()))

    def _register(self, name: str) -> RegisteredAction:
        plugin = self._plugins.get(name)
        action = self._make(name) if plugin is None else plugin
        contract = contract_of(action, self.mode)
        return RegisteredAction(action=action, contract=contract, mode=self.mode, foreign=plugin is not None)

    def _listed_as(self, entry: RegisteredAction) -> dict[str, Any]:
        contract = entry.contract
        described = {} if self.mode == "strict" else {"description": contract.description}
        return {
            "skill": contract.skill,
            "action": entry.name,
            **described,
            "inputSchemaPath": f"schemas/{contract.skill}.input.json",
            "outputSchemaPath": f"schemas/{contract.skill}.output.json",
            "safetyBoundary": contract.boundary,
        }


def contract_of(action: Action, mode: Mode) -> Contract:
    return next(action.contracts[near] for near in _NEAREST[mode] if near in action.contracts)


def reply_schema(entry: RegisteredAction) -> dict[str, Any]:
    """Return the schema of a successful reply."""
    properties = {
        "action": {"const": entry.name},
        "boundaryNotice": {"const": entry.contract.boundary},
        "uncertainty": {"enum": ["low", "medium", "high"]},
        "assumptions": {"type": "array", "items": {"type": "string"}},
        "output": embedded(entry.contract.output_schema),
    }
    return {"type": "object", "required": list(properties), "properties": properties}


def embedded(schema: Any) -> Any:
    """Return a schema for use inside another document, where it has no address of its own."""
    return {key: value for key, value in plain(schema).items() if key not in {"$id", "$schema"}}


INTERNAL: Final = "Internal error"

_UNCERTAINTIES: Final = frozenset({"low", "medium", "high"})

HandlerOf = Callable[[Action], Handler]
Fault = Callable[[str, BaseException], None]
"""Called with the name of an action that failed on our side, and the exception."""


class Work(Struct, frozen=True):
    """A call that cannot be answered at once. With `fetch` only its pages are missing; without, it is slow or long and has not
    started. `id` is set by the machine.
    """

    entry: RegisteredAction
    input: Mapping[str, Any]
    fetch: Fetch | None = None
    id: Any = None


WorkResult = Outcome | ComityError


class ActionCalls:
    def __init__(self, registry: Registry, handler_of: HandlerOf, fault: Fault) -> None:
        """`handler_of` prepares an action when it is first called, and caches it."""
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
        """Return the outcome, or the work that is left. Without `work_here` only the input is checked."""
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

    def data(self, entry: RegisteredAction, result: WorkResult) -> dict[str, Any]:
        """Return the data of a reply (actions 1.1), its keys in order. Raise the error that the work ended with."""
        if isinstance(result, ComityError):
            raise result
        try:
            assumptions, output = result.assumptions, result.output
            if entry.check_output is not None:
                _check_output(result, entry.check_output)
            return {
                "action": entry.action.name,
                "boundaryNotice": entry.contract.boundary,
                "uncertainty": result.uncertainty,
                "assumptions": assumptions if type(assumptions) is list else list(assumptions),
                "output": output if type(output) is dict else dict(output),
            }
        except Exception as failure:  # noqa: BLE001 - what a handler returned may be anything
            raise self.failed(entry.name, failure) from None

    def failed(self, name: str, failure: BaseException) -> ComityError:
        self._fault(name, failure)
        return ComityError(INTERNAL)


def _check_output(outcome: Outcome, check: Check) -> None:
    if outcome.uncertainty not in _UNCERTAINTIES:
        raise ValueError(f"the uncertainty is {outcome.uncertainty!r}, not low, medium or high")
    if faults := check(dict(outcome.output)):
        raise ValueError(f"the output breaks its own schema: {'; '.join(faults)}")
