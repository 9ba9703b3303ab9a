"""Whether a mention says that the thing is not there, or that people can switch it off.

- `no animations`, `without a timeout`, `does not autoplay`, `animations are disabled` are absent.
- `animation that can be paused`, `an optional timer` are controlled.
- `cannot skip the animation`, `no way to pause the video`, `animations cannot be disabled` are neither: the
  negation belongs to another word. A negation reaches over a list (`no animations, popups or autoplay`),
  and otherwise never past a comma. Every look around a mention is bounded, so the whole is linear.
"""

from collections.abc import Sequence
from typing import Final, Literal

from comity.core.actions.words.tokens import Token, word_set

Standing = Literal["present", "absent", "controlled"]

_LACKS: Final = frozenset(
    ("no", "without", "zero", "minus", "never", "avoid", "avoids", "avoided", "avoiding")
)
_LACKS_AFTER: Final = {"free": "of", "instead": "of", "rather": "than", "lack": "of", "absence": "of"}
_NOT: Final = word_set(
    "not cannot can't cant don't dont doesn't doesnt didn't didnt isn't isnt aren't arent won't wont wasn't "
    "weren't haven't hasn't never shouldn't nor neither"
)
_NOT_REALLY: Final = frozenset(("only", "just", "more", "less", "doubt", "matter", "merely", "fewer"))
_TRANSPARENT: Final = word_set(
    "a an the any use uses used using have has having contain contains include includes show shows rely relies "
    "depend depends require requires need needs be is are on upon ever impose imposes display displays with "
    "there enforce enforces offer play plays start starts set apply applies employ as feature features at all "
    "present ask asks demand demands"
)
_BINDS_ELSEWHERE: Final = word_set(
    "for the on in to during when from at way is are than and but with by who which that this every until "
    "button option control controls choice means ability while if"
)
_REMOVED: Final = frozenset(
    ("disabled", "removed", "off", "absent", "eliminated", "banned", "unused", "gone")
)
_CONTROL: Final = word_set(
    "optional skippable pausable adjustable extendable extendible dismissible customisable customizable "
    "configurable opt extended paused stopped muted skipped hidden dismissed adjusted changed extend pause stop "
    "mute skip hide"
)
_CONTROL_BEFORE: Final = frozenset(
    ("optional", "skippable", "pausable", "adjustable", "dismissible", "configurable", "extendable")
)
_BINDS_NO: Final = frozenset(("no", "without", "unable", "impossible", "hard", "never"))
_REACH: Final = 4
_REACH_AFTER: Final = 6
_LIST_ITEM: Final = 3
_LIST: Final = 24


def standing(words: Sequence[Token], first: int, last: int) -> Standing:
    """How the mention made by `words[first:last+1]` stands in its clause."""
    if _absent_before(words, first) or _absent_in_list(words, first):
        return "absent"
    after = _after(words, last)
    if after is not None:
        return after
    if first and words[first].joined and words[first - 1].word in _CONTROL_BEFORE:
        return "controlled"
    return "present"


def _absent_before(words: Sequence[Token], first: int) -> bool:
    between: list[str] = []
    for at in range(first - 1, max(first - _REACH - 2, -1), -1):
        if words[at].clause != words[first].clause:
            return False
        if _negates(words, at, between):
            return True
        between.insert(0, words[at].word)
    return False


def _negates(words: Sequence[Token], at: int, between: Sequence[str]) -> bool:
    word = words[at].word
    if between and between[0] in _NOT_REALLY:
        return False
    if word in _LACKS and _lacks(between):
        return True
    if word in _NOT and all(part in _TRANSPARENT for part in between):
        return True
    pair = _LACKS_AFTER.get(word)
    return pair is not None and bool(between) and between[0] == pair and _lacks(between[1:])


def _lacks(between: Sequence[str]) -> bool:
    rest = between[1:] if between and between[0] in {"the", "a", "an", "any"} else between
    return len(rest) < _REACH and not any(part in _BINDS_ELSEWHERE for part in rest)


def _absent_in_list(words: Sequence[Token], first: int) -> bool:
    """`no A, B or C` and `no A or B`: walk back over short items of one sentence to the word that lacks them."""
    joined_by_or = any(
        words[at].word in {"or", "nor"} for at in range(max(first - _LIST_ITEM, 0), first)
    ) or _or_follows(words, first)
    if not joined_by_or:
        return False
    at, length = first - 1, 0
    while at >= max(first - _LIST, 0) and words[at].sentence == words[first].sentence:
        word = words[at].word
        if word in _LACKS or word in _NOT:
            following = words[at + 1].word
            return following not in _NOT_REALLY
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


def _after(words: Sequence[Token], last: int) -> Standing | None:
    turned: list[str] = []
    for at in range(last + 1, min(last + 1 + _REACH_AFTER, len(words))):
        word = words[at].word
        if words[at].sentence != words[last].sentence or word in {"and", "but"}:
            return None
        refused = any(part in _NOT for part in turned)
        if word in _REMOVED and (
            set(turned) & {"is", "are", "was", "were", "be", "been", "turned", "switched"}
        ):
            possible = "can" in turned or "may" in turned
            return None if refused else "controlled" if possible else "absent"
        if word in _CONTROL and (set(turned) & {"can", "may", "is", "are", "to", "could"}):
            return None if refused or _BINDS_NO & set(turned) else "controlled"
        turned.append(word)
    return None
