"""Whether a mention says that people can switch the thing off, pause it or put it off.

- `animation that can be paused`, `an optional timer`, `users can skip the intro`, `a timeout, but people can extend it`
  do; `cannot be paused` and `no option to turn off notifications` do not.
- The control must be said of the thing: in `a timeout and a carousel that can be paused` it is said of the carousel.
"""

from collections.abc import Sequence
from typing import Final

from comity.core.actions.words.negation import NOT
from comity.core.actions.words.tokens import Token, word_set

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
_REACH: Final = 10
_BACK: Final = 6


def is_controlled(words: Sequence[Token], first: int, last: int) -> bool:
    """Of the mention made by `words[first : last + 1]`."""
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
    if at > 1 and words[at].word == "off" and words[at - 1].word in {"turn", "switch"}:
        at -= 1
    elif at < 1 or words[at].word not in _DO:
        return False
    able = words[at - 1].word in _CAN or words[at - 1].word == "to"
    return able and words[at - 1].sentence == words[first].sentence and not _refused(words, at - 1)


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
                following[0] in _CAN or (following[0] in _PEOPLE and following[-1] in _CAN)
            )
            if not own:
                return False
        if word in _ABLE and {"is", "are"} & set(passed):
            return True
        if word in _DONE and _CAN & set(passed) and "be" in passed:
            return True
        if word in _DO and passed[-1:] and passed[-1] in _CAN:
            return True
        if word == "off" and passed[-1:] and passed[-1] in {"turn", "switch"} and _CAN & set(passed):
            return True
        passed.append(word)
    return False
