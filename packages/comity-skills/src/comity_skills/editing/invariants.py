"""What a change of words may never touch, counted before and after.

- Negations, numbers, amounts, dates, names, links, conditions, and the words that bind somebody (will, must,
  refund, promise): a rewritten text has exactly as many of each as the text it came from.
- A contraction counts as what it is short for: `can't`, `cannot` and `can not` are one `can` and one `not`.
- `failed`, `unsuccessful`, `was left unpaid` all say that something did not come about. They count as one
  kind, so that a word of blame can give way to a plain one, and cannot give way to nothing.
- A name is a word with a capital letter that does not open its sentence, and is no pronoun, article or auxiliary and
  none of the words above. A tag or the number of a list (`<p>`, `1)`) opens no sentence: the word after it does.
"""

import re
from collections import Counter
from collections.abc import Iterator

from comity_skills.editing.passage import LINK, fold
from comity_skills.words.tokens import word_set

NOT = "not"
SHORTFALL = "shortfall"

_NEGATIONS = word_set(
    "not no never nobody none nothing nowhere neither nor without unable cannot refuse refused refuses refusing "
    "refusal deny denied denies denying decline declined declines declining reject rejected rejects rejecting "
    "hardly barely scarcely rarely seldom unless except impossible lack lacks lacking prohibited forbidden "
    "unavailable ineligible invalid"
)
_SHORTFALLS = word_set(
    "fail fails failed failing failure unsuccessful unsuccessfully incomplete unsigned unanswered "
    "unconfirmed missing nonfatal forgot forgotten neglected"
)
_BINDING = word_set(
    "will shall must can could may might should would need needs needed ought required requires require mandatory "
    "obliged obligation guarantee guarantees guaranteed promise promises promised refund refunds refunded "
    "refunding reimburse reimbursed compensate compensation owe owes owed pay pays paid payment charge charges "
    "charged fee fees free agree agrees agreed accept accepts accepted approve approves approved cancel cancels "
    "cancelled canceled ensure ensures ensured assure assured warrant warranty liable liability commit commits "
    "committed deadline due entitled eligible allow allows allowed permit permits permitted"
)
_NUMBERS = word_set(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand "
    "thousands million millions billion billions dozen dozens half quarter double triple twice once first second "
    "third fourth fifth sixth seventh eighth ninth tenth percent euro euros dollar dollars pound pounds cent cents "
    "pence yen rupee rupees franc francs usd eur gbp all every each both only always some any most least more less "
    "fewer than"
)
_TIMES = word_set(
    "january february march april june july august september october november december monday tuesday wednesday "
    "thursday friday saturday sunday today tomorrow yesterday tonight now later soon immediately noon midnight "
    "morning evening afternoon day days week weeks month months year years hour hours minute minutes before after "
    "until till since within during ago next last if or when"
)
_KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_SHORTFALLS, (SHORTFALL,)),
    **{word: (word,) for word in _NEGATIONS | _BINDING | _NUMBERS | _TIMES},
    "unpaid": (SHORTFALL, "pay"),
    "paid": ("pay",),
    "cannot": ("can", NOT),
    "can't": ("can", NOT),
    "cant": ("can", NOT),
    "won't": ("will", NOT),
    "wont": ("will", NOT),
    "shan't": ("shall", NOT),
    "ain't": (NOT,),
    "dont": (NOT,),
    "doesnt": (NOT,),
    "didnt": (NOT,),
    "isnt": (NOT,),
    "arent": (NOT,),
    "wasnt": (NOT,),
    "wouldnt": ("would", NOT),
    "couldnt": ("could", NOT),
    "shouldnt": ("should", NOT),
}
_NO_NAMES = word_set(
    "i you he she it we they my your his her its our their this that these those the a an people there "
    "do does did don doesn didn is isn are aren was wasn were weren have haven has hasn had hadn am be been "
    "again still very really so why what how where please ever stop right here"
)
_NAMES_AFTER_ALL = frozenset(("A", "IT"))  # a grade, a department
# it is the crime of the phrase and no commitment (who 2023: avoid "commit")
_CRIME = re.compile(r"\s+suicides?\b")
_WHEN = re.compile(
    r"\s+(?:\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|jan|feb|mar(?:ch)?\b|apr|may\b|jun|jul|aug|sep|oct|nov"
    r"|dec|tomorrow|today|tonight|noon|midnight|the\s+end|end\b|next|then\b)"
)
_TO = re.compile(r"\s+to\b")
_TOKEN = re.compile(
    LINK.pattern
    + r"|</?[a-zA-Z][^<>]{0,200}>"
    + r"|[$\u20ac\u00a3\u00a5\u20b9]?\d+(?:[.,:/\u2013-]\d+)*(?:\s?[%\u20ac\u00a3\u00a5\u20b9])?"
    + r"|[^\W\d_]+(?:'[^\W\d_]+)*"
    + r"|[.!?\u2026\r\n]"
)


def facts(text: str, *, opens: bool = True) -> Counter[str]:
    """How often the text says each thing that must survive. `opens` says that it begins a sentence."""
    return Counter(_facts(fold(text), opens))


def violations(before: str, after: str, *, opens: bool = True) -> tuple[str, ...]:
    """What was lost (`-not`) or has appeared (`+refund`), in order of the alphabet; empty when all was kept."""
    was, became = facts(before, opens=opens), facts(after, opens=opens)
    if was == became:
        return ()
    return (*(f"-{fact}" for fact in sorted(was - became)), *(f"+{fact}" for fact in sorted(became - was)))


def _facts(text: str, opens: bool) -> Iterator[str]:
    lowered = text.lower()
    if len(lowered) != len(text):
        # a few capitals outside English become two letters: places would no longer agree
        lowered = text
    for match in _TOKEN.finditer(text):
        found = match.group()
        if found in ".!?\u2026\r\n":
            opens = True
            continue
        if found[0] == "<" or (opens and found.isdigit() and text.startswith(")", match.end())):
            yield f"={found}"
            continue
        yield from _kinds(found, lowered, match.end(), opens)
        opens = False


def _kinds(token: str, lowered: str, end: int, opens: bool) -> Iterator[str]:
    if not token[0].isalpha() or "@" in token or "//" in token or token.lower().startswith("www."):
        yield f"={token}"
        return
    word = token.lower()
    known = _KINDS.get(word)
    if known:
        if not (word.startswith("commit") and _CRIME.match(lowered, end)):
            yield from known
    elif word in {"have", "has", "had"}:
        if _TO.match(lowered, end):
            yield "have to"
    elif word == "by":
        if _WHEN.match(lowered, end):
            yield "by when"
    elif "'" in word:
        yield from _contraction(word)
    head = token.partition("'")[0]
    plain = bool(known) or (head.lower() in _NO_NAMES and head not in _NAMES_AFTER_ALL)
    if token[0].isupper() and not opens and not plain:
        yield f"@{token.removesuffix(chr(39) + 's')}"


def _contraction(word: str) -> Iterator[str]:
    stem, _, ending = word.rpartition("'")
    if ending == "t" and stem.endswith("n"):
        yield from _KINDS.get(stem[:-1], ())
        yield NOT
    elif ending == "ll":
        yield "will"
    elif ending == "d":
        yield "'d"
