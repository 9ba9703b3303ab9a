"""`comity chain`: how many signed messages went each way with whom, and where each chain ended."""

import asyncio
from typing import Annotated, Final

import msgspec
import typer

from comity.contacts.lookup import id_or_text
from comity.envelopes.client.pair import Pair
from comity.envelopes.pairs import Called, Link, Peer, ServedPair, read_pairs
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.verification import PairReport, verdict_of, verify_pairs
from comity.identity.key_files import has_identity, stored_vacant_id
from comity.identity.protocol.keys import SigningKey, VacantId, id_of
from comity.identity.succession_files import read_own_line
from comity.runtime.opening import has_database, open_vault, reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.interface import StoreConflict
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key, refuse_memory, writing
from comity.terminal.options import HomeOptions, Json, KeyOptions, Yes, confirm, settings_of
from comity.terminal.output import (
    FAILED,
    Cell,
    one_line,
    paint,
    print_fields,
    print_json,
    print_line,
    print_table,
)
from comity.wire.errors import ConfigError, ConflictError, NotFoundError

app = HelpfulApp("Show, verify or delete the chains of requests and replies with other agents.")

SHOWN: Final = 50
_TIP: Final = 12
_LEASE_SECONDS: Final = 30.0


@app.add("""
    comity chain show  show all agents that this node called, or that called it
    comity chain show 31e30ef4ca92  show one agent in full; the beginning of the id is enough
    comity chain show --json  print JSON
""")
def show(
    peer: Annotated[
        str | None,
        typer.Argument(
            metavar="PEER", help="Show only this agent: its name, its id, or a unique beginning of that."
        ),
    ] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Show the chains of calls from and to this node.

    In the column book, `serve` means calls to this node, and `call` means calls from this node to others. The messages
    of a chain are numbered without gaps. The tip is the hash of the last message. You can run this command while the node
    runs.
    """
    peers = _peers(settings_of(home).settings, peer)
    if as_json:
        print_json({"peers": [msgspec.to_builtins(each) for each in peers]})
    elif peer is not None:
        _print_peer(peers[0])
    else:
        _print_peers(peers)


@app.add("""
    comity chain verify  verify the chains with all agents
    comity chain verify 31e30ef4ca92  verify the chains with one agent; the beginning of the id is enough
    comity chain verify --json  print JSON; the exit code is 1 if a chain is bad
""")
def verify(
    peer: Annotated[
        str | None,
        typer.Argument(
            metavar="PEER", help="Verify only this agent: its name, its id, or a unique beginning of that."
        ),
    ] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Verify both chains with each agent: the stored messages, the audit record and the last hashes must agree.

    Replies are stored for a day, at most 64 of each agent, with their signatures. For older messages, the audit record
    has only the hashes. You can run this command while the node runs.
    """
    settings = settings_of(home).settings
    peers = [VacantId.from_hex(each.vacant_id) for each in _peers(settings, peer, forgotten=True)]
    reports = asyncio.run(_verify(settings, peers, whole=peer is None))
    if as_json:
        ok = all(report.ok for report in reports)
        print_json({"ok": ok, "peers": [msgspec.to_builtins(report) for report in reports]})
    elif reports:
        rows: list[list[Cell]] = [
            [report.vacant_id[:_TIP], (one_line(verdict_of(report)), "green" if report.ok else "bold red")]
            for report in reports
        ]
        print_table(("peer", "verdict"), rows)
    else:
        print_line("No calls yet, in either direction.")
    if not all(report.ok for report in reports):
        raise typer.Exit(FAILED)


async def _verify(settings: Settings, peers: list[VacantId], *, whole: bool) -> list[PairReport]:
    async with reading(settings, SystemClock()) as store:
        line = read_own_line(settings.data, stored_vacant_id(settings.data))
        vault = open_vault(settings, create=False)
        return await verify_pairs(
            store, line.current, peers, vault, settings.audit_heads, whole=whole, line=line.statements
        )


@app.add("""
    comity chain forget 31e30ef4ca92  start again with an agent that lost its chain
    comity chain forget 31e30ef4ca92 --yes  without confirmation
""")
def forget(
    peer: Annotated[
        str,
        typer.Argument(metavar="PEER", help="The agent: its name, its id, or a unique beginning of that."),
    ],
    home: KeyOptions = KeyOptions(),
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete the chain of your calls to an agent and of its replies. The next call is number 1.

    Use this for an agent that lost its chain and now refuses every call. This does not delete the chain of its calls
    to you, so this node still refuses messages that it has already accepted.
    """
    settings = settings_of(home).settings
    (chosen,) = _peers(settings, peer)
    if chosen.call is None:
        raise NotFoundError(
            f"this node has no chain of calls to {chosen.vacant_id[:_TIP]}; nothing to forget"
        )
    calls, target = chosen.call.requests.seq, VacantId.from_hex(chosen.vacant_id)
    confirm(
        f"The order of the {calls:,} calls to {target} and of its replies can then no longer be proven. "
        "This cannot be undone. Delete the chain?",
        yes=yes,
    )
    key = own_key(settings, home.passphrase_file)
    asyncio.run(_forget(settings, key, target))
    if as_json:
        print_json({"forgotten": chosen.vacant_id, "calls": calls})
    else:
        print_line(f"Deleted: the chain of {calls:,} calls to {target}. The next call is number 1.")


async def _forget(settings: Settings, key: SigningKey, target: VacantId) -> None:
    async with writing(settings, key) as (store, record, chain):
        pair = Pair(store, record, PairKey(key.vacant_id, target), holder=chain, lease_seconds=_LEASE_SECONDS)
        try:
            await pair.forget()
        except StoreConflict:
            raise ConflictError(
                f"a call to {target} is in progress; wait until it ends and run this again"
            ) from None


def _peers(settings: Settings, only: str | None, *, forgotten: bool = False) -> list[Peer]:
    """Return all peers, or the one that `only` names: its id, or a beginning of it that no other id has."""
    refuse_memory(settings, "chains are kept there")
    if not has_identity(settings.data) or not has_database(settings):
        raise NotFoundError(
            f"{settings.data} has no calls yet, in either direction; start with `comity call`"
        )
    peers = asyncio.run(_read_pairs(settings, forgotten=forgotten))
    if only is None:
        return peers
    only = id_or_text(settings, only)
    named = id_of(only)
    wanted = named.hex() if named is not None else only.removeprefix("vacant:").lower()
    found = [each for each in peers if wanted and each.vacant_id.startswith(wanted)]
    if not found:
        raise NotFoundError(f"there is no chain with {only[:80]!r}; `comity chain show` lists all chains")
    if len(found) > 1:
        raise ConfigError(f"{len(found)} ids begin with {only[:80]!r}; give more digits")
    return found


async def _read_pairs(settings: Settings, *, forgotten: bool) -> list[Peer]:
    async with reading(settings, SystemClock(), check=False) as store:
        line = read_own_line(settings.data, stored_vacant_id(settings.data))
        former, vault = [each.hex() for each in line.former], open_vault(settings, create=False)
        return await read_pairs(store, line.current.hex(), vault, forgotten=forgotten, former=former)


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
    books: list[tuple[str, ServedPair | Called | None, list[str]]] = [
        ("serve", peer.serve, []),
        ("call", peer.call, []),
    ]
    for each in peer.earlier:
        note = [f"your former key {each.own[:_TIP]}"]
        books += [("serve", each.serve, note), ("call", each.call, note)]
    for book, held, notes in books:
        if held is not None:
            rows.append(
                [
                    short,
                    book,
                    f"{held.requests.seq:>8,}",
                    (_short(held.requests), "dim"),
                    f"{held.replies.seq:>7,}",
                    (_short(held.replies), "dim"),
                    one_line("; ".join((*notes, *_notes(held)))),
                ]
            )
    return rows


def _notes(held: ServedPair | Called) -> list[str]:
    if isinstance(held, ServedPair):
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
    for each in peer.earlier:
        mine = f" (your former key {each.own[:_TIP]})"
        if each.serve is not None:
            _print_book("serve: what it asked of this node" + mine, each.serve, _served_facts(each.serve))
        if each.call is not None:
            _print_book("call: what this node asked of it" + mine, each.call, _called_facts(each.call))


def _print_book(title: str, held: ServedPair | Called, facts: list[tuple[str, str]]) -> None:
    print_line()
    print_line(paint(title, "bold"))
    chains = [*_link_facts("requests", held.requests), *_link_facts("replies", held.replies)]
    print_fields([*chains, *facts], indent="  ")


def _link_facts(name: str, link: Link) -> list[tuple[str, str]]:
    return [(name, f"{link.seq:,}"), *([("  tip", link.tip)] if link.seq else [])]


def _served_facts(held: ServedPair) -> list[tuple[str, str]]:
    facts = [("kept", f"{held.stored_replies:,}, given again if the request is repeated")]
    return facts + ([("pending", f"{held.pending} requests without a reply")] if held.pending else [])


def _called_facts(held: Called) -> list[tuple[str, str]]:
    pending = "nothing"
    if held.pending is not None:
        pending = f"number {held.pending.seq}, unanswered"
        if held.pending.idempotency_key:
            pending += f"; repeat it with --idempotency-key {one_line(held.pending.idempotency_key)}"
    facts = [("pending", pending)]
    if held.replies_lost:
        facts.append(("lost", "it gave replies that never came; its next one need not follow the last"))
    return facts + ([("dialect", held.dialect)] if held.dialect else [])


def _short(link: Link) -> str:
    return link.tip[:_TIP] if link.seq else ""
