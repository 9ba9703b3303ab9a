"""The wordings that tell what a message is about, found in all languages in one pass over the folded text.

`languages/<code>.json` has what is said in one language: `replies`, the sentences by their names; `topics`, the wordings of
each topic and the reply to it; and `speech`, the wordings that tell how something is meant:

| kind | wordings |
|---|---|
| `self`, `we` | the writer, and the writer with others |
| `others`, `friends` | other people; those close to the writer who are no family |
| `small` | words that tell the language |
| `requests` | the writer as the one who gets something (`send me`): nothing personal |
| `orders`, `commands` | something is to be done; a command stands at the beginning of a sentence |
| `matters`, `greetings` | things of offices, machines and kitchens; small talk |
| `heavy` | words that may be said of trouble: with one of them nothing is certain |
| `nots`, `doubts`, `but` | what denies the wording after it; what makes joy of its sentence doubtful; a turn |
| `own_illness`, `news` | the writer is ill; what is joy where it is celebrated |
| `hides` | wordings that mean something else (`my phone died`): no topic is read from what they touch |
| `pets` | animals that people live with |
| `technical` | programs, languages and devices |
| `mild` | those of `heavy` that are said of machines too |
| `healed` | an illness that is over, or was none: relief, whatever words of illness stand beside it |
| `owing`, `owes` | debts of the writer, told without the word; what is one beside a large number |
| `cheerful` | what is said in a good mood |
| `idioms` | what is not meant as it is said (`this heat is killing me`) |
| `stories`, `touched` | films, novels, songs and games; what says that one of them comes close to the writer |
| `young`, `adult` | the writer goes to school; the writer is grown up |

`latin` has the sentences of a language once more, for whoever writes it in Latin letters.

A wording may have gaps: `put … to sleep` is found where a few words stand between its parts, in one sentence, and none of
them denies it.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from comity_skills.crisis.disguise import Vocabulary
from comity_skills.crisis.folding import Folded, fold, fold_phrase, has_unspaced
from comity_skills.crisis.lexicon import expand
from comity_skills.crisis.lookup import Lookup, sections_of
from comity_skills.words.tables import Content, Memo, Records, records_of

_NO_WORDS: Final = Vocabulary(())
LATIN: Final = "-Latn"
_GAP: Final = "…"
_WIDE: Final = 45  # characters that a gap stands for at most
_STOP: Final = re.compile(r"(?<!\d )\.|\.(?! \d)|[!?;\n।]")


class Topic(Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]
    reply: str


class LatinForm(Struct, frozen=True, forbid_unknown_fields=True):
    """`topics` are the replies to them."""

    replies: Mapping[str, str]
    topics: Mapping[str, str]


class SpokenFile(Struct, frozen=True, forbid_unknown_fields=True):
    written: str
    replies: Mapping[str, str]
    topics: Mapping[str, Topic]
    speech: Mapping[str, tuple[str, ...]]
    latin: LatinForm | None = None


class Meaning(NamedTuple):
    """What a pattern tells. One that is part of a wording with gaps has that wording and its own place in it."""

    language: str
    name: str
    whole: str = ""
    part: int = 0


class Mark(NamedTuple):
    """A wording at its place in the folded text."""

    start: int
    end: int
    wording: str

    def touches(self, other: "Mark") -> bool:
        return self.start < other.end and other.start < self.end


_END: Final = attrgetter("end")
_LONGEST: Final = 150  # characters of a wording, with its gaps


Marks = Mapping[str, Sequence[Mark]]
"""By topic or kind, in the order of the text."""


class Said:
    """The folded text, what was found in it by language, and where its sentences end."""

    def __init__(self, folded: Folded, found: Mapping[str, Mapping[str, list[Mark]]]) -> None:
        self.folded = folded
        self.text = folded.text
        self.found = found
        self._stops = [stop.start() for stop in _STOP.finditer(self.text)]

    def sentence(self, mark: Mark) -> int:
        return self.sentence_at(mark.start)

    def sentence_at(self, place: int) -> int:
        return bisect_left(self._stops, place)

    def asks(self, mark: Mark) -> bool:
        """Whether its sentence is a question."""
        at = self.sentence(mark)
        return at < len(self._stops) and self.text[self._stops[at]] == "?"

    def sentences(self) -> Iterator[Mark]:
        """Each with its stop, and without those that say nothing."""
        start = 0
        for end in [*self._stops, len(self.text)]:
            if any(map(str.isalnum, self.text[start:end])):
                yield Mark(start, min(end + 1, len(self.text)), "")
            start = end + 1

    def marks(self, language: str) -> Marks:
        """Without what the hides of the language touch."""
        found = self.found.get(language, {})
        if not found.get("hides"):
            return found
        return {
            name: [mark for mark in marks if not self.is_hidden(mark.start, mark.end, language)]
            for name, marks in found.items()
        }

    def is_hidden(self, start: int, end: int, language: str) -> bool:
        hides = self.found.get(language, {}).get("hides", ())
        mark = Mark(start, end, "")
        return bool(hides) and any(map(mark.touches, _near(hides, mark)))


def last_before(marks: Sequence[Mark], place: int) -> Mark | None:
    at = bisect_right(marks, place, key=_END)
    return marks[at - 1] if at else None


def _near(marks: Sequence[Mark], mark: Mark) -> Sequence[Mark]:
    """Those that may touch it."""
    return marks[
        bisect_right(marks, mark.start, key=_END) : bisect_left(marks, mark.end + _LONGEST, key=_END)
    ]


class _Replies(Struct, frozen=True):
    """What a language says: its sentences, and the reply to each topic; and those in Latin letters."""

    replies: Mapping[str, str]
    topics: Mapping[str, str]
    latin: LatinForm | None = None


def wordings_of(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Lay out what the files of the languages say, by their codes."""
    meanings: dict[str, set[Meaning]] = defaultdict(set)
    sections: dict[str, bytes] = {"languages": msgspec.msgpack.encode(tuple(files))}
    for language, content in files.items():
        file = msgspec.json.decode(content, type=SpokenFile)
        replies = {name: topic.reply for name, topic in file.topics.items()}
        said = _Replies(file.replies, replies, file.latin)
        sections[f"replies.{language}"] = msgspec.msgpack.encode(said)
        kinds = {name: topic.words for name, topic in file.topics.items()} | dict(file.speech)
        for name, phrases in kinds.items():
            for phrase in phrases:
                whole = phrase if _GAP in phrase else ""
                for part, words in enumerate(phrase.split(_GAP)):
                    for wording in expand(words.strip()):
                        meanings[_pattern(wording)].add(Meaning(language, name, whole, part))
    numbers: dict[tuple[Meaning, ...], int] = {}
    patterns = {
        pattern: numbers.setdefault(tuple(sorted(found)), len(numbers)) for pattern, found in meanings.items()
    }
    sections["meanings"] = records_of(tuple(numbers))
    return sections | {f"patterns.{script}": part for script, part in sections_of(patterns).items()}


class Wordings:
    def __init__(self, section: Callable[[str], Content | None]) -> None:
        """`section` gives what `wordings_of` has laid out."""
        self._section = section
        self.languages = msgspec.msgpack.decode(bytes(section("languages") or b""), type=tuple[str, ...])
        self._replies = Memo[str, _Replies](
            lambda code: msgspec.msgpack.decode(bytes(section(f"replies.{code}") or b""), type=_Replies)
        )

    def of(self, language: str) -> _Replies:
        """What is said in a language; in English if it is not one of them. `hi-Latn` is Hindi in Latin letters."""
        if language.endswith(LATIN):
            file = self.of(language.removesuffix(LATIN))
            if file.latin is not None:
                return _Replies(file.latin.replies, file.latin.topics, file.latin)
        return self._replies[language if language in self.languages else "en"]

    @cached_property
    def _lookup(self) -> Lookup[tuple[int, Sequence[Meaning]]]:
        records: Records[tuple[Meaning, ...]] = Records(self._section("meanings") or b"", tuple[Meaning, ...])
        meanings = Memo[int, tuple[Meaning, ...]](records.__getitem__)
        return Lookup(
            lambda script: self._section(f"patterns.{script}"),
            lambda number, size, _: (size, meanings[number]),
        )

    def find(self, text: str) -> Said:
        folded = fold(text, _NO_WORDS)
        found: dict[str, dict[str, list[Mark]]] = defaultdict(lambda: defaultdict(list))
        parts: dict[Meaning, list[Mark]] = defaultdict(list)
        for last, (size, meanings) in self._lookup.find(folded):
            blanks = folded.text[last + 1 - size] == " "
            start, end = last + 1 - size + blanks, last + 1 - blanks
            mark = Mark(start, end, folded.text[start:end])
            for meaning in meanings:
                if meaning.whole:
                    parts[meaning].append(mark)
                else:
                    found[meaning.language][meaning.name].append(mark)
        for marks in (*(one for named in found.values() for one in named.values()), *parts.values()):
            marks.sort(key=_END)
        for meaning in [one for one in parts if not one.part]:
            wholes = _joined(folded.text, parts, meaning, found[meaning.language]["nots"])
            if wholes:
                marks = found[meaning.language][meaning.name]
                marks += wholes
                marks.sort(key=_END)
        return Said(folded, found)


def _pattern(wording: str) -> str:
    words = fold_phrase(wording)
    return words.replace(" ", "") if has_unspaced(words) else f" {words} "


def _joined(
    text: str, parts: Mapping[Meaning, Sequence[Mark]], first: Meaning, denials: Sequence[Mark]
) -> list[Mark]:
    """The wordings with gaps whose parts follow each other; the first part is given."""
    wholes = list(parts[first])
    for part in range(1, first.whole.count(_GAP) + 1):
        longer = []
        for mark in parts.get(first._replace(part=part), ()):
            before = last_before(wholes, mark.start)
            if before is None or mark.start - before.end > _WIDE:
                continue
            denial = last_before(denials, mark.start)
            denied = denial is not None and denial.start >= before.end
            if not denied and not _STOP.search(text, before.end, mark.start):
                longer.append(Mark(before.start, mark.end, first.whole))
        wholes = longer
    return wholes
