"""The one change that is made to a message: a greeting or an address that does not travel.

- `hey`, `guys` and `dude` go only where they address the reader: at the head of a sentence, behind a word of
  thanks or welcome, and in `you guys`. In `they said hey` and `girls, guys and kids` they are content and stay.
- What is quoted stays. Nothing else of the message changes: no other word, number, sign or order.
- *strict* and *compat* leave the words out, with the comma that would dangle; *enhanced* puts a neutral word
  there. A message that would be empty is left as it is.
"""

import re
from typing import Final

from msgspec import Struct

_QUOTED: Final = re.compile(r"\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|«[^»\n]{0,400}»")
_WHO: Final = r"(?:you[ ]guys|guys|dudes?)(?!['’\w-])"  # noqa: RUF001 both apostrophes
# A list (`guys, girls and kids`) addresses nobody.
_LIST: Final = r"[ ](?:girls|gals|ladies|women|men|boys|kids|dudes?|guys|and|or|who|that)\b"
_HEAD: Final = re.compile(
    r"(?:(?<=\A)|(?<=[.!?…][ ])|(?<=\n))"
    rf"(?:hey(?:[ ]there)?(?:,?[ ](?P<who>{_WHO}))?(?P<stop>[ ]?(?:[,!.:–—-]|\Z))"  # noqa: RUF001
    r"|hey(?=[ ](?-i:[A-Z])[\w'’.-]{0,30}(?:[ ](?-i:[A-Z])[\w'’.-]{0,30})?[,!])"  # noqa: RUF001
    rf"|(?P<call>{_WHO})(?P<comma>[ ]?[,!]))(?!{_LIST})",
    re.IGNORECASE,
)
_TAIL: Final = re.compile(
    r"(?:(?<=\A)|(?<=[.!?,;:…][ ])|(?<=\n))"
    r"(?:(?:welcome|thanks|hello|hi|sorry|cheers|bye|congratulations|congrats|well[ ]done|(?:good|great)[ ](?:job|work))"
    r"(?P<lead>,?[ ])|(?:yes|no|ok|okay|please|thank[ ]you)(?P<paused>,[ ]))"
    rf"(?P<who>{_WHO})(?!,{_LIST})(?=[ ]?(?:[.!?,]|\Z))",
    re.IGNORECASE,
)
# The recorded modes leave this one as it is.
_HEY_ALL: Final = re.compile(
    r"(?:(?<=\A)|(?<=[.!?…][ ])|(?<=\n))hey(?=[ ](?:team|all|everyone|everybody|friends|colleagues)[ ]?(?:[,!.:–—-]|\Z))",  # noqa: RUF001
    re.IGNORECASE,
)
# `Hello Bro` would be neither: the greeting is left to the writer.
_SLANG: Final = re.compile(
    r"[ ](?:bro|bruv|bud|buddy|pal|man|mate|dear|boss|honey|sweetie|babe|girl|sis)\b", re.IGNORECASE
)
_YOU: Final = re.compile(
    r"\b(?:(?P<of>(?:all|both|some|most|each|any)(?:[ ]of)?)[ ])?(?P<you>you)[ ]guys(?!['’\w-])",  # noqa: RUF001
    re.IGNORECASE,
)


class Edit(Struct, frozen=True):
    start: int
    end: int
    replacement: str


def adapt(message: str, *, neutral: bool) -> tuple[str, list[Edit]]:
    """The message with its edits made, and the edits; `neutral` puts a word in the place of those left out."""
    found = [
        _head(message, match, neutral=neutral)
        for match in _HEAD.finditer(message)
        if not (neutral and _SLANG.match(message, match.end()))
    ]
    found += [_tail(match, neutral=neutral) for match in _TAIL.finditer(message)]
    found += [_you(match, neutral=neutral) for match in _YOU.finditer(message)]
    found += [Edit(*match.span(), "Hello") for match in _HEY_ALL.finditer(message)] if neutral else []
    edits = _apart(found, [match.span() for match in _QUOTED.finditer(message)])
    result = _made(message, edits)
    return (result, edits) if result.strip() else (message, [])


def _head(message: str, match: re.Match[str], *, neutral: bool) -> Edit:
    """`Hey guys,`, `Hey Anna,` (the name stays), `Guys,`: what is left out takes the space behind it along."""
    who = match["who"] or match["call"] or ""
    word = ""
    if neutral and match["call"]:
        word = f"Everyone{match['comma']}" if _several(who) else ""
    elif neutral:
        word = f"Hello{' everyone' if _several(who) else ''}{match['stop'] or ''}"
    start, end = match.span()
    while not word and message[end : end + 1] in {" ", "\t"}:
        end += 1
    return Edit(start, end, word)


def _tail(match: re.Match[str], *, neutral: bool) -> Edit:
    """`Welcome, guys!`: the word of welcome stays."""
    lead = "lead" if match["lead"] else "paused"
    word = f"{match[lead]}everyone" if neutral and _several(match["who"]) else ""
    return Edit(match.start(lead), match.end(), word)


def _you(match: re.Match[str], *, neutral: bool) -> Edit:
    """`all you guys` becomes `all of you`."""
    if neutral and match["of"]:
        lead = match["of"] if match["of"].lower().endswith(" of") else f"{match['of']} of"
        return Edit(*match.span(), f"{lead} {match['you']}")
    return Edit(match.start("you"), match.end(), f"{match['you']} all" if neutral else match["you"])


def _several(who: str) -> bool:
    return who.lower().endswith(("guys", "dudes"))


def _apart(edits: list[Edit], quoted: list[tuple[int, int]]) -> list[Edit]:
    """In order, none over another (the first kind wins), none within a quotation."""
    taken: list[Edit] = []
    at = 0
    last = 0
    for edit in sorted(edits, key=lambda each: each.start):
        while at < len(quoted) and quoted[at][1] <= edit.start:
            at += 1
        inside = at < len(quoted) and quoted[at][0] <= edit.start
        if edit.start >= last and not inside:
            taken.append(edit)
            last = edit.end
    return taken


def _made(message: str, edits: list[Edit]) -> str:
    """What follows a capital that was left out gets it."""
    parts = []
    last = 0
    opens = False
    for edit in edits:
        kept = message[last : edit.start]
        parts += [_opened(kept) if opens else kept, edit.replacement]
        opens = not edit.replacement and (message[edit.start].isupper() or (opens and not kept))
        last = edit.end
    rest = message[last:]
    parts.append(_opened(rest) if opens else rest)
    return "".join(parts)


def _opened(text: str) -> str:
    return text[:1].upper() + text[1:] if text[:1].islower() else text
