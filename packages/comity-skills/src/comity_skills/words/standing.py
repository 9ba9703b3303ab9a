"""How a mention stands: the thing is there, is said to be missing, or is there and people can switch it off,
pause it or put it off.

- `animation that can be paused`, `animations respect the reduced-motion setting`, `an optional timer`, `users can skip the intro`, `a timeout, but people can extend it`
  do; `cannot be paused` and `no option to turn off notifications` do not.
- The control must be said of the thing: in `a timeout and a carousel that can be paused` it is said of the carousel.
"""

from collections.abc import Sequence
from typing import Final, Literal

from comity_skills.words.negation import NOT, is_absent
from comity_skills.words.tokens import Token, word_set

ChainPositions = Literal["present", "absent", "controlled", "met"]

_ABLE: Final = word_set(
    "optional skippable pausable adjustable extendable extendible dismissible customisable customizable configurable"
)
_DONE: Final = word_set(
    "extended paused stopped muted skipped hidden dismissed adjusted changed disabled removed off customised customized"
)
_DO: Final = word_set("extend pause stop mute skip hide dismiss adjust change disable customise customize")
_CAN: Final = word_set("can may could")
_PEOPLE: Final = word_set("users people you they everyone anyone readers visitors user")
_ARTICLES: Final = word_set("a an the any all each every")
_REFUSED: Final = NOT | word_set("no without unable impossible hard difficult")
_HALTS: Final = word_set("pause stop mute skip")
_HEEDS: Final = word_set("respect respects honour honours honor honors follow follows obey obeys heed heeds")
_WISHES: Final = word_set("motion setting settings preference preferences")
_OTHER_WAYS: Final = word_set("alternative alternatives equivalent equivalents fallback fallbacks")
_BY_HAND: Final = word_set("keyboard button buttons tap click")
_REACH: Final = 10
_BACK: Final = 6


def standing(words: Sequence[Token], first: int, last: int) -> ChainPositions:
    """Of the mention made by `words[first : last + 1]`."""
    if is_absent(words, first, last):
        return "absent"
    return "controlled" if _is_controlled(words, first, last) else "present"


def _is_controlled(words: Sequence[Token], first: int, last: int) -> bool:
    if first and words[first].joined and words[first - 1].word in _ABLE:
        return not _refused(words, first - 1)
    return _before(words, first) or _after(words, last)


def _refused(words: Sequence[Token], at: int) -> bool:
    back = words[max(at - _BACK, 0) : at]
    return any(token.word in _REFUSED for token in back if token.sentence == words[at].sentence)


def _before(words: Sequence[Token], first: int) -> bool:
    """`can pause the A`, `a way to turn off all A`."""
    at = first - 1
    while at > 0 and words[at].word in _ARTICLES:
        at -= 1
    if _chosen(words, first):
        return True
    if at > 1 and words[at].word == "off" and words[at - 1].word in {"turn", "switch"}:
        at -= 1
    elif at < 1 or words[at].word not in _DO:
        return False
    able = words[at - 1].word in _CAN or words[at - 1].word == "to"
    return able and words[at - 1].sentence == words[first].sentence and not _refused(words, at - 1)


def _chosen(words: Sequence[Token], first: int) -> bool:
    """`can choose which A`, `may opt out of A`."""
    for at in range(first - 2, max(first - _BACK, 0), -1):
        word, following = words[at].word, words[at + 1].word
        if words[at].sentence != words[first].sentence or word in {"and", "but", "while"}:
            return False
        asked = word in {"choose", "decide"} and following in {"which", "when", "whether", "if", "how"}
        if asked or (word == "opt" and following in {"in", "out"}):
            return words[at - 1].word in _CAN | {"to"} and not _refused(words, at - 1)
    return False


def _after(words: Sequence[Token], last: int) -> bool:
    """`A can be paused`, `A is optional`, `A, but users can extend it`, `A and can be turned off`."""
    passed: list[str] = []
    for at in range(last + 1, min(last + 1 + _REACH, len(words))):
        word = words[at].word
        if words[at].sentence != words[last].sentence or word in _REFUSED:
            return False
        if word in {"and", "but"}:
            following = [token.word for token in words[at + 1 : at + 3]]
            own = following[:1] and (
                following[0] in _CAN
                or (following[0] in _PEOPLE and following[-1] in _CAN)
                or (following[0] in _ABLE and {"is", "are"} & set(passed))
            )
            if not own:
                return False
        if _offered(word, passed):
            return True
        passed.append(word)
    return False


def _offered(word: str, passed: Sequence[str]) -> bool:
    """Whether a word, after those passed since the mention, says that people decide."""
    said, before = set(passed), passed[-1] if passed else ""
    is_so, can = bool(said & {"is", "are"}), bool(said & _CAN)
    return (
        (word in _ABLE and is_so)
        or (word in _DONE and can and "be" in said)
        or (word in _DO and before in _CAN)
        or (word == "in" and before == "opt" and is_so)
        or (word == "off" and before in {"turn", "switch"} and can)
        or (word in _WISHES and bool(said & _HEEDS))
        or (word in _HALTS and "with" in said)
        or (word in _OTHER_WAYS and before in _BY_HAND and "with" in said)
    )
