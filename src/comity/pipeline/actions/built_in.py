"""Our own actions: each is a skill, joined to what the wire machine knows as an action.

A skill is imported when its action is first called or described.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import structs

from comity.core.actions.action import Action, Contract, Fetch, FetchedPage, Handler, Mode, Outcome
from comity.core.actions.registry import Registry
from comity.skills.skill import PagesWanted, Skill, SkillHandler, SkillOutcome, WebPage

PACKAGE: Final = "comity.skills"


class _Place(NamedTuple):
    package: str
    attribute: str = "SKILL"


_ELSEWHERE: Final[Mapping[str, _Place]] = {
    "wcagaaa_check": _Place("accessibility_audit", "WCAGAAA_SKILL"),
    "grief_support_response": _Place("supportive_reply", "GRIEF_SKILL"),
}


def registry_of(mode: Mode, plugins: Sequence[Action] = ()) -> Registry:
    """Our own actions as they are called in this mode, and those of the plugins."""
    return Registry(mode, plugins, built_in=built_in)


def built_in(name: str) -> Action:
    """One of the eleven; its skill is imported now."""
    place = _ELSEWHERE.get(name) or _Place(name)
    skill: Skill = getattr(importlib.import_module(f"{PACKAGE}.{place.package}"), place.attribute)
    contracts = {mode: Contract(**structs.asdict(contract)) for mode, contract in skill.contracts.items()}
    return Action(
        name=skill.name, contracts=contracts, prepare=_prepared(skill), data=skill.data, slow=skill.slow
    )


def _prepared(skill: Skill) -> Callable[[Mapping[str, bytes]], Handler]:
    return lambda data: _handler(skill.prepare(data))


def _handler(handle: SkillHandler) -> Handler:
    shared: dict[int, tuple[SkillOutcome, Outcome]] = {}

    def outcome(said: SkillOutcome) -> Outcome:
        """One that is shared stays shared: the machine keeps what it wrote of it."""
        made = _outcome(said)
        if said.shared:
            shared[id(said)] = said, made
        return made

    def resumed(wanted: PagesWanted) -> Callable[[Sequence[FetchedPage]], Outcome]:
        return lambda pages: outcome(
            wanted.resume([WebPage(url=page.url, html=page.html, failure=page.failure) for page in pages])
        )

    def call(given: Mapping[str, Any], mode: Mode) -> Outcome | Fetch:
        said = handle(given, mode)
        if known := shared.get(id(said)):
            return known[1]
        return Fetch(said.urls, resumed(said)) if isinstance(said, PagesWanted) else outcome(said)

    return call


def _outcome(said: SkillOutcome) -> Outcome:
    return Outcome(
        uncertainty=said.uncertainty, assumptions=said.assumptions, output=said.output, shared=said.shared
    )
