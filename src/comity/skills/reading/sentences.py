"""Where sentences begin and end, in any script, in one pass.

- `. ! ?` and the stops of other scripts end a sentence, together with the quotes and brackets that close
  behind them. A full stop does not when it stands inside a number or a name (`3.5`, `example.com`), behind
  an abbreviation or an initial (`Dr.`, `e.g.`, `J. Smith`) or behind the number of a list item (`2. Save`).
  After a quotation or dots (`"Stop!" he said`, `well... maybe`) a small letter carries the sentence on.
- Some abbreviations do end sentences (`etc.`, `p.m.`): those end one when a capital follows.
- A blank line, an item of a list and a short line without a stop (a heading) end a sentence too. Other line
  ends are only wrapping.
- A piece without a letter or digit is not a sentence.
"""

import re
from typing import Final

from msgspec import Struct

_STOPS: Final = "!?…‼⁇⁈⁉。！？｡؟۔।॥።፧։။។៕᠃᠉𑁇"  # noqa: RUF001 the stops of other scripts
_BREAK: Final = re.compile(
    rf"""(?P<stop>[.{_STOPS}]+)(?P<close>["'”’»」』）\])]*)(?=(?P<space>\s|$)?)"""  # noqa: RUF001
    r"|(?P<blank>\n[^\S\n]*\n\s*)"
    r"|(?P<item>\n[^\S\n]*(?=(?:[-*•‣◦·–]|\(?\d{1,3}[.)]|[a-z][.)])\s))"  # noqa: RUF001
    r"|(?P<line>\n)"
)
_NO_SPACE_NEEDED: Final = frozenset("。！？｡။។።")  # noqa: RUF001
_WORD_BEFORE: Final = re.compile(r"[^\s(\[\"'“‘]+\Z")  # noqa: RUF001
_LIST_NUMBER: Final = re.compile(r"[(]?\d{1,3}\Z")
_INITIAL: Final = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]\Z")
_HEADING: Final = 60
_ABBREVIATION: Final = 24
_OPENING: Final = 12


class Abbreviations(Struct, frozen=True):
    """In lower case and without the last full stop. `inside` never end a sentence, `sometimes` end one before
    a capital, `before_number` are words that only before a digit are abbreviations (`No. 5`).
    """

    inside: frozenset[str]
    sometimes: frozenset[str]
    before_number: frozenset[str]


class Sentence(Struct, frozen=True):
    start: int
    end: int


def sentences(text: str, abbreviations: Abbreviations) -> list[Sentence]:
    found: list[Sentence] = []
    start = 0
    for match in _BREAK.finditer(text):
        if not _ends(text, start, match, abbreviations):
            continue
        _add(found, text, start, match.end())
        start = match.end()
    _add(found, text, start, len(text))
    return found


def _add(found: list[Sentence], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    if any(character.isalnum() for character in piece):
        left = start + len(piece) - len(piece.lstrip())
        found.append(Sentence(left, left + len(piece.strip())))


def _ends(text: str, start: int, match: re.Match[str], abbreviations: Abbreviations) -> bool:
    if match["stop"] is None:
        return match["line"] is None or _is_heading(text, start, match.start())
    stop = match["stop"]
    if stop[-1] in _NO_SPACE_NEEDED:
        return True
    if match["space"] is None and not match["close"]:
        return not stop.endswith(".") and stop[-1] not in "!?…"
    after = _next(text, match.end())
    if after.islower() and (match["close"] or stop[-1] == "…" or stop.endswith("..")):
        return False
    if set(stop) != {"."} or len(stop) > 1:
        return True
    return _full_stop(text, start, match.start(), after, abbreviations)


def _full_stop(text: str, start: int, stop: int, after: str, abbreviations: Abbreviations) -> bool:
    before = _WORD_BEFORE.search(text, max(start, stop - _ABBREVIATION), stop)
    if before is None:
        return True
    word = before[0]
    if _LIST_NUMBER.fullmatch(word) and text[start : min(start + _OPENING, stop)].strip() == word:
        return False
    folded = word.casefold()
    if folded in abbreviations.inside:
        return after == ""
    if folded in abbreviations.before_number and after.isdigit():
        return False
    if folded in abbreviations.sometimes:
        return after == "" or after.isupper()
    return word == "I" or not _INITIAL.fullmatch(word) or not word[0].isupper() or after == ""


def _next(text: str, at: int) -> str:
    """The first letter or digit behind the white space and opening marks that follow, or nothing."""
    for character in text[at : at + _OPENING]:
        if character.isalnum():
            return character
    return ""


def _is_heading(text: str, start: int, end: int) -> bool:
    line = text[max(start, text.rfind("\n", start, end) + 1) : end].strip()
    following = text[end + 1 : end + 2]
    return 0 < len(line) <= _HEADING and (line.endswith(":") or following.isupper()) and line[-1] not in ",;-"
