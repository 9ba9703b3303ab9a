"""What single words and turns of phrase ask of a reader: abbreviations, negatives, capitals, codes and dates.

- An abbreviation is told from a word in capitals (`do NOT exceed`) by a list of everyday words. One whose meaning is known is
  named with it; those of medicine only where the text is about medicine (`PO` is also a box at the post office).
- Negatives are counted in a clause, up to `and`, `or` and `but`: a list of things not to do is easy to follow.
- Urgency is no pressure where it protects people: a text that speaks of danger may say `immediately`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from comity_skills.words.negation import NOT
from comity_skills.words.phrases import Phrases
from comity_skills.words.tokens import Token, word_set

_CAPITALS: Final = re.compile(r"(?<![\w./@&-])[A-Z]{2,6}s?(?![\w@&])")
_SHOUTED: Final = re.compile(r"\b([A-Z]{2,})\s\Z")
_SHOUTS: Final = re.compile(r"\s([A-Z]{2,})\b")
_SOME_ABBREVIATIONS: Final = 2
_MANY_CAPITALS: Final = 25
_NEGATIVE: Final = NOT | word_set(
    "no none nobody nowhere without unless hardly scarcely except deny denied denies prevent prevents prohibit "
    "prohibits prohibited refuse refused exclude excluded excludes couldn't wouldn't hadn't mustn't"
)
_NEGATIVE_PAIR: Final = {
    "ruled": "out",
    "rule": "out",
    "fail": "to",
    "failed": "to",
    "lack": "of",
    "absence": "of",
}
_STACKED: Final = 3
_PARTS: Final = frozenset(("and", "or", "but", "nor"))
_UN: Final = re.compile(
    r"un(?!der|i[ot]|til|iq|less|if|iv|cle|fortun)\w{2,20}(?:ed|able|ible|al|ly|ful|ing|air|are|ain|kind|wise|usual|common|like|ient|own|well|true)"
)
_IN: Final = word_set(
    "impossible impractical improbable improper inaccurate inadequate inappropriate incapable incomplete inconsistent incorrect "
    "ineffective ineligible infrequent inexpensive insignificant insufficient invalid invisible irregular irrelevant illegal "
    "dishonest dissimilar dissatisfied uncommon unusual unlike unlikely unfair unclear unsafe unaware unhappy"
)
_BETWEEN: Final = word_set(
    "be been being entirely wholly completely totally altogether at all a an the very so always necessarily"
)
_NOT_AGAIN: Final = frozenset(("not", "never"))
_TWO_READINGS: Final = "unclear whether to do it or not; say which"
_UNLESS: Final = 8
_CLAUSE: Final = 30
_NEAR: Final = 2
_MEDICAL: Final = re.compile(
    r"\w{2,20}(?:itis|[ao]?emia|ectomy|ostomy|otomy|oscopy|plasty|edema|penia|rrho?ea|rrhag\w{1,3}|uria|opathy|algia|plegia"
    r"|paresis|phagia|pno?ea|cardia|sclerosis|stenosis|thrombosis|fibrosis|necrosis)"
)
_KNOWN_MEDICAL: Final = word_set(
    "academia nostalgia dichotomy arthritis leukaemia leukemia diarrhoea diarrhea bronchitis hepatitis homeopathy osteopathy"
)
_CODE: Final = re.compile(
    r"\b0x[0-9A-Fa-f]{4,16}\b|\b[A-Z]{2,10}_[A-Z_]{3,40}\b|\b[Ee]rror(?: code)?:? #?[A-Z]{0,4}-?\d{2,8}\b"
)
_TWO_WAYS: Final = re.compile(r"(?<![\d/])(0?[1-9]|1[0-2])/(0?[1-9]|1[0-2])/(?:\d{4}|\d{2})(?![\d/])")
_ASKS: Final = word_set(
    "ask asks asking need require want urge advise recommend request expect must should remind reply respond"
)

Place = tuple[int, int]


class Wording(Struct, frozen=True):
    """What the data hold: the meaning of abbreviations, words in capitals that are none, signs of medicine and danger."""

    abbreviations: dict[str, str]
    medical: dict[str, str]
    everyday: frozenset[str]
    medicine: Phrases[bool]
    danger: Phrases[bool]
    sales: frozenset[str]
    named: re.Pattern[str]


def read_wording(data: Mapping[str, Any]) -> Wording:
    names = sorted({*data["abbreviations"], *data["medical_abbreviations"]}, key=len, reverse=True)
    return Wording(
        data["abbreviations"],
        data["medical_abbreviations"],
        word_set(" ".join(data["everyday_capitals"]).upper()),
        Phrases[bool]((phrase, True) for phrase in data["medicine"]),
        Phrases[bool]((phrase, True) for phrase in data["danger"]),
        frozenset(data["sales"]),
        re.compile(rf"(?<![\w/&@.-])(?:{'|'.join(map(re.escape, names))})(?![\w/&@])"),
    )


def abbreviations(content: str, words: Sequence[Token], known: Wording) -> list[tuple[Place, str]]:
    """Those that are neither common nor spelled out beside, with the meaning where it is known.

    `SSN`, not `Social Security number (SSN)`. One that nobody can explain here is no finding: it may be a name.
    """
    if not re.search(r"[a-z]{3}", content):
        return []
    told = _with_meaning(content, words, known)
    taken = {start for (start, _), _ in told}
    written = {content[word.start : word.end] for word in words}
    others = [
        match
        for match in _CAPITALS.finditer(content)
        if match.start() not in taken
        and match[0].removesuffix("s") not in known.everyday
        and match[0].lower() not in written
        and not _spelled_out(content, match)
        and not _among_capitals(content, match)
    ]
    if (
        len({match[0] for match in others}) + len({content[start:end] for (start, end), _ in told})
        < _SOME_ABBREVIATIONS
    ):
        others = []
    return sorted([*told, *((match.span(), "") for match in others)])


def _with_meaning(content: str, words: Sequence[Token], known: Wording) -> list[tuple[Place, str]]:
    found = [
        match
        for match in known.named.finditer(content)
        if not _spelled_out(content, match) and not _is_word(content, match, known.everyday)
    ]
    of_medicine = {match[0] for match in found if match[0] in known.medical}
    medical = len(of_medicine) > 1 or bool(known.medicine.find(words) or [*medical_words(words)])
    told = []
    lower = content.lower() if found else ""
    for match in found:
        meaning = known.abbreviations.get(match[0], "")
        if medical and match[0] in known.medical:
            meaning = known.medical[match[0]]
        # one word such as `with` is in the text for other reasons than to explain the abbreviation
        if meaning and (" " not in meaning or meaning not in lower):
            told.append((match.span(), meaning))
    return told


def _spelled_out(content: str, found: re.Match[str]) -> bool:
    """In brackets after its words, or before its words in brackets."""
    return content[found.start() - 1 : found.start()] == "(" or content[found.end() : found.end() + 2] == " ("


def _among_capitals(content: str, found: re.Match[str]) -> bool:
    """As in a heading."""
    start, end = found.span()
    return bool(_SHOUTED.search(content[max(0, start - 12) : start]) or _SHOUTS.match(content, end))


def _is_word(content: str, found: re.Match[str], everyday: frozenset[str]) -> bool:
    """`PO` of a box at the post office, and `OR` beside another word in capitals."""
    start, end = found.span()
    before, after = _SHOUTED.search(content[max(0, start - 12) : start]), _SHOUTS.match(content, end)
    shouted = any(match is not None and match[1] in everyday for match in (before, after))
    return shouted or content[end : end + 4].lower() == " box"


def medical_words(words: Sequence[Token]) -> Iterator[Token]:
    for word in words:
        if len(word.word) > 7 and word.word not in _KNOWN_MEDICAL and _MEDICAL.fullmatch(word.word):
            yield word


def is_shouted(content: str) -> bool:
    capitals = sum(letter.isupper() for letter in content)
    small = sum(letter.islower() for letter in content)
    return capitals >= _MANY_CAPITALS and small * 4 < capitals


def codes(content: str) -> list[Place]:
    return [match.span() for match in _CODE.finditer(content)]


def dates_of_two_readings(content: str) -> list[Place]:
    """`03/04/2025`; not `04/04/2025`, which is one day everywhere."""
    return [match.span() for match in _TWO_WAYS.finditer(content) if int(match[1]) != int(match[2])]


def negatives(words: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Three in one clause, `not unusual`, and `do not ... unless`: where, and how to say it."""
    until = -1
    for at, first in enumerate(words):
        if at <= until or not _is_negative(words, at):
            continue
        last, plain = _stacked(words, at)
        if not plain and first.word in NOT and first.word != "nothing":
            last, plain = _undone(words, at)
        if not plain and first.word in NOT:
            last, plain = _unless(words, at)
        if plain:
            until = last
            begin = at - 1 if at and first.joined and words[at - 1].word in {"do", "does", "did"} else at
            yield words[begin].start, words[last].end, plain


def _is_negative(words: Sequence[Token], at: int) -> bool:
    word = words[at].word
    after = words[at + 1].word if at + 1 < len(words) and words[at + 1].joined else ""
    return word in _NEGATIVE or _NEGATIVE_PAIR.get(word) == after != "" or _is_un(word)


def _is_un(word: str) -> bool:
    return word in _IN or (word.startswith("un") and _UN.fullmatch(word) is not None)


def _stacked(words: Sequence[Token], first: int) -> tuple[int, str]:
    """The last of three or more negatives of the clause that begins with this one."""
    found = []
    for at in range(first, min(first + _CLAUSE, len(words))):
        if words[at].clause != words[first].clause or words[at].word in _PARTS:
            break
        if _is_negative(words, at):
            found.append(at + (words[at].word in _NEGATIVE_PAIR))
    return (found[-1], f"{len(found)} negatives in one clause") if len(found) >= _STACKED else (first, "")


def _undone(words: Sequence[Token], at: int) -> tuple[int, str]:
    following = words[at + 1] if at + 1 < len(words) else None
    if following is not None and following.joined and following.word in _NOT_AGAIN:
        return at + 1, _TWO_READINGS
    for after in range(at + 1, min(at + 5, len(words))):
        if not words[after].joined:
            break
        if _is_un(words[after].word):
            return after, words[after].word[3 if words[after].word.startswith("dis") else 2 :]
        if words[after].word not in _BETWEEN:
            break
    return at, ""


def _unless(words: Sequence[Token], at: int) -> tuple[int, str]:
    for after in range(at + 1, min(at + 1 + _UNLESS, len(words))):
        if words[after].clause != words[at].clause or words[after].word in _PARTS:
            break
        if words[after].word == "unless":
            return after, "only … if"
    return at, ""


class Haste:
    """Whether haste is right, promised by the writer, or a right that people have: no pressure on them."""

    def __init__(self, words: Sequence[Token], known: Wording) -> None:
        self._words = words
        self._sales = known.sales
        self._danger = _near(words, known.danger)
        self._medicine = _near(words, known.medicine)

    def is_due(self, said: str, at: int) -> bool:
        """Of a mention that begins at the word `at`."""
        text = " ".join(said.casefold().split())
        if text in self._sales:
            return False
        here = self._words[at]
        if here.sentence in self._danger:
            return True
        if here.sentence in self._medicine and not any(letter.isdigit() for letter in text):
            return True
        before = {word.word for word in self._words[max(at - 14, 0) : at] if word.clause == here.clause}
        if here.word == "within" and before & {"can", "may"}:
            return True
        return bool(before & {"we", "we'll"}) and not before & _ASKS


def _near(words: Sequence[Token], signs: Phrases[bool]) -> set[int]:
    """The sentences with a sign in them, and those around."""
    found = {words[each.first].sentence for each in signs.find(words)}
    return {sentence + step for sentence in found for step in range(-_NEAR, _NEAR + 1)}
