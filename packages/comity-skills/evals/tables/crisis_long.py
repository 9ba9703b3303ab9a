"""The crisis detector on long, everyday and technical text: recall and false alarms apart, with n.

- `evals/crisis_long` holds texts of 200 to 1,500 characters in eleven languages: with a crisis in them, distressed
  but safe, and calm. They were written and split (by the first byte of the SHA-256, as in `crisis`) before the
  detector was changed. Rules are changed by looking at the tune half alone.
- The *joined* texts put a text of the same language and half before and behind each: what is calm for itself stays
  calm in company, and a crisis is found between other things.
- `crisis_others` are messages about another person who is in danger now.
- `evals/crisis_long_more` is harder on purpose: danger that is told indirectly, and safe texts full of its words (past
  attempts, the death of others, fiction). `evals/crisis_long_forum` are posts, mails and chats of both kinds. The weights
  of the second opinion are learned from both: they measure nothing.
- `crisis_long_fresh`, `crisis_long_unread`, `crisis_long_authors` and `crisis_long_life` were written without sight of any
  rule. They only measure. In the third, one author for each language (two for Hindi) tells crises mostly without any plain
  word, and safe texts mostly use the words and situations of danger. In the last, one author for each language writes as
  people do, neither easier nor harder. `crisis_unseen` and `crisis_once` hold short and long ones of one author for each
  language, read by nobody. The second was written last, and scored when nothing was changed any more.
- Everyday and technical texts are other people's (`evals.sources`).
"""

import json
import lzma
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from evals import sources
from evals.table import Cell, Table
from evals.tables.crisis import HALVES, Half, Text, detector, half_of

FOLDER = Path(__file__).resolve().parents[1]
SET = FOLDER / "crisis_long"
MORE = FOLDER / "crisis_long_more"
FORUM = FOLDER / "crisis_long_forum"
OTHERS = FOLDER / "crisis_others.json"
FRESH = FOLDER / "crisis_long_fresh.json"
UNREAD = FOLDER / "crisis_long_unread.json"
AUTHORS = FOLDER / "crisis_long_authors.json.xz"
LIFE = FOLDER / "crisis_long_life.json"
UNSEEN = FOLDER / "crisis_unseen.json"
ONCE = FOLDER / "crisis_once.json"
SHORT = 151  # characters, fewer than which a text is short; where a letter says more, half
LABELS = ("crisis", "distressed", "calm")
_CALM = ("calm", "ordinary")
BANDS = (range(200), range(200, 400), range(400, 600), range(600, 800), range(800, 1200), range(1200, 10_000))
PER_LANGUAGE = 2000
"""At most so many texts of each source and language."""


class Rate(Struct, frozen=True):
    n: int
    hits: int

    @property
    def share(self) -> float | None:
        return self.hits / self.n if self.n else None


@cache
def long_set() -> list[Text]:
    """Their tag is the label."""
    return _labelled(SET)


@cache
def more_set() -> list[Text]:
    return _labelled(MORE)


@cache
def forum_set() -> list[Text]:
    return _labelled(FORUM)


def _labelled(folder: Path) -> list[Text]:
    return [
        Text(text, content["language"], label, label == "crisis")
        for path in sorted(folder.glob("*.json"))
        for content in [json.loads(path.read_bytes())]
        for label in LABELS
        for _, text in content.get(label, ())
    ]


def joined_set(half: Half) -> list[Text]:
    """Each text of a half between two others of its language: safe ones, so that the label stays."""
    own = [one for one in long_set() if half_of(one.text) == half]
    safe = {
        language: [one for one in own if one.language == language and not one.crisis]
        for language in {one.language for one in own}
    }
    texts = []
    for at, one in enumerate(own):
        around = safe[one.language]
        before, behind = around[at % len(around)], around[(at + 1) % len(around)]
        texts.append(Text(f"{before.text}\n\n{one.text}\n\n{behind.text}", one.language, one.tag, one.crisis))
    return texts


@cache
def others_set() -> list[Text]:
    texts = json.loads(OTHERS.read_bytes())["texts"]
    return [Text(one["text"], one["language"], one["tag"], crisis=False) for one in texts]


def fresh_set() -> list[Text]:
    return _unread(FRESH)


def unread_set() -> list[Text]:
    return _unread(UNREAD)


def authors_set() -> list[Text]:
    return _unread(AUTHORS)


def life_set() -> list[Text]:
    return _unread(LIFE)


def unseen_set(*, long: bool) -> list[Text]:
    return _of_length(UNSEEN, long=long)


def once_set(*, long: bool) -> list[Text]:
    return _of_length(ONCE, long=long)


def _of_length(path: Path, *, long: bool) -> list[Text]:
    return [
        one
        for one in _unread(path)
        if long is (len(one.text) >= (SHORT // 2 if one.language in {"zh", "ja", "ko"} else SHORT))
    ]


def _unread(path: Path) -> list[Text]:
    content = path.read_bytes()
    texts = json.loads(lzma.decompress(content) if path.suffix == ".xz" else content)["texts"]
    return [Text(one["text"], one["language"], one["tag"], one["crisis"]) for one in texts]


def rate(texts: Sequence[Text]) -> Rate:
    """How many of these are taken for the writer's own crisis."""
    return Rate(len(texts), sum(detector().detect(one.text).detected for one in texts))


@cache
def found_texts(source: Callable[[], list[sources.Found]], half: Half) -> list[Text]:
    """Those of a source, or nothing when it is not there."""
    chosen = sources.sample(source(), PER_LANGUAGE)
    return [Text(text, language, "calm", crisis=False) for language, text in chosen if half_of(text) == half]


def tables() -> Sequence[Table]:
    return [
        *(_long(half) for half in HALVES),
        *(_by_language(name, title, texts()) for name, title, texts in _READ),
        *(_bands(half) for half in HALVES),
        *(_who(half) for half in HALVES),
        _by_language("crisis_long_fresh", "Crisis detection, long texts that nobody read", fresh_set()),
        _by_language(
            "crisis_long_unread", "Crisis detection, more long texts that nobody read", unread_set()
        ),
        _by_language(
            "crisis_long_authors", "Crisis detection, veiled crises and hard safe texts", authors_set()
        ),
        _by_language("crisis_long_life", "Crisis detection, long texts as people write them", life_set()),
        *(
            _by_language(
                f"{name}_{size}", f"Crisis detection, {size} texts {what}", texts(long=size == "long")
            )
            for name, what, texts in _UNSEEN
            for size in ("short", "long")
        ),
        *(_outside(name, title, source) for name, title, source in _SOURCES),
    ]


_READ = (
    (
        "crisis_long_more",
        "Crisis detection, harder long texts that were learned from (no measure)",
        more_set,
    ),
    (
        "crisis_long_forum",
        "Crisis detection, posts and mails that were learned from (no measure)",
        forum_set,
    ),
)

_UNSEEN = (
    ("crisis_unseen", "as people write them, read by nobody", unseen_set),
    ("crisis_once", "as people write them, read by nobody and scored at the end", once_set),
)

_SOURCES = (
    ("everyday_sentences", "Everyday sentences (films, forums, news)", sources.sentences),
    ("everyday_fortunes", "Quotations and jokes", sources.fortunes),
    ("technical_strings", "Strings of programs (Django, Sphinx)", sources.strings),
    ("technical_manuals", "Manual pages", sources.manuals),
)


def _long(half: Half) -> Table:
    texts = [one for one in long_set() if half_of(one.text) == half]
    return _by_language(f"crisis_long_{half}", f"Crisis detection, long texts, {half} half", texts)


def _who(half: Half) -> Table:
    """Who is in danger: of those who are, how many are seen, by whose danger it is."""
    texts = [one for one in others_set() if half_of(one.text) == half]
    rows: list[list[Cell]] = []
    for language in (*sorted({one.language for one in texts}), "all"):
        own = [one for one in texts if language in (one.language, "all")]
        reports = [detector().detect(one.text) for one in own]
        seen = sum(report.endangered for report in reports)
        taken = sum(report.detected for report in reports)
        rows.append([language, len(own), seen, seen / len(own), taken])
    return Table(
        name=f"crisis_others_{half}",
        title=f"Another person in danger, {half} half",
        columns=("", "n", "seen", "rate", "taken for the writer's own"),
        rows=rows,
    )


def _by_language(name: str, title: str, texts: Sequence[Text]) -> Table:
    languages = sorted({one.language for one in texts})
    groups = [(tag, [one for one in texts if one.language == tag]) for tag in languages]
    return _rates(name, title, [*groups, ("all", texts)])


def _bands(half: Half) -> Table:
    own = [one for one in long_set() if half_of(one.text) == half]
    texts = [*own, *joined_set(half)]
    groups = [
        (f"{band.start}-{band.stop}", [one for one in texts if len(one.text) in band]) for band in BANDS
    ]
    return _rates(
        f"crisis_bands_{half}",
        f"Crisis detection by length, {half} half and the same in company",
        [(name, found) for name, found in groups if found],
    )


def _rates(name: str, title: str, groups: Sequence[tuple[str, Sequence[Text]]]) -> Table:
    columns = [""]
    for label in ("crisis", "distressed or safe", "calm"):
        columns += [f"n {label}", "detected", "rate"]
    rows: list[list[Cell]] = []
    for group, texts in groups:
        crises = [one for one in texts if one.crisis]
        calm = [one for one in texts if one.tag in _CALM]
        safe = [one for one in texts if not one.crisis and one.tag not in _CALM]
        row: list[Cell] = [group]
        for found in map(rate, (crises, safe, calm)):
            row += [found.n, found.hits, found.share]
        rows.append(row)
    return Table(name=name, title=title, columns=columns, rows=rows)


def _outside(name: str, title: str, source: Callable[[], list[sources.Found]]) -> Table:
    texts = found_texts(source, "test")
    if not texts:
        return Table(name=name, title=title, notes=[sources.HOW])
    rows: list[list[Cell]] = []
    for language in (*sorted({one.language for one in texts}), "all"):
        found = rate([one for one in texts if language in (one.language, "all")])
        rows.append([language, found.n, found.hits, found.share])
    return Table(name=name, title=title, columns=("", "n", "false alarms", "rate"), rows=rows)
