"""Edits: what is replaced, why, and the guard that every rewrite passes.

- An edit names its place in the text as it was sent. Edits never overlap: the earlier one stays, of two that
  start together the longer.
- The guard looks at every edit alone, in the words around it, and then at the whole text. An edit that would
  change a fact (`invariants`), leave a double space, a dangling comma or a wrong article, or touch a quotation
  or a link is withdrawn and comes back with the reason.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct, structs

from comity_skills.editing.invariants import violations
from comity_skills.editing.passage import Passage

Severity = Literal["low", "medium", "high", "critical"]

_AROUND = 120
_UNTIDY = re.compile(
    r"[^\s.!?]  +\S|\s,|,\s*[,.;:!?]|,$|\b[Aa] [aeio]\w|\b[Aa]n [^aeiouhx\W\d]\w|\b(\w+) \1\b", re.IGNORECASE
)


class Edit(Struct, frozen=True, kw_only=True):
    start: int
    end: int
    original: str
    replacement: str
    reason: str
    category: str
    severity: Severity


class Rewrite(Struct, frozen=True, kw_only=True):
    """The text with the edits that passed. `withdrawn` are the others, each with why in its reason."""

    text: str
    edits: tuple[Edit, ...]
    withdrawn: tuple[Edit, ...]


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with these edits, which are in order and do not overlap."""
    pieces: list[str] = []
    done = 0
    for edit in edits:
        pieces += (text[done : edit.start], edit.replacement)
        done = edit.end
    return "".join((*pieces, text[done:]))


def guarded(passage: Passage, edits: Iterable[Edit]) -> Rewrite:
    """Apply what keeps the meaning, withdraw the rest."""
    kept: list[Edit] = []
    withdrawn: list[Edit] = []
    done = -1
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        trouble = "it overlaps another edit" if edit.start < done else objection(passage, edit)
        if trouble:
            withdrawn.append(structs.replace(edit, reason=f"{edit.reason} Not applied: {trouble}."))
        else:
            kept.append(edit)
            done = max(done, edit.end)
    text = apply(passage.text, kept)
    changed = violations(passage.text, text)
    if changed:
        why = f"together the edits change {_named(changed)}"
        withdrawn += (structs.replace(edit, reason=f"{edit.reason} Not applied: {why}.") for edit in kept)
        return Rewrite(text=passage.text, edits=(), withdrawn=tuple(withdrawn))
    return Rewrite(text=text, edits=tuple(kept), withdrawn=tuple(withdrawn))


def objection(passage: Passage, edit: Edit) -> str:
    """Why this edit must not be made, or nothing."""
    if passage.is_quoted(edit.start, edit.end):
        return "a quotation is left as it was said"
    if passage.is_link(edit.start, edit.end):
        return "an address or a link is left as it is"
    if passage.folded.startswith("'s", edit.end):
        return "the 's behind it belongs to it"
    text = passage.text
    first, last = passage.sentence_at(edit.start)
    left = max(min(first, edit.start), edit.start - _AROUND)
    while left > first and left < edit.start and not text[left - 1].isspace():
        left += 1
    right = min(max(last, edit.end), edit.end + _AROUND)
    before = text[left:right]
    after = f"{text[left : edit.start]}{edit.replacement}{text[edit.end : right]}"
    changed = violations(before, after, opens=left <= first)
    if changed:
        return f"it changes {_named(changed)}"
    if len(_UNTIDY.findall(after)) > len(_UNTIDY.findall(before)):
        return "the words beside it no longer fit"
    return ""


def match_case(original: str, replacement: str) -> str:
    """The replacement with the capitals of what it replaces: none, the first letter, or all."""
    if sum(letter.isalpha() for letter in original) > 1 and original.isupper():
        return replacement.upper()
    if original[:1].isupper():
        return replacement[:1].upper() + replacement[1:]
    return replacement


def _named(changed: Sequence[str]) -> str:
    return ", ".join(f"'{fact.lstrip('+-=@')}'" for fact in changed[:3])
