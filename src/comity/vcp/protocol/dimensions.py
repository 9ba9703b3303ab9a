"""The eighteen dimensions of a VCP/A context: their order, their symbols, and the words for their values (vcp 4.2).

- Thirteen are situational, five personal; the order of these tables is the order on the wire. The categories of
  the personal ones are in `signals`.
- A value is a symbol. It may be given by the word for it, or as the symbol with or without its emoji selector
  (U+FE0F); it is written as in these tables. A symbol that is not in them is taken as it is, for vocabularies
  differ; a word that is not in them says nothing to anybody and is refused.
- A relationship has no symbols: it is a pair of words, `tie:function`, of which any will do. Those of the
  specification's own list are known here, so that others can be flagged.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

SELECTOR: Final = "\ufe0f"
RELATIONSHIP: Final = "relationship"
LONGEST_SYMBOL: Final = 32


class Dimension(Struct, frozen=True):
    """`values` are symbols by their words."""

    name: str
    symbol: str
    values: Mapping[str, str] = {}


SITUATIONAL: Final[Mapping[str, Dimension]] = {
    name: Dimension(name, symbol, values)
    for name, symbol, values in (
        ("time", "⏰", {"morning": "🌅", "midday": "☀️", "evening": "🌆", "night": "🌙"}),
        ("space", "📍", {"home": "🏡", "office": "🏢", "school": "🏫", "hospital": "🏥", "transit": "🚗"}),
        (
            "company",
            "👥",
            {"alone": "👤", "children": "👶", "colleagues": "👔", "family": "👨‍👩‍👧", "strangers": "👥"},
        ),
        (
            "culture",
            "🌍",
            {"high_context": "🔇", "low_context": "📢", "formal": "🎩", "casual": "😎", "mixed": "🌐"},
        ),
        (
            "occasion",
            "🎭",
            {"normal": "\u2796", "celebration": "🎂", "mourning": "😢", "emergency": "🚨", "business": "💼"},
        ),
        ("environment", "🌡️", {"comfortable": "☀️", "hot": "🥵", "cold": "🥶", "quiet": "🔇", "noisy": "🔊"}),
        ("agency", "🔷", {"leader": "👑", "peer": "🤝", "subordinate": "📋", "limited": "🔐"}),
        ("constraints", "🔶", {"minimal": "○", "legal": "⚖️", "economic": "💸", "time": "⏱️"}),
        (
            "system_context",
            "📡",
            {"online": "🟢", "degraded": "🟡", "offline": "🔴", "sandboxed": "🔒", "testing": "🧪"},
        ),
        (
            "embodiment",
            "🧍",
            {
                "stationary": "🪑",
                "navigating": "🚶",
                "manipulating": "✋",
                "carrying": "📦",
                "emergency_stop": "🛑",
            },
        ),
        (
            "proximity",
            "↔️",
            {"distant": "🌐", "same_room": "🏠", "nearby": "👣", "close": "🤏", "contact": "👆"},
        ),
        (RELATIONSHIP, "🪢", {}),
        ("formality", "🎩", {"casual": "😎", "professional": "💼", "formal": "🎓", "ceremonial": "🏛️"}),
    )
}
EXTENDED: Final = frozenset(("embodiment", "proximity", RELATIONSHIP, "formality"))
PERSONAL_SYMBOLS: Final[Mapping[str, str]] = {
    "cognitive_state": "🧠",
    "emotional_tone": "💭",
    "energy_level": "🔋",
    "perceived_urgency": "⚡",
    "body_signals": "🩺",
}
TIES: Final = frozenset(
    (
        *("stranger", "acquaintance", "colleague", "friend"),
        *("family", "intimate", "long_term", "trusted_collaborator"),
    )
)
FUNCTIONS: Final = frozenset(
    ("transactional", "professional", "educational", "therapeutic", "social", "intimate", "adversarial")
)

_MARKS: Final = "[\ufe0e\ufe0f\u20e3\u0300-\u036f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
_SYMBOL: Final = re.compile(f"(?:[\U0001f1e6-\U0001f1ff]{{2}}|.){_MARKS}*+(?:\u200d.{_MARKS}*+)*+", re.DOTALL)
_DANGLING: Final = re.compile(f"{_MARKS}|\u200d")
# letters, marks, white space, controls; an emoji newer than the interpreter is merely unassigned
_NEVER_FIRST: Final = frozenset(
    ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co")
)
_BY_SYMBOL: Final = {
    dimension.name: {symbol.replace(SELECTOR, ""): symbol for symbol in dimension.values.values()}
    for dimension in SITUATIONAL.values()
}


def symbol_of(dimension: Dimension, value: str) -> str | None:
    """How a value is written; None for what is neither a word of the dimension nor one symbol."""
    known = dimension.values.get(value) or _BY_SYMBOL[dimension.name].get(value.replace(SELECTOR, ""))
    if known is not None:
        return known
    if not 0 < len(value) <= LONGEST_SYMBOL or value.isascii() or value.isalnum():
        return None
    starts_one = unicodedata.category(value[0]) not in _NEVER_FIRST and not _DANGLING.match(value)
    return value if starts_one and _SYMBOL.fullmatch(value) else None


def split_symbols(text: str) -> list[str]:
    """The symbols of which a text is made, joined ones whole."""
    return _SYMBOL.findall(text)


def is_known_relationship(pair: str) -> bool:
    tie, _, function = pair.partition(":")
    return tie in TIES and function in FUNCTIONS
