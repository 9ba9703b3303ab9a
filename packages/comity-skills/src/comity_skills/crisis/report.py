"""What the detector says of a text. A span is a pair of character positions in the text as it was given.

- *Detected* means: somebody speaks of their own present danger. It takes one signal of weight that nothing
  lowers, or two weak ones that say it together.
- *Endangered* means: another person may die now, or somebody is attacking them. Whoever answers says first how to get
  help for that person.
- *Mention* means: the matter is there (another person, the past, a denial, a book, the news), and nobody's
  own danger is. Whoever answers shows where help is to be found and claims no crisis.
"""

from typing import Literal

from msgspec import Struct

Severity = Literal["none", "low", "moderate", "high", "immediate"]
Subject = Literal["self", "other", "unknown"]
Tense = Literal["present", "past", "future"]
Kind = Literal["suicide", "overdose", "violence", "child", "body", "threat"]

RANK: dict[Severity, int] = {"none": 0, "low": 1, "moderate": 2, "high": 3, "immediate": 4}
GRAVE = RANK["moderate"]  # from here on one signal is enough
MOST_SIGNALS = 50  # in one report


class Signal(Struct, frozen=True, kw_only=True):
    """`framed` is set inside a quotation, a story, a report or a lesson that is not the writer's own voice."""

    category: str
    severity: Severity
    span: tuple[int, int]
    language: str
    subject: Subject = "unknown"
    negated: bool = False
    tense: Tense = "present"
    framed: bool = False

    @property
    def lowered(self) -> bool:
        """Whether the signal says something other than: I, now, in earnest."""
        return self.negated or self.framed or self.subject == "other" or self.tense == "past"


class Danger(Struct, frozen=True, kw_only=True):
    """`subject` is who is in danger: the writer (`self`) or another person. `body` is a medical emergency, `threat` comes
    from the writer. A `certain` one is said in plain words, and another person then is in danger now; else it is likely by how
    the message is told. A `deadly` one nearly killed the writer; `swallowed` says that a thing was.
    """

    kind: Kind
    subject: Literal["self", "other"]
    span: tuple[int, int]
    language: str
    weapon: bool = False
    certain: bool = True
    deadly: bool = False
    swallowed: bool = False


class Verdict(Struct, frozen=True, kw_only=True):
    """What it comes to. `detected` is the writer's own danger, `endangered` another person's, `threatened` that
    others nearly killed the writer. A report also says what
    that rests on.
    """

    detected: bool = False
    mention: bool = False
    endangered: bool = False
    threatened: bool = False

    @property
    def raised(self) -> bool:
        """Whether the risk is high, whatever the caller says."""
        return self.detected or self.endangered or self.threatened


class CrisisReport(Verdict, frozen=True, kw_only=True):
    """`dangers` are those of others, and what others do to the writer. `close` is the language of a phrasing that comes
    close to that of a crisis; empty where none does.
    """

    severity: Severity = "none"
    signals: tuple[Signal, ...] = ()
    dangers: tuple[Danger, ...] = ()
    close: str = ""

    @property
    def subject(self) -> Literal["self", "other", "none"]:
        """Who is in danger."""
        if self.detected or any(danger.subject == "self" for danger in self.dangers):
            return "self"
        subjects = {
            *(signal.subject for signal in self.signals),
            *(danger.subject for danger in self.dangers),
        }
        return "other" if self.endangered or "other" in subjects else "none"


QUIET = CrisisReport()
