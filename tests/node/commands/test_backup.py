"""`comity backup` and `comity restore`: a node in one file, and back, whatever happens meanwhile."""

import fcntl
import io
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import tarfile
import time
from datetime import UTC, datetime

import apsw
import httpx
import msgspec
import pytest

from comity.envelopes.client.calls import build_envelope
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.key_files import create_identity
from comity.identity.passphrase import SealedReader, SealedWriter, SealingCost
from comity.identity.protocol.keys import SigningKey
from comity.node.archive import MANIFEST, Manifest
from comity.node.commands.backup import make_backup, restore_backup
from comity.runtime.settings import Settings
from comity.store.sqlite.connection import CHECKSUMMED_VFS, load_checksums
from comity.wire.errors import ConflictError, KeyRefusedError, MalformedError, StoreVersionError

COMITY = [sys.executable, "-m", "comity"]
CHEAP = SealingCost(passes=1, memory=8 * 1024)
WORDS = "open sesame"
CALLER = SigningKey.from_seed(bytes(range(32)))
DEADLINE = 30


@pytest.fixture
def passphrase(tmp_path):
    file = tmp_path / "pass.txt"
    file.write_text(WORDS + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def start(start):
    return lambda data, *more: start(data, "--agent", "echo", *more)


def stop(node):
    node.send_signal(signal.SIGTERM)
    assert node.wait(DEADLINE) == 0


def backup(data, target):
    return make_backup(Settings(data=data), target, WORDS, CHEAP)


def restore(target, data, *, check=False, passphrase=WORDS):
    return restore_backup(Settings(data=data), target, passphrase, None, check=check)


class Pair:
    """Somebody who calls a node, and keeps the envelopes."""

    def __init__(self, ready):
        self.url = ready["endpoint"]
        self.target = CALLER.vacant_id.from_hex(ready["vacant_id"])
        self.sent = []

    def envelope(self, text, timestamp=None):
        last = self.sent[-1] if self.sent else None
        return build_envelope(
            from_vid=CALLER.vacant_id,
            to_vid=self.target,
            payload=A2AMessage(role="ROLE_USER", parts=(A2APart(text=text),)),
            sequence_no=last.sequence_no + 1 if last else 1,
            prev_envelope_hash=last.compute_hash() if last else bytes(32),
            timestamp=timestamp,
            signing_key=CALLER,
        )

    def post(self, envelope):
        return httpx.post(self.url, json=to_a2a_jsonrpc(envelope), timeout=20)

    def call(self, text):
        envelope = self.envelope(text)
        answer = self.post(envelope)
        assert answer.status_code == 200, answer.text
        self.sent.append(envelope)
        return answer


def tail(program, data):
    said = program("audit", "tail", "-n", "200", "--json", "--data", data)
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def test_a_running_node_is_backed_up_and_lives_on_elsewhere(program, start, data, tmp_path, passphrase):
    node = start(data)
    pair = Pair(node.ready)
    first = pair.call("before the backup")
    target = tmp_path / "node.backup"
    made = program("backup", target, "--passphrase-file", passphrase, "--json", "--data", data)
    assert made.code == 0, made.err
    facts = json.loads(made.out)
    assert facts["vacant_id"] == node.ready["vacant_id"]
    assert facts["bytes"] == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    content = target.read_bytes()
    assert b"SQLite format" not in content
    assert b"comity identity" not in content

    pair.call("after the backup")
    captured = pair.sent[-1]
    stop(node)

    checked = program("restore", target, "--check", "--passphrase-file", passphrase)
    assert checked.code == 0, checked.err
    assert "can be restored. Nothing was changed." in checked.out

    again = tmp_path / "again"
    done = program("restore", target, "--passphrase-file", passphrase, "--data", again)
    assert done.code == 0, done.err
    assert f"start it      comity up --data {again}" in done.out
    files = {path.relative_to(again).as_posix(): path for path in again.rglob("*")}
    assert {"identity.json", "token", "vault.key", "comity.db", "audit/main.head"} <= files.keys()
    assert {"node.json", "mcp.sock"}.isdisjoint(files)
    for path in (again, *files.values()):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert [entry["verification_result"] for entry in tail(program, again)][-1] == "RESTORED"
    assert program("audit", "verify", "--data", again).code == 0

    node = start(again)
    assert node.ready["vacant_id"] == pair.target.hex()
    pair.url = node.ready["endpoint"]
    # the chain went back to the first call: the second would be next, and was accepted before
    replayed = pair.post(captured)
    assert replayed.status_code == 400
    assert "restored from a backup" in replayed.json()["detail"]
    # a reply that is known is still given again: nothing is carried out for it
    assert pair.post(pair.sent[0]).json() == first.json()
    # the honest caller goes on from where the node says that it stands
    pair.sent.pop()
    pair.call("signed after the restore")
    entries = tail(program, again)
    assert [entry["chain"] for entry in entries if entry["verification_result"] == "RESTORED"] == [
        "cli",
        "main",
    ]
    stop(node)


def test_what_was_signed_between_the_restore_and_the_first_start_is_refused_too(
    program, start, data, tmp_path
):
    node = start(data)
    pair = Pair(node.ready)
    backup(data, tmp_path / "b")
    restore(tmp_path / "b", tmp_path / "again")
    pair.call("to the former node, which still runs")
    stop(node)
    node = start(tmp_path / "again")
    pair.url = node.ready["endpoint"]
    replayed = pair.post(pair.sent[-1])
    assert replayed.status_code == 400
    assert "restored from a backup" in replayed.json()["detail"]
    stop(node)
    node = start(tmp_path / "again")  # a later start does not move the moment
    pair.url = node.ready["endpoint"]
    pair.sent.clear()
    pair.sent.append(envelope := pair.envelope("once"))
    assert pair.post(envelope).status_code == 200
    restored = [e for e in tail(program, tmp_path / "again") if e["verification_result"] == "RESTORED"]
    assert len(restored) == 2
    stop(node)


def test_nothing_is_overwritten(program, start, data, tmp_path, passphrase):
    stop(start(data))
    target = tmp_path / "node.backup"
    target.write_text("mine")
    said = program("backup", target, "--passphrase-file", passphrase, "--data", data)
    assert (said.code, said.err) == (
        1,
        f"error: {target} exists and is never overwritten; name another file\n",
    )
    assert target.read_text() == "mine"
    target.unlink()
    part = tmp_path / "node.backup.part"
    part.write_text("mine too")
    with pytest.raises(ConflictError, match=r"node\.backup\.part is not a backup"):
        backup(data, target)
    assert part.read_text() == "mine too"
    part.unlink()
    backup(data, target)
    before = target.read_bytes()
    with pytest.raises(ConflictError):
        backup(data, target)
    assert target.read_bytes() == before

    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes").write_text("mine")
    said = program("restore", target, "--passphrase-file", passphrase, "--data", taken)
    assert said.code == 1
    assert f"{taken} exists and is never overwritten" in said.err
    assert [path.name for path in taken.iterdir()] == ["notes"]
    empty = tmp_path / "empty"
    empty.mkdir()
    restore(target, empty)
    assert (empty / "identity.json").exists()


def test_a_wrong_passphrase_restores_nothing(program, start, data, tmp_path):
    stop(start(data))
    backup(data, tmp_path / "b")
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("open barley\n")
    wrong.chmod(0o600)
    said = program("restore", tmp_path / "b", "--passphrase-file", wrong, "--data", tmp_path / "again")
    assert said.code == 1
    assert f"the passphrase does not open {tmp_path / 'b'}" in said.err
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir() if "again" in path.name) == []


def test_a_truncated_or_damaged_backup_restores_nothing(start, data, tmp_path):
    stop(start(data))
    backup(data, tmp_path / "b")
    whole = (tmp_path / "b").read_bytes()
    for number, content in enumerate((whole[:-1], whole[: len(whole) // 2], whole + b"x", b"", whole[:200])):
        bad = tmp_path / f"bad{number}"
        bad.write_bytes(content)
        with pytest.raises((MalformedError, KeyRefusedError)):
            restore(bad, tmp_path / "again")
    middle = bytearray(whole)
    middle[len(whole) // 2] ^= 1
    (tmp_path / "bad").write_bytes(middle)
    with pytest.raises(MalformedError, match="cut short or damaged"):
        restore(tmp_path / "bad", tmp_path / "again")
    assert not [path for path in tmp_path.iterdir() if "again" in path.name]


def _repacked(source, target, change):
    """The same backup with other members: what a newer release, or somebody who knows the passphrase, may make."""
    with source.open("rb") as file:
        content = io.BytesIO()
        reader = SealedReader(file, "b", WORDS)
        while part := reader.read(1 << 20):
            content.write(part)
    content.seek(0)
    members = []
    with tarfile.open(fileobj=content) as archive:
        members = [(member.name, archive.extractfile(member).read()) for member in archive]
    with target.open("wb") as file:
        writer = SealedWriter(file, WORDS, CHEAP)
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for member, data in change(members):
                info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        writer.write(out.getvalue())
        writer.finish()
    return target


def test_a_backup_of_a_newer_schema_is_refused_with_what_to_do(start, data, tmp_path):
    stop(start(data))
    backup(data, tmp_path / "b")

    def newer(members):
        (_, manifest), *rest = members
        changed = msgspec.structs.replace(
            msgspec.json.decode(manifest, type=Manifest), schema=99, release="9.0.0"
        )
        return [(MANIFEST, msgspec.json.encode(changed)), *rest]

    target = _repacked(tmp_path / "b", tmp_path / "newer", newer)
    with pytest.raises(
        StoreVersionError, match=r"newer release \(comity 9\.0\.0, schema 99; .*upgrade comity"
    ):
        restore(target, tmp_path / "again")

    def newer_tables(members):
        file = tmp_path / "newer.db"
        file.write_bytes(dict(members)["comity.db"])
        load_checksums()
        connection = apsw.Connection(str(file), vfs=CHECKSUMMED_VFS)
        connection.pragma("user_version", 99)
        connection.pragma("wal_checkpoint(TRUNCATE)")
        connection.close()
        return [(name, file.read_bytes() if name == "comity.db" else held) for name, held in members]

    with pytest.raises(StoreVersionError, match="upgrade comity"):
        restore(_repacked(tmp_path / "b", tmp_path / "tables", newer_tables), tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_members_that_would_lie_elsewhere_are_refused(start, data, tmp_path):
    stop(start(data))
    backup(data, tmp_path / "b")
    link = tarfile.TarInfo("token")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    for number, member in enumerate(("../escaped", "/escaped", "a/../../escaped", "token", link)):
        target = _repacked(
            tmp_path / "b", tmp_path / f"bad{number}", lambda members, m=member: [*members, (m, b"")]
        )
        with pytest.raises(MalformedError, match="it is refused"):
            restore(target, tmp_path / "again")
    for number, missing in enumerate(("comity.db", "identity.json", MANIFEST)):
        target = _repacked(
            tmp_path / "b",
            tmp_path / f"less{number}",
            lambda members, m=missing: [each for each in members if each[0] != m],
        )
        with pytest.raises(MalformedError):
            restore(target, tmp_path / "again")
    assert not (tmp_path / "again").exists()
    assert not (tmp_path / "escaped").exists()


def test_a_member_that_unpacks_to_more_than_its_bytes_is_refused(start, data, tmp_path):
    stop(start(data))
    backup(data, tmp_path / "b")
    hole = tarfile.TarInfo("hole")
    hole.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 20)}
    target = _repacked(tmp_path / "b", tmp_path / "bomb", lambda members: [*members, (hole, b"")])
    with pytest.raises(MalformedError, match="'hole', which is not a plain file; it is refused"):
        restore(target, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_manifest_that_is_not_text_is_refused(start, data, tmp_path):
    stop(start(data))
    backup(data, tmp_path / "b")
    no_text = b'{"format":"\xff"}'
    target = _repacked(tmp_path / "b", tmp_path / "bad", lambda members: [(MANIFEST, no_text), *members[1:]])
    with pytest.raises(MalformedError, match="is not a backup of a node"):
        restore(target, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_damaged_database_is_not_backed_up(program, start, data, tmp_path, passphrase):
    stop(start(data))
    database = data / "comity.db"
    with database.open("r+b") as file:
        file.seek(5 * 4096 + 100)
        file.write(b"\xff\x00\xff")
    said = program("backup", tmp_path / "b", "--passphrase-file", passphrase, "--data", data)
    assert said.code == 1
    assert "a page does not match its checksum" in said.err
    assert not list(tmp_path.glob("b*"))
    assert not (data / ".backup").exists()


def test_a_record_that_was_cut_is_not_backed_up(start, data, tmp_path, program, passphrase):
    stop(start(data))
    older = (data / "comity.db").read_bytes()
    stop(start(data))
    (data / "comity.db").write_bytes(older)
    said = program("backup", tmp_path / "b", "--passphrase-file", passphrase, "--data", data)
    assert said.code == 1
    assert "the audit record is damaged (chain main" in said.err
    assert f"`comity audit verify --data {data}`" in said.err


def test_a_sealed_identity_is_restored_with_its_own_passphrase(program, data, tmp_path, passphrase):
    create_identity(data, passphrase="of the identity", cost=CHEAP)
    own = tmp_path / "own.txt"
    own.write_text("of the identity\n")
    own.chmod(0o600)
    assert program("state", "set", "active", "--passphrase-file", own, "--data", data).code == 0
    backup(data, tmp_path / "b")
    asked = program("restore", tmp_path / "b", "--passphrase-file", passphrase, "--data", tmp_path / "again")
    assert asked.code == 2
    assert "the passphrase of the identity is needed" in asked.err
    assert "--identity-passphrase-file" in asked.err
    assert not (tmp_path / "again").exists()
    done = program(
        *("restore", tmp_path / "b", "--passphrase-file", passphrase, "--identity-passphrase-file", own),
        *("--data", tmp_path / "again", "--json"),
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["restored"] == str(tmp_path / "again")


def test_files_of_the_owner_are_in_the_backup_and_those_of_the_running_node_are_not(start, data, tmp_path):
    node = start(data)
    (data / "config.toml").write_text('log_level = "warning"\n')
    (data / "shared").mkdir()
    (data / "shared" / "photo").write_bytes(bytes(3_000_000))
    (data / "link").symlink_to("/etc/passwd")
    backup(data, tmp_path / "b")
    stop(node)
    restore(tmp_path / "b", tmp_path / "again")
    again = tmp_path / "again"
    assert (again / "shared" / "photo").read_bytes() == bytes(3_000_000)
    assert (again / "config.toml").read_text() == 'log_level = "warning"\n'
    assert not (again / "link").exists()


def test_a_node_under_load_is_backed_up_without_a_gap(start, data, tmp_path):
    node = start(data)
    pair = Pair(node.ready)
    with httpx.Client() as http:
        url = node.ready["url"] + "/v1/ping"
        token = {"authorization": f"Bearer {(data / 'token').read_text().strip()}"}
        before = time.monotonic()
        backups = 0
        while time.monotonic() - before < 2 or backups < 3:
            pair.call(f"call {len(pair.sent)}")
            assert http.post(url, json={}, headers=token).status_code == 200
            if len(pair.sent) % 20 == 0:
                backup(data, tmp_path / f"b{backups}")
                backups += 1
    stop(node)
    for number in range(backups):
        done = restore(tmp_path / f"b{number}", tmp_path / "again", check=True)
        assert done.entries >= 20 * (number + 1)


KILLED = """
import os, signal, sys, threading
from pathlib import Path
from comity.node.commands.backup import make_backup, restore_backup
from comity.runtime.settings import Settings
from comity.identity.passphrase import SealingCost

what, where, at, other = sys.argv[1:5]
count = 0

def watch(frame, event, _arg):
    global count
    if event == "call" and frame.f_globals.get("__name__", "").startswith(("comity.", "tarfile", "shutil")):
        count += 1
        if count == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
    return None

settings = Settings(data=Path(where))
sys.setprofile(watch)
if what == "backup":
    make_backup(settings, Path(other), "open sesame", SealingCost(passes=1, memory=8192))
else:
    restore_backup(settings, Path(other), "open sesame", None, check=False)
sys.setprofile(None)
print(count)
"""


def killed(what, where, at, other):
    """Do it in a process that kills itself at its n-th step; whether it came to the end, and in how many steps."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, what, str(where), str(at), str(other)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode == 0, int(done.stdout or 0)


def _places(steps, many=12):
    """Early, late, and spread in between."""
    return sorted({1, steps // 2, steps - 1, *(steps * number // many for number in range(1, many))})


def test_a_backup_that_is_killed_leaves_no_file_under_its_name_and_the_next_one_works(start, data, tmp_path):
    stop(start(data))
    target = tmp_path / "b"
    finished, steps = killed("backup", data, -1, target)
    assert finished
    target.unlink()
    for at in _places(steps):
        finished, _ = killed("backup", data, at, target)
        if target.exists():  # killed when all was done, before it said so
            restore(target, tmp_path / "checked", check=True)
            target.unlink()
        assert not finished or at >= steps - 50
    backup(data, target)
    restore(target, tmp_path / "again")
    assert not (data / ".backup").exists()
    assert not (tmp_path / "b.part").exists()
    assert not (tmp_path / "again" / ".backup").exists()


def test_a_restore_that_is_killed_leaves_nothing_or_all_and_the_next_one_works(
    program, start, data, tmp_path
):
    stop(start(data))
    backup(data, tmp_path / "b")
    finished, steps = killed("restore", tmp_path / "first", -1, tmp_path / "b")
    assert finished
    whole = 0
    for number, at in enumerate(_places(steps)):
        again = tmp_path / f"again{number}"
        killed("restore", again, at, tmp_path / "b")
        if again.exists():
            whole += 1
        else:
            restore(tmp_path / "b", again)  # what the killed one left stands in nobody's way
        assert program("audit", "verify", "--data", again).code == 0
        assert not [path for path in tmp_path.iterdir() if path.name == f".again{number}.restoring"]
    assert whole < len(_places(steps))


def test_two_backups_of_one_folder_do_not_mix(start, data, tmp_path):
    stop(start(data))
    (data / ".backup").mkdir(mode=0o700)
    holder = os.open(data / ".backup", os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(ConflictError, match=f"another backup of {data} is being made; wait for it"):
            backup(data, tmp_path / "b")
    finally:
        os.close(holder)
    assert (data / ".backup").exists()  # it is the other one's
    backup(data, tmp_path / "b")


def test_a_folder_without_a_database_or_a_file_that_is_no_backup_is_refused(
    program, data, tmp_path, passphrase
):
    said = program("backup", tmp_path / "b", "--passphrase-file", passphrase, "--data", data)
    assert said.code == 1
    assert f"make one with `comity id new --data {data}`" in said.err
    create_identity(data)
    said = program("backup", tmp_path / "b", "--passphrase-file", passphrase, "--data", data)
    assert f"start a node first: `comity up --data {data}`" in said.err
    said = program("restore", tmp_path / "nothing", "--data", tmp_path / "again")
    assert f"there is no file {tmp_path / 'nothing'}" in said.err
    (tmp_path / "odd").write_text("odd")
    said = program("restore", tmp_path / "odd", "--data", tmp_path / "again")  # asks for no passphrase first
    assert "is not a backup made by Comity" in said.err
    said = program("backup", tmp_path / "no" / "folder", "--passphrase-file", passphrase, "--data", data)
    assert said.code == 1


def test_a_passphrase_is_asked_for_twice_at_a_terminal(start, data, tmp_path, environ):
    stop(start(data))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMITY, "backup", str(tmp_path / "b"), "--data", str(data)],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**environ, "TERM": "dumb"}, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    for prompt in (b"New passphrase: ", b"Once more: "):
        while prompt not in said:
            said += os.read(ours, 1000)
        os.write(ours, WORDS.encode() + b"\n")
    while b"Keep the passphrase." not in said:
        said += os.read(ours, 1000)
    assert process.wait(DEADLINE) == 0
    os.close(ours)
    assert WORDS.encode() not in said
    restore(tmp_path / "b", tmp_path / "again", check=True)


def test_a_stranger_learns_when_to_sign_again(start, data, tmp_path):
    stop(start(data))
    backup(data, tmp_path / "b")
    restore(tmp_path / "b", tmp_path / "again")
    node = start(tmp_path / "again")
    pair = Pair(node.ready)
    old = pair.envelope("old", timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    assert "2026-01-01T00:00:00+00:00 is not after" in pair.post(old).json()["detail"]
    pair.call("new")
    stop(node)
