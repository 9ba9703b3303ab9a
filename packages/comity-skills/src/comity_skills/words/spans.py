"""A place in a text that was sent, as it appears in an output: what it shows, its words, start and end.

`start` and `end` count characters (code points) of the field as it was sent. A text of half a megabyte may
hold a hundred thousand mentions: the first of them are evidence enough.
"""

from typing import Any, Final

from comity_skills.schema import PLACE, TEXT, closed, one_of

MOST_EVIDENCE: Final = 200
_MOST_QUOTED: Final = 120

_SPAN: Final = {"issue": TEXT, "text": TEXT, "start": PLACE, "end": PLACE}
WHY: Final = one_of("absent", "controlled", "met")


def span(issue: str, text: str, start: int, end: int) -> dict[str, Any]:
    shown = text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…"
    return {"issue": issue, "text": shown, "start": start, "end": end}


def span_schema(
    described: str, more: dict[str, dict[str, Any]] | None = None, *, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The schema of a list of spans; `more` are the members that this list adds."""
    members = {**_SPAN, **(more or {})}
    return {
        "type": "array",
        "description": described,
        "maxItems": MOST_EVIDENCE,
        "items": closed(members, [name for name in members if name not in optional]),
    }
