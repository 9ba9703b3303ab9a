"""`comity chain`: how many signed messages went each way with whom, and where each chain ended."""

from typing import Annotated, Final

import msgspec
import typer

from comity.cli.colour import colour_wanted, paint
from comity.cli.help import HelpfulCommand, new_app
from comity.cli.options import Config, Data, Json, settings_of
from comity.cli.own_store import refuse_memory
from comity.cli.pairs import Called, Link, Peer, Served, read_pairs
from comity.cli.screen import Cell, one_line, print_fields, print_json, print_line, print_table
from comity.cli.targets import id_of
from comity.core.errors import ConfigError, NotFoundError
from comity.keys.identity import has_identity, stored_vacant_id

app = new_app("Show the chains with other agents: what was asked, what was replied, and what is open.")

SHOWN: Final = 50
_TIP: Final = 12


@app.command(
    cls=HelpfulCommand,
    epilog="""
    comity chain show  everybody this node has called or was called by
    comity chain show 31e30ef4ca92  one of them in full; the beginning of the id is enough
    comity chain show --json  for programs
    """,
)
def show(
    peer: Annotated[
        str | None,
        typer.Argument(metavar="PEER", help="Only this one: its id, or as much of it as tells it apart."),
    ] = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show both books: `serve`, what others asked of this node, and `call`, what it asked of others.

    A chain is numbered without gaps, and its tip is the hash of its last message. A node may be running
    meanwhile.
    """
    settings = settings_of(data, config).settings
    refuse_memory(settings, "chains are kept there")
    if not has_identity(settings.data) or not settings.database.is_file():
        raise NotFoundError(
            f"nobody in {settings.data} has called or was called yet; start with `comity call`"
        )
    peers = read_pairs(settings.database, stored_vacant_id(settings.data).hex())
    if peer is not None:
        peers = [_chosen(peers, peer)]
    if as_json:
        print_json({"peers": [msgspec.to_builtins(each) for each in peers]})
    elif peer is not None:
        _print_peer(peers[0])
    else:
        _print_peers(peers)


def _chosen(peers: list[Peer], text: str) -> Peer:
    named = id_of(text)
    wanted = named.hex() if named is not None else text.removeprefix("vacant:").lower()
    found = [each for each in peers if wanted and each.vacant_id.startswith(wanted)]
    if not found:
        raise NotFoundError(f"there is no chain with {text[:80]!r}; `comity chain show` lists all there are")
    if len(found) > 1:
        raise ConfigError(f"{text[:80]!r} is how {len(found)} ids begin; give more of it")
    return found[0]


def _print_peers(peers: list[Peer]) -> None:
    if not peers:
        print_line("No calls yet, in either direction.")
        return
    rows = [row for each in peers[:SHOWN] for row in _rows(each)]
    print_table(("peer", "book", "requests", "tip", "replies", "tip", "notes"), rows)
    if len(peers) > SHOWN:
        print_line(f"… and {len(peers) - SHOWN:,} more; --json shows all of them.")


def _rows(peer: Peer) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    short = peer.vacant_id[:_TIP]
    for book, held in (("serve", peer.serve), ("call", peer.call)):
        if held is not None:
            rows.append(
                [
                    short,
                    book,
                    f"{held.requests.seq:>8,}",
                    (_short(held.requests), "dim"),
                    f"{held.replies.seq:>7,}",
                    (_short(held.replies), "dim"),
                    one_line("; ".join(_notes(held))),
                ]
            )
    return rows


def _notes(held: Served | Called) -> list[str]:
    if isinstance(held, Served):
        kept = [f"{held.stored_replies} kept"] if held.stored_replies else []
        return kept + ([f"{held.pending} pending"] if held.pending else [])
    notes = [f"number {held.pending.seq} unanswered"] if held.pending else []
    return notes + (["replies lost"] if held.replies_lost else [])


def _print_peer(peer: Peer) -> None:
    print_fields([("peer", peer.vacant_id)])
    if peer.serve is not None:
        _print_book("serve: what it asked of this node", peer.serve, _served_facts(peer.serve))
    if peer.call is not None:
        _print_book("call: what this node asked of it", peer.call, _called_facts(peer.call))


def _print_book(title: str, held: Served | Called, facts: list[tuple[str, str]]) -> None:
    print_line()
    print_line(paint(title, "bold", wanted=colour_wanted()))
    chains = [*_link_facts("requests", held.requests), *_link_facts("replies", held.replies)]
    print_fields([*chains, *facts], indent="  ")


def _link_facts(name: str, link: Link) -> list[tuple[str, str]]:
    return [(name, f"{link.seq:,}"), *([("  tip", link.tip)] if link.seq else [])]


def _served_facts(held: Served) -> list[tuple[str, str]]:
    facts = [("kept", f"{held.stored_replies:,}, given again to whoever repeats the request")]
    return facts + ([("pending", f"{held.pending} requests without a reply")] if held.pending else [])


def _called_facts(held: Called) -> list[tuple[str, str]]:
    pending = "nothing"
    if held.pending is not None:
        pending = (
            f"number {held.pending.seq}, unanswered; repeat it with "
            f"--idempotency-key {one_line(held.pending.idempotency_key)}"
        )
    facts = [("pending", pending)]
    if held.replies_lost:
        facts.append(("lost", "it gave replies that never came; its next one need not follow the last"))
    return facts + ([("dialect", held.dialect)] if held.dialect else [])


def _short(link: Link) -> str:
    return link.tip[:_TIP] if link.seq else ""
