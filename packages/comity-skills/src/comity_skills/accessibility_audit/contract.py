"""The contracts of `accessibility_audit` and of `wcagaaa_check`, its name in 0.1.1."""

from typing import Any, Final

from comity_skills.accessibility_audit.criteria import LEVELS, PRINCIPLES
from comity_skills.schema import PLACE, TEXT, TEXTS
from comity_skills.skill import Mode, SkillContract

NAME: Final = "accessibility_audit"
OLD_NAME: Final = "wcagaaa_check"
PAGES: Final = 100

_BOUNDARY: Final = "Compliance guidance only; does not replace legal review"
_DESCRIPTION: Final = (
    "Checks pages for accessibility by W3C ACT rules, or lists the success criteria of WCAG 2.2 for a review."
)
_SCORE: Final = {"type": "integer", "minimum": 0, "maximum": 100}
_OPEN_SCORE: Final = {**_SCORE, "type": ["integer", "null"]}
_LEVEL: Final = {"type": "string", "enum": [*LEVELS]}


def _object(required: list[str], properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, **more}


def _texts(properties: dict[str, str]) -> dict[str, Any]:
    return {name: {**TEXT, "description": told} for name, told in properties.items()}


_URL: Final = {**TEXT, "description": "A page to fetch, http or https."}
_PAGE: Final = _object(["url", "html"], {"url": TEXT, "html": TEXT})


_DETAIL: Final = {
    "type": "string",
    "enum": ["summary", "full"],
    "default": "summary",
    "description": "summary: what fails and the worst findings of each page; full: every rule, criterion and finding.",
}


def _input(*, told: bool) -> dict[str, Any]:
    # An empty list gets the audit's own sentence, which says what to provide.
    least = {} if told else {"minItems": 1}
    return _object(
        [],
        {
            "mode": {"type": "string", "enum": ["crawl", "session"], "default": "crawl"},
            "level": {**_LEVEL, "default": "AA"},
            "url": _URL if told else TEXT,
            "urls": {"type": "array", "items": _URL if told else TEXT, **least, "maxItems": PAGES},
            "pages": {"type": "array", **least, "maxItems": PAGES, "items": _PAGE},
            "locale": {"type": "string", "default": "en"},
            **({"detail": _DETAIL} if told else {}),
        },
        additionalProperties=False,
    )


_CRITERION: Final = {
    "id": TEXT,
    "title": TEXT,
    "level": _LEVEL,
    "principle": {"type": "string", "enum": [*PRINCIPLES]},
}
_CHECK: Final = _object(
    ["rule", "name", "criteria", "how", "passed", "failed", "cannot_tell"],
    {
        **_texts({"rule": "Id of the W3C ACT rule.", "name": "What it asks.", "how": "How it decides."}),
        "criteria": TEXTS,
        "passed": PLACE,
        "failed": PLACE,
        "cannot_tell": PLACE,
    },
)
_FINDING: Final = _object(
    ["rule", "criteria", "path", "problem", "fix"],
    {
        "criteria": TEXTS,
        **_texts(
            {"rule": "The rule.", "path": "Where, as a selector.", "problem": "What.", "fix": "The remedy."}
        ),
    },
)
_QUESTION: Final = _object(
    ["rule", "criteria", "path", "why"],
    {
        "criteria": TEXTS,
        **_texts({"rule": "The rule.", "path": "Where, as a selector.", "why": "What to look at."}),
    },
)
_EVIDENCE: Final = {
    "checks": {"type": "array", "items": _CHECK, "description": "Every rule that found something to judge."},
    "findings": {"type": "array", "items": _FINDING},
    "cannot_tell": {"type": "array", "items": _QUESTION, "description": "What a person has to look at."},
    "findings_total": PLACE,
    "cannot_tell_total": PLACE,
    "notes": {**TEXTS, "description": "What was left out, and why."},
}


def _output(*, enhanced: bool) -> dict[str, Any]:
    score = _OPEN_SCORE if enhanced else _SCORE
    ranked = {
        "url": TEXT,
        "aggregate_score": score,
        "automated": PLACE,
        "manual": PLACE,
        "total": PLACE,
        "criteria": {"type": "array"},
        "heuristic": {"type": "boolean"},
        **(_EVIDENCE if enhanced else {}),
    }
    item = {**_CRITERION, "requirement": TEXT, "implementation": TEXT}
    return {
        "type": "object",
        "properties": {
            "mode": {"type": "string", "enum": ["crawl", "session"]},
            "level": _LEVEL,
            "ranking": {"type": "array", "items": {"type": "object", "properties": ranked}},
            "site_aggregate": score,
            "checklist": {"type": "array", "items": {"type": "object", "properties": item}},
            "session_notice": TEXT,
            "criteria_count": {
                "type": "object",
                "properties": {name: {"type": "integer"} for name in ("total", *LEVELS)},
            },
            "summary": TEXT,
        },
        "additionalProperties": False,
    }


def _contract(*, enhanced: bool) -> SkillContract:
    return SkillContract(
        skill="accessibility",
        boundary=_BOUNDARY,
        input_schema=_input(told=enhanced),
        output_schema=_output(enhanced=enhanced),
        description=_DESCRIPTION,
    )


CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "compat": _contract(enhanced=False),
    "enhanced": _contract(enhanced=True),
}

_ITEM: Final = {
    "severity": {"type": "string", "enum": ["high", "medium", "low"]},
    "issue": TEXT,
    "fix": TEXT,
}
OLD_CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": SkillContract(
        skill="wcag-aaa-accessibility",
        boundary=_BOUNDARY,
        input_schema=_object(
            ["target", "level"],
            {"target": TEXT, "level": {**_LEVEL, "default": "AAA"}, "context": TEXT},
            additionalProperties=False,
        ),
        output_schema=_object(
            ["findings", "summary"],
            {
                "findings": {"type": "array", "items": _object([*_ITEM], _ITEM)},
                "summary": TEXT,
                "next_step": TEXT,
                "assumptions": TEXTS,
            },
            additionalProperties=False,
        ),
        description="Five things to look at first on any page; accessibility_audit checks the page itself.",
    )
}
