"""How a mention stands: the thing is there, is said to be missing, or is there and people can switch it off."""

from collections.abc import Sequence
from typing import Literal

from comity.core.actions.words.control import is_controlled
from comity.core.actions.words.negation import is_absent
from comity.core.actions.words.tokens import Token

Standing = Literal["present", "absent", "controlled"]


def standing(words: Sequence[Token], first: int, last: int) -> Standing:
    """Of the mention made by `words[first : last + 1]`."""
    if is_absent(words, first, last):
        return "absent"
    return "controlled" if is_controlled(words, first, last) else "present"
