"""Sixty plausible inputs over all skills, each with what its skill says: to be read by a person, not scored.

`make docs` writes some of them into a page of the documentation (`write_page`); a test compares.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from comity.actions.library import Library
from evals.table import Table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "examples.md"
_MAX_LINES = 4  # of a list
_PAGE_INPUTS = 2  # of an action, on the page
_PAGE_LINES = 2  # of an answer, on the page
_HEAD = f"""# What the actions say

Up to {_PAGE_INPUTS} inputs for each action, and the first {_PAGE_LINES} lines of its answer in the enhanced mode. `make docs` writes this page from
the code; `python -m evals examples` shows more. [Actions](actions.md) says what they are, and how well they do.
"""

_SUPPORT = (
    "I'm so happy, I passed!", "I want to kill myself tonight", "My husband hits me when he drinks",
    "The build fails with exit code 137", "My roommate just swallowed a bottle of pills and won't wake up",
    "My dad died last week", "I lost my job and I'm ashamed to tell my wife", "Ik wil dood",
    "I can't sleep, I keep worrying about the exam", "Me siento muy sola en esta ciudad",
    "Ich bin so wütend auf meinen Vermieter", "我考过了 太开心了", "Thanks, talk soon.",
    "Mein Bruder sagt, er erschießt sich, und er hat eine Waffe",
)  # fmt: skip
_REWRITE = (
    "You failed to provide the documents. This is your last chance.", "He committed suicide in 2019.",
    "Act now! Limited time!", "She suffers from depression.", "Your appointment is on Monday at ten.",
    "Just snap out of it.", "The patient was non-compliant.",
)  # fmt: skip
_REFRAME = (
    "We cannot refund you.", "You must send the form again.", "Unfortunately your request was denied.",
    "Calm down, it could be worse.", "Thanks, the parcel arrived.", "As per our policy we don't do that.",
)  # fmt: skip
_PLAN = (
    "A customer is shouting at the desk about a late parcel", "Two colleagues no longer speak to each other",
    "My husband hits me when he drinks", "A man at the counter has a knife", "My teenager slammed the door",
    "The client threatens legal action",
)  # fmt: skip
_CULTURE = (
    ("Join us for pork ribs and beer on Friday!", "partners", "Saudi Arabia"),
    ("Hey guys, let's touch base on 03/04", "team", "Japan"),
    ("Your report was wrong.", "business team", "Japan"),
    ("Please send the file.", "colleagues", "Germany"),
    ("Beef burgers for everybody", "guests", "India"),
    ("Thumbs up if you agree", "customers", "Iran"),
)
_COGNITIVE = (
    "Pursuant to the aforementioned regulation, the applicant shall herein submit notwithstanding prior submissions.",
    "Press the green button. The door opens.",
    "Die Nichteinhaltung der Mitwirkungspflichten führt zur Leistungsversagung durch die zuständige Behörde und schließt jede Fristverlängerung aus.",
    "Il gatto dorme sul divano. Fuori piove e la nonna legge il giornale con calma.",
    "Wniosek należy złożyć w terminie wskazanym w rozporządzeniu.",
    "Choose option 1, option 2, option 3, option 4, option 5, option 6, option 7, option 8 or option 9.",
)  # fmt: skip
_SCREENS = (
    "A login page with a blinking banner and a 30 second timeout", "Checkout with CAPTCHA and autoplaying video",
    "A page with headings and short paragraphs", "A form in nine steps without a way back",
    "A dashboard with many notifications",
)  # fmt: skip
_PAGES = (
    "<html lang=en><title>Opening hours</title><main><h1>Opening hours</h1><p>From ten to six.</p></main>",
    "<html><body><img src=a.png><a href=/></a><button></button></body></html>",
    "<html lang=en><title>Photos of us</title><h1>Photos of us</h1><img src=a.jpg alt='IMG_2041.jpg'></html>",
    "plain text without markup",
)


def _inputs() -> list[tuple[str, Mapping[str, Any]]]:
    """The action and its input; the first member of it is the text."""
    rows: list[tuple[str, Mapping[str, Any]]] = []
    rows += [("supportive_reply", {"message": one, "risk_level": "low"}) for one in _SUPPORT]
    rows += [
        ("grief_support_response", {"message": "My mother died", "support_mode": mode})
        for mode in ("presence", "practical")
    ]
    rows += [("rewrite_depression_sensitive_content", {"text": one}) for one in _REWRITE]
    rows += [("empathetic_reframe", {"message": one}) for one in _REFRAME]
    rows += [("deescalation_plan", {"situation": one}) for one in _PLAN]
    rows += [
        ("cultural_context_check", {"message": one, "audience": audience, "region": region})
        for one, audience, region in _CULTURE
    ]
    rows += [("cognitive_accessibility_audit", {"content": one}) for one in _COGNITIVE]
    rows += [("neurodiversity_design_check", {"ui_description": one}) for one in _SCREENS]
    rows += [("age_inclusive_design_check", {"flow_description": one}) for one in _SCREENS]
    rows += [("accessibility_audit", {"pages": [{"url": "page", "html": one}]}) for one in _PAGES]
    return rows


def _lines(name: str, output: Mapping[str, Any]) -> Iterator[str]:
    """The main part of an output, line by line."""
    match name:
        case "supportive_reply":
            yield output["reply"]
            yield from output["escalation_guidance"][:_MAX_LINES]
        case "grief_support_response":
            yield output["reply"]
            yield from output["care_notes"][:_MAX_LINES]
        case "rewrite_depression_sensitive_content":
            yield output["result"]
            yield from _alternatives(output)
        case "empathetic_reframe":
            yield output["reframed_message"]
            yield from _alternatives(output)
        case "deescalation_plan":
            yield from (*output["plan"][:_MAX_LINES], *output["risk_notes"][:_MAX_LINES])
        case "cultural_context_check":
            yield output["adapted_message"]
            yield from (f"{one['text']}: {one['suggestion']}" for one in output["findings"][:_MAX_LINES])
        case "cognitive_accessibility_audit":
            yield from output["findings"][:_MAX_LINES]
        case "accessibility_audit":
            yield output["summary"]
            yield from (
                f"{one['path']}: {one['problem']} {one['fix']}"
                for one in output["ranking"][0]["findings"][:_MAX_LINES]
            )
        case _:
            yield from output["recommendations"][:_MAX_LINES]


def _alternatives(output: Mapping[str, Any]) -> Iterator[str]:
    """What is flagged and was left to the writer."""
    if not output["flags"]:
        yield "(nothing was flagged)"
    for flag in output["flags"][:_MAX_LINES]:
        if not flag["reworded"]:
            yield f"{flag['text']}: {flag['alternative'].rstrip('.')}. {flag['reason']}"


def examples() -> list[tuple[str, Mapping[str, Any], list[str]]]:
    """The action, its input, and the lines it answers."""
    library = Library("enhanced")
    told = []
    for name, given in _inputs():
        outcome = library.handler(library.calls.entry(name).action)(given, "enhanced")
        told.append((name, given, list(_lines(name, getattr(outcome, "output", {})))))
    return told


def _asked(given: Mapping[str, Any]) -> str:
    """The text of an input, and what else matters to the answer."""
    if "pages" in given:
        text: str = given["pages"][0]["html"]
        return text
    text, *more = (str(value) for key, value in given.items() if key != "risk_level")
    return f"{text} ({', '.join(more)})" if more else text


def tables() -> Sequence[Table]:
    rows = [[name, _asked(given), " | ".join(lines)] for name, given, lines in examples()]
    return [
        Table(name="examples", title="Inputs and outputs", columns=("action", "input", "output"), rows=rows)
    ]


def page() -> str:
    """The page of the documentation."""
    parts = [_HEAD]
    for name, answers in groupby(examples(), key=itemgetter(0)):
        parts.append(f"\n## {name}\n\n| input | output |\n|---|---|\n")
        for _, given, lines in islice(answers, _PAGE_INPUTS):
            shown = "<br>".join(map(_cell, lines[:_PAGE_LINES]))
            parts.append(f"| {_cell(_asked(given))} | {shown} |\n")
    return "".join(parts)


def _cell(text: str) -> str:
    return (
        escape(" ".join(text.split()), quote=False)
        .replace("|", "&#124;")
        .replace("*", "&#42;")
        .replace("[", "&#91;")
    )


def write_page() -> None:
    PAGE.write_text(page(), encoding="utf-8")
