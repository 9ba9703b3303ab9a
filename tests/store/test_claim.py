"""One node per data folder: who has it, and what is left when he is gone."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from comity.store.claim import CLAIM_FILE, FolderClaim, RunningNode, is_claimed, running_node
from comity.wire.errors import StoreUnavailableError

NODE = RunningNode(pid=4711, url="http://127.0.0.1:8420", vacant_id="ab" * 32)


def test_who_claims_a_folder_has_it_until_he_gives_it_back(tmp_path):
    claim = FolderClaim(tmp_path)
    with pytest.raises(StoreUnavailableError, match="already running"):
        FolderClaim(tmp_path)
    claim.release()
    FolderClaim(tmp_path).release()


def test_the_claim_tells_others_where_the_node_is(tmp_path):
    claim = FolderClaim(tmp_path)
    assert running_node(tmp_path) is None  # it has not said so yet
    claim.announce(NODE)
    assert running_node(tmp_path) == NODE
    with pytest.raises(StoreUnavailableError) as refusal:
        FolderClaim(tmp_path)
    assert f"on {tmp_path} at http://127.0.0.1:8420 (process 4711)" in refusal.value.message
    claim.announce(RunningNode(pid=1, url="http://x", vacant_id=""))
    assert running_node(tmp_path).url == "http://x"
    claim.release()
    assert running_node(tmp_path) is None
    assert (tmp_path / CLAIM_FILE).read_bytes() == b""  # nothing to mislead who cannot see the lock


def test_the_file_is_for_its_owner_only(tmp_path):
    old = os.umask(0)
    try:
        claim = FolderClaim(tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / CLAIM_FILE).stat().st_mode) == 0o600
    claim.release()


def test_a_folder_that_never_had_a_node_has_none(tmp_path):
    assert running_node(tmp_path) is None
    assert running_node(tmp_path / "nowhere") is None
    assert list(tmp_path.iterdir()) == []


def test_what_an_old_node_left_behind_is_history(tmp_path):
    (tmp_path / CLAIM_FILE).write_bytes(b'{"pid":1,"url":"http://old","vacant_id":""}')
    assert running_node(tmp_path) is None
    FolderClaim(tmp_path).release()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"pid":"x"}', b"\0" * 5000])
def test_a_claim_that_cannot_be_read_is_still_a_claim(tmp_path, content):
    claim = FolderClaim(tmp_path)
    (tmp_path / CLAIM_FILE).write_bytes(content)
    assert running_node(tmp_path) is None
    with pytest.raises(StoreUnavailableError, match=f"already running on {tmp_path}; use it"):
        FolderClaim(tmp_path)
    claim.release()


def test_giving_back_twice_closes_nothing_of_anybody_else(tmp_path):
    claim = FolderClaim(tmp_path)
    claim.release()
    others = [os.open(tmp_path / CLAIM_FILE, os.O_RDONLY) for _ in range(5)]
    claim.release()
    for descriptor in others:
        os.close(descriptor)


def test_a_refused_claim_leaves_no_file_open_and_the_other_one_as_it_is(tmp_path):
    claim = FolderClaim(tmp_path)
    claim.announce(NODE)
    first = os.dup(0)
    os.close(first)
    for _ in range(10):
        with pytest.raises(StoreUnavailableError):
            FolderClaim(tmp_path)
    again = os.dup(0)
    os.close(again)
    assert again == first
    assert running_node(tmp_path) == NODE
    claim.release()


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / CLAIM_FILE).mkdir()
    with pytest.raises(StoreUnavailableError, match=r"node\.json cannot be written \(Is a directory\)"):
        FolderClaim(tmp_path)
    with pytest.raises(StoreUnavailableError, match=r"cannot be written \(No such file or directory\)"):
        FolderClaim(tmp_path / "nowhere")


def test_removing_the_file_lets_no_second_node_in_and_the_node_puts_it_back(tmp_path):
    claim = FolderClaim(tmp_path)
    claim.announce(NODE)
    (tmp_path / CLAIM_FILE).unlink()
    with pytest.raises(StoreUnavailableError, match=f"already running on {tmp_path}; use it"):
        FolderClaim(tmp_path)
    assert is_claimed(tmp_path)
    claim.announce_again()
    assert running_node(tmp_path) == NODE
    claim.release()
    assert not is_claimed(tmp_path)


def test_a_folder_that_was_moved_away_or_replaced_is_noticed(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    claim = FolderClaim(folder)
    assert claim.is_in_place()
    folder.rename(tmp_path / "elsewhere")
    assert not claim.is_in_place()
    folder.mkdir()
    assert not claim.is_in_place()  # another folder by the same name
    claim.release()
    assert list(folder.iterdir()) == []  # nothing is written into what is not ours


def test_a_file_system_without_locks_is_told_and_not_taken_for_a_running_node(tmp_path, monkeypatch):
    def refuse(_file, _how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreUnavailableError, match=r"cannot be locked .* on a local disk"):
        FolderClaim(tmp_path)


def test_whoever_only_looks_keeps_no_node_from_starting(tmp_path):
    FolderClaim(tmp_path).release()
    looker = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(looker, fcntl.LOCK_SH)
    looking_away = threading.Timer(0.05, os.close, [looker])
    looking_away.start()
    began = time.monotonic()
    claim = FolderClaim(tmp_path)
    assert time.monotonic() - began < 1
    looking_away.join()
    claim.release()


def test_many_lookers_and_one_node_do_not_get_in_each_others_way(tmp_path):
    stop = threading.Event()
    seen = set()

    def look():
        while not stop.is_set():
            seen.add(running_node(tmp_path))

    FolderClaim(tmp_path).release()
    lookers = [threading.Thread(target=look) for _ in range(3)]
    for thread in lookers:
        thread.start()
    try:
        for _ in range(50):
            claim = FolderClaim(tmp_path)
            claim.announce(NODE)
            claim.release()
    finally:
        stop.set()
        for thread in lookers:
            thread.join()
    assert seen <= {None, NODE}


HOLDER = """
import sys, time
from pathlib import Path
from comity.store.claim import FolderClaim, RunningNode
claim = FolderClaim(Path(sys.argv[1]))
claim.announce(RunningNode(pid=1, url="http://held", vacant_id=""))
print("held", flush=True)
time.sleep(60)
"""


def test_the_claim_falls_with_its_process_however_it_ends(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        assert running_node(tmp_path).url == "http://held"
        with pytest.raises(StoreUnavailableError, match="http://held"):
            FolderClaim(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert running_node(tmp_path) is None
    FolderClaim(tmp_path).release()
