"""Actions that users add: a module with `ACTION` or `ACTIONS`, named by hand or by an entry point.

- A plugin is the word `module`, or `module:name` for one thing in it. Modules are looked for in the working
  directory first, as `python -m` does. Installed packages announce theirs in the group `comity.actions`.
- What a plugin offers is held against the same rules as our own: a name of its own, a contract for the
  enhanced mode, schemas that can be used and point nowhere outside. What breaks one is refused with a
  sentence: a plugin named by hand ends the start, an announced one is left out and told.
- Its data files lie beside its module.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from msgspec import Struct

from comity.actions.protocol.action import Action
from comity.actions.protocol.registry import NAMES, contract_of
from comity.actions.protocol.validation import check_for, schema_check
from comity.system import import_user_module, is_missing
from comity.wire.errors import ComityError, ConfigError

GROUP: Final = "comity.actions"

_RESERVED: Final = ("vcp_", "vdo_", "vacant_", "find_agents", "call_agent")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Plugin(Struct, frozen=True, kw_only=True):
    """An action of a plugin. `spec` is how it was named, `folder` where its data files lie."""

    action: Action
    spec: str
    folder: Path


def load_plugins(specs: Sequence[str]) -> tuple[Plugin, ...]:
    """Those named by hand. ConfigError for one that cannot be used."""
    loaded: list[Plugin] = []
    for spec in specs:
        _load_beside(loaded, spec)
    return tuple(loaded)


def announced_plugins(tell: Callable[[str], None], besides: Sequence[Plugin] = ()) -> tuple[Plugin, ...]:
    """The plugins of installed packages. `tell` is called for each plugin that cannot be loaded."""
    import importlib.metadata

    loaded: list[Plugin] = list(besides)
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name):
        try:
            _load_beside(loaded, point.value)
        except ComityError as refusal:
            tell(f"an installed action was left out: {refusal.message}")
    return tuple(loaded[len(besides) :])


def _load_beside(loaded: list[Plugin], spec: str) -> None:
    """Add what a plugin offers, unless another one has offered an action of that name."""
    for plugin in _load(spec):
        for other in loaded:
            if other.action.name == plugin.action.name:
                raise _refused(spec, f"{plugin.action.name} is offered by {other.spec} as well; keep one")
        loaded.append(plugin)


def _load(spec: str) -> list[Plugin]:
    module_name, _, attribute = spec.partition(":")
    module = _import(spec, module_name.strip())
    folder = Path(module.__file__).parent if module.__file__ else Path()
    plugins = []
    for action in _offered(spec, module, attribute.strip()):
        if not isinstance(action, Action):
            raise _refused(
                spec, f"it offers {type(action).__name__}; offer comity.actions.protocol.action.Action"
            )
        _judge(spec, action)
        plugins.append(Plugin(action=action, spec=spec, folder=folder))
    return plugins


def _import(spec: str, name: str) -> ModuleType:
    try:
        return import_user_module(name)
    except ModuleNotFoundError as missing:
        if is_missing(name, missing):
            remedy = "check its name, and that it is installed or in the working directory"
            raise _refused(spec, f"there is no module {name}; {remedy}") from None
        raise _refused(spec, f"it needs {missing.name}, which is not installed") from None
    except Exception as failure:  # noqa: BLE001 - a stranger's module may raise anything
        raise _refused(spec, f"importing it failed with {type(failure).__name__}: {failure}") from None


def _offered(spec: str, module: ModuleType, attribute: str) -> Iterable[Any]:
    if attribute:
        found = getattr(module, attribute, None)
        if found is None:
            raise _refused(spec, f"{module.__name__} has no {attribute}; check its name")
    else:
        found = getattr(module, "ACTIONS", None) or getattr(module, "ACTION", None)
        if found is None:
            raise _refused(spec, "it has neither ACTION nor ACTIONS; give it one of them")
    return found if isinstance(found, list | tuple) else [found]


def _judge(spec: str, action: Action) -> None:
    name = action.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _refused(spec, f"{str(name)[:80]!r} is no name; use up to 64 of a-z, 0-9 and _, a letter first")
    if name in NAMES:
        raise _refused(spec, f"{name} is one of the actions that are there already; choose another name")
    if name.startswith(_RESERVED):
        raise _refused(spec, f"{name} is a name of the node's own MCP tools; choose another name")
    if "enhanced" not in action.contracts:
        raise _refused(spec, f"{name} has no contract for the mode enhanced; give it one")
    contract = contract_of(action, "enhanced")
    if not contract.skill or not contract.boundary:
        raise _refused(spec, f"the contract of {name} needs a skill and a boundary; say what it must not do")
    for which, schema in (("input", contract.input_schema), ("output", contract.output_schema)):
        if schema.get("type") != "object":
            raise _refused(spec, f'the {which} schema of {name} must have "type": "object"')
        try:
            schema_check(schema)
            check_for(schema, "enhanced")
        except ConfigError as fault:
            raise _refused(spec, f"the {which} of {name}: {fault.message}") from None
        except Exception as fault:  # noqa: BLE001 - a schema is a stranger's, of any shape
            raise _refused(spec, f"the {which} schema of {name} cannot be read: {fault}") from None


def _refused(spec: str, why: str) -> ConfigError:
    return ConfigError(f"the plugin {spec} cannot be used: {why}")
