"""The skills with their data files: an action is prepared when it is first called, once.

The files of our own are read from the package, those of a plugin from beside its module. Several threads
may ask at once; one of them prepares, and the others wait for it.

Our own actions are skills, each joined to what the wire machine knows as an action. A skill is imported when its action
is first called or described. No other module knows the package of the skills: its errors are turned into ours here.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from msgspec import json, structs

from comity.actions.plugins import Plugin
from comity.actions.protocol.action import Action, Contract, Fetch, FetchedPage, Handler, Mode, Outcome
from comity.actions.protocol.calls import ActionCalls
from comity.actions.protocol.registry import Registry
from comity.wire.errors import ActionError, ConfigError
from comity_skills.errors import SkillDataError, SkillInputError
from comity_skills.skill import PagesWanted, Skill, SkillHandler, SkillOutcome, WebPage

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
