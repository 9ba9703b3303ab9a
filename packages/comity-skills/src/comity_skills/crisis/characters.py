"""What one character becomes when its spelling is folded.

- Compatibility form, lower case, no accent, one apostrophe, the Latin letter for its look-alike, hiragana for
  katakana, the simplified character for the traditional one.
- Nearly every character becomes exactly one, so the usual text is translated in one call and positions stay
  as they are. `LONG_WAY` stands for what becomes nothing or more than one: such a text is folded cluster by
  cluster, a character together with the marks that combine with it.
"""

import re
import unicodedata

from comity_skills.crisis.glyphs import LOOKALIKES, SIMPLIFIED
from comity_skills.crisis.kept import Kept

LONG_WAY = "\ue000"  # a private character, and no part of a word
_CAPITAL_I = re.compile("I(?<=[a-z]I)(?=[a-z])")
_INVISIBLE = frozenset({"Cf", "Cc", "Mn", "Me", "Cs"})
_DEVANAGARI = range(0x0900, 0x0980)
_NUKTA = 0x093C
_TATWEEL = "\u0640"
_KANA = range(0x3040, 0x3100)
_MARKS = "[\u0300-\u036f\u0483-\u0489\u064b-\u065f\u0670\u3099\u309a\uff9e\uff9f\u1160-\u11ff\ufe00-\ufe0f]"
_CLUSTER = re.compile(f".{_MARKS}*", re.DOTALL)
_MARKED = re.compile(f"(.{_MARKS}+)", re.DOTALL)


def _fold_character(code: int) -> str:
    """What one character becomes: nothing, one character, or more."""
    character = chr(code)
    category = unicodedata.category(character)
    if code in _DEVANAGARI:
        return (
            ""
            if code == _NUKTA
            else {"\u0901": "\u0902"}.get(character, unicodedata.normalize("NFD", character)[0])
        )
    if character in "\n\r\u2028\u2029\u0085":
        return "\n"
    if category == "Cs" or character == "\t":
        return " "
    if category in _INVISIBLE or character == _TATWEEL:
        return ""
    if character in "'\u2019\u2018\u02bc\u02b9\u00b4`\u2032\uff07\u201b\u02bb":
        return "'"
    if character == "…":
        return " "
    folded = "".join(map(_strip, unicodedata.normalize("NFKC", character).casefold()))
    return (
        "".join(LOOKALIKES.get(one, SIMPLIFIED.get(one, one)) for one in folded) if character != "ß" else "s"
    )


def _strip(character: str) -> str:
    code = ord(character)
    if 0x30A1 <= code <= 0x30F6:
        return chr(code - 0x60)
    if code in _KANA:
        return character
    if unicodedata.category(character) == "Mn" or character == _TATWEEL:
        return ""
    parts = unicodedata.normalize("NFD", character)
    return parts[0] if len(parts) > 1 and unicodedata.category(parts[1]) == "Mn" else character


def _fold_cluster(cluster: str) -> str:
    return "".join(_fold_character(ord(one)) for one in unicodedata.normalize("NFKC", cluster))


class _Characters(dict[int, str]):
    """Filled as characters come in; it cannot outgrow Unicode."""

    def __missing__(self, code: int) -> str:
        folded = _fold_character(code)
        if len(folded) != 1 or 0x1100 <= code <= 0x11FF or code in {0x3099, 0x309A, 0xFF9E, 0xFF9F}:
            folded = LONG_WAY
        self[code] = folded
        return folded


class _LoneCharacters(dict[int, str]):
    """The same for the long way, where a character may become anything."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_cluster(chr(code))
        return folded


_CHARACTERS = _Characters()
_LONE = _LoneCharacters()
_CLUSTERS = Kept(_fold_cluster)


def _small_l(text: str) -> str:
    """The text without the capital I that looks like a small l."""
    return _CAPITAL_I.sub("l", text) if "I" in text else text


def fold_characters(text: str) -> tuple[str, bool]:
    """The text in folded characters, and whether it went the long way."""
    text = _small_l(text)
    if text.isascii() and text.isprintable():
        return text.lower(), False
    source = text.translate(_CHARACTERS)
    if LONG_WAY not in source:
        return source, False
    parts = _MARKED.split(text)
    if len(parts) == 1:
        return text.translate(_LONE), True
    parts[::2] = [part.translate(_LONE) for part in parts[::2]]
    parts[1::2] = [_CLUSTERS[part] for part in parts[1::2]]
    return "".join(parts), True


def origins_of(text: str) -> list[int]:
    """For each character of a text that went the long way: where it comes from."""
    text = _small_l(text)
    origins: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        origins += [cluster.start()] * len(_CLUSTERS[cluster[0]])
    return origins


# their fold depends on the way that the text goes
UNSETTLED = frozenset(
    map(chr, (0xB4, 0x374, 0x1FEF, 0x2026, 0xFF40, *range(0xFCF2, 0xFCF5), *range(0xFE70, 0xFE80)))
)
