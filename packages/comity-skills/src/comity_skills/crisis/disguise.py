"""Undoing a disguise, word by word and only towards a word that the lexicon knows: digits and signs for letters,
letters spaced out, letters repeated, letters starred out. The work is linear in the length of the text.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from comity_skills.crisis.characters import fold_characters
from comity_skills.crisis.kept import Kept
from comity_skills.words.tables import Content, Memo, Records, Table, records_of, table_of

Token = tuple[str, int, int]  # a word, where it begins, where it ends

_WORD = "\\w\u0900-\u0963\u0966-\u097f"
TOKEN = re.compile(f"[{_WORD}]+|(?<![.])[.](?![.])|[!?;:\\n\u0964]|,")
ODD = re.compile(r"(.)\1\1|[a-z][0-9@$!*|+]+[a-z]|\b[a-z][ .*_-][a-z][ .*_-][a-z]\b|[0-9@$*][a-z]")
STRETCH = re.compile(r"(.)\1\1+")
SPACED_OUT = re.compile(r"(?<!\w)(?:[a-z][ .*_-]{1,2}){2,60}[a-z](?!\w)")
_LEET_WORD = re.compile(r"(?<![a-z0-9@$!|+])[a-z0-9@$!|+]*(?:[a-z][0-9@$!|+]|[0-9@$|+][a-z])[a-z0-9@$!|+]*")
_STARRED = re.compile(r"(?<![a-z*])[a-z]+\*+[a-z]*|(?<![a-z*])\*+[a-z]{2,}")
_LEET = str.maketrans("013457@$!|+", "oieastasilt")
_LEET_L = str.maketrans("013457@$!|+", "oleastaslit")
_LONGEST_WORD = 24
_SHORTEST_STARRED = 2


class Vocabulary:
    """The words that a disguise may be undone to; those that begin or end alike are found together."""

    def __init__(self, words: Iterable[str]) -> None:
        self._read(vocabulary_of(words).get)

    @classmethod
    def of(cls, section: Callable[[str], Content | None]) -> "Vocabulary":
        """What `vocabulary_of` has laid out."""
        self = cls.__new__(cls)
        self._read(section)
        return self

    def _read(self, section: Callable[[str], Content | None]) -> None:
        words, shapes = Table(section("words") or table_of({})), Table(section("shapes") or table_of({}))
        alike: Records[list[str]] = Records(section("alike") or records_of(()), list[str])

        def of_shape(shape: str) -> list[str]:
            number = shapes.get(shape.encode())
            return [] if number is None else alike[int.from_bytes(number)]

        self._known = Memo[str, bool](lambda word: words.get(word.encode()) is not None)
        self._shapes = Memo[str, list[str]](of_shape)
        self.pieces = Kept(self._undisguised)

    def __contains__(self, word: str) -> bool:
        return self._known[word]

    def alike(self, starred: str) -> Sequence[str]:
        """The words as long as this one that share its first letter, or its last if the first is starred out."""
        shape = f"{len(starred)} *{starred[-1]}" if starred[0] == "*" else f"{len(starred)} {starred[0]}*"
        return self._shapes[shape] if len(starred) > _SHORTEST_STARRED else ()

    def _undisguised(self, piece: str) -> str:
        """As `folding` keeps a piece, of a text that is disguised."""
        source, _ = fold_characters(piece)
        return "".join([f"{word} " for word, _, _ in undisguise(source, self)])


def vocabulary_of(words: Iterable[str]) -> dict[str, bytes]:
    """Lay out the words, and by each shape (`4 d*`) those that have it, in order."""
    known = sorted(set(words))
    alike: dict[str, list[str]] = {}
    for word in known:
        for shape in (f"{len(word)} {word[0]}*", f"{len(word)} *{word[-1]}"):
            alike.setdefault(shape, []).append(word)
    return {
        "words": table_of({word.encode(): b"" for word in known}),
        "shapes": table_of({shape.encode(): number.to_bytes(4) for number, shape in enumerate(alike)}),
        "alike": records_of(tuple(alike.values())),
    }


def undisguise(source: str, vocabulary: Vocabulary) -> list[Token]:
    source = _LEET_WORD.sub(lambda found: _unleet(found[0], vocabulary), source)
    source = _STARRED.sub(lambda found: _unstar(found[0], vocabulary), source)
    gathered: dict[int, tuple[int, list[Token]]] = {}
    for found in SPACED_OUT.finditer(source):
        words = _gather(found[0], found.start(), vocabulary)
        if words:
            gathered[found.start()] = (found.end(), words)
    tokens: list[Token] = []
    skip = 0
    for found in TOKEN.finditer(source):
        at = found.start()
        if at < skip:
            continue
        if at in gathered:
            skip, words = gathered[at]
            tokens += words
            continue
        word = found[0]
        if STRETCH.search(word):
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
    single = STRETCH.sub(r"\1", word)
    if single in vocabulary:
        return single
    double = STRETCH.sub(r"\1\1", word)
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
