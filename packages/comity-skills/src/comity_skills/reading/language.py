"""Which script a text is in, and whether it is English: the formulas and word lists hold for English only.

English is told by its function words and endings. A text in Latin script is called other when function words of
another language outweigh those, when letters with marks are common, or when there are enough words to expect some;
else it cannot be told and is called unknown. Words that two languages share (`no`, `do`, `a`) count for both.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from comity_skills.reading.foreign import SMALL_WORDS
from comity_skills.words.tokens import Token, word_set

Language = Literal["english", "other", "unknown"]

_LATIN: Final = re.compile(r"[A-Za-zÀ-ɏ]")
_LETTER: Final = re.compile(r"[^\W\d_]")
# Thai, Lao, Burmese, Khmer, Japanese and Chinese
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_ENGLISH: Final = word_set(
    "the a an and or but of to in on at by for with from as is are was were be been it its this that "
    "these those you your we our they their he she his her i my me not no do does did have has had will "
    "would can could should may must if when what it's don't i'm you're we're let's that's we'll can't "
    "which who how all any there here please then than into about up out so am im ive dont"
)
_OTHERS: Final = word_set(
    "el la los las de del que y en un una por con para es le les des et est pour dans sur une du der die "
    "das und ist nicht mit ein eine den von zu auf o os da do em não uma il lo gli di che per sono non "
    "het een van en niet och att det som är na je się w z bir ve bu için yang dan ini untuk dengan "
    "ich wir sie ihnen ihr kann können leider nichts kein keine nous vous ne pas pouvons nosotros podemos puede su sus "
    "você noi possiamo wij kunnen uw wat naar nog ook dit dat deze wordt zijn aan op er kunt binnen"
)
# A letter alone is a word in them as often as a part of something else (`e.g.`).
_BY_LANGUAGE: Final = tuple(
    frozenset(word for word in small if len(word) > 1 or word in _ENGLISH) for small in SMALL_WORDS.values()
)
_ENDINGS: Final = (
    "tion",
    "tions",
    "ing",
    "ity",
    "ness",
    "ly",
    "ment",
    "ments",
    "ful",
    "less",
    "ive",
    "ous",
    "able",
    "ible",
    "ed",
)
_MARKED: Final = re.compile(r"[À-ɏ]")
_LONG_WORD: Final = 5
_ENOUGH: Final = 10
_SHARE: Final = 0.12
_SOME_MARKED: Final = 0.03
_MANY_MARKED: Final = 0.1


def language_of(text: str, words: Sequence[Token]) -> Language:
    letters = len(_LETTER.findall(text))
    if not letters:
        return "unknown"
    if len(_LATIN.findall(text)) * 2 < letters:
        return "other"
    function_words = sum(token.word in _ENGLISH for token in words)
    others = max(
        sum(token.word in _OTHERS and token.word not in _ENGLISH for token in words),
        *(sum(token.word in small for token in words) for small in _BY_LANGUAGE),
    )
    # Numbers, letters that name a choice, and a word said again tell nothing of the language.
    telling = {token.word for token in words if len(token.word) > 1 and not token.word[0].isdigit()}
    size = min(len(words), len(telling) + function_words)
    marked = len(_MARKED.findall(text)) / letters
    if others > function_words or marked > _MANY_MARKED:
        return "other"
    if function_words >= max(1, _SHARE * size):
        return "english"
    if marked > _SOME_MARKED:
        return "other"
    ended = sum(len(token.word) > _LONG_WORD and token.word.endswith(_ENDINGS) for token in words)
    if function_words + ended >= max(1, _SHARE * size):
        return "english"
    enough = _ENOUGH if not function_words + ended else 2 * _ENOUGH
    return "other" if size >= enough else "unknown"


def is_spaced(text: str) -> bool:
    """Whether the script, or most of it, parts its words by spaces."""
    return 2 * len(_UNSPACED.findall(text)) <= len(_LETTER.findall(text))
