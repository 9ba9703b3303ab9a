"""Sixty plausible inputs over all skills, each with what its skill says: to be read by a person, not scored."""

from collections.abc import Mapping, Sequence
from typing import Any

from comity.pipeline.actions.library import Library
from evals.table import Table

_SHOWN = 160  # characters of an output

_SUPPORT = (
    "I'm so happy, I passed!", "My dad died last week", "I lost my job and I'm ashamed to tell my wife",
    "My husband hits me when he drinks", "My roommate just swallowed a bottle of pills and won't wake up",
    "Ik wil dood", "The build fails with exit code 137", "I can't sleep, I keep worrying about the exam",
    "Me siento muy sola en esta ciudad", "Ich bin so wütend auf meinen Vermieter", "我考过了 太开心了", "Thanks, talk soon.",
    "I want to kill myself tonight", "Mein Bruder sagt, er erschießt sich, und er hat eine Waffe",
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


def _inputs() -> list[tuple[str, Mapping[str, Any], str]]:
    """The action, its input, and which part of the output is shown."""
    rows: list[tuple[str, Mapping[str, Any], str]] = []
    rows += [("supportive_reply", {"message": one, "risk_level": "low"}, "reply") for one in _SUPPORT]
    rows += [("rewrite_depression_sensitive_content", {"text": one}, "result") for one in _REWRITE]
    rows += [("empathetic_reframe", {"message": one}, "reframed_message") for one in _REFRAME]
    rows += [("deescalation_plan", {"situation": one}, "plan") for one in _PLAN]
    rows += [
        (
            "cultural_context_check",
            {"message": one, "audience": audience, "region": region},
            "adapted_message",
        )
        for one, audience, region in _CULTURE
    ]
    rows += [("cognitive_accessibility_audit", {"content": one}, "findings") for one in _COGNITIVE]
    rows += [("neurodiversity_design_check", {"ui_description": one}, "recommendations") for one in _SCREENS]
    rows += [("age_inclusive_design_check", {"flow_description": one}, "recommendations") for one in _SCREENS]
    rows += [("accessibility_audit", {"pages": [{"url": "page", "html": one}]}, "summary") for one in _PAGES]
    rows += [
        ("grief_support_response", {"message": "My mother died", "support_mode": mode}, "reply")
        for mode in ("presence", "practical")
    ]
    return rows


def tables() -> Sequence[Table]:
    library = Library("enhanced")
    rows = []
    for name, given, part in _inputs():
        outcome = library.handler(library.calls.entry(name).action)(given, "enhanced")
        said = getattr(outcome, "output", {})[part]
        shown = said if isinstance(said, str) else " | ".join(said[:2])
        asked = next(str(value) for value in given.values())
        rows.append([name, asked[:_SHOWN], shown[:_SHOWN]])
    return [
        Table(name="examples", title="Inputs and outputs", columns=("action", "input", "output"), rows=rows)
    ]
