"""One spelling for the many ways to write the same word, with the way back to the positions of the original.

- Characters fold as `characters` says, disguises are undone as `disguise` says. Words are joined by one blank.
  Scripts that are written without blanks are joined without any.
- Nearly all of this looks no further than the next blank, so a text is folded piece by piece, and what a short
  piece folds to is kept. What does look further is done to the text as a whole: a text with letters spaced
  out, with strange blanks, with characters whose fold depends on others.
- The way back is worked out when somebody asks for it. The work is linear in the length of the text.
"""

import itertools
import re
from bisect import bisect_right
from collections.abc import Sequence

from comity_skills.crisis.characters import LONG_WAY, UNSETTLED, fold_characters, origins_of
from comity_skills.crisis.disguise import ODD, SPACED_OUT, STRETCH, TOKEN, Token, Vocabulary, undisguise
from comity_skills.crisis.kept import Kept

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_UNSPACED_ONE = re.compile(f"[{_UNSPACED}]")
_NEEDLESS_BLANK = re.compile(f" (?<=[{_UNSPACED}] )(?=[{_UNSPACED}])")
_LATIN = re.compile("[a-z]")
_LETTERS_IN_A_ROW = re.compile(" [a-z] [a-z] [a-z] ")
# with the pieces around it this may be letters spaced out; or the two notions of a word differ
_OPEN = re.compile("\\b[a-z][.*_-][a-z]\\b|[a-z][\u0900-\u0963]|[\u0900-\u0963\u0966-\u097f][a-z]")
_SENTENCE = re.compile("[^.!?;\n\u0964]*[.!?;\n\u0964]* ?")
_WHOLE = LONG_WAY  # stands for a piece that cannot be folded alone
_DISGUISED = "\ue001"


class Folded:
    """`text` is what the lexicon is looked up in: it begins and ends with a blank. `unspaced` says that there are
    characters in it which are written without blanks. `parts` stand between blanks: the words and stops, and ends of
    lines. `said` are the different ones.
    """

    __slots__ = (
        "_folded",
        "_pieces",
        "_starts",
        "_vocabulary",
        "_way_back",
        "parts",
        "said",
        "text",
        "unspaced",
    )

    def __init__(
        self, text: str, pieces: Sequence[str], folded: Sequence[str], vocabulary: Vocabulary | None
    ) -> None:
        """`folded` is what the pieces of the original fold to, `vocabulary` what they are undisguised with, if at all."""
        self.text = text
        self.unspaced = False
        self._pieces = pieces
        self._folded = folded
        self._vocabulary = vocabulary
        self._way_back: _WayBack | None = None
        self._starts: list[int] | None = None
        if not text.isascii() and has_unspaced(text):
            self.unspaced = True
            self.text = _NEEDLESS_BLANK.sub("", text)
        self.parts = self.text[1:-1].split(" ")
        self.said = frozenset(self.parts)

    @property
    def starts(self) -> list[int]:
        """Where each part begins."""
        if self._starts is None:
            self._starts = list(itertools.accumulate([len(part) + 1 for part in self.parts], initial=1))
        return self._starts

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original of `text[start:end]`, which begins and ends within words."""
        if self._way_back is None:
            self._way_back = _WayBack(self._pieces, self._folded, self._vocabulary, unspaced=self.unspaced)
        return self._way_back.span(start, end)


class _WayBack:
    """Where the pieces stand in the folded text, and where in the original. The words of a piece are looked for when
    somebody asks for one of them.
    """

    def __init__(
        self, pieces: Sequence[str], folded: Sequence[str], vocabulary: Vocabulary | None, *, unspaced: bool
    ) -> None:
        self._pieces = pieces
        self._vocabulary = vocabulary
        self._starts = list(itertools.accumulate(map(len, folded), initial=1))
        self._origins = list(itertools.accumulate([len(piece) + 1 for piece in pieces], initial=0))
        self._left_out: list[int] = []  # where blanks were
        if unspaced:
            blanks = _NEEDLESS_BLANK.finditer(" " + "".join(folded))
            self._left_out = [blank.start() - number for number, blank in enumerate(blanks)]
        self._words: dict[int, _Words] = {}

    def span(self, start: int, end: int) -> tuple[int, int]:
        return self._character(start)[0], self._character(end - 1)[1]

    def _character(self, at: int) -> tuple[int, int]:
        """The span in the original of one character of the folded text."""
        at += bisect_right(self._left_out, at)
        number = max(bisect_right(self._starts, at) - 1, 0)
        if number not in self._words:
            self._words[number] = _Words(self._pieces[number], self._vocabulary)
        first, last = self._words[number].character(at - self._starts[number])
        return self._origins[number] + first, self._origins[number] + last


class _Words:
    """Where the words of one piece stand in what it folds to, and where in the piece."""

    def __init__(self, piece: str, vocabulary: Vocabulary | None) -> None:
        source, long_way = fold_characters(piece)
        self._origins = origins_of(piece) if long_way else range(len(piece))
        self._tokens = _tokens(source, vocabulary)
        self._starts = list(itertools.accumulate([len(word) + 1 for word, _, _ in self._tokens], initial=0))

    def character(self, at: int) -> tuple[int, int]:
        """The span in the piece of one character; of its word, if that is not as long as it was."""
        number = bisect_right(self._starts, at) - 1
        word, first, last = self._tokens[number]
        if len(word) == last - first:
            first += at - self._starts[number]
            last = first + 1
        return self._origins[first], self._origins[last - 1] + 1


class _Once(Folded):
    """A folded text without the sentences that it has said before."""

    __slots__ = ("_kept", "_whole")

    def __init__(self, whole: Folded, kept: Sequence[tuple[int, int]]) -> None:
        super().__init__(" " + "".join([whole.text[start:end] for start, end in kept]), (), (), None)
        self._whole = whole
        self._kept = kept

    def span(self, start: int, end: int) -> tuple[int, int]:
        return self._whole.span(self._place(start), self._place(end - 1) + 1)

    def _place(self, at: int) -> int:
        """Where a character stands in the whole text."""
        before = 1
        for start, end in self._kept:
            if at < before + end - start:
                return start + max(at - before, 0)
            before += end - start
        return len(self._whole.text) - 1


def said_once(folded: Folded) -> Folded:
    """What a text says that only repeats itself: a sentence is no graver for being said ten times."""
    if not folded.unspaced and len(folded.parts) < 2 * len(folded.said):
        return folded  # most words stand there once
    sentences = [one for one in _SENTENCE.findall(folded.text, 1) if one]
    if len(sentences) < 2 * len(set(sentences)) or any(sentences.count(one) == 1 for one in set(sentences)):
        return folded
    kept: dict[str, tuple[int, int]] = {}
    for sentence in _SENTENCE.finditer(folded.text, 1):
        kept.setdefault(sentence[0], sentence.span())
    return _Once(folded, tuple(kept.values()))


def fold(text: str, vocabulary: Vocabulary) -> Folded:
    """`vocabulary` holds the words that a disguise may be undone to."""
    pieces = text.split(" ")
    folded = list(map(_folded_piece, pieces))
    joined = " " + "".join(folded)
    disguised = "   " in text
    if not joined.isascii():
        if _WHOLE in joined:
            return _fold_whole(text, vocabulary)
        disguised = disguised or _DISGUISED in joined
    if disguised:
        if SPACED_OUT.search(fold_characters(text)[0]):
            return _fold_whole(text, vocabulary)
        folded = list(map(vocabulary.pieces.__getitem__, pieces))
        return Folded(" " + "".join(folded), pieces, folded, vocabulary)
    if _LETTERS_IN_A_ROW.search(joined):
        return _fold_whole(text, vocabulary)
    return Folded(joined, pieces, folded, None)


def fold_phrase(phrase: str) -> str:
    """A phrase of the lexicon in the spelling it is looked up in, without the blanks around it."""
    folded = " ".join(TOKEN.findall(fold_characters(phrase)[0]))
    return _NEEDLESS_BLANK.sub("", folded) if has_unspaced(folded) else folded


def _fold_whole(text: str, vocabulary: Vocabulary | None) -> Folded:
    source, _ = fold_characters(text)
    if not ODD.search(source):
        vocabulary = None
    folded = "".join([f"{word} " for word, _, _ in _tokens(source, vocabulary)])
    return Folded(f" {folded}", [text], [folded], vocabulary)


def _tokens(source: str, vocabulary: Vocabulary | None) -> list[Token]:
    if vocabulary is not None:
        return undisguise(source, vocabulary)
    return [(found[0], found.start(), found.end()) for found in TOKEN.finditer(source)]


def _fold_piece(piece: str) -> str:
    """What stands between two blanks, each of its words with a blank behind it."""
    source, _ = fold_characters(piece)
    if " " in source or (piece and not source) or not (piece.isascii() or UNSETTLED.isdisjoint(piece)):
        return _WHOLE
    if not _LATIN.search(source):
        if STRETCH.search(source):
            return _DISGUISED
    elif _OPEN.search(source):
        return _WHOLE
    elif ODD.search(source):
        return _DISGUISED
    return "".join([f"{word} " for word in TOKEN.findall(source)])


def has_unspaced(text: str) -> bool:
    """Whether there is a character that is written without blanks."""
    return not text.isascii() and _UNSPACED_ONE.search(text) is not None


_folded_piece = Kept(_fold_piece).__getitem__
