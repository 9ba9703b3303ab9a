"""`comity vote`: parties on several nodes write rules together and ratify them.

The node of the author is the host and has to run while others act; a party needs no running node. Each command reads new
entries first, so it prints the newest known state.
"""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from comity.directory.finding import is_address, with_scheme
from comity.identity.protocol.keys import id_of
from comity.runtime.system_clock import SystemClock
from comity.terminal.open_target import work_with
from comity.terminal.options import Json, KeyOptions, Yes, argument, confirm, one_of, option, settings_of
from comity.terminal.output import (
    FAILED,
    one_line,
    print_answer,
    print_fields,
    print_json,
    print_line,
    say,
    waiting,
)
from comity.votes.commands import question, screen
from comity.votes.commands.acting import Which, after_vote, note_if_unreachable, opened_json, read_by, run_act
from comity.votes.commands.moments import WHEN, length_text, moment_text
from comity.votes.commands.parties import PARTY_HELP, read_party
from comity.votes.commands.recounted import find_conflict_in, read_record, recounted_json, recounted_text
from comity.votes.commands.target import LocalVotes, open_local_votes
from comity.votes.logs import StoredVote
from comity.votes.party import ActOutcome
from comity.votes.protocol import provenance
from comity.votes.protocol.operations import ResultReport, result_report
from comity.votes.protocol.vote import PHASES
from comity.wire.errors import ConfigError

app = question.app  # its commands come first

Clause = Annotated[
    str | None, option("--clause", "CLAUSE", "The id of the clause, such as c1. Default: the only clause.")
]


@app.add("""
    comity vote open Answers --clause "Within a day." --party 31e30ef4…d13d  one clause, one other party
    comity vote open Rules --clause "A." --clause "B." --party ID=observer  two clauses, and an observer, who only reads
    comity vote open Rules --clause "A." --party ID --ratification 3/4  three of four parties must accept
    comity vote open Rules --clause "A." --party ID --by 2d  each phase lasts two days at most
""")
def open_(
    title: Annotated[str, argument("TITLE", "The title of the vote.")],
    clauses: Annotated[
        list[str], option("--clause", "TEXT", "The text of a clause. Repeat the option for more clauses.")
    ],
    parties: Annotated[
        list[str] | None,
        option("--party", "PARTY", f"Another party: {PARTY_HELP}. Repeat the option for each party."),
    ] = None,
    quorum: Annotated[
        str | None,
        option(
            "--quorum",
            "FRACTION",
            "The fraction of the parties that must act in each phase. Default: 1/2, the least.",
        ),
    ] = None,
    ratification: Annotated[
        str | None,
        option("--ratification", "FRACTION", "The fraction of all parties that must accept. Default: 2/3."),
    ] = None,
    by: Annotated[
        str | None,
        option("--by", "WHEN", f"How long each phase lasts, counted from now: {WHEN}. Default: 7d."),
    ] = None,
    supersedes: Annotated[
        str | None, option("--supersedes", "ID", "The whole id of the vote whose rules these replace.")
    ] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Open a vote on a text. You are its author, and your node is its host: it keeps the log.

    This command prints the command with which the others join. Your node must run (`comity up`) while they act, and at the
    deadlines.
    """
    settings = settings_of(home).settings
    stakeholders = [read_party(text, settings) for text in parties or []]

    async def work(own: LocalVotes) -> None:
        until, seconds = read_by(own, by)
        stored = await own.open(
            title=title,
            clauses=clauses,
            stakeholders=stakeholders,
            quorum=quorum,
            ratification=ratification,
            phase_seconds=seconds,
            supersedes=supersedes,
        )
        opened = stored.vote
        if as_json:
            print_json(opened_json(own, stored, until))
            return
        lasts = length_text(opened.phase_seconds or 0)
        print_fields(
            [
                ("opened", opened.id),
                ("title", one_line(opened.title)),
                ("clauses", ", ".join(opened.clauses)),
                ("parties", ", ".join(screen.name_of(party, own.id) for party in opened.stakeholders)),
                (
                    "phases",
                    f"{lasts} each at most" + (f"; from now that is {moment_text(until)}" if until else ""),
                ),
            ]
        )
        print_line()
        print_line("The others join with:")
        print_line(f"  comity vote join {own.url or 'URL'} {opened.id}")
        screen.print_next(opened)
        note_if_unreachable(own)

    work_with(open_local_votes, home, work)


@app.add("""
    comity vote join http://127.0.0.1:8420 dlb_5a0c1f2e3d4b6978  fetch a vote from its host
    comity vote join https://node.example dlb_5a0c… --keeper 31e30ef4…d13d  only if the host has this id
""")
def join(
    url: Annotated[str, argument("URL", "The URL of the host: the node that keeps the log.")],
    delib_id: Annotated[str, argument("ID", "The whole id of the vote.")],
    host: Annotated[
        str | None,
        option(
            "--keeper",
            "VACANT_ID",
            "Refuse if the node at URL has another id than this one. Default: any id.",
        ),
    ] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Fetch a vote from another node, and verify its whole log.

    Run this again if the host has a new address. If you give the URL of another party, the command compares the log of
    that party with yours. So you notice if the host gives different entries to different parties.
    """
    address = with_scheme(url) if is_address(url) else url
    named = None if host is None else id_of(host)
    if host is not None and named is None:
        raise ConfigError("--keeper must be an id: 64 digits or did:key")

    async def work(own: LocalVotes) -> None:
        with waiting(f"asking {url}"):
            stored = await own.party.join(
                address, delib_id, own.party.voice(), host=None if named is None else named.hex()
            )
        if as_json:
            print_json({"delib_id": stored.id, "deliberation": msgspec.to_builtins(stored.vote)})
            return
        screen.print_overview(stored, own.id, own.now())
        screen.print_next(stored.vote)

    work_with(open_local_votes, home, work)


@app.add("""
    comity vote list  show all votes that this node knows
    comity vote list --json  print JSON
""")
def list_(home: KeyOptions = KeyOptions(), as_json: Json = False) -> None:
    """Show your votes, and your acts that were not sent yet. This command does not use the network."""

    async def work(own: LocalVotes) -> None:
        known = await own.party.those_of(own.party.voice())
        acts = await own.party.ledger.waiting()
        if as_json:
            print_json({"deliberations": [await own.summary(stored) for stored in known]})
        else:
            screen.print_list(known, acts, own.id_in, own.now())

    work_with(open_local_votes, home, work)


@app.add("""
    comity vote add dlb_5a0c 31e30ef4…d13d  add a party
    comity vote add dlb_5a0c 31e30ef4…d13d=observer  add an observer, who only reads
""")
def add(
    which: Which,
    party: Annotated[str, argument("PARTY", f"The new party: {PARTY_HELP}.")],
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Add a party. Only the author can do this, before the deliberation begins."""
    stakeholder = read_party(party, settings_of(home).settings)

    def sentence(own: LocalVotes, _: ActOutcome) -> str:
        return f"{screen.name_of(stakeholder['id'], own.id)} takes part as {stakeholder['role']}"

    run_act(home, as_json, which, "consensus.add", {"stakeholder": stakeholder}, sentence)


@app.add("""
    comity vote act dlb_5a0c endorse --clause c1  agree with the text of the clause
    comity vote act dlb_5a0c amend --clause c1 --text "Within an hour."  propose another text
    comity vote act dlb_5a0c object --level strong --concern "Too long."  object to the only clause
""")
def act(
    which: Which,
    action: Annotated[str, argument("ACTION", "One of endorse, amend, object, abstain, withdraw.")],
    clause: Clause = None,
    text: Annotated[
        str | None, option("--text", "TEXT", "Required for amend: the whole new text of the clause.")
    ] = None,
    level: Annotated[
        str | None,
        option(
            "--level",
            "WORD",
            "Required for object: how strong the objection is, in a word such as mild or strong.",
        ),
    ] = None,
    concern: Annotated[str | None, option("--concern", "TEXT", "Required for object: your reason.")] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Endorse, amend or object to a clause, in the phase deliberation. Your last act on each clause counts."""
    one_of("ACTION", action, ("endorse", "amend", "object", "abstain", "withdraw"))
    args = {"action": action, "clause_id": clause, "text": text, "level": level, "concern": concern}

    def sentence(own: LocalVotes, outcome: ActOutcome) -> str:
        clauses = outcome.stored.vote.clauses
        on = clauses[clause] if clause in clauses else next(iter(clauses.values()))
        link = {"object": "to ", "abstain": "from ", "withdraw": "from "}.get(action, "")
        said = f"you {action} {link}clause {on.id}"
        mine = on.positions.get(own.id)
        return f"{said}; your text is variant {mine.variant_id}" if mine and mine.variant_id else said

    run_act(home, as_json, which, "consensus.act", args, sentence)


@app.add("""
    comity vote ballot dlb_5a0c v1 v0 --clause c1  v1 first, then v0
    comity vote ballot dlb_5a0c v2 v0=v1 --clause c1  v2 first; v0 and v1 are equally good
""")
def ballot(
    which: Which,
    ranking: Annotated[
        list[str],
        argument("RANKING", "The variants, the best first. Write v0=v1 for two that you rank equally."),
    ],
    clause: Clause = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Rank the variants of a clause, in the phase convergence. A new ballot replaces your last one.

    If you cast no ballot, Comity makes one from your act on the clause: if you amended it, your own variants come first,
    then the others in the order in which they were proposed. If you endorsed it or objected, all variants are in that order.
    """
    groups = [[name.strip() for name in group.split("=")] for group in ranking]
    on = "" if clause is None else f" on clause {clause}"
    said = f"your ballot{on} is {screen.ranking_text(tuple(map(tuple, groups)))}"
    run_act(home, as_json, which, "consensus.ballot", {"ranking": groups, "clause_id": clause}, said)


@app.add("""
    comity vote advance dlb_5a0c deliberation  start the deliberation; only the author can do this
    comity vote advance dlb_5a0c convergence  start to rank the variants
    comity vote advance dlb_5a0c deliberation  go back from ratification, once; this deletes the votes
""")
def advance(
    which: Which,
    phase: Annotated[str, argument("PHASE", f"The phase to start, one of {', '.join(PHASES[1:])}.")],
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Start the next phase, or go back from ratification to deliberation.

    The next phase starts once all parties have acted; the ratification ends by itself. Each party may go back once.
    """
    one_of("PHASE", phase, PHASES[1:])
    run_act(home, as_json, which, "consensus.advance", {"to": phase}, f"the phase is {phase} now")


@app.add("""
    comity vote cast dlb_5a0c accept  vote for the whole text
    comity vote cast dlb_5a0c reject --reason "A day is too short."  vote against it
""")
def cast(
    which: Which,
    vote: Annotated[str, argument("VOTE", "accept, reject or abstain.")],
    reason: Annotated[str | None, option("--reason", "TEXT", "The reason. Required for reject.")] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Vote on the whole text, in the phase ratification. A new vote replaces your last one. All parties see all votes.

    The vote ends by itself when all parties have voted, or at the deadline.
    """
    one_of("VOTE", vote, ("accept", "reject", "abstain"))
    run_act(home, as_json, which, "consensus.vote", {"vote": vote, "reason": reason}, after_vote(vote))


@app.add("""
    comity vote welfare dlb_5a0c "The rule asks me to promise what I cannot do."  record a concern of an AI party
""")
def welfare(
    which: Which,
    text: Annotated[str, argument("TEXT", "The concern, in your own words.")],
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Record a concern about your own welfare. Only AI parties can do this, in the phase deliberation or convergence."""
    run_act(home, as_json, which, "consensus.welfare", {"signal": text}, "your welfare signal is on record")


@app.add("""
    comity vote result dlb_5a0c  show everything
    comity vote result dlb_5a0c --clause c1  show one clause
    comity vote result dlb_5a0c --json  print JSON, with all tables of the count
""")
def result(
    which: Which,
    clause: Annotated[
        str | None, option("--clause", "CLAUSE", "The id of the clause, such as c1. Default: all clauses.")
    ] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Show the phase of a vote, its parties and clauses, who said what, and how the variants rank."""

    async def work(own: LocalVotes) -> None:
        stored = await own.newest(which)
        found = result_report(stored.vote, clause)
        known = await own.party.those_of(own.party.voice())
        acts = await own.party.ledger.waiting(stored.id)
        if as_json:
            print_json({**await own.summary(stored), "result": msgspec.to_builtins(found)})
            return
        screen.print_overview(stored, own.id_in(stored), own.now(), known)
        if stored.vote.form == "text":
            for report in found.clauses if isinstance(found, ResultReport) else (found,):
                screen.print_clause(report, own.id_in(stored))
        screen.print_welfare(stored.vote, own.id_in(stored))
        if stored.conflict is not None or stored.early is not None or acts:
            print_line()
            screen.print_trouble(stored, acts)
        screen.print_next(stored.vote)

    work_with(open_local_votes, home, work)


@app.add("""
    comity vote record dlb_5a0c --out rules.json  write the record to a file
    comity vote record dlb_5a0c | jq .provenance  print how active rules were made
""")
def record(
    which: Which,
    out: Annotated[
        str | None, option("--out", "FILE", "The file to write. Default: print the record.")
    ] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Write the record: all signed entries and the result. With this file alone, anybody can verify the result."""

    async def work(own: LocalVotes) -> tuple[StoredVote, bytes]:
        stored = await own.newest(which)
        return stored, provenance.write_record(await own.party.ledger.all_entries(stored.id), stored.head)

    stored, written = work_with(open_local_votes, home, work)
    if out is None:
        print_line(written.decode())
        return
    Path(out).expanduser().write_bytes(written + b"\n")
    entries, phase = stored.head.tip.number, stored.vote.phase
    told = {"file": out, "delib_id": stored.id, "entries": entries, "phase": phase}
    done = f"{out}: {entries:,} entries, phase {phase}. Anybody can check it: comity vote verify {out}"
    print_answer(told, done, as_json=as_json)


@app.add("""
    comity vote remove dlb_5a0c  ask for confirmation, then remove it
    comity vote remove dlb_5a0c --yes  without confirmation
""")
def remove(which: Which, home: KeyOptions = KeyOptions(), yes: Yes = False, as_json: Json = False) -> None:
    """Delete a vote from this node. If this node is the host, the vote ends for everybody.

    The other parties keep their copies of the log.
    """
    stored = work_with(open_local_votes, home, lambda own: own.chosen(which))
    ends = "" if stored.url else "This node is its host: it ends for all parties. "
    title = one_line(stored.vote.title)
    confirm(f"{ends}The log of {title!r} and its proof are deleted here. Remove it?", yes=yes)
    work_with(open_local_votes, home, lambda own: own.party.remove(stored.id))
    done = f"Removed: {stored.id}, {stored.head.tip.number:,} entries."
    print_answer({"removed": stored.id}, done, as_json=as_json)


@app.add("""
    comity vote verify rules.json  check everything; the exit code is 1 if an entry is not valid
    comity vote verify mine.json yours.json  check both, and whether the host gave both parties the same entries
    comity vote verify rules.json --json  print JSON
""")
def verify(
    files: Annotated[list[str], argument("FILE", "The files that `comity vote record` wrote.")],
    as_json: Json = False,
) -> None:
    """Check a record offline: all signatures and hashes, and whether the acts lead to the result that it states. This
    needs no node and no data folder.

    A phase that was closed before its deadline by the clock of this machine is not valid.
    """
    now = SystemClock().now()
    found = [
        (name, data, provenance.verify_record(data, now))
        for name, data in ((name, read_record(name)) for name in files)
    ]
    conflict = find_conflict_in([(data, recount) for _, data, recount in found if recount.bad_entry is None])
    ok = conflict is None and all(recount.ok for _, _, recount in found)
    if as_json:
        told = [recounted_json(name, recount) for name, _, recount in found]
        print_json(
            {"ok": ok, "files": told, "fraud": None if conflict is None else msgspec.to_builtins(conflict)}
        )
    else:
        for name, _, recount in found:
            print_line(f"{name}: {recounted_text(recount)}")
            for finding in recount.findings:
                print_line(f"  {one_line(finding)}")
        if conflict is not None:
            say("fraud", screen.conflict_text(conflict), as_json=False)
    if not ok:
        raise typer.Exit(FAILED)
