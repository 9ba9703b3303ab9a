"""Which script a text is in, and whether it is English: the formulas and word lists hold for English only.

English is told by its function words. A text in Latin script with fewer than a handful of words cannot be
told and is called unknown; a text with more, hardly any of them function words of English, is called other.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from comity.core.actions.words.tokens import Token, word_set

Language = Literal["english", "other", "unknown"]

_LATIN: Final = re.compile(r"[A-Za-zÀ-ɏ]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_ENGLISH: Final = word_set(
    "the a an and or but of to in on at by for with from as is are was were be been it its this that these those you your we our "
    "they their he she his her i my me not no do does did have has had will would can could should may must if when what "
    "which who how all any there here please then than into about up out so"
)
_OTHERS: Final = word_set(
    "el la los las de del que y en un una por con para es le les des et est pour dans sur une du der die das und ist nicht mit "
    "ein eine den von zu auf o os da do em não uma il lo gli di che per sono non het een van en niet och att det som är na je się w z "
    "bir ve bu için yang dan ini untuk dengan"
)
_ENOUGH: Final = 5
_SHARE: Final = 0.12


def language_of(text: str, words: Sequence[Token]) -> Language:
    letters = len(_LETTER.findall(text))
    if not letters:
        return "unknown"
    if len(_LATIN.findall(text)) * 2 < letters:
        return "other"
    english = sum(token.word in _ENGLISH for token in words)
    others = sum(token.word in _OTHERS and token.word not in _ENGLISH for token in words)
    if others > english:
        return "other"
    if english >= max(1, _SHARE * len(words)):
        return "english"
    return "unknown" if len(words) < _ENOUGH * 2 else "other"
