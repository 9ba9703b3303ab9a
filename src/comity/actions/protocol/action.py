"""What an action is: its contract in each mode of the wire, and a pure function of its input.

- *strict* is the wire of 0.1.1, *compat* that of 1.0.8, *enhanced* is ours: it adds evidence under `output`.
- A handler reads no file and opens no socket. Its data files are handed to `prepare`, once; a page that has
  to be fetched is asked for by answering `Fetch`, and the work goes on with what came back.
- A handler gets input that has passed the validation of its mode's contract, and still trusts no value in
  it: what it cannot work with it refuses with `ActionError`, whose sentence goes on the wire as it is.
- Every mode keeps what safety demands: a detected crisis raises the risk, a rewriter never changes the
  meaning, no text of the user is repeated in the reply.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from comity.wire.errors import ActionError

__all__ = [
    "Action",
    "ActionError",
    "Contract",
    "Fetch",
    "FetchedPage",
    "Handler",
    "Mode",
    "Outcome",
    "Uncertainty",
]  # fmt: skip

Mode = Literal["strict", "compat", "enhanced"]
Uncertainty = Literal["low", "medium", "high"]


class Contract(Struct, frozen=True, kw_only=True):
    """What `list_actions` says of an action, and the schemas that its input and output keep.
    The order of `required` and `properties` is the order of the messages about a bad input.
    """

    skill: str
    boundary: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    description: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """The order of the keys in `output` is the order on the wire. A `shared` outcome is returned again and again as the same object, so its encoded form can be cached."""

    uncertainty: Uncertainty
    assumptions: Sequence[str]
    output: Mapping[str, Any]
    shared: bool = False


class FetchedPage(Struct, frozen=True, kw_only=True):
    """A page that was fetched. `failure` says in a sentence why there is no text."""

    url: str
    html: str = ""
    failure: str = ""


class Fetch(Struct, frozen=True):
    """These pages are needed before the work can go on, in this order."""

    urls: tuple[str, ...]
    resume: Callable[[Sequence[FetchedPage]], Outcome]


Handler = Callable[[Mapping[str, Any], Mode], Outcome | Fetch]


class Action(Struct, frozen=True, kw_only=True):
    """`contracts` has an entry for each mode that lists the action. `data` names the files that `prepare`
    needs, as paths beside its module. `slow` work runs in a worker with a deadline.
    """

    name: str
    contracts: Mapping[Mode, Contract]
    prepare: Callable[[Mapping[str, bytes]], Handler]
    data: tuple[str, ...] = ()
    slow: bool = False
