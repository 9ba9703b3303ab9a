"""Whether a mention says that the thing is not there.

- `no animations`, `without a timeout`, `does not autoplay`, `we removed the CAPTCHA`, `animations are disabled`,
  `animation-free`, `non-animated` and `un-timed` do.
- `cannot skip the animation`, `no way to pause the video`, `animations cannot be disabled`, `not only sound` and
  `not free of animations` do not: the negation belongs to another word.
- A negation reaches over a list (`no animations, popups or autoplay`, `we removed the timer, the popups and the sound
  because ...`), and otherwise never past a comma. A list with `and` has to end with its last item: in `no popups and
  animation runs` another sentence begins. Every look around a mention is bounded, so that the whole is linear.
"""

from collections.abc import Sequence
from typing import Final

from comity_skills.words.tokens import Token, word_set

NOT: Final = word_set(
    "not cannot can't cant don't dont doesn't doesnt didn't didnt isn't isnt aren't arent won't wont wasn't "
    "weren't haven't hasn't never shouldn't nor neither nothing"
)
_LACKS: Final = word_set(
    "no without zero minus never avoid avoids avoided avoiding non remove removes removed removing eliminate eliminates "
    "eliminated dropped drops ditched bans banned lacks scrapped deleted replaced replaces replacing"
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
    "depend depends require requires need needs be is are on upon ever impose imposes display displays with make makes made "
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
_ITEMS: Final = 8
_OWN: Final = word_set("a an the one two three")
_JOINS: Final = frozenset(("and", "or", "nor"))
# what begins another statement, where an item of a list would have a noun
_BEGINS_ANEW: Final = (_TRANSPARENT - _ARTICLES) | word_set(
    "added adding introduced introduces kept keep keeps now get gets built instead then it they we users people"
)
_AFTER_A_LIST: Final = word_set(
    "because since after before when while as so from in on at for during until with by to last this and"
)


def is_absent(words: Sequence[Token], first: int, last: int) -> bool:
    """Of the mention made by `words[first : last + 1]`."""
    return (
        _before(words, first)
        or _in_list(words, first, last)
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


def _in_list(words: Sequence[Token], first: int, last: int) -> bool:
    """`no A, B or C`, `we removed A, B and C.`: back from item to item to the one that a word denies."""
    link, head = _earlier_item(words, first)
    if not link or not _goes_on(words, link, last):
        return False
    item, own = first, False
    for _ in range(_ITEMS):
        # `no ads and a timer`: the timer has an article of its own, to which the `no` does not reach
        own = own or any(token.word in _OWN for token in words[head + 1 : item])
        if _before(words, head):
            near = words[max(head - _REACH, 0) : head]
            return not (own and any(token.word in {"no", "zero"} for token in near))
        item = head
        link, head = _earlier_item(words, head)
        if not link:
            return False
    return False


def _earlier_item(words: Sequence[Token], at: int) -> tuple[str, int]:
    """How the item around a word is joined to the one before it, and the last word of that one; or nothing."""
    for back in range(at - 1, max(at - _LIST_ITEM - 3, -1), -1):
        word = words[back].word
        if words[back].sentence != words[at].sentence:
            return "", 0
        if word in _JOINS:
            return (word, back - 1) if back and words[back - 1].sentence == words[at].sentence else ("", 0)
        if words[back].clause != words[back + 1].clause:
            return ",", back
        starts = back and (words[back - 1].word in _JOINS or words[back - 1].clause != words[back].clause)
        if word in _BEGINS_ANEW or (word in _BINDS_ELSEWHERE and not (starts and word in _ARTICLES)):
            return "", 0
    return "", 0


def _goes_on(words: Sequence[Token], link: str, last: int) -> bool:
    """Whether what follows a mention, which is joined to an earlier item, is the rest of a list or its end."""
    if link in {"or", "nor"}:
        return True
    if link == "and":
        return _ends(words, last)
    length = 0
    for at in range(last + 1, min(last + 1 + _LIST, len(words))):
        if words[at].sentence != words[last].sentence:
            return False
        fresh = words[at].clause != words[at - 1].clause
        if words[at].word in {"or", "nor"}:
            return True
        if words[at].word == "and":
            return _is_last_item(words, at + 1)
        if at == last + 1 and not fresh and not _or_is_near(words, at):
            return False
        length = 0 if fresh else length + 1
        if length > _LIST_ITEM:
            return False
    return False


def _or_is_near(words: Sequence[Token], at: int) -> bool:
    return any(token.word in {"or", "nor"} for token in words[at : at + _LIST_ITEM])


def _is_last_item(words: Sequence[Token], at: int) -> bool:
    """Whether an item of a few words begins here, and the list ends with it."""
    return any(_ends(words, last) for last in range(at, min(at + _LIST_ITEM + 1, len(words))))


def _ends(words: Sequence[Token], last: int) -> bool:
    following = last + 1
    return (
        following == len(words)
        or words[following].clause != words[last].clause
        or words[following].word in _AFTER_A_LIST
    )


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
