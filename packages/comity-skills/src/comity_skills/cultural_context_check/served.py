"""Whether food or drink that a message names is offered to anybody.

- `no alcohol`, `without wine or beer`, `we do not serve pork`, `alcohol is not served` and `alcohol-free` offer none.
- `not only wine`, `do not forget the wine` and `no limit on beer` do: the negation belongs to another word.
- What is halal or kosher is not what faith forbids.
"""

from collections.abc import Sequence
from typing import Final

from comity_skills.words.negation import NOT, is_absent
from comity_skills.words.tokens import Token, word_set

_LACKS: Final = NOT | word_set(
    "no without avoid avoids ban bans banned prohibit prohibits forbid forbids skip"
)
_NOT_REALLY: Final = word_set(
    "only just merely mind forget miss hesitate limit limits better shortage end problem doubt worries matter lack"
)
_REFUSED: Final = NOT | word_set("prohibited forbidden banned")
_JOINS: Final = word_set("or and nor")
_PERMITTED: Final = word_set("halal kosher")
_REACH: Final = 6
_LIST: Final = 12


def is_offered(words: Sequence[Token], first: int, last: int) -> bool:
    """Of the food or drink made by `words[first : last + 1]`."""
    return not (is_absent(words, first, last) or _refused_before(words, first) or _refused_after(words, last))


def is_permitted(words: Sequence[Token], first: int) -> bool:
    near = words[max(first - 2, 0) : first]
    return any(token.word in _PERMITTED and token.clause == words[first].clause for token in near)


def _refused_before(words: Sequence[Token], first: int) -> bool:
    """A list goes on over its commas: `we do not offer wine, beer or cocktails`."""
    in_list = any(token.word in _JOINS - {"and"} for token in words[max(first - 1, 0) : first + _REACH])
    for at in range(first - 1, max(first - (_LIST if in_list else _REACH), -1), -1):
        same = (
            words[at].sentence == words[first].sentence
            if in_list
            else words[at].clause == words[first].clause
        )
        if not same or words[at].word == "but":
            return False
        if words[at].word in _LACKS:
            return words[at + 1].word not in _NOT_REALLY
    return False


def _refused_after(words: Sequence[Token], last: int) -> bool:
    for at in range(last + 1, min(last + 1 + _REACH, len(words))):
        if words[at].clause != words[last].clause or words[at].word == "but":
            return False
        if words[at].word in _REFUSED:
            return at + 1 == len(words) or words[at + 1].word not in _NOT_REALLY
    return False
