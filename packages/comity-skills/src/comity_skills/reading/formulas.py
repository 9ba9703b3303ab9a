"""The readability formulas, as their authors published them, over counts alone.

| formula | source |
|---|---|
| Flesch reading ease | Flesch 1948, *A new readability yardstick* |
| Flesch-Kincaid grade | Kincaid et al. 1975, Navy research report 8-75 |
| SMOG grade | McLaughlin 1969, *SMOG grading*, in its exact (square root) form |
| automated readability index | Smith and Senter 1967, AMRL-TR-66-220 |
| Coleman-Liau index | Coleman and Liau 1975, *A computer readability formula* |

All but the first are grades of a US school. A text without a word or a sentence has no readability, and a
caller does not ask for it: the counts here are positive. SMOG was calibrated on thirty sentences; the
caller says when there are fewer.
"""

from math import sqrt


def flesch_reading_ease(words: int, sentences: int, syllables: int) -> float:
    return 206.835 - 1.015 * (words / sentences) - 84.6 * (syllables / words)


def flesch_kincaid_grade(words: int, sentences: int, syllables: int) -> float:
    return 0.39 * (words / sentences) + 11.8 * (syllables / words) - 15.59


def smog_grade(sentences: int, polysyllables: int) -> float:
    return 1.0430 * sqrt(polysyllables * 30 / sentences) + 3.1291


def automated_readability_index(words: int, sentences: int, characters: int) -> float:
    return 4.71 * (characters / words) + 0.5 * (words / sentences) - 21.43


def coleman_liau_index(words: int, sentences: int, letters: int) -> float:
    return 0.0588 * (100 * letters / words) - 0.296 * (100 * sentences / words) - 15.8
