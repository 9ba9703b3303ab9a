"""`comity audit`: the record of what happened, with proof.

Verifying and looking never write, and work while a node runs. Adopting writes, and needs the node to be
stopped: it is for an operator who put back an older database on purpose, and says so in the record.
"""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from comity.identity.key_files import load_identity, stored_vacant_id
from comity.identity.protocol.keys import SigningKey
from comity.identity.succession_files import read_own_line
from comity.node.commands import audit_peers
from comity.requests.record import Recorder, own_act
from comity.runtime.lazy import late
from comity.runtime.opening import has_database, open_store, reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import AuditEntry, decode
from comity.store.audit_log import AuditReport, chains, chains_outside, keep_restored, tail, verify_chain
from comity.store.audit_trail import AuditTrail, HeadFile, RestoreMark, Signers, log_of
from comity.store.interface import Store
from comity.terminal.help import HelpfulApp
from comity.terminal.options import (
    HomeOptions,
    Json,
    KeyOptions,
    Yes,
    confirm,
    passphrase_for,
    settings_of,
    whole_number,
)
from comity.terminal.output import FAILED, Cell, paint, print_json, print_line, print_table, say
from comity.wire.errors import ConfigError, NotFoundError, StoreCorruptError

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress
else:
    rich_console = late("rich.console")
    rich_progress = late("rich.progress")

app = HelpfulApp(
    "Verify, show or adopt the audit record. Each entry holds the hash of the entry before it; the last one is signed."
)

ADOPTED = "AUDIT_ADOPTED"
PROGRESS_FROM = 20_000
POLL_SECONDS = 0.5

Chain = Annotated[
    str | None, typer.Option("--chain", metavar="NAME", help="Only this chain. Default: all chains.")
]


@app.add("""
    comity audit verify  verify every chain, from its first entry to its signed head
    comity audit verify --chain main  verify only the chain of the node
    comity audit verify --json  print JSON; the exit code is 1 if a chain is bad
""")
def verify(chain: Chain = None, home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Verify that no entry of the audit record was changed, removed or added. The node may be running."""
    settings = _recording(settings_of(home).settings)
    reports = asyncio.run(_verify(settings, chain, watched=sys.stderr.isatty() and not as_json))
    bad = [report for report in reports if not report.ok]
    if as_json:
        print_json({"ok": not bad, "chains": [msgspec.to_builtins(report) for report in reports]})
    else:
        _print_reports(reports)
    if bad:
        if not as_json:
            say("audit", _what_to_do(bad), as_json=False)
        raise typer.Exit(FAILED)


@app.add("""
    comity audit tail  show the last 20 entries
    comity audit tail -n 100 --chain main  show 100 entries of one chain
    comity audit tail --follow --json  print new entries as JSON, one per line
""")
def tail_(
    count: Annotated[
        str,
        typer.Option(
            "-n", "--count", metavar="COUNT", show_default=False, help="The number of entries. Default: 20."
        ),
    ] = "20",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new entries as they are written, until Ctrl-C.")
    ] = False,
    chain: Chain = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Show the last entries, oldest first. The node may be running."""
    settings = _recording(settings_of(home).settings)
    wanted = whole_number("-n", count, 0, 999_999_999)
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None

    def show(name: str, entry: AuditEntry) -> None:
        if as_json:
            print_json({"chain": name, **msgspec.to_builtins(entry)})
        else:
            print_line(_entry_line(name, entry, room))

    asyncio.run(_tail(settings, chain, wanted, show, follow=follow))


@app.add("""
    comity audit adopt  ask for confirmation, then accept the record as it is
    comity audit adopt --yes --passphrase-file pass.txt  from a script
""")
def adopt(home: KeyOptions = KeyOptions(), yes: Yes = False, as_json: Json = False) -> None:
    """Accept the audit record as it is now, after you restored an older database on purpose.

    Stop the node first. The command sets the signed heads outside the database to the last entry in the database, and
    adds an entry AUDIT_ADOPTED. It does not restore missing entries or repair changed ones. Messages that were signed
    before are refused from then on, as after `comity restore`.
    """
    settings = _recording(settings_of(home).settings)
    if not has_database(settings):
        raise NotFoundError(f"there is no database at {settings.database}; put the backup there first")
    confirm(
        "Entries after the end of the record, if there were any, are given up. Adopt it as it is?", yes=yes
    )
    key = load_identity(settings.data, passphrase=passphrase_for(settings.data, home.passphrase_file))
    adopted = asyncio.run(_adopt(settings, key))
    if as_json:
        print_json({"adopted": adopted})
    else:
        for name, position in adopted.items():
            print_line(f"chain {name} continues from entry {position:,}")


app.registered_commands += audit_peers.app.registered_commands


async def _verify(settings: Settings, only: str | None, *, watched: bool) -> list[AuditReport]:
    async with reading(settings, SystemClock()) as store:
        signers = read_own_line(settings.data, stored_vacant_id(settings.data)).publics
        names = _chosen(await _chain_names(store, settings.audit_heads), only)
        total = sum([await store.end(log_of(name)) for name in names])
        with _progress(total, wanted=watched) as seen:
            return [await _verified(store, name, signers, settings.audit_heads, seen) for name in names]


async def _verified(
    store: Store, chain: str, signers: Signers, heads: Path, seen: Callable[[int], None]
) -> AuditReport:
    try:
        return await verify_chain(store, chain, signers, heads, seen)
    except StoreCorruptError as damage:
        return AuditReport(chain=chain, ok=False, entries=0, message=damage.message)


async def _tail(
    settings: Settings, only: str | None, count: int, show: Callable[[str, AuditEntry], None], *, follow: bool
) -> None:
    async with reading(settings, SystemClock()) as store:
        recent: list[tuple[str, AuditEntry]] = []
        reached: dict[str, int] = {}
        names = await chains(store)
        for name in _chosen(names, only) if names or not follow else []:
            reached[name] = await store.end(log_of(name))
            recent += [(name, entry) async for entry in tail(store, name, count)]
        recent.sort(key=lambda each: each[1].created_at)
        for name, entry in recent[len(recent) - min(count, len(recent)) :]:
            show(name, entry)
        for name, entry in recent:
            reached[name] = max(reached[name], entry.chain_position)
        while follow:
            await asyncio.sleep(POLL_SECONDS)
            for name in [only] if only else await chains(store):
                for record in await store.read(log_of(name), after=reached.get(name, 0)):
                    show(name, decode(record.data))
                    reached[name] = record.position


async def _adopt(settings: Settings, key: SigningKey) -> dict[str, int]:
    since = SystemClock().now()
    async with reading(settings, SystemClock()) as store:
        names = await _chain_names(store, settings.audit_heads)
    if not names:
        raise NotFoundError(f"{settings.database} holds no audit chain; there is nothing to adopt")
    heads: dict[str, HeadFile] = {}
    adopted = {}
    try:
        for name in names:  # all of them are locked before any of them is moved
            heads[name] = HeadFile(settings.audit_heads / f"{name}.head")
        for name in names:
            adopted[name] = await _adopt_chain(settings, AuditTrail(name, key, heads.pop(name)), since)
    finally:
        for head in heads.values():
            head.close()
    return adopted


async def _adopt_chain(settings: Settings, trail: AuditTrail, since: float) -> int:
    """Hand the trail, and its lock, to a store that takes the database as it is. Its chains went back in time, and the trail
    begins a new log.
    """
    clock = SystemClock()
    store = await open_store(settings, clock, trail, adopt=True)
    try:
        record = Recorder(store, clock, level=settings.audit.level)
        await record.commit((keep_restored(RestoreMark(at=clock.now(), since=since)),), own_act(ADOPTED))
        return await store.end(trail.log)
    finally:
        await store.close()


async def _chain_names(store: Store, heads: Path) -> list[str]:
    """Return the chains in the database and those that only a head outside names."""
    return sorted({*await chains(store), *chains_outside(heads)})


def _chosen(names: list[str], only: str | None) -> list[str]:
    if only is None:
        return names
    if only not in names:
        raise NotFoundError(f"there is no chain {only!r}; the chains are: {', '.join(names) or 'none yet'}")
    return [only]


def _recording(settings: Settings) -> Settings:
    if settings.store.is_volatile:
        raise ConfigError(
            f"store.engine {settings.store.engine} keeps no record on disk; use sqlite to have one"
        )
    return settings


def _print_reports(reports: list[AuditReport]) -> None:
    if not reports:
        print_line("No chain has been written yet.")
        return
    rows: list[list[Cell]] = [
        [each.chain, f"{each.entries:,}", ("sound", "green") if each.ok else ("BAD", "bold red")]
        for each in reports
    ]
    if all(each.ok for each in reports):
        print_table(("chain", "entries", "verdict"), rows)
        return
    for row, each in zip(rows, reports, strict=True):
        row.append(each.message or "")
    print_table(("chain", "sound entries", "verdict", "first fault"), rows)


def _what_to_do(bad: list[AuditReport]) -> str:
    names = ", ".join(report.chain for report in bad)
    return (
        f"the audit record is damaged ({names}); keep a copy of the data folder and find out who could write to it. "
        "If you restored a backup on purpose, stop the node and run `comity audit adopt`"
    )


def _entry_line(chain: str, entry: AuditEntry, room: int | None) -> str:
    """Return an entry: when, where, what, how long, who, how many or why not. What does not fit into the `room` of a
    terminal is in a second line.
    """
    named = dict(check.partition(":")[::2] for check in entry.checks_passed)
    caller = named.get("caller", "").removesuffix(":-")
    failed = entry.failed_step is not None
    count = int(named.get("count", "1"))
    notes = [f"{count:,} times"] if count > 1 else []
    notes += [f"failed at {entry.failed_step}"] if failed else []
    when, where = entry.created_at[5:19].replace("T", " "), f"{chain:<4} {entry.chain_position:>6}"
    what, took, more = entry.verification_result.ljust(18), f"{entry.duration_ms:>5.0f} ms", ", ".join(notes)
    plain = "  ".join((when, where, what, took, caller.ljust(15), more)).rstrip()
    apart = room is not None and len(plain) > room and bool(more)
    shown = "  ".join(
        (
            paint(when, "dim"),
            where,
            paint(what, "red" if failed else "green"),
            took,
            caller.ljust(15),
            "" if apart else more,
        )
    ).rstrip()
    return f"{shown}\n{' ' * (len(when) + 2)}{more}" if apart else shown


@contextmanager
def _progress(total: int, *, wanted: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr for a long record."""
    if not wanted or total < PROGRESS_FROM:
        yield lambda _entries: None
        return
    with rich_progress.Progress(console=rich_console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying", total=total)
        yield lambda entries: bar.update(task, advance=entries)
