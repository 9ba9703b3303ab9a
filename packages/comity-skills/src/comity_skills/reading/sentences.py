"""Where sentences begin and end, in any script, in one pass.

- `. ! ?` and the stops of other scripts end a sentence, together with the quotes and brackets that close
  behind them. A full stop does not when it stands inside a number or a name (`3.5`, `example.com`), behind
  an abbreviation or an initial (`Dr.`, `e.g.`, `J. Smith`) or behind the number of a list item (`2. Save`).
  After a quotation or dots (`"Stop!" he said`, `well... maybe`) a small letter carries the sentence on.
- Some abbreviations do end sentences (`etc.`, `p.m.`): those end one when a capital follows.
- Abbreviations are those of the language (`abbreviations.json`): what is one in English is a word in French (`c'est.`).
  A text whose language is not known has those of all of them.
- In German a number with a full stop is an ordinal (`am 3. März`, `im 2. Stock`), if the word before or behind it says
  so, or a small letter or a digit follows. A date of two numbers (`vom 03.02. bis`) goes on before a small letter or a
  digit, in any language.
- A blank line, an item of a list and a short line without a stop (a heading) end a sentence too. Other line
  ends are only wrapping.
- A piece without a letter or digit is not a sentence.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, convert

_STOPS: Final = "!?…‼⁇⁈⁉。！？｡؟۔।॥።፧։။។៕᠃᠉𑁇"  # noqa: RUF001 the stops of other scripts
_BREAK: Final = re.compile(
    rf"""(?P<stop>[.{_STOPS}]+)(?P<close>["'”’»」』）\])]*)(?=(?P<space>\s|$)?)"""  # noqa: RUF001
    r"|(?P<blank>\n[^\S\n]*\n\s*)"
    r"|(?P<item>\n[^\S\n]*(?=(?:[-*•‣◦·–]|\(?\d{1,3}[.)]|[a-z][.)])\s))"  # noqa: RUF001
    r"|(?P<line>\n)"
)
_NO_SPACE_NEEDED: Final = frozenset("。！？｡။។።")  # noqa: RUF001
_WORD_BEFORE: Final = re.compile(r"[^\s(\[\"'“‘„«]+\Z")  # noqa: RUF001
_LETTERS: Final = re.compile(r"\s*([^\W\d_]+)")
_LETTERS_BEFORE: Final = re.compile(r"([^\W\d_]+)\s+\Z")
_ORDINAL: Final = re.compile(r"\d{1,3}|[IVXLC]{1,6}")
_DATE: Final = re.compile(r"\d{1,2}\.\d{1,2}")
_LIST_NUMBER: Final = re.compile(r"[(]?\d{1,3}\Z")
_INITIAL: Final = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]\Z")
_HEADING: Final = 60
_ABBREVIATION: Final = 24
_OPENING: Final = 12
ANY: Final = "any"


class Abbreviations(Struct, frozen=True):
    """In lower case and without the last full stop. `inside` never end a sentence, `sometimes` end one before
    a capital, `before_number` are words that only before a digit are abbreviations (`No. 5`). `compounds` are the ends
    of German words that are like `sometimes` (`Hauptstr.`, `Kundennr.`). A number between a word of `ordinals_behind`
    and another word, or before one of `ordinals_before`, is an ordinal.
    """

    inside: frozenset[str]
    sometimes: frozenset[str]
    before_number: frozenset[str]
    compounds: tuple[str, ...] = ()
    ordinals_behind: frozenset[str] = frozenset()
    ordinals_before: frozenset[str] = frozenset()


class Sentence(Struct, frozen=True):
    start: int
    end: int


def read_abbreviations(content: bytes) -> Mapping[str, Abbreviations]:
    """By language, and under `ANY` those of all languages."""
    data = json.loads(content)
    lists = {name: entry for name, entry in data.items() if isinstance(entry, dict)}
    lists[ANY] = {
        field: [word for entry in lists.values() for word in entry.get(field, ())]
        for field in Abbreviations.__struct_fields__
    }
    return {name: convert(entry, Abbreviations) for name, entry in lists.items()}


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
    if _DATE.fullmatch(word):
        return not (after.islower() or after.isdigit())
    if abbreviations.ordinals_before and _ORDINAL.fullmatch(word):
        return not _is_ordinal(text, before.start(), stop, after, abbreviations)
    folded = word.casefold().rpartition("’")[2]  # noqa: RUF001 as people type it
    if folded in abbreviations.inside:
        return after == ""
    if folded in abbreviations.before_number and after.isdigit():
        return False
    if folded in abbreviations.sometimes or (
        abbreviations.compounds and folded.endswith(abbreviations.compounds)
    ):
        return after == "" or after.isupper()
    return word == "I" or not _INITIAL.fullmatch(word) or not word[0].isupper() or after == ""


def _is_ordinal(text: str, start: int, stop: int, after: str, abbreviations: Abbreviations) -> bool:
    if after.islower() or after.isdigit():
        return True
    following = _LETTERS.match(text, stop + 1, stop + 1 + _ABBREVIATION)
    leading = _LETTERS_BEFORE.search(text, max(0, start - _ABBREVIATION), start)
    return after != "" and (
        (following is not None and following[1].casefold() in abbreviations.ordinals_before)
        or (leading is not None and leading[1].casefold() in abbreviations.ordinals_behind)
    )


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
