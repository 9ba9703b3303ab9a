"""The skills with their data files: an action is prepared when it is first called, once.

The files of our own are read from the package, those of a plugin from beside its module. Several threads
may ask at once; one of them prepares, and the others wait for it.

Our own actions are skills, each joined to what the wire machine knows as an action. A skill is imported when its action
is first called or described. No other module knows the package of the skills: its errors are turned into ours here.
"""

import importlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from msgspec import Struct, json, structs

from comity.actions.protocol.action import (
    Action,
    Contract,
    Fetch,
    FetchedPage,
    Handler,
    Mode,
    Outcome,
    check_for,
    schema_check,
)
from comity.actions.protocol.calls import NAMES, ActionCalls, Registry, contract_of
from comity.system import import_user_module, is_missing
from comity.wire.errors import ActionError, ComityError, ConfigError
from comity_skills.errors import SkillDataError, SkillInputError
from comity_skills.skill import PagesWanted, Skill, SkillHandler, SkillOutcome, WebPage

# Actions that users add: a module with `ACTION` or `ACTIONS`, named by hand or by an entry point.


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


PACKAGE: Final = "comity_skills"


_ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    "wcagaaa_check": ("accessibility_audit", "WCAGAAA_SKILL"),
    "grief_support_response": ("supportive_reply", "GRIEF_SKILL"),
}
"""The package and the attribute of a skill that is not the `SKILL` of a package of its own name."""


def registry_of(mode: Mode, plugins: Sequence[Action] = ()) -> Registry:
    """Our own actions as they are called in this mode, and those of the plugins."""
    return Registry(mode, plugins, built_in=built_in)


def built_in(name: str) -> Action:
    """One of the eleven; its skill is imported now."""
    package, attribute = _ELSEWHERE.get(name, (name, "SKILL"))
    skill: Skill = getattr(importlib.import_module(f"{PACKAGE}.{package}"), attribute)
    contracts = {mode: Contract(**structs.asdict(contract)) for mode, contract in skill.contracts.items()}
    return Action(
        name=skill.name,
        contracts=contracts,
        prepare=lambda data: _handler(skill.prepare(data)),
        data=skill.data,
        slow=skill.slow,
    )


def _handler(handle: SkillHandler) -> Handler:
    shared: dict[int, tuple[SkillOutcome, Outcome]] = {}

    def outcome(said: SkillOutcome) -> Outcome:
        """One that is shared stays shared: the machine keeps what it wrote of it."""
        made = Outcome(
            uncertainty=said.uncertainty, assumptions=said.assumptions, output=said.output, shared=said.shared
        )
        if said.shared:
            shared[id(said)] = said, made
        return made

    def resumed(wanted: PagesWanted) -> Callable[[Sequence[FetchedPage]], Outcome]:
        def resume(fetched: Sequence[FetchedPage]) -> Outcome:
            pages = [WebPage(url=page.url, html=page.html, failure=page.failure) for page in fetched]
            try:
                return outcome(wanted.resume(pages))
            except SkillInputError as refused:
                raise ActionError(refused.message) from None

        return resume

    def call(given: Mapping[str, Any], mode: Mode) -> Outcome | Fetch:
        try:
            said = handle(given, mode)
        except SkillInputError as refused:
            raise ActionError(refused.message) from None
        if known := shared.get(id(said)):
            return known[1]
        return Fetch(said.urls, resumed(said)) if isinstance(said, PagesWanted) else outcome(said)

    return call


OWN_LINES = "crisis-lines.json"
log = logging.getLogger("comity.actions")


class Library:
    def __init__(self, mode: Mode, plugins: Sequence[Plugin] = (), *, lines: Path | None = None) -> None:
        """`lines` is a file with crisis lines of the operator's own. ConfigError when it cannot be used."""
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
                    handler = self._handlers[action.name] = action.prepare(self._data(action))
        return handler

    def _data(self, action: Action) -> Mapping[str, bytes]:
        folder = self._folders.get(action.name)
        place = files(PACKAGE) if folder is None else folder
        own = self._own if folder is None else {}
        return {name: own.get(name) or place.joinpath(name).read_bytes() for name in action.data}


def own_lines_of(data: Path) -> Path | None:
    """The file in a data folder with which an operator replaces lines, if there is one."""
    path = data / OWN_LINES
    return path if path.exists() else None


def crisis_lines(own: Path | None = None) -> dict[str, Any]:
    """The lines that replies name, those of the operator in their place."""
    from comity_skills.crisis.lines import LINES

    data = files(PACKAGE).joinpath(LINES).read_bytes() if own is None else _own_lines(own)[LINES]
    lines: dict[str, Any] = json.decode(data)
    return lines


def _own_lines(path: Path) -> dict[str, bytes]:
    from comity_skills.crisis.lines import LINES, overridden

    try:
        own = path.read_bytes()
    except OSError as fault:
        raise ConfigError(f"the file of crisis lines {path} cannot be read: {fault.strerror}") from None
    try:
        return {LINES: overridden(files(PACKAGE).joinpath(LINES).read_bytes(), own)}
    except SkillDataError as refused:
        raise ConfigError(refused.message) from None


def _report(name: str, failure: BaseException) -> None:
    log.error("%s failed", name, exc_info=failure)
