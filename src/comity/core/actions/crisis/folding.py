"""One spelling for the many ways to write the same word, with the way back to the positions of the original.

- A character folds alone: compatibility form, lower case, no accent, one apostrophe, the Latin letter for its
  look-alike, hiragana for katakana, the simplified character for the traditional one. Nearly every character
  becomes exactly one, so the usual text is translated in one call and positions stay as they are; only a text
  with invisible, combining or expanding characters takes the long way.
- Words are joined by one blank. Scripts that are written without blanks are joined without any.
- Disguise is undone word by word and only towards a word that the lexicon knows: digits and signs for
  letters, letters spaced out, letters repeated, letters starred out.
- The work is linear in the length of the text.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from comity.core.actions.crisis.glyphs import LOOKALIKES, SIMPLIFIED

_LONG_WAY = "\ue000"  # a private character: stands for what does not fold to exactly one
_INVISIBLE = frozenset({"Cf", "Cc", "Mn", "Me", "Cs"})
_DEVANAGARI = range(0x0900, 0x0980)
_NUKTA = 0x093C
_KANA = range(0x3040, 0x3100)

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD = "\\w\u0900-\u0963\u0966-\u097f"
_TOKEN = re.compile(f"[{_WORD}]+|(?<![.])[.](?![.])|[!?;:\\n\u0964]|,")
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_ODD = re.compile(r"(.)\1\1|[a-z][0-9@$!*|+]+[a-z]|\b[a-z][ .*_-][a-z][ .*_-][a-z]\b|[0-9@$*][a-z]")
_CLUSTER = re.compile(
    ".[\u0300-\u036f\u0483-\u0489\u064b-\u065f\u0670\u3099\u309a\uff9e\uff9f\u1160-\u11ff\ufe00-\ufe0f]*",
    re.DOTALL,
)
_STRETCH = re.compile(r"(.)\1\1+")
_SPACED_OUT = re.compile(r"(?<!\w)(?:[a-z][ .*_-]{1,2}){2,60}[a-z](?!\w)")
_LEET_WORD = re.compile(r"(?<![a-z0-9])[a-z0-9@$!|+]*(?:[a-z][0-9@$!|+]|[0-9@$|+][a-z])[a-z0-9@$!|+]*")
_STARRED = re.compile(r"(?<![a-z*])[a-z]+\*+[a-z]*|(?<![a-z*])\*+[a-z]{2,}")
_CAPITAL_I = re.compile("(?<=[a-z])I(?=[a-z])")  # looks like a small l
_LEET = str.maketrans("013457@$!|+", "oieastasilt")
_LEET_L = str.maketrans("013457@$!|+", "oleastaslit")
_LONGEST_WORD = 24
_SHORTEST_STARRED = 2


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
    if category in _INVISIBLE or character == "\u0640":
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
    if unicodedata.category(character) == "Mn":
        return ""
    parts = unicodedata.normalize("NFD", character)
    return parts[0] if len(parts) > 1 and unicodedata.category(parts[1]) == "Mn" else character


class _Table(dict[int, str]):
    """Filled as characters come in; it cannot outgrow Unicode."""

    def __missing__(self, code: int) -> str:
        folded = _fold_character(code)
        if len(folded) != 1 or 0x1100 <= code <= 0x11FF or code in {0x3099, 0x309A, 0xFF9E, 0xFF9F}:
            folded = _LONG_WAY
        self[code] = folded
        return folded


_TABLE = _Table()


class Vocabulary:
    """The words that a disguise may be undone to; those that begin or end alike are found together."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        self._alike: dict[tuple[int, str, str], list[str]] = {}
        for word in sorted(self._words):
            for shape in ((len(word), word[0], ""), (len(word), "", word[-1])):
                self._alike.setdefault(shape, []).append(word)

    def __contains__(self, word: str) -> bool:
        return word in self._words

    def alike(self, starred: str) -> Sequence[str]:
        """The words as long as this one that share its first letter, or its last if the first is starred out."""
        shape = (len(starred), "", starred[-1]) if starred[0] == "*" else (len(starred), starred[0], "")
        return self._alike.get(shape, ()) if len(starred) > _SHORTEST_STARRED else ()


class Folded:
    """`text` is what the lexicon is looked up in: it begins and ends with a blank."""

    __slots__ = ("_origins", "_source", "_starts", "_tokens", "text")

    def __init__(
        self, source: str, origins: Sequence[int] | None, words: list[str], tokens: Sequence["Token"] | None
    ) -> None:
        self._source = source
        self._origins = origins
        self._tokens = tokens
        self._starts: list[int] = []
        self.text = _join(words)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original of `text[start:end]`, which begins and ends within words."""
        if not self._starts:
            self._index()
        tokens = self._tokens
        assert tokens is not None
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = max(bisect_right(self._starts, end - 1) - 1, 0)
        word, left, right = tokens[first]
        begin = left + (start - self._starts[first] if len(word) == right - left else 0)
        word, left, right = tokens[last]
        finish = min(left + end - self._starts[last], right) if len(word) == right - left else right
        if self._origins is None:
            return begin, finish
        return self._origins[begin], self._origins[finish - 1] + 1

    def _index(self) -> None:
        if self._tokens is None:
            self._tokens = [(found[0], found.start(), found.end()) for found in _TOKEN.finditer(self._source)]
        at = 1
        previous = ""
        for word, _, _ in self._tokens:
            if previous and not (_unspaced(previous[-1]) and _unspaced(word[0])):
                at += 1
            self._starts.append(at)
            at += len(word)
            previous = word


Token = tuple[str, int, int]


def _unspaced(character: str) -> bool:
    return (
        "\u3040" <= character <= "\u30ff"
        or "\u3400" <= character <= "\u9fff"
        or "\uac00" <= character <= "\ud7a3"
    )


def _join(words: list[str]) -> str:
    joined = " ".join(words)
    if not joined.isascii() and _HAS_UNSPACED.search(joined):
        parts: list[str] = []
        previous = ""
        for word in words:
            if previous and not (_unspaced(previous[-1]) and _unspaced(word[0])):
                parts.append(" ")
            parts.append(word)
            previous = word
        joined = "".join(parts)
    return f" {joined} "


def fold(text: str, vocabulary: Vocabulary | None = None) -> Folded:
    """`vocabulary` holds the words that a disguise may be undone to."""
    origins: list[int] | None = None
    if _CAPITAL_I.search(text):
        text = _CAPITAL_I.sub("l", text)
    if text.isascii() and text.isprintable():
        source = text.lower()
    else:
        source = text.translate(_TABLE)
        if _LONG_WAY in source:
            source, origins = _fold_long(text)
    if vocabulary is not None and _ODD.search(source):
        tokens = _undisguise(source, vocabulary)
        return Folded(source, origins, [token[0] for token in tokens], tokens)
    return Folded(source, origins, _TOKEN.findall(source), None)


def fold_phrase(phrase: str) -> str:
    """A phrase of the lexicon in the spelling it is looked up in, without the blanks around it."""
    return fold(phrase).text.strip()


def _fold_long(text: str) -> tuple[str, list[int]]:
    folded: list[str] = []
    origins: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        at = cluster.start()
        for character in unicodedata.normalize("NFKC", cluster[0]):
            for one in _fold_character(ord(character)):
                folded.append(one)
                origins.append(at)
    return "".join(folded), origins


def _undisguise(source: str, vocabulary: Vocabulary) -> list[Token]:
    source = _LEET_WORD.sub(lambda found: _unleet(found[0], vocabulary), source)
    source = _STARRED.sub(lambda found: _unstar(found[0], vocabulary), source)
    gathered: dict[int, tuple[int, list[Token]]] = {}
    for found in _SPACED_OUT.finditer(source):
        words = _gather(found[0], found.start(), vocabulary)
        if words:
            gathered[found.start()] = (found.end(), words)
    tokens: list[Token] = []
    skip = 0
    for found in _TOKEN.finditer(source):
        at = found.start()
        if at < skip:
            continue
        if at in gathered:
            skip, words = gathered[at]
            tokens += words
            continue
        word = found[0]
        if _STRETCH.search(word):
            word = _unstretch(word, vocabulary)
        tokens.append((word, at, found.end()))
    return tokens


def _unleet(word: str, vocabulary: Vocabulary) -> str:
    body = word.rstrip("!")
    for table in (_LEET, _LEET_L):
        plain = body.translate(table)
        if plain in vocabulary or _unstretch(plain, vocabulary) in vocabulary:
            return plain + word[len(body) :]
    return word


def _unstar(word: str, vocabulary: Vocabulary) -> str:
    if len(word) > _LONGEST_WORD:
        return word
    for known in vocabulary.alike(word):
        if all(left in {right, "*"} for left, right in zip(word, known, strict=True)):
            return known
    return word


def _unstretch(word: str, vocabulary: Vocabulary) -> str:
    single = _STRETCH.sub(r"\1", word)
    if single in vocabulary:
        return single
    double = _STRETCH.sub(r"\1\1", word)
    return double if double in vocabulary else single


def _gather(spaced: str, at: int, vocabulary: Vocabulary) -> list[Token]:
    """The known words that the single letters spell, with single letters left between them; nothing when most
    of the letters belong to no word.
    """
    letters = [(character, at + offset) for offset, character in enumerate(spaced) if character.isalpha()]
    word = "".join(character for character, _ in letters)
    # for each end: how many letters stand alone, how many pieces there are, where the last piece begins
    best = [(0, 0, 0)]
    for end in range(1, len(word) + 1):
        alone, pieces, _ = best[end - 1]
        choice = (alone + 1, pieces + 1, end - 1)
        for start in range(max(0, end - _LONGEST_WORD), end - 1):
            if word[start:end] in vocabulary:
                alone, pieces, _ = best[start]
                choice = min(choice, (alone, pieces + 1, start))
        best.append(choice)
    if 2 * best[-1][0] > len(word):
        return []
    tokens: list[Token] = []
    end = len(word)
    while end:
        start = best[end][2]
        tokens.append((word[start:end], letters[start][1], letters[end - 1][1] + 1))
        end = start
    return tokens[::-1]
