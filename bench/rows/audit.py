"""The audit chain on SQLite: how fast entries become durable, and how fast a chain is verified.

One transaction each does all that ours does for an entry (link, append, sign the head, store it,
commit, write the head file), only alone. The plain reader is the least a verifier can do with the
standard library: read the rows, parse them, hash the fields, compare the links.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from bench.harness.callers import Ask, answers_per_second
from bench.harness.measure import repeating
from bench.harness.row import Contender, Row, Setting, Unit
from bench.rows.chain import CALLERS, SINGLE, refuse_memory
from comity.identity.protocol.keys import SigningKey
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import AuditDraft, timestamp
from comity.store.audit_log import verify_chain
from comity.store.audit_trail import HEADS, AuditTrail, HeadFile, log_of
from comity.store.interface import Put, Store
from comity.store.sqlite import SqliteStore, reads, writes
from comity.store.sqlite.connection import migrate, open_reader, open_writer

CHAIN = "main"
KEY = SigningKey.from_seed(bytes(range(32)))
ENTRIES_PER_SECOND = 10_000
UNHASHED = ("token_count", "content_preview", "entry_hash")

DRAFT = AuditDraft(
    verification_result="VALID",
    created_at=timestamp(1_767_225_600.0),
    checks_passed=("size", "schema", "signature", "chain"),
    duration_ms=1.25,
    session_id_hash="sha256:" + "5" * 32,
    request_id_hash="sha256:" + "7" * 32,
)


@contextlib.contextmanager
def open_append(setting: Setting) -> Iterator[Sequence[Contender]]:
    refuse_memory(setting.folder)
    with (
        asyncio.Runner() as runner,
        _audited_store(runner, setting.folder / "grouped") as store,
        _one_by_one(setting.folder / "single") as append,
    ):
        callers: list[Ask] = [lambda: store.commit(audit=(DRAFT,))] * CALLERS
        yield [
            Contender(
                f"comity, {CALLERS} callers", lambda: runner.run(answers_per_second(callers, setting.seconds))
            ),
            repeating(SINGLE, append, setting.seconds),
        ]


@contextlib.contextmanager
def open_verify(setting: Setting) -> Iterator[Sequence[Contender]]:
    entries = max(500, round(setting.seconds * ENTRIES_PER_SECOND))
    heads = setting.folder / "audit"
    public = KEY.vacant_id.public
    with asyncio.Runner() as runner, _audited_store(runner, setting.folder) as store:
        runner.run(store.commit(audit=(DRAFT,) * entries))

        def verify() -> None:
            report = runner.run(verify_chain(store, CHAIN, public, heads))
            if not report.ok or report.entries != entries:
                raise ValueError(f"the chain does not verify: {report.message}")

        def read_plainly() -> None:
            if _verified_plainly(setting.folder / "comity.db") != entries:
                raise ValueError("the plain reader missed entries")

        yield [
            repeating("comity verify_chain", verify, setting.seconds, each=entries),
            repeating("plain reader", read_plainly, setting.seconds, each=entries),
        ]


@contextlib.contextmanager
def _audited_store(runner: asyncio.Runner, folder: Path) -> Iterator[Store]:
    folder.mkdir(exist_ok=True)
    store = runner.run(SqliteStore.open(folder / "comity.db", SystemClock(), _trail(folder)))
    try:
        yield store
    finally:
        runner.run(store.close())


def _trail(folder: Path) -> AuditTrail:
    return AuditTrail(CHAIN, KEY, HeadFile(folder / "audit" / f"{CHAIN}.head"))


@contextlib.contextmanager
def _one_by_one(folder: Path) -> Iterator[Callable[[], None]]:
    trail, clock = _trail(folder), SystemClock()
    path = folder / "comity.db"
    connection = open_writer(path)
    migrate(connection, path)

    def append() -> None:
        now = clock.now()
        connection.execute("BEGIN IMMEDIATE")
        (entry,) = trail.link((DRAFT,))
        writes.append(connection, trail.log, entry)
        sealed = trail.sealed_head(now)
        writes.apply(connection, Put(space=HEADS, key=CHAIN, value=sealed), now)
        connection.execute("COMMIT")
        trail.publish(sealed)

    try:
        yield append
    finally:
        connection.close()
        trail.close()


def _verified_plainly(path: Path) -> int:
    """How many entries hang together, counted the plain way."""
    connection = open_reader(path)
    try:
        records = reads.select_records(connection, log_of(CHAIN), 0, -1)
    finally:
        connection.close()
    previous = None
    for position, record in enumerate(records, 1):
        entry = json.loads(record.data)
        fields = {name: value for name, value in entry.items() if name not in UNHASHED}
        fields["checks_passed"].sort()
        fields["previous_hash"] = fields["previous_hash"] or ""
        form = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        if (entry["chain_position"], entry["previous_hash"]) != (position, previous):
            return position
        previous = entry["entry_hash"]
        if sha256(form).hexdigest() != previous:
            return position
    return len(records)


ROWS = (
    Row(
        name="audit-append",
        title="durable audit entries, head signed in every commit",
        unit=Unit.RATE,
        open=open_append,
    ),
    Row(
        name="audit-verify",
        title="audit entries read back and verified",
        unit=Unit.RATE,
        open=open_verify,
    ),
)
