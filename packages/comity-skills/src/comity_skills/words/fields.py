"""Text fields of an input: what is not text is refused in the words of the validator, in every mode.

0.1.1 checks no item of a list and dies on `focus: [1, 2]`; the refusal is that of 1.0.8.
"""

from collections.abc import Mapping
from typing import Any, Final

from comity_skills.skill import SkillInputError

# JavaScript's white space: the byte order mark too, and no control character beyond \t to \r.
SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def trimmed(text: str) -> str:
    return text.strip(SPACE)


def text_field(action: str, given: Mapping[str, Any], field: str, default: str | None = None) -> str:
    """The text of a field as it was sent; `default` makes the field optional."""
    value = given.get(field, default)
    if type(value) is str and (value or default is not None):
        return value
    problems = []
    if default is None and (value is None or value == ""):
        problems.append(f"Required field '{field}' is missing or empty")
    if field in given and not isinstance(value, str):
        problems.append(f"'{field}' must be a string")
    if problems or not isinstance(value, str):
        raise _refused(action, problems)
    return value


def texts_field(action: str, given: Mapping[str, Any], field: str) -> list[str]:
    """The items of an optional list of texts."""
    value = given.get(field, [])
    if not isinstance(value, list | tuple):
        raise _refused(action, [f"'{field}' must be an array"])
    wrong = [
        f"'{field}[{at}]' must be a string" for at, item in enumerate(value) if not isinstance(item, str)
    ]
    if wrong:
        raise _refused(action, wrong)
    return list(value)


def _refused(action: str, problems: list[str]) -> SkillInputError:
    return SkillInputError(f"Input validation failed for action '{action}': {'; '.join(problems)}")
