"""Whether a mention says that the thing is not there.

- `no animations`, `without a timeout`, `does not autoplay`, `we removed the CAPTCHA`, `animations are disabled`,
  `animation-free`, `non-animated` and `un-timed` do.
- `cannot skip the animation`, `no way to pause the video`, `animations cannot be disabled`, `not only sound` and
  `not free of animations` do not: the negation belongs to another word.
- A negation reaches over a list (`no animations, popups or autoplay`, `free of popups and autoplay`), and otherwise
  never past a comma. Every look around a mention is bounded, so that the whole is linear.
"""

from collections.abc import Sequence
from typing import Final

from comity.skills.words.tokens import Token, word_set

NOT: Final = word_set(
    "not cannot can't cant don't dont doesn't doesnt didn't didnt isn't isnt aren't arent won't wont wasn't "
    "weren't haven't hasn't never shouldn't nor neither"
)
_LACKS: Final = word_set(
    "no without zero minus never avoid avoids avoided avoiding non remove removes removed removing eliminate eliminates "
    "eliminated dropped drops ditched bans banned lacks"
)
_LACKS_PAIR: Final = {
    "free": "of",
    "instead": "of",
    "rather": "than",
    "lack": "of",
    "absence": "of",
    "rid": "of",
}
_NOT_REALLY: Final = word_set("only just less doubt matter merely fewer")
_ARTICLES: Final = word_set("a an the any all")
_TRANSPARENT: Final = word_set(
    "a an the any use uses used using have has having contain contains include includes show shows rely relies "
    "depend depends require requires need needs be is are on upon ever impose imposes display displays with "
    "there enforce enforces offer play plays start starts set apply applies employ as feature features at all "
    "present ask asks demand demands open opens launch launches trigger triggers cause causes create creates "
    "produce produces add adds load loads force forces"
)
_BINDS_ELSEWHERE: Final = word_set(
    "for the on in to during when from at way is are than and but with by who which that this every until "
    "button option control controls choice means ability while if can may could"
)
_REMOVED: Final = word_set("disabled removed off absent eliminated banned unused gone avoided replaced muted")
_MADE: Final = word_set("is are was were be been turned switched")
_REACH: Final = 4
_REACH_AFTER: Final = 6
_LIST_ITEM: Final = 3
_LIST: Final = 24


def is_absent(words: Sequence[Token], first: int, last: int) -> bool:
    """Of the mention made by `words[first : last + 1]`."""
    return (
        _before(words, first)
        or _in_list(words, first)
        or _joined_by_and(words, first, last)
        or _after(words, last)
        or _list_after(words, last)
    )


def _before(words: Sequence[Token], first: int) -> bool:
    between: list[str] = []
    for at in range(first - 1, max(first - _REACH - 2, -1), -1):
        if words[at].clause != words[first].clause:
            return False
        if words[at].word == "un" and not between:
            return True
        if _negates(words[at].word, between):
            return not _taken_back(words, at)
        between.insert(0, words[at].word)
    return False


def _taken_back(words: Sequence[Token], at: int) -> bool:
    """`not free of A`, `never without A`: the thing is there."""
    if not at or words[at].word in NOT or words[at - 1].clause != words[at].clause:
        return False
    return words[at - 1].word in NOT


def _negates(word: str, between: Sequence[str]) -> bool:
    if between and between[0] in _NOT_REALLY:
        return False
    if word in _LACKS and _lacks(between):
        return True
    if word in NOT and all(part in _TRANSPARENT for part in between):
        return True
    pair = _LACKS_PAIR.get(word)
    return pair is not None and bool(between) and between[0] == pair and _lacks(between[1:])


def _lacks(between: Sequence[str]) -> bool:
    rest = between[1:] if between and between[0] in _ARTICLES else between
    return len(rest) < _REACH and not any(part in _BINDS_ELSEWHERE for part in rest)


def _in_list(words: Sequence[Token], first: int) -> bool:
    """`no A, B or C` and `no A or B`: back over short items of one sentence to the word that lacks them."""
    near = range(max(first - _LIST_ITEM, 0), first)
    if not any(words[at].word in {"or", "nor"} for at in near) and not _or_follows(words, first):
        return False
    at, length = first - 1, 0
    while at >= max(first - _LIST, 0) and words[at].sentence == words[first].sentence:
        word = words[at].word
        if word in _LACKS or word in NOT:
            return words[at + 1].word not in _NOT_REALLY
        length = 0 if words[at + 1].clause != words[at].clause or word in {"or", "nor"} else length + 1
        if length > _LIST_ITEM or word in _BINDS_ELSEWHERE:
            return False
        at -= 1
    return False


def _or_follows(words: Sequence[Token], first: int) -> bool:
    length = 0
    for at in range(first + 1, min(first + _LIST, len(words))):
        if words[at].sentence != words[first].sentence:
            return False
        if words[at].word in {"or", "nor"}:
            return words[at].clause != words[first].clause or at - first <= _LIST_ITEM
        length = 0 if words[at].clause != words[at - 1].clause else length + 1
        if length > _LIST_ITEM:
            return False
    return False


def _joined_by_and(words: Sequence[Token], first: int, last: int) -> bool:
    """`free of A and B`, where B ends its clause: what is said of A is said of B."""
    ends = last + 1 == len(words) or words[last + 1].clause != words[last].clause
    at = first - 1
    while at > 0 and words[at].word in _ARTICLES:
        at -= 1
    return ends and at > 0 and words[at].word == "and" and _before(words, at - 1)


def _after(words: Sequence[Token], last: int) -> bool:
    """`A is disabled`, `A has been turned off`, `A-free`."""
    passed: list[str] = []
    for at in range(last + 1, min(last + 1 + _REACH_AFTER, len(words))):
        word = words[at].word
        if words[at].sentence != words[last].sentence or word in {"and", "but"}:
            return False
        if word == "free" and not passed and words[at].joined:
            return at + 1 == len(words) or words[at + 1].word not in {"of", "trial"}
        if word in _REMOVED and _MADE & set(passed):
            return not {"can", "may", *NOT} & set(passed)
        passed.append(word)
    return False


def _list_after(words: Sequence[Token], last: int) -> bool:
    """`A, B and C are disabled`: on over short items to what is said of all of them."""
    length = joined = 0
    for at in range(last + 1, min(last + 1 + _LIST, len(words))):
        word = words[at].word
        if words[at].sentence != words[last].sentence:
            return False
        if word in _MADE and joined:
            return _after(words, at - 1)
        fresh = words[at].clause != words[at - 1].clause
        joined += word in {"and", "or"}
        item = fresh or word in {"and", "or"}
        length = 0 if item else length + 1
        if length > _LIST_ITEM or word in _BINDS_ELSEWHERE - {"and"} or (at == last + 1 and not item):
            return False
    return False
