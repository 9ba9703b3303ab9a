"""One spelling for the many ways to write the same word, with the way back to the positions of the original.

- Characters fold as `characters` says, disguises are undone as `disguise` says. Words are joined by one blank.
  Scripts that are written without blanks are joined without any.
- Nearly all of this looks no further than the next blank, so a text is folded piece by piece, and what a short
  piece folds to is kept. What does look further is done to the text as a whole: a text with letters spaced
  out, with strange blanks, with characters whose fold depends on others.
- The way back is worked out when somebody asks for it. The work is linear in the length of the text.
"""

import re
from bisect import bisect_right

from comity.skills.crisis.characters import LONG_WAY, UNSETTLED, fold_characters, origins_of
from comity.skills.crisis.disguise import ODD, SPACED_OUT, STRETCH, TOKEN, Token, Vocabulary, undisguise
from comity.skills.crisis.kept import Kept

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_UNSPACED_ONE = re.compile(f"[{_UNSPACED}]")
_NEEDLESS_BLANK = re.compile(f" (?<=[{_UNSPACED}] )(?=[{_UNSPACED}])")
_LATIN = re.compile("[a-z]")
_LETTERS_IN_A_ROW = re.compile(" [a-z] [a-z] [a-z] ")
# with the pieces around it this may be letters spaced out; or the two notions of a word differ
_OPEN = re.compile("\\b[a-z][.*_-][a-z]\\b|[a-z][\u0900-\u0963]|[\u0900-\u0963\u0966-\u097f][a-z]")
_WHOLE = LONG_WAY  # stands for a piece that cannot be folded alone
_DISGUISED = "\ue001"


class Folded:
    """`text` is what the lexicon is looked up in: it begins and ends with a blank. `unspaced` says that there are
    characters in it which are written without blanks.
    """

    __slots__ = ("_original", "_vocabulary", "_way_back", "text", "unspaced")

    def __init__(self, text: str, original: str, vocabulary: Vocabulary | None) -> None:
        self.text = text
        self.unspaced = False
        self._original = original
        self._vocabulary = vocabulary
        self._way_back: _WayBack | None = None
        if not text.isascii() and has_unspaced(text):
            self.unspaced = True
            self.text = _NEEDLESS_BLANK.sub("", text)

    @property
    def words(self) -> list[str]:
        """The words and stops, as they are spelled in `text`."""
        return self.text.split()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original of `text[start:end]`, which begins and ends within words."""
        if self._way_back is None:
            self._way_back = _WayBack(self._original, self._vocabulary)
        return self._way_back.span(start, end)


class _WayBack:
    """Where the words stand in the folded text, and where in the original."""

    def __init__(self, original: str, vocabulary: Vocabulary | None) -> None:
        source, long_way = fold_characters(original)
        self._origins = origins_of(original) if long_way else None
        self._tokens = _tokens(source, vocabulary)
        self._starts: list[int] = []
        at = 1
        previous = ""
        for word, _, _ in self._tokens:
            if previous and not (_unspaced(previous[-1]) and _unspaced(word[0])):
                at += 1
            self._starts.append(at)
            at += len(word)
            previous = word

    def span(self, start: int, end: int) -> tuple[int, int]:
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = max(bisect_right(self._starts, end - 1) - 1, 0)
        word, left, right = self._tokens[first]
        begin = left + (start - self._starts[first] if len(word) == right - left else 0)
        word, left, right = self._tokens[last]
        finish = min(left + end - self._starts[last], right) if len(word) == right - left else right
        if self._origins is None:
            return begin, finish
        return self._origins[begin], self._origins[finish - 1] + 1


def fold(text: str, vocabulary: Vocabulary) -> Folded:
    """`vocabulary` holds the words that a disguise may be undone to."""
    pieces = text.split(" ")
    folded = " " + "".join(map(_PIECES.__getitem__, pieces))
    disguised = "   " in text
    if not folded.isascii():
        if _WHOLE in folded:
            return _fold_whole(text, vocabulary)
        disguised = disguised or _DISGUISED in folded
    if disguised:
        if SPACED_OUT.search(fold_characters(text)[0]):
            return _fold_whole(text, vocabulary)
        folded = " " + "".join(map(vocabulary.pieces.__getitem__, pieces))
    elif _LETTERS_IN_A_ROW.search(folded):
        return _fold_whole(text, vocabulary)
    return Folded(folded, text, vocabulary)


def fold_phrase(phrase: str) -> str:
    """A phrase of the lexicon in the spelling it is looked up in, without the blanks around it."""
    return _fold_whole(phrase, None).text.strip()


def _fold_whole(text: str, vocabulary: Vocabulary | None) -> Folded:
    source, _ = fold_characters(text)
    words = " ".join([word for word, _, _ in _tokens(source, vocabulary)])
    return Folded(f" {words} ", text, vocabulary)


def _tokens(source: str, vocabulary: Vocabulary | None) -> list[Token]:
    if vocabulary is not None and ODD.search(source):
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
    return _UNSPACED_ONE.search(text) is not None


def _unspaced(character: str) -> bool:
    return (
        "\u3040" <= character <= "\u30ff"
        or "\u3400" <= character <= "\u9fff"
        or "\uac00" <= character <= "\ud7a3"
    )


_PIECES = Kept(_fold_piece)
