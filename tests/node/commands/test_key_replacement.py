"""A new key in the place of the old one, from the command line."""

import asyncio
import io
import json
import subprocess
import sys
from functools import partial

import pytest

from comity.identity.key_files import (
    create_identity,
    kept_secret,
    load_identity,
    load_or_create_identity,
    open_recovery,
    read_recovery,
)
from comity.identity.passphrase import SealingCost
from comity.identity.protocol.succession import check_line, recovery_hash
from comity.identity.protocol.written_key import read_key, write_key
from comity.identity.succession_files import SUCCESSION_FILE, read_own_line
from comity.node.commands.backup import make_backup, restore_backup
from comity.runtime.opening import open_trail
from comity.runtime.settings import AgentSettings, Settings
from comity.store.audit_log import verify_chain
from comity.store.claim import FolderClaim
from comity.testing import running_node
from comity.wire.errors import KeyRefusedError


@pytest.fixture(autouse=True)
def cheap_sealing(monkeypatch):
    cheap = SealingCost(passes=1, memory=8 * 1024)
    monkeypatch.setattr("comity.identity.key_files.SealingCost", lambda: cheap)
    monkeypatch.setattr("comity.identity.succession_files.kept_secret", partial(kept_secret, cost=cheap))


@pytest.fixture
def at_terminal(monkeypatch):
    """Somebody sits at the terminal, sees what is printed, and types these lines."""

    class Screen(io.StringIO):
        def isatty(self):
            return True

    def sit(*lines, hidden=""):
        screen = Screen()
        keyboard = Screen("".join(f"{line}\n" for line in lines))
        monkeypatch.setattr("sys.stdin", keyboard)
        monkeypatch.setattr("sys.stdout", screen)
        monkeypatch.setattr("getpass.getpass", lambda _: hidden)
        return screen

    return sit


def current(data):
    return load_identity(data).vacant_id


def paper_of(data, tmp_path, passphrase=None):
    path = tmp_path / "paper.txt"
    path.write_text(write_key(open_recovery(data, passphrase).seed).lower().replace(" ", "-\n"))
    path.chmod(0o600)
    return path


def test_the_old_key_hands_over_to_a_new_one_and_leaves_its_public_part(comity, identity, data):
    answer = comity("id", "replace", "--yes", "--json", "--reason", "new machine")
    assert answer.code == 0, answer.err
    said = json.loads(answer.out)
    new = current(data)
    assert (said["old"], said["new"]) == (identity.vacant_id.hex(), new.hex())
    line = read_own_line(data, new)
    check_line(line.statements)
    assert line.former == (identity.vacant_id,)
    assert line.statements[0].reason == "new machine"
    assert identity.seed.hex() not in "".join(
        path.read_text(errors="replace") for path in data.iterdir() if path.is_file()
    )
    history = json.loads(comity("id", "history", "--json").out)
    assert [each["old"] for each in history["line"]] == [identity.vacant_id.hex()]
    assert "new machine" in comity("id", "history").out


def test_keys_can_be_replaced_again_and_again(comity, identity, data):
    for _ in range(3):
        assert comity("id", "replace", "--yes").code == 0
    line = read_own_line(data, current(data))
    assert [each.number for each in line.statements] == [1, 2, 3]
    assert line.former[-1] == identity.vacant_id


def test_a_sealed_key_is_replaced_by_a_sealed_key(comity, data, tmp_path):
    create_identity(data, passphrase="horse")
    secret = tmp_path / "pass.txt"
    secret.write_text("horse\n")
    secret.chmod(0o600)
    assert comity("id", "replace", "--yes", "--passphrase-file", secret).code == 0
    with pytest.raises(KeyRefusedError):
        load_identity(data)
    assert load_identity(data, passphrase="horse")
    assert open_recovery(data, "horse")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("replace",), "needs a confirmation"),
        (("replace", "--yes", "--reason", "x" * 201), "at most 200"),
        (("replace", "--yes", "--reason", "a\x07b"), "control character"),
        (("recover", "--yes"), "--key-file"),
        (("recovery",), "at a terminal only"),
    ],
)
def test_what_is_missing_is_refused_and_changes_nothing(comity, identity, data, arguments, sentence):
    before = {path.name: path.read_bytes() for path in data.iterdir() if path.suffix == ".json"}
    answer = comity("id", *arguments)
    assert answer.code in {1, 2}
    assert sentence in answer.err
    after = {path.name: path.read_bytes() for path in data.iterdir() if path.suffix == ".json"}
    after.pop("node.json", None)
    assert after == before


def test_the_recovery_key_of_a_new_folder_is_kept_until_it_is_printed(comity, identity, data, at_terminal):
    key = open_recovery(data, None)
    screen = at_terminal("")
    assert comity("id", "recovery").code == 0
    assert "still in the data folder" in screen.getvalue()
    assert open_recovery(data, None).seed == key.seed

    groups = write_key(key.seed).split()
    screen = at_terminal(groups[-1].lower())
    assert comity("id", "recovery").code == 0
    printed = " ".join(line.strip() for line in screen.getvalue().splitlines() if line.startswith("    "))
    assert read_key(printed) == key.seed
    assert read_recovery(data).secret is None
    assert key.seed.hex() not in (data / "recovery.json").read_text()

    at_terminal(groups[-1])
    assert comity("id", "recovery").code == 1


def test_a_folder_of_an_older_release_gets_a_recovery_key_at_the_next_start(identity, data):
    (data / "recovery.json").unlink()
    load_or_create_identity(data)
    made = open_recovery(data, None)
    load_or_create_identity(data)
    assert open_recovery(data, None).seed == made.seed


def test_the_recovery_key_replaces_a_key_that_is_lost(comity, identity, data, tmp_path):
    paper = paper_of(data, tmp_path)
    (data / "identity.json").write_text(
        (data / "identity.json").read_text().replace(identity.seed.hex(), "0" * 64)
    )
    assert comity("id", "replace", "--yes").code == 1
    answer = comity("id", "recover", "--key-file", paper, "--yes", "--json")
    assert answer.code == 0, answer.err
    (statement,) = read_own_line(data, current(data)).statements
    assert statement.by_recovery
    assert statement.old == identity.vacant_id.hex()


def test_the_recovery_key_is_asked_for_at_a_terminal(comity, identity, data, at_terminal):
    screen = at_terminal("y", hidden=write_key(open_recovery(data, None).seed))
    assert comity("id", "recover").code == 0
    assert "is replaced" in screen.getvalue()
    assert current(data) != identity.vacant_id


def test_only_the_paper_and_the_lost_id_are_needed_in_a_new_folder(comity, identity, data, tmp_path):
    paper = paper_of(data, tmp_path)
    seed = open_recovery(data, None)
    other = tmp_path / "other"
    answer = comity("id", "recover", "--data", other, "--key-file", paper, "--yes")
    assert answer.code == 2
    assert "--old ID" in answer.err
    answer = comity(
        "id", "recover", "--data", other, "--old", identity.vacant_id.hex(), "--key-file", paper, "--yes"
    )
    assert answer.code == 0, answer.err
    line = read_own_line(other, current(other))
    assert line.former == (identity.vacant_id,)
    assert line.recovery == recovery_hash(seed.vacant_id.public)


def test_a_damaged_identity_is_recovered_when_the_lost_id_is_named(comity, identity, data, tmp_path):
    paper = paper_of(data, tmp_path)
    (data / "identity.json").write_text("not an identity")
    assert comity("id", "recover", "--key-file", paper, "--yes").code == 1
    answer = comity("id", "recover", "--old", identity.vacant_id.hex(), "--key-file", paper, "--yes")
    assert answer.code == 0, answer.err
    assert read_own_line(data, current(data)).former == (identity.vacant_id,)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (write_key(b"w" * 32), "not the recovery key of"),
        (write_key(b"w" * 32)[:-4] + "0000", "checksum"),
        ("AAAA", "14 groups"),
        ("", "14 groups"),
        ("x" * 60_000, "too long"),
        ("\x00\xff" * 28, "no recovery key has"),
    ],
)
def test_a_wrong_recovery_key_changes_nothing(comity, identity, data, tmp_path, text, sentence):
    paper = tmp_path / "paper.txt"
    paper.write_text(text)
    paper.chmod(0o600)
    answer = comity("id", "recover", "--key-file", paper, "--yes")
    assert answer.code == 1
    assert sentence in answer.err
    assert current(data) == identity.vacant_id
    assert not (data / SUCCESSION_FILE).exists()


def test_a_recovery_key_that_others_can_read_is_refused(comity, identity, data, tmp_path):
    paper = paper_of(data, tmp_path)
    paper.chmod(0o644)
    answer = comity("id", "recover", "--key-file", paper, "--yes")
    assert answer.code == 1
    assert "chmod 600" in answer.err


def test_no_key_is_replaced_while_a_node_or_another_process_uses_the_folder(comity, identity, data):
    claim = FolderClaim(data)
    try:
        answer = comity("id", "replace", "--yes")
        assert answer.code == 1
        assert "already running" in answer.err
    finally:
        claim.release()
    trail = open_trail(Settings(data=data), identity, "main")
    try:
        answer = comity("id", "replace", "--yes")
        assert answer.code == 1
        assert "another process uses" in answer.err
    finally:
        trail.close()
    assert current(data) == identity.vacant_id


KILLED = """
import os, sys
from comity.identity import private_files
left = int(sys.argv[1])
def step(work):
    def counted(*args, **named):
        global left
        if left == 0:
            os._exit(137)
        left -= 1
        done = work(*args, **named)
        return done
    return counted
os.fsync, os.replace, os.rename, os.link, os.unlink = map(step, (os.fsync, os.replace, os.rename, os.link, os.unlink))
from comity.cli.app import run
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize("way", ["replace", "recover"])
def test_a_replacement_that_is_killed_anywhere_leaves_the_old_or_the_new_identity(
    comity, data, tmp_path, environ, way
):
    create_identity(data)
    paper = paper_of(data, tmp_path)
    more = ("--key-file", str(paper)) if way == "recover" else ()
    seen = set()
    for steps in range(40):
        before = current(data)
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(steps), "id", way, "--yes", *more],
            env=environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode in {0, 137}, done.stderr
        after = current(data)
        line = read_own_line(data, after)
        assert (after == before) or line.former[0] == before
        assert comity("id", "history").code == 0
        seen.add((done.returncode, after == before))
        if done.returncode == 0:
            break
    assert seen >= {(137, True), (0, False)}


async def test_the_record_goes_on_under_the_new_key_and_its_old_part_stays_good(data, comity, tmp_path):
    async with running_node(data=data) as node:
        old = node.vacant_id
    answer = await asyncio.to_thread(comity, "id", "replace", "--yes")
    assert answer.code == 0, answer.err
    verified = await asyncio.to_thread(comity, "audit", "verify", "--json")
    assert verified.code == 0, verified.out
    async with running_node(data=data) as node:
        assert node.vacant_id != old
        assert node.runtime.line.former == (old,)
        report = await verify_chain(
            node.runtime.store, "main", node.runtime.line.publics, node.settings.audit_heads
        )
        assert report.ok, report.message
    tail = await asyncio.to_thread(comity, "audit", "tail", "-n", "50", "--json")
    assert tail.out.count("KEY_REPLACED") == 1
    assert (await asyncio.to_thread(comity, "audit", "verify")).code == 0


async def test_the_entry_of_a_replacement_that_was_killed_before_it_comes_with_the_next_start(
    data, comity, monkeypatch
):
    async with running_node(data=data):
        pass

    async def killed(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("comity.node.commands.key_replacement._record", killed)
        await asyncio.to_thread(comity, "id", "replace", "--yes")
    async with running_node(data=data):
        pass
    async with running_node(data=data):
        pass
    tail = await asyncio.to_thread(comity, "audit", "tail", "-n", "50", "--json")
    assert tail.out.count("KEY_REPLACED") == 1


async def test_the_card_of_the_new_key_carries_the_line_and_the_recovery_hash(data, comity):
    async with running_node(data=data, agent=AgentSettings(behaviour="echo")):
        pass
    old = current(data)
    assert (await asyncio.to_thread(comity, "id", "replace", "--yes")).code == 0
    async with running_node(data=data, agent=AgentSettings(behaviour="echo")) as node:
        line = node.runtime.line
        shown = json.loads((await asyncio.to_thread(comity, "card", "show", "--json")).out)
        policy = shown["substrate_spec"]["policy"]
        assert shown["verified"]
        assert policy["recovery"] == line.recovery
        assert policy["succession"][0]["old"] == old.hex()


async def test_revocations_stay_when_the_key_is_replaced(data, comity):
    async with running_node(data=data):
        pass
    revoked = await asyncio.to_thread(comity, "id", "token", "revoke", "family.safe.guide")
    assert revoked.code == 0, revoked.err
    before = json.loads((data / "revocations.json").read_text())["entries"]
    assert (await asyncio.to_thread(comity, "id", "replace", "--yes")).code == 0
    async with running_node(data=data):
        pass
    held = json.loads((data / "revocations.json").read_text())
    assert held["issuer_id"] == current(data).hex()
    assert held["entries"] == before != []


async def test_a_backup_brings_the_line_and_the_recovery_key_back(data, comity, tmp_path):
    async with running_node(data=data):
        pass
    assert (await asyncio.to_thread(comity, "id", "replace", "--yes")).code == 0
    target, elsewhere = tmp_path / "node.backup", tmp_path / "elsewhere"
    cheap = SealingCost(passes=1, memory=8 * 1024)
    await asyncio.to_thread(make_backup, Settings(data=data), target, "horse", cheap)
    await asyncio.to_thread(restore_backup, Settings(data=elsewhere), target, "horse", None, check=False)
    assert read_own_line(elsewhere, current(elsewhere)) == read_own_line(data, current(data))
    assert open_recovery(elsewhere, None).seed == open_recovery(data, None).seed
    async with running_node(data=elsewhere) as node:
        assert len(node.runtime.line.former) == 1
