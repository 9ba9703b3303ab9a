"""How easy a text in German, French, Spanish, Italian or Portuguese is to read, by the formula made for each.

| language | formula | measures |
|---|---|---|
| German | Amstad's Flesch | syllables, words, sentences |
| French | Kandel and Moles | the same |
| Spanish | Fernández Huerta | the same |
| Portuguese | Martins and others | the same |
| Italian | Gulpease | letters, words, sentences |

All of them go from 0 (hard) to 100 (easy). Syllables are groups of vowels, which is near enough for an average. The
language is told by its small words; in doubt nothing is told.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from comity_skills.words.tokens import Token, word_set

Foreign = Literal["german", "french", "spanish", "italian", "portuguese"]


class ForeignScore(Struct, frozen=True):
    """`easy` is the score from which a text is easy for most adults."""

    language: Foreign
    formula: str
    score: float
    easy: float


SMALL_WORDS: Final[Mapping[Foreign, frozenset[str]]] = {
    "german": word_set(
        "der die das und ist nicht mit ein eine einer einem einen den dem des von zu zur zum auf für sich bei nach oder "
        "wird werden sind sie ich wir ihr wenn dass auch als wie aus durch kann ihre ihren im am an in was war will so "
        "er es um bis vom hat haben sein soweit noch nur über unter vor gemäß bitte bin mein mich mir kein ins"
    ),
    "french": word_set(
        "le la les un une des du de et est dans pour que qui ne pas sur avec vous nous il elle ce cette sont par au aux "
        "plus ou son sa ses votre être l'on d'un d'une en je on a à vos nos tout leur été se n'a n'est c'est qu'il "
        "s'il si mais sans"
    ),
    "spanish": word_set(
        "el la los las un una y es en de del que por para con no se su sus al lo como más está son este esta usted o pero "
        "si ha cuando muy sin sobre también a me te le les nos he has han ya así ser fue entre hasta desde donde mi mis yo hoy nada ni"
    ),
    "italian": word_set(
        "il lo la gli le un una e è di del della dei che in per con non si al alla sono come più questo questa nel nella "
        "o ma se anche da dal ha ed loro a i allo delle degli ai agli alle entro essere deve sua suo ci mi "
        "hanno dalla nei nelle sul sulla ho vi"
    ),
    "portuguese": word_set(
        "o a os as um uma e é de do da dos das que em no na nos nas por para com não se seu sua ao mais como está são este "
        "esta você ou mas também pelo pela me foi ser tem ter já sem até à às aos num numa pelos pelas seus suas deve "
        "pode quando sobre entre isso eu ele ela meu minha hoje vou nem há"
    ),
}
ENOUGH: Final = 4
_VOWELS: Final = re.compile("[aeiouyäöüáéíóúàèìòùâêîôûãõëïœæ]+")
_SILENT: Final = re.compile("(?<=[^aeiouyéèêà])e(?:s|nt)?$")
_HIATUS: Final = re.compile("[aeoáéíóú](?=[aeoíú])")


def foreign_of(words: Sequence[Token], enough: int = ENOUGH) -> Foreign | None:
    """The language whose small words are most of those, if it is clearly ahead of the others; `enough` are the least
    different ones that tell it.
    """
    said = {token.word for token in words}
    counts = sorted(((len(said & small), language) for language, small in SMALL_WORDS.items()), reverse=True)
    (most, language), (second, _) = counts[0], counts[1]
    return language if most >= enough and most > second else None


def foreign_score(language: Foreign, words: Sequence[str], sentences: int) -> ForeignScore:
    """`words` are those of the text, as they are written."""
    letters = sum(character.isalpha() for word in words for character in word)
    spoken = sum(_syllables(word.lower(), language) for word in words)
    formula, score, easy = _FORMULAS[language]
    value = score(len(words) / sentences, spoken / len(words), letters / len(words))
    return ForeignScore(language, formula, round(min(max(value, 0.0), 100.0), 1), easy)


def _syllables(word: str, language: Foreign) -> int:
    spoken = _SILENT.sub("", word) if language == "french" else word
    groups = len(_VOWELS.findall(spoken))
    if language in {"spanish", "portuguese", "italian"}:
        groups += len(_HIATUS.findall(spoken))
    return max(groups, 1)


# words in a sentence, syllables in a word, letters in a word
_Formula = Callable[[float, float, float], float]
_FORMULAS: Final[Mapping[Foreign, tuple[str, _Formula, float]]] = {
    "german": ("Flesch (Amstad)", lambda words, spoken, _: 180 - words - 58.5 * spoken, 60),
    "french": ("Flesch (Kandel and Moles)", lambda words, spoken, _: 207 - 1.015 * words - 73.6 * spoken, 60),
    "spanish": ("Fernández Huerta", lambda words, spoken, _: 206.84 - 1.02 * words - 60 * spoken, 60),
    "portuguese": ("Flesch (Martins)", lambda words, spoken, _: 248.835 - 1.015 * words - 84.6 * spoken, 50),
    "italian": ("Gulpease", lambda words, _, letters: 89 + 300 / words - 10 * letters, 60),
}
