"""The actions with their data files: our own skills, and those of plugins. An action is prepared when it is first called.

Our own share the data that their package has prepared; the files of a plugin are read from the folder of its module. If several
threads call an action for the first time, one prepares it and the others wait.

A skill is imported when its action is first called or described. Errors of skills are turned into ours here.
"""

import importlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, json

from comity.actions.protocol.action import Action, Fetch, Handler, Mode, Outcome, check_for, schema_check
from comity.actions.protocol.calls import NAMES, ActionCalls, Registry, contract_of
from comity.runtime.lazy import late
from comity.system import import_user_module, is_missing
from comity.wire.errors import ActionError, ComityError, ConfigError
from comity_skills.skill import SkillDataError, SkillInputError

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = late("importlib.metadata")

# Actions that users add: a module with `ACTION` or `ACTIONS`, named by hand or by an entry point.


GROUP: Final = "comity.actions"

_RESERVED: Final = ("vcp_", "vdo_", "vacant_", "find_agents", "call_agent")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Plugin(Struct, frozen=True, kw_only=True):
    """An action of a plugin. `spec` is its name in settings or entry points, `folder` has its data files."""

    action: Action
    spec: str
    folder: Path


def load_plugins(specs: Sequence[str]) -> tuple[Plugin, ...]:
    """Load the named plugins. Raise ConfigError if one cannot be used."""
    loaded: list[Plugin] = []
    for spec in specs:
        _load_beside(loaded, spec)
    return tuple(loaded)


def announced_plugins(warn: Callable[[str], None], besides: Sequence[Plugin] = ()) -> tuple[Plugin, ...]:
    """Load the plugins of installed packages. Call `warn` for each that cannot be loaded."""
    loaded: list[Plugin] = list(besides)
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name):
        try:
            _load_beside(loaded, point.value)
        except ComityError as refusal:
            warn(f"an installed action was left out: {refusal.message}")
    return tuple(loaded[len(besides) :])


def _load_beside(loaded: list[Plugin], spec: str) -> None:
    """Add the actions of a plugin. Raise ConfigError if another one has an action of that name."""
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
            what = type(action).__name__
            raise _refused(spec, f"it offers {what}; offer comity.actions.protocol.action.Action")
        _check_action(spec, action)
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


def _check_action(spec: str, action: Action) -> None:
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


PACKAGE: Final = "comity_skills"

_ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    "wcagaaa_check": ("accessibility_audit", "WCAGAAA_SKILL"),
    "grief_support_response": ("supportive_reply", "GRIEF_SKILL"),
}
"""The package and the attribute of a skill that is not the `SKILL` of a package of its own name."""


def registry_of(mode: Mode, plugins: Sequence[Action] = ()) -> Registry:
    """Return our own actions as they are called in this mode, and those of the plugins."""
    return Registry(mode, plugins, built_in=built_in)


def built_in(name: str) -> Action:
    """Return one of the eleven actions, and import its skill."""
    package, attribute = _ELSEWHERE.get(name, (name, "SKILL"))
    action: Action = getattr(_skill_module(package), attribute)
    return action


def _skill_module(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def _with_our_errors(handle: Handler) -> Handler:
    def resumed(fetch: Fetch) -> Callable[[Sequence[Any]], Outcome]:
        def resume(pages: Sequence[Any]) -> Outcome:
            try:
                return fetch.resume(pages)
            except SkillInputError as refusal:
                raise ActionError(refusal.message) from None

        return resume

    def call(given: Mapping[str, Any], mode: Mode) -> Outcome | Fetch:
        try:
            result = handle(given, mode)
        except SkillInputError as refusal:
            raise ActionError(refusal.message) from None
        except SkillDataError as refusal:
            raise ConfigError(refusal.message) from None
        return Fetch(result.urls, resumed(result)) if isinstance(result, Fetch) else result

    return call


OWN_LINES = "crisis-lines.json"
_EXAMPLE: Final = "My brother and I had a quarrel last week. I am sad, and I do not know how to go on."
log = logging.getLogger("comity.actions")


class Library:
    def __init__(self, mode: Mode, plugins: Sequence[Plugin] = (), *, lines: Path | None = None) -> None:
        """`lines` is a file with crisis lines of the operator. Raise ConfigError if it cannot be used."""
        self.mode = mode
        self._own = {} if lines is None else _own_lines(lines)
        self.plugins = tuple(plugins)
        self.registry = registry_of(mode, [plugin.action for plugin in plugins])
        self.calls = ActionCalls(self.registry, self.handler, _report)
        self._folders = {plugin.action.name: plugin.folder for plugin in plugins}
        self._handlers: dict[str, Handler] = {}
        self._one_prepares = threading.Lock()

    def handler(self, action: Action) -> Handler:
        handler = self._handlers.get(action.name)
        if handler is None:
            with self._one_prepares:
                handler = self._handlers.get(action.name)
                if handler is None:
                    handler = self._handlers[action.name] = _with_our_errors(self._prepared(action))
        return handler

    def make_ready(self) -> Iterator[str]:
        """Prepare our own actions one after the other, so that no caller has to wait for it. Each is named when it is ready."""
        for name in NAMES:
            entry = self.registry.entry(name)
            if entry is not None and not entry.action.slow:
                schema = entry.contract.input_schema
                given = {need: _example(schema["properties"][need]) for need in schema.get("required", ())}
                self.handler(entry.action)(given, self.mode)
                yield name

    def _prepared(self, action: Action) -> Handler:
        """Raise ConfigError if its data cannot be used."""
        try:
            return action.prepare(self._data(action))
        except SkillDataError as refusal:
            raise ConfigError(refusal.message) from None

    def _data(self, action: Action) -> Mapping[str, bytes]:
        folder = self._folders.get(action.name)
        if folder is not None:
            return {name: folder.joinpath(name).read_bytes() for name in action.data}
        data: Mapping[str, bytes] = importlib.import_module(f"{PACKAGE}_data").shipped().with_own(self._own)
        return data


def _example(member: Mapping[str, Any]) -> str:
    choices: Sequence[str] = member.get("enum", (_EXAMPLE,))
    return choices[0]


def own_lines_of(data: Path) -> Path | None:
    """Return the file in a data folder with which an operator replaces lines, if there is one."""
    path = data / OWN_LINES
    return path if path.exists() else None


def crisis_lines(own: Path | None = None) -> dict[str, Any]:
    """Return the lines that replies name, with those of the operator in their place."""
    name: str = _skill_module("crisis.lines").LINES
    data = files(PACKAGE).joinpath(name).read_bytes() if own is None else _own_lines(own)[name]
    lines: dict[str, Any] = json.decode(data)
    return lines


def _own_lines(path: Path) -> dict[str, bytes]:
    module = _skill_module("crisis.lines")
    try:
        own = path.read_bytes()
    except OSError as fault:
        raise ConfigError(f"the file of crisis lines {path} cannot be read: {fault.strerror}") from None
    try:
        return {module.LINES: module.overridden(files(PACKAGE).joinpath(module.LINES).read_bytes(), own)}
    except SkillDataError as refusal:
        raise ConfigError(refusal.message) from None


def _report(name: str, failure: BaseException) -> None:
    if isinstance(failure, ConfigError):
        log.error("%s failed: %s", name, failure.message)
    else:
        log.error("%s failed", name, exc_info=failure)
