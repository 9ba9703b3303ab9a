"""What a skill is: its contract in each mode of the wire, and a pure function of its input.

- A skill knows nothing of doors, stores or the wire machine. A node calls it as an action.
- A handler reads no file and opens no socket. Its data files are handed to `prepare`, once; a page that has
  to be fetched is asked for by answering `PagesWanted`, and the work goes on with what came back.
- A handler gets input that has passed the validation of its mode's contract, and still trusts no value in
  it: what it cannot work with it refuses with `SkillInputError`, whose sentence goes on the wire as it is.
- Every mode keeps what safety demands: a detected crisis raises the risk, a rewriter never changes the
  meaning, no text of the user is echoed in a reply.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

Mode = Literal["strict", "compat", "enhanced"]
Uncertainty = Literal["low", "medium", "high"]


class SkillError(Exception):
    """A refusal with a sentence for the person who caused it. The caller of the skill turns it into an error of its own."""

    @property
    def message(self) -> str:
        return str(self.args[0])


class SkillInputError(SkillError):
    """The skill cannot work with this input."""


class SkillDataError(SkillError):
    """A data file cannot be used."""


class SkillContract(Struct, frozen=True, kw_only=True):
    """The order of `required` and `properties` is the order of the messages about a bad input."""

    skill: str
    boundary: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    description: str = ""


class SkillOutcome(Struct, frozen=True, kw_only=True):
    """The order of the keys in `output` is the order on the wire. One that is `shared` is the same object each time."""

    uncertainty: Uncertainty
    assumptions: Sequence[str]
    output: Mapping[str, Any]
    shared: bool = False


class WebPage(Struct, frozen=True, kw_only=True):
    """A page as text. `failure` says in a sentence why there is no text."""

    url: str
    html: str = ""
    failure: str = ""


class PagesWanted(Struct, frozen=True):
    """These pages are needed before the work can go on, in this order."""

    urls: tuple[str, ...]
    resume: Callable[[Sequence[WebPage]], SkillOutcome]


SkillHandler = Callable[[Mapping[str, Any], Mode], SkillOutcome | PagesWanted]


class Skill(Struct, frozen=True, kw_only=True):
    """`contracts` has an entry for each mode that lists the skill. `data` names the files that `prepare`
    needs, as paths below `comity_skills` (`crisis/lines.json`). `slow` work runs in a worker with a deadline.
    """

    name: str
    contracts: Mapping[Mode, SkillContract]
    prepare: Callable[[Mapping[str, bytes]], SkillHandler]
    data: tuple[str, ...] = ()
    slow: bool = False
