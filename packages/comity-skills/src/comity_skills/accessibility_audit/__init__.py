"""The accessibility audit: pages checked by rule on a parsed tree, and the criteria of WCAG 2.2 as a list.

`accessibility_audit` takes pages as text, or asks for them by `url` and `urls`. `wcagaaa_check` is its name in
0.1.1 and keeps that wire: five things to look at for a level, whatever the target.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from comity_skills.accessibility_audit.contract import (
    CONTRACTS,
    NAME,
    OLD_CONTRACTS,
    OLD_NAME,
    PAGES,
)
from comity_skills.accessibility_audit.criteria import LEVELS, Level
from comity_skills.skill import Mode, PagesWanted, Skill, SkillHandler, SkillInputError, SkillOutcome, WebPage
from comity_skills.words.fields import text_field, texts_field

if TYPE_CHECKING:
    from comity_skills.accessibility_audit.crawl import Detail

_HERE: Final = "accessibility_audit"
_CRITERIA: Final = f"{_HERE}/criteria.json"
_ARIA: Final = f"{_HERE}/aria.json"
_LANGUAGES: Final = f"{_HERE}/languages.json"
_WORDS: Final = f"{_HERE}/words.json"

_NO_PAGES: Final = (
    "Crawl mode requires at least 1 page. Provide 'url', 'urls', or 'pages' (with 'url' and 'html' fields)."
)
_TOO_MANY: Final = "Crawl mode supports up to 100 pages. Use max_pages parameter to limit."
_TOO_MANY_PLAINLY: Final = f"Crawl mode supports up to {PAGES} pages. Send the others in another call."


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.accessibility_audit.crawl import Facts, rank
    from comity_skills.accessibility_audit.criteria import read_criteria
    from comity_skills.accessibility_audit.names.aria import read_aria
    from comity_skills.accessibility_audit.names.language import read_languages
    from comity_skills.accessibility_audit.recorded import rank_as_recorded
    from comity_skills.accessibility_audit.session import checklist

    facts = Facts(
        read_criteria(data[_CRITERIA]),
        read_aria(data[_ARIA]),
        read_languages(data[_LANGUAGES], data[_WORDS]),
    )

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome | PagesWanted:
        level = _level(NAME, given, "AA")
        if _choice(NAME, given, "mode", ("crawl", "session"), "crawl") == "session":
            return checklist(facts.criteria, level)
        detail = _choice(NAME, given, "detail", ("summary", "full"), "summary")
        pages = _pages(given)
        addresses = _addresses(given)
        if not pages and not addresses:
            raise SkillInputError(_NO_PAGES)
        if len(pages) + len(addresses) > PAGES:
            raise SkillInputError(_TOO_MANY_PLAINLY if mode == "enhanced" else _TOO_MANY)

        def resume(fetched: Sequence[WebPage]) -> SkillOutcome:
            found = [*pages, *fetched]
            if mode == "compat":
                return rank_as_recorded(found, level, facts.criteria)
            return rank(found, level, mode, facts, cast("Detail", detail) if mode == "enhanced" else "full")

        return PagesWanted(tuple(addresses), resume) if addresses else resume(())

    return handle


def _prepare_old(_data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.accessibility_audit.first_look import first_look

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        text_field(OLD_NAME, given, "target")
        return first_look(given, _level(OLD_NAME, given, "AAA"), mode)

    return handle


def _choice(action: str, given: Mapping[str, Any], field: str, options: Sequence[str], default: str) -> str:
    value = given.get(field, default)
    if value not in options:
        raise _refused(action, f"'{field}' must be one of: {', '.join(options)}")
    return str(value)


def _level(action: str, given: Mapping[str, Any], default: Level) -> Level:
    return cast("Level", _choice(action, given, "level", LEVELS, default))


def _addresses(given: Mapping[str, Any]) -> list[str]:
    single = text_field(NAME, given, "url", "")
    return [address for address in (single, *texts_field(NAME, given, "urls")) if address.strip()]


def _pages(given: Mapping[str, Any]) -> list[WebPage]:
    value = given.get("pages", [])
    if not isinstance(value, list | tuple):
        raise _refused(NAME, "'pages' must be an array")
    return [_page(entry, place) for place, entry in enumerate(value)]


def _page(entry: Any, place: int) -> WebPage:
    if not isinstance(entry, Mapping):
        raise _refused(NAME, f"'pages[{place}]' must be an object with 'url' and 'html'")
    for field in ("url", "html"):
        if not isinstance(entry.get(field), str):
            raise _refused(NAME, f"'pages[{place}].{field}' must be a string")
    return WebPage(url=entry["url"], html=entry["html"])


def _refused(action: str, problem: str) -> SkillInputError:
    return SkillInputError(f"Input validation failed for action '{action}': {problem}")


SKILL: Final = Skill(
    name=NAME,
    contracts=CONTRACTS,
    prepare=_prepare,
    data=(_CRITERIA, _ARIA, _LANGUAGES, _WORDS),
    slow=True,
)
WCAGAAA_SKILL: Final = Skill(name=OLD_NAME, contracts=OLD_CONTRACTS, prepare=_prepare_old)
