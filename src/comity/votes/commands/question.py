"""`comity vote ask`, `yes`, `no` and `abstain`: a question to others, decided by itself."""

from typing import Annotated

from comity.terminal.open_target import work_with
from comity.terminal.options import Json, KeyOptions, argument, option, settings_of
from comity.terminal.output import follow_up, one_line, print_fields, print_json, print_line
from comity.votes.commands import screen
from comity.votes.commands.acting import (
    Which,
    after_vote,
    app,
    note_if_unreachable,
    opened_json,
    read_by,
    run_act,
)
from comity.votes.commands.moments import WHEN
from comity.votes.commands.parties import PARTY_HELP, read_parties
from comity.votes.commands.target import LocalVotes, open_local_votes
from comity.wire.errors import ConfigError

__all__ = ["app"]


@app.add("""
    comity vote ask "Shall we ship on Friday?" --with 31e30ef4…d13d,9d61b19d…1a60  two others, seven days
    comity vote ask "Shall we ship on Friday?" --with anna,ben  the same with the names of contacts
    comity vote ask "Shall we ship?" --with ID,ID --by friday  until the end of Friday
    comity vote ask "Shall we ship?" --with ID --by 12h --ratification 1  until in 12 hours; all must say yes
""")
def ask(
    question: Annotated[str, argument("QUESTION", "The question, such that yes and no are answers.")],
    parties: Annotated[
        list[str],
        option("--with", "PARTIES", f"The other parties, separated by commas: {PARTY_HELP}."),
    ],
    by: Annotated[str | None, option("--by", "WHEN", f"Until when they answer: {WHEN}. Default: 7d.")] = None,
    ratification: Annotated[
        str | None,
        option(
            "--ratification",
            "FRACTION",
            "The fraction of all parties that must say yes. Default: more than half.",
        ),
    ] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Ask others a question. It is decided by itself: when all have answered, or at the deadline.

    You are a party too: answer with `comity vote yes`, `no` or `abstain`. Silence and abstention are no yes. Your node must
    run (`comity up`) while the others answer, and at the deadline; it ends a vote that is past its deadline when it starts.
    """
    stakeholders = read_parties(parties, settings_of(home).settings)
    if not stakeholders:
        raise ConfigError("--with must name at least one other party")

    async def work(own: LocalVotes) -> None:
        until, seconds = read_by(own, by)
        stored = await own.open(
            title=question,
            clauses=[question],
            stakeholders=stakeholders,
            ratification=ratification or "1/2",
            phase_seconds=seconds,
            form="question",
        )
        if as_json:
            print_json(opened_json(own, stored, until))
            return
        asked = stored.vote
        print_fields(
            [
                ("asked", asked.id),
                ("question", one_line(asked.title)),
                ("parties", ", ".join(screen.name_of(party, own.id) for party in asked.stakeholders)),
                ("until", screen.deadline_of(asked, own.now())),
                ("decided", screen.progress_text(asked)),
            ]
        )
        print_line()
        print_line("The others answer with yes, no or abstain:")
        print_line(f"  comity vote yes {asked.id} --at {own.url or 'URL'}")
        print_line("You answer with:")
        print_line("  " + follow_up(f"comity vote yes {asked.id}"))
        note_if_unreachable(own)

    work_with(open_local_votes, home, work)


At = Annotated[
    str | None,
    option(
        "--at",
        "URL",
        "The URL of the host, to fetch the vote first. Default: the vote is known here already.",
    ),
]
Reason = Annotated[str | None, option("--reason", "TEXT", "The reason, which all parties see.")]


@app.add("""
    comity vote yes dlb_5a0c  say yes to a question, or accept a text in ratification
    comity vote yes dlb_5a0c1f2e3d4b6978 --at http://127.0.0.1:8420  fetch it from its host first
""")
def yes(
    which: Which,
    at: At = None,
    reason: Reason = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Answer yes. You can change your answer until all have answered, or the deadline. All parties see all answers."""
    _answer("accept", which, at, reason, home, as_json)


@app.add("""
    comity vote no dlb_5a0c  say no to a question
    comity vote no dlb_5a0c --reason "A day is too short."  reject a text in ratification, which needs a reason
""")
def no(
    which: Which,
    at: At = None,
    reason: Reason = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Answer no. A text needs a reason, a question does not."""
    _answer("reject", which, at, reason, home, as_json)


@app.add("""
    comity vote abstain dlb_5a0c  take part without saying yes or no
""")
def abstain(
    which: Which,
    at: At = None,
    reason: Reason = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Abstain: you have answered, and need not be waited for. It does not count as yes."""
    _answer("abstain", which, at, reason, home, as_json)


def _answer(
    vote: str, which: str, at: str | None, reason: str | None, home: KeyOptions, as_json: bool
) -> None:
    run_act(home, as_json, which, "consensus.vote", {"vote": vote, "reason": reason}, after_vote(vote), at=at)
