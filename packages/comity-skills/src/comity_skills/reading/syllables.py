"""Syllables of an English word: groups of vowels, corrected by a few rules, then by a list of exceptions.

Why no hyphenation library: a hyphenation pattern says where a line may be broken, which leaves out breaks
after one letter and before two (`a-gain`, `rad-i-o`), and so undercounts; it also reads its own files.
The rules were held against the exceptions and the list of the tests, not against a pronouncing dictionary:
a single word may be one off, the mean over a text hardly is.
"""

import re
from collections.abc import Mapping
from typing import Final

_VOWELS: Final = re.compile(r"[aeiouy]+")
_LETTERS: Final = re.compile(r"[^a-z]")
# An e at the end, or before s or d, is not spoken; after these letters it is.
_SILENT_E: Final = re.compile(r"(?<=[^aeiouy])e\Z")
_SPOKEN_LE: Final = re.compile(r"[^aeiouylr]le\Z")
_SILENT_ES: Final = re.compile(r"(?<=[^aeiouyscxzgh])es\Z|(?<=[^sct]h)es\Z|(?<=th)es\Z")
_SPOKEN_LES: Final = re.compile(r"[^aeiouylr]les\Z")
_SILENT_ED: Final = re.compile(r"(?<=[^aeiouytd])ed\Z")
_SPOKEN_LED: Final = re.compile(r"[bcdfgkptz]led\Z")
# Inside a word an e before these endings is not spoken: care-ful, state-ment, safe-ly, home-less.
_SILENT_INSIDE: Final = re.compile(
    r"(?<=[^aeiouy])e(?=(?:ful(?:ly|ness)?|ment(?:s|al)?|less(?:ly|ness)?|ness|ly|some)\Z)"
)
# Nor is it at the end of the first part of these compounds: afore-mentioned, there-by, home-work.
_SILENT_BETWEEN: Final = re.compile(
    r"\A(?:a?fore(?=cast|clos|fath|fing|front|go|ground|hand|head|know|leg|m[ae]n|mention|most|name|play|run|said|see|sight"
    r"|tell|told|thought|warn|word)|[tw]?here(?=by|to|with|from|fore)|some(?=body|day|how|thing|time|what|where)"
    r"|home(?=com|land|made|page|sick|town|work)|time(?=frame|keep|line|scale|table)|life(?=boat|guard|line|long|style|time)"
    r"|safeguard|note(?=book|worth)|house(?=hold|keep|wi[fv]e|work))"
)
# Two vowels side by side that are two syllables.
_APART: Final = re.compile(
    r"ia(?!l\b|ls\b|lly\b|n\b|ns\b|ge)|(?<![ctsgx])ia[ln]|(?<![ctsgx])io(?!us|n)|(?<![ctsgx])iou|iu"
    r"|(?<![cgp])eo(?!us\b)|(?<![cg])eous\b|(?<!q)ua(?=[lt])|(?<![gq])uant?\b|uou|(?<!q)uity|iety|yi|[ao]ye|oing"
    r"|eing|uing\b|sm\b|sms\b|(?<=[^aeiouyq])ue(?=nt|nce)|ie(?=nt|nce|r\b|st\b)(?<![ct]ie)|rea(?=ct)|crea"
)


def syllables(word: str, exceptions: Mapping[str, int]) -> int:
    """At least one. A word with hyphens is its parts; letters with accents count as what they stand on."""
    return sum(_of_part(part, exceptions) for part in word.split("-") if part) or 1


def _of_part(word: str, exceptions: Mapping[str, int]) -> int:
    known = exceptions.get(word)
    if known is not None:
        return known
    letters = _LETTERS.sub("", word.removesuffix("'s"))
    if not letters:
        return 1
    known = exceptions.get(letters)
    if known is not None:
        return known
    count = (
        len(_VOWELS.findall(letters))
        + len(_APART.findall(letters))
        - len(_SILENT_INSIDE.findall(letters))
        - len(_SILENT_BETWEEN.findall(letters))
    )
    if (
        (_SILENT_E.search(letters) and not _SPOKEN_LE.search(letters))
        or (_SILENT_ES.search(letters) and not _SPOKEN_LES.search(letters))
        or (_SILENT_ED.search(letters) and not _SPOKEN_LED.search(letters))
    ):
        count -= 1
    return max(count, 1)
