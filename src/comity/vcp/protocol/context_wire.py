"""The VCP/A wire: `⏰🌅|📍🏡‖🧠focused:4`, written in one way and read in several (vcp 4.2).

- A group is the symbol of a dimension and its values. Groups are joined by `|`; the personal ones follow `‖`, each with
  a category and an intensity. An empty context is the empty text.
- Written in the fixed order, NFC, without empty dimensions and repeats, always with the intensity. Read in any order,
  symbols with or without their selector, a missing intensity as 3.
- Refused: more than 8,192 characters, white space and control characters, a separator inside a value, a group
  that is empty, unknown or there twice.
- Two contexts are the same if their wires are: what is written reads back as the same context.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from comity.vcp.protocol.signals import Categorical, ContextError, Signal, read_personal, wrong

# The eighteen dimensions of a VCP/A context: their order, their symbols, and the words for their values (vcp 4.2).


SELECTOR: Final = "\ufe0f"
RELATIONSHIP: Final = "relationship"
MAX_SYMBOL_LENGTH: Final = 32


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
    """Return how a value is written; None if it is neither a word of the dimension nor one symbol."""
    known = dimension.values.get(value) or _BY_SYMBOL[dimension.name].get(value.replace(SELECTOR, ""))
    if known is not None:
        return known
    if not 0 < len(value) <= MAX_SYMBOL_LENGTH or value.isascii() or value.isalnum():
        return None
    starts_one = unicodedata.category(value[0]) not in _NEVER_FIRST and not _DANGLING.match(value)
    return value if starts_one and _SYMBOL.fullmatch(value) else None


def split_symbols(text: str) -> list[str]:
    """Split a text into its symbols, joined ones whole."""
    return _SYMBOL.findall(text)


def is_known_relationship(pair: str) -> bool:
    tie, _, function = pair.partition(":")
    return tie in TIES and function in FUNCTIONS


BANDS: Final = "\u2016"
GROUPS: Final = "|"
MAX_WIRE_LENGTH: Final = 8192
MAX_VALUES: Final = 64

ConformanceLevel = Literal["VCP-Minimal", "VCP-Standard", "VCP-Extended"]

_BETWEEN: Final = frozenset((GROUPS, BANDS))
_SEPARATORS: Final = _BETWEEN | {":"}
_EMERGENCIES: Final = (("occasion", "🚨"), ("constraints", "🚨"), ("embodiment", "🛑"))
_CHILDREN: Final = (("company", "👶"),)
_PROFESSIONAL: Final = (("company", "👔"), ("space", "🏢"), ("occasion", "💼"), ("formality", "💼"))
# the nine-part wire has another symbol for a home
_SETTINGS: Final = {"🏡": "🏠"}


class WireContext(Struct, frozen=True, kw_only=True):
    """Both bands in the order of the wire; made by `read_context` and `decode`."""

    situational: dict[str, tuple[str, ...]] = {}
    personal: dict[str, Signal] = {}

    @property
    def dimensions(self) -> tuple[str, ...]:
        return (*self.situational, *self.personal)

    @property
    def conformance_level(self) -> ConformanceLevel:
        if self.has_extended:
            return "VCP-Extended"
        return "VCP-Standard" if self.personal else "VCP-Minimal"

    @property
    def has_extended(self) -> bool:
        return not EXTENDED.isdisjoint(self.situational)

    @property
    def metadata(self) -> dict[str, bool]:
        return {
            "has_emergency": self._tells(_EMERGENCIES),
            "has_children": self._tells(_CHILDREN),
            "is_professional": self._tells(_PROFESSIONAL),
            "unknown_relationship": not all(
                map(is_known_relationship, self.situational.get(RELATIONSHIP, ()))
            ),
        }

    @property
    def json_format(self) -> dict[str, Any]:
        """The context as `read_context` takes it."""
        return {
            "situational": {name: list(values) for name, values in self.situational.items()},
            "personal": {
                name: {"value": signal.category, "intensity": signal.intensity}
                for name, signal in self.personal.items()
            },
        }

    def categorical(self) -> Categorical:
        """The nine-part wire of the same context, with the first of several values."""
        first = {name: values[0] for name, values in self.situational.items()}
        space = first.get("space")
        return Categorical(
            mode=first.get("formality"),
            time=first.get("time"),
            setting=None if space is None else _SETTINGS.get(space, space),
            audience=first.get("company"),
        )

    def _tells(self, signs: Iterable[tuple[str, str]]) -> bool:
        return any(symbol in self.situational.get(name, ()) for name, symbol in signs)


def read_context(situational: Mapping[str, Any], personal: Mapping[str, Any]) -> WireContext:
    """Read each dimension: values as text or list of texts, signals in any of their shapes or by their category alone. Raises
    ContextError, which names the dimension.
    """
    for name in situational:
        if name not in SITUATIONAL:
            raise _unknown(name, "dimensions", SITUATIONAL)
    values = {name: _values(SITUATIONAL[name], situational.get(name)) for name in SITUATIONAL}
    for name in personal:
        if name not in PERSONAL_SYMBOLS:
            raise _unknown(name, "personal", PERSONAL_SYMBOLS)
    signals = read_personal({name: _signal(name, value) for name, value in personal.items()}).of
    context = WireContext(
        situational={name: given for name, given in values.items() if given},
        personal={
            name: Signal(category=signal.category, intensity=signal.intensity)
            for name in PERSONAL_SYMBOLS
            if (signal := signals.get(name)) is not None
        },
    )
    if len(encode(context)) > MAX_WIRE_LENGTH:
        raise _too_long()
    return context


def encode(context: WireContext) -> str:
    situation = GROUPS.join(
        SITUATIONAL[name].symbol + "".join(values) for name, values in context.situational.items()
    )
    if not context.personal:
        return situation
    person = GROUPS.join(
        f"{PERSONAL_SYMBOLS[name]}{signal.category}:{signal.intensity}"
        for name, signal in context.personal.items()
    )
    return f"{situation}{BANDS}{person}"


def decode(wire: str) -> WireContext:
    """Decode a wire. Raises ContextError."""
    if len(wire) > MAX_WIRE_LENGTH:
        raise _too_long()
    situation, bands, person = unicodedata.normalize("NFC", wire).partition(BANDS)
    if bands and not person:
        raise ContextError("INVALID", f"behind {BANDS} comes at least one personal dimension", "wire")
    situational = {}
    for name, rest in _groups(situation, {name: SITUATIONAL[name].symbol for name in SITUATIONAL}):
        situational[name] = [rest] if name == RELATIONSHIP else split_symbols(rest)
    return read_context(situational, dict(_groups(person, PERSONAL_SYMBOLS)))


def _groups(band: str, symbols: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    seen = set()
    for group in band.split(GROUPS) if band else ():
        name = next((name for name, symbol in symbols.items() if group.startswith(_plain(symbol))), None)
        if name is None:
            raise ContextError(
                "INVALID",
                f"each group on this side of {BANDS} must begin with one of {' '.join(symbols.values())}",
                "wire",
            )
        rest = group.removeprefix(_plain(symbols[name])).removeprefix(SELECTOR)
        if not rest or name in seen:
            fault = "there twice" if rest else "there without a value"
            raise ContextError("INVALID", f"{name} is {fault}; give it once, or leave it out", "wire")
        seen.add(name)
        yield name, rest


def _values(dimension: Dimension, value: Any) -> tuple[str, ...]:
    given: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    given = [one for one in given if one is not None and one != ""]
    if len(given) > MAX_VALUES:
        raise _wrong(dimension.name, f"has at most {MAX_VALUES} values")
    if not all(type(one) is str for one in given):
        raise _wrong(dimension.name, "must be a text, a list of texts, or null")
    if dimension.name == RELATIONSHIP:
        return _relationship(given)
    written = [symbol for one in given for symbol in _written(dimension, unicodedata.normalize("NFC", one))]
    symbols = tuple(dict.fromkeys(symbol for symbol in written if symbol is not None))
    text = "".join(symbols)
    if None in written or not _is_visible(text) or not _SEPARATORS.isdisjoint(text):
        raise _wrong(
            dimension.name, f"must be one or more of {', '.join(dimension.values)}, or a symbol for each"
        )
    if split_symbols(text) != list(symbols):
        raise _wrong(dimension.name, "holds symbols that become another one side by side; leave one out")
    return symbols


def _written(dimension: Dimension, value: str) -> list[str | None]:
    """Return the values of a group: one, or several symbols side by side."""
    whole = symbol_of(dimension, value)
    if whole is not None or value.isascii() or len(value) > MAX_WIRE_LENGTH:
        return [whole]
    return [symbol_of(dimension, symbol) for symbol in split_symbols(value)]


def _relationship(given: Sequence[str]) -> tuple[str, ...]:
    pairs = tuple(dict.fromkeys(unicodedata.normalize("NFC", one) for one in given))
    if len(pairs) > 1:
        raise _wrong(RELATIONSHIP, "is one pair; several cannot be separated on the wire")
    for pair in pairs:
        parts = pair.split(":")
        if len(parts) != 2 or not all(parts) or not _is_visible(pair) or not _BETWEEN.isdisjoint(pair):
            raise _wrong(
                RELATIONSHIP,
                f"is tie:function, like colleague:professional, without white space, {GROUPS} and {BANDS}",
            )
        if pair.startswith(SELECTOR):
            raise _wrong(RELATIONSHIP, "begins with an emoji selector that belongs to no symbol; remove it")
    return pairs


def _signal(dimension: str, value: Any) -> Any:
    """Convert `focused`, `focused:4` or a value alone to a shape that `signals` reads."""
    if type(value) is str:
        category, colon, intensity = value.partition(":")
        if not colon:
            return {"category": category}
        if not (intensity.isascii() and intensity.isdecimal() and len(intensity) == 1):
            raise wrong(f"personal.{dimension}", "is a category and an intensity from 1 to 5, like focused:4")
        return {"category": category, "intensity": int(intensity)}
    if type(value) is dict and value.get("value") is not None and value.get("category") is None:
        return {**value, "category": dimension}
    return value


def _plain(symbol: str) -> str:
    return symbol.removesuffix(SELECTOR)


def _is_visible(text: str) -> bool:
    return not any(
        character.isspace() or unicodedata.category(character) in {"Cc", "Cs"} for character in text
    )


def _unknown(name: str, field: str, known: Iterable[str]) -> ContextError:
    shown = f"{field}.{name[:64]}"
    return ContextError("INVALID", f"{field} knows no such dimension; use {', '.join(known)}", shown)


def _wrong(dimension: str, rule: str) -> ContextError:
    return wrong(f"dimensions.{dimension}", rule)


def _too_long() -> ContextError:
    return ContextError("TOO_LARGE", f"a context wire has at most {MAX_WIRE_LENGTH:,} characters", "wire")
