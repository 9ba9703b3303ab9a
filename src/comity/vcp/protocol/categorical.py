"""The categorical wire: nine symbols joined by ":", one for each side of a situation (vcp 4.1).

- Exactly nine parts, none empty. A part means what both sides agree on; only its length and control
  characters are judged. `ABSENT` says that nothing is known about that side.
- A symbol made of several is read with and without joiner (U+200D) and emoji selector (U+FE0F). What was
  received is kept, so the wire comes out as it went in.
- The little that a model may be told, domain and formality, is looked up here and nowhere else. A symbol
  that is not in these tables tells nothing.
"""

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import astuple

from comity.vcp.protocol.errors import ContextError, wrong

Domain = Literal["medical", "legal", "financial", "educational", "technical", "general"]
Formality = Literal["casual", "professional", "formal"]

ABSENT: Final = "\u2796"
PARTS: Final = 9
LONGEST_PART: Final = 64

_INVISIBLE: Final = str.maketrans("", "", "\u200d\ufe0f")
_CONTROLS: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))

_DOMAINS: Final[dict[str, Domain]] = {
    "🧑⚕": "medical",
    "👨⚕": "medical",
    "👩⚕": "medical",
    "⚕": "medical",
    "🏥": "medical",
    "🩺": "medical",
    "🧑⚖": "legal",
    "⚖": "legal",
    "💰": "financial",
    "🏦": "financial",
    "💸": "financial",
    "🧑🏫": "educational",
    "🧑🎓": "educational",
    "🏫": "educational",
    "📚": "educational",
    "🧑💻": "technical",
    "🧑🔧": "technical",
    "💻": "technical",
    "🔧": "technical",
    "🧑": "general",
    "🌐": "general",
}
_FORMALITY_OF_MODE: Final[dict[str, Formality]] = {
    "😎": "casual",
    "💼": "professional",
    "🎓": "formal",
    "🎩": "formal",
    "🏛": "formal",
}
_FORMALITY_OF_SETTING: Final[dict[str, Formality]] = {"🏢": "professional", "🏛": "formal"}


class Categorical(Struct, frozen=True):
    """The nine sides in their order; None where nothing is known."""

    domain: str | None = None
    mode: str | None = None
    safety: str | None = None
    time: str | None = None
    setting: str | None = None
    audience: str | None = None
    device: str | None = None
    activity: str | None = None
    region: str | None = None

    @property
    def wire(self) -> str:
        return ":".join(ABSENT if part is None else part for part in astuple(self))


def parse(wire: str, field: str = "categorical.wire") -> Categorical:
    """Raises ContextError, which names `field`."""
    parts = wire.split(":", PARTS)
    if len(parts) != PARTS:
        raise wrong(field, f'must be {PARTS} symbols joined by ":"')
    for position, part in enumerate(parts, 1):
        if not 0 < len(part) <= LONGEST_PART or not _CONTROLS.isdisjoint(part):
            raise ContextError(
                "INVALID",
                f"symbol {position} of {field} must be 1 to {LONGEST_PART} characters "
                f"without control characters; send {ABSENT} for nothing",
                field,
            )
    return Categorical(*(None if _plain(part) == ABSENT else part for part in parts))


def domain(categorical: Categorical) -> Domain | None:
    return _DOMAINS.get(_plain(categorical.domain or ""))


def formality(categorical: Categorical) -> Formality | None:
    """The mode of the conversation tells it; where that says nothing, the setting may."""
    told = _FORMALITY_OF_MODE.get(_plain(categorical.mode or ""))
    return told or _FORMALITY_OF_SETTING.get(_plain(categorical.setting or ""))


def _plain(part: str) -> str:
    return part.translate(_INVISIBLE)
