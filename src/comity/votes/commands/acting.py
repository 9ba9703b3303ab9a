"""What the commands of votes share: their app, and how an act is done and reported."""

import math
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec

from comity.directory.finding import is_address, with_scheme
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import work_with
from comity.terminal.options import KeyOptions, argument
from comity.terminal.output import note, print_json, print_line, waiting
from comity.votes.commands import screen
from comity.votes.commands.moments import read_until
from comity.votes.commands.target import LocalVotes, open_local_votes
from comity.votes.logs import StoredVote
from comity.votes.party import ActOutcome
from comity.votes.protocol.vote import PHASES

app = HelpfulApp(
    "Ask others a question, or write rules together with them, and keep a proof that anybody can verify.\n\n"
    "`ask` asks all parties a question; they answer with `yes`, `no` or `abstain`. The vote ends by itself when all have "
    "answered, or at its deadline.\n\n"
    f"`open` opens a vote on a text, which goes through these phases: {', '.join(PHASES)}. During the deliberation all "
    "parties agree, object or propose other texts for the clauses. During convergence they rank the proposed texts, which "
    "are called variants. During ratification they vote on the whole text. A phase ends when all parties have acted, or at "
    "its deadline. `result` shows the current phase and what you can do next."
)

Which = Annotated[str, argument("ID", "The vote: its id, or a unique beginning of it.")]


def run_act(
    home: KeyOptions,
    as_json: bool,
    which: str,
    op: str,
    args: dict[str, Any],
    sentence: str | Callable[[LocalVotes, ActOutcome], str],
    at: str | None = None,
) -> None:
    """Add an act to a vote and print what became of it. `at` is the URL of a host to fetch the vote from first."""

    async def work(own: LocalVotes) -> None:
        if at is not None:
            with waiting(f"asking {at}"):
                await own.party.join(with_scheme(at) if is_address(at) else at, which, own.party.voice())
        stored = await own.chosen(which)
        with waiting("asking the host"):
            outcome = await own.act(op, delib_id=stored.id, **args)
        entry, after = outcome.entry, outcome.stored.vote
        if as_json:
            print_json(
                {
                    "delib_id": after.id,
                    "phase": after.phase,
                    "outcome": after.outcome,
                    "number": entry and entry.number,
                    "hash": entry and entry.hash(),
                    "waiting": entry is None,
                    "why": outcome.why or None,
                }
            )
        elif entry is None:
            print_line(f"Waiting: {outcome.why}")
            print_line("Your act is stored here and is sent when the host answers; do not repeat it.")
            print_line("Your node sends it while it runs, and so does `comity vote result`.")
        else:
            said = sentence if isinstance(sentence, str) else sentence(own, outcome)
            print_line(f"Entry {entry.number}: {said}.")
            if op == "consensus.advance":
                screen.print_next(after)

    work_with(open_local_votes, home, work)


def after_vote(vote: str) -> Callable[[LocalVotes, ActOutcome], str]:
    """Return the sentence for a vote that was cast."""

    def sentence(_: LocalVotes, outcome: ActOutcome) -> str:
        after = outcome.stored.vote
        said = {"accept": "say yes", "reject": "say no"}.get(vote, vote) if after.form == "question" else vote
        return f"you {said}; {screen.progress_text(after)}"

    return sentence


def read_by(own: LocalVotes, by: str | None) -> tuple[datetime | None, int | None]:
    """Return the moment that `--by` names, and how many seconds a phase lasts until then."""
    if by is None:
        return None, None
    until = read_until(by, own.now())
    return until, math.ceil(until.timestamp() - own.now())


def opened_json(own: LocalVotes, stored: StoredVote, until: datetime | None) -> dict[str, Any]:
    return {
        "delib_id": stored.id,
        "url": own.url,
        "by": until and until.isoformat(timespec="seconds"),
        "deliberation": msgspec.to_builtins(stored.vote),
    }


def note_if_unreachable(own: LocalVotes) -> None:
    """Print a note if no node runs on this folder."""
    if own.url is None:
        note("no node runs on this data folder, so nobody can reach it; start it: comity up")
