import io
import json
import os
import shutil
import signal
import subprocess
import sys

import apsw
import pytest

from comity.identity.key_files import create_identity
from comity.store.audit_trail import HeadFile
from comity.store.sqlite.connection import CHECKSUMMED_VFS, load_checksums


def change(data, statement, *values):
    """Somebody who can write the file and knows SQL."""
    load_checksums()
    connection = apsw.Connection(str(data / "comity.db"), vfs=CHECKSUMMED_VFS)
    connection.execute(statement, values)
    connection.close()


def snapshot(data):
    return {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_a_sound_record_is_shown_chain_by_chain(comity, record):
    record(5)
    record(3, chain="main-2")
    outcome = comity("audit", "verify")
    assert outcome.code == 0
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["chain", "entries", "verdict"],
        ["main", "5", "sound"],
        ["main-2", "3", "sound"],
    ]
    assert json.loads(comity("audit", "verify", "--json").out) == {
        "ok": True,
        "chains": [
            {"chain": "main", "ok": True, "entries": 5, "position": None, "message": None},
            {"chain": "main-2", "ok": True, "entries": 3, "position": None, "message": None},
        ],
    }


def test_one_chain_can_be_chosen(comity, record):
    record(2)
    record(2, chain="main-2")
    chosen = json.loads(comity("audit", "verify", "--chain", "main-2", "--json").out)
    assert [report["chain"] for report in chosen["chains"]] == ["main-2"]
    outcome = comity("audit", "verify", "--chain", "other")
    assert outcome.code == 1
    assert "there is no chain 'other'; the chains are: main, main-2" in outcome.err


def test_a_changed_entry_is_named_by_position_with_what_to_do(comity, record, data):
    record(5)
    change(
        data,
        "UPDATE record SET data = CAST(replace(data, 'TOOL_CALL', 'TOOL_FAIL') AS BLOB) WHERE position = 3",
    )
    outcome = comity("audit", "verify")
    assert outcome.code == 1
    assert "BAD" in outcome.out
    assert "audit entry 3:" in outcome.out
    assert "comity audit adopt" in outcome.err
    report = json.loads(comity("audit", "verify", "--json").out)
    assert report["ok"] is False
    assert report["chains"][0]["position"] == 3


def test_a_chain_that_vanished_whole_is_missed_by_its_head(comity, record, data):
    record(5)
    record(1, chain="main-2")
    change(data, "DELETE FROM log WHERE name = 'audit:main-2'")
    report = json.loads(comity("audit", "verify", "--json").out)
    assert [(each["chain"], each["ok"]) for each in report["chains"]] == [("main", True), ("main-2", False)]


def test_a_forged_head_file_is_a_bad_chain_and_no_crash(comity, record, data):
    record(2)
    (data / "audit" / "main.head").write_bytes(b"x" * 1024)
    outcome = comity("audit", "verify")
    assert outcome.code == 1
    assert "it was altered" in outcome.out


def test_verifying_changes_nothing_and_works_while_a_writer_holds_the_chain(comity, record, data):
    record(5)
    held = HeadFile(data / "audit" / "main.head")
    before = snapshot(data)
    assert comity("audit", "verify").code == 0
    assert comity("audit", "tail").code == 0
    held.close()
    assert {path: content for path, content in snapshot(data).items() if path in before} == before


@pytest.mark.parametrize("command", ["verify", "tail", "adopt --yes"])
def test_what_cannot_be_read_is_one_sentence_and_stays_as_it_is(comity, record, data, command):
    missing = comity("audit", *command.split())
    assert (missing.code, missing.out) == (1, "")
    assert "there is no database at" in missing.err

    record(5)
    database = data / "comity.db"
    sound = database.read_bytes()
    change(data, "PRAGMA user_version = 99")
    for damage, words in (
        (None, "newer release"),
        (sound[:20_000] + b"\xaa" * 100 + sound[20_100:], "is damaged"),
        (b"not a database, but long enough to look like one" * 50, "is damaged"),
    ):
        if damage is not None:
            database.write_bytes(damage)
        before = database.read_bytes()
        outcome = comity("audit", *command.split())
        assert (outcome.code, outcome.out) == (1, ""), words
        assert words in outcome.err
        assert outcome.err.count("\n") == 1
        assert database.read_bytes() == before


def test_a_long_record_shows_its_progress_to_people_only(comity, record, monkeypatch):
    record(5)
    monkeypatch.setattr("comity.node.commands.audit.PROGRESS_FROM", 5)
    assert comity("audit", "verify").err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert comity("audit", "verify", "--json").err == ""
    assert "verifying" in comity("audit", "verify").err
    monkeypatch.setattr("comity.node.commands.audit.PROGRESS_FROM", 6)
    assert comity("audit", "verify").err == ""


def test_an_empty_record_is_no_fault(comity, record):
    record(0)
    assert comity("audit", "verify").code == 0


def test_a_memory_store_has_no_record_to_look_at(comity, monkeypatch):
    monkeypatch.setenv("COMITY_STORE_ENGINE", "memory")
    outcome = comity("audit", "verify")
    assert outcome.code == 2
    assert "keeps no record on disk" in outcome.err


def test_tail_shows_the_last_entries_oldest_first(comity, record):
    record(30)
    lines = comity("audit", "tail", "--json").out.splitlines()
    assert [json.loads(line)["chain_position"] for line in lines] == list(range(11, 31))
    assert json.loads(lines[0])["chain"] == "main"
    lines = comity("audit", "tail", "-n", "2").out.splitlines()
    assert len(lines) == 2
    assert lines[-1].split() == ["01-15", "08:00:29", "main", "30", "TOOL_CALL", "3", "ms"]
    assert comity("audit", "tail", "-n", "0").out == ""


def test_tail_weaves_chains_together_by_time(comity, record):
    record(3)
    record(3, chain="main-2")
    lines = [json.loads(line) for line in comity("audit", "tail", "-n", "4", "--json").out.splitlines()]
    assert [(line["chain"], line["chain_position"]) for line in lines] == [
        ("main", 2),
        ("main-2", 2),
        ("main", 3),
        ("main-2", 3),
    ]
    only = comity("audit", "tail", "--chain", "main-2", "--json").out.splitlines()
    assert {json.loads(line)["chain"] for line in only} == {"main-2"}


def test_tail_follows_as_entries_come_until_it_is_stopped(environ, record):
    record(2)
    command = [sys.executable, "-m", "comity", "audit", "tail", "--follow", "--json"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tail:
        assert [json.loads(tail.stdout.readline())["chain_position"] for _ in range(2)] == [1, 2]
        record(1, event="NEWER")
        assert json.loads(tail.stdout.readline())["verification_result"] == "NEWER"
        tail.send_signal(signal.SIGINT)
        out, err = tail.communicate(timeout=10)
    assert (tail.returncode, out, err) == (130, "", "stopped\n")


def test_adopt_accepts_a_restored_backup_and_writes_it_down(comity, record, data, tmp_path):
    record(5)
    backup = shutil.copy(data / "comity.db", tmp_path / "older.db")
    record(5)
    shutil.copy(backup, data / "comity.db")
    assert comity("audit", "verify").code == 1

    outcome = comity("audit", "adopt", "--yes")
    assert (outcome.code, outcome.out) == (0, "chain main continues from entry 6\n")
    assert comity("audit", "verify").code == 0
    last = json.loads(comity("audit", "tail", "-n", "1", "--json").out)
    assert last["verification_result"] == "AUDIT_ADOPTED"
    record(1)
    assert json.loads(comity("audit", "adopt", "--yes", "--json").out) == {"adopted": {"main": 8}}


def test_adopt_does_not_ask_when_there_is_nothing_to_adopt(comity, identity):
    outcome = comity("audit", "adopt")
    assert outcome.code == 1
    assert "put the backup there first" in outcome.err


def test_adopt_asks_first_and_needs_yes_where_nobody_can_answer(comity, record, monkeypatch):
    record(2)
    outcome = comity("audit", "adopt")
    assert outcome.code == 2
    assert "use --yes" in outcome.err
    terminal = io.StringIO("\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    assert comity("audit", "adopt").code == 1
    assert len(comity("audit", "tail").out.splitlines()) == 2


def test_adopt_is_refused_while_any_chain_is_being_written(comity, record, data):
    record(2)
    record(2, chain="main-2")
    held = HeadFile(data / "audit" / "main-2.head")
    outcome = comity("audit", "adopt", "--yes")
    held.close()
    assert outcome.code == 1
    assert "main-2.head is in use by another process" in outcome.err
    assert len(comity("audit", "tail").out.splitlines()) == 4


def test_a_record_of_another_identity_is_not_sound(comity, record, data):
    record(2)
    os.rename(data / "identity.json", data / "old.json")  # noqa: PTH104
    create_identity(data)
    outcome = comity("audit", "verify")
    assert outcome.code == 1
