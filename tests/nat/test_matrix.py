"""Two people meet by a relay, each behind a router of every kind: in time, directly wherever their routers allow it.

Four cells stand for the sixteen; `make nat` runs all, with large files, other uplinks and a relay that is killed. It prints what
it measured.
"""

import contextlib
import hashlib
import itertools
import os
import time

import pytest

from tests.nat.network import KINDS
from tests.nat.people import people_behind
from tests.waiting import stretched, wait_until

pytestmark = pytest.mark.nat

ALL = os.environ.get("COMITY_NAT") == "all"
MIB = 1024 * 1024
CONNECT_SECONDS = 5.0
LINE_SECONDS = 0.01
"""The delay of one way."""
DISTURBED_SECONDS = 300
FILE_MIB = 8
LARGE_MIB = 256
SOME = (
    ("open", "symmetric"),
    ("full cone", "port-restricted cone"),
    ("port-restricted cone", "port-restricted cone"),
    ("symmetric", "symmetric"),
)
CELLS = tuple(itertools.product(KINDS, KINDS)) if ALL else SOME
LARGE = (("port-restricted cone", "port-restricted cone"), ("symmetric", "symmetric"))


def must_be_relayed(left, right):
    """Neither side can tell the other by which port it will be seen, and each lets in only whom it has sent to."""
    hard = {"port-restricted cone", "symmetric"}
    return "symmetric" in {left, right} and {left, right} <= hard


@pytest.fixture(scope="module")
def met(network, tmp_path_factory):
    network.set_line(delay=LINE_SECONDS)
    with people_behind(network, tmp_path_factory.mktemp("nat")) as (relay, anna, bert):
        yield network, relay, anna, bert


def meet(relay, anna, bert, room):
    """Let Bert join Anna's room; return how many seconds it took until both could send."""
    line = anna.invite(room, relay.line)
    start = time.monotonic()
    bert.join(line)
    wait_until(lambda: anna.is_connected() and bert.is_connected(), 60)
    return time.monotonic() - start


def made(folder, mib):
    file = folder / f"{mib}MiB.bin"
    with file.open("wb") as out:
        for _ in range(mib):
            out.write(os.urandom(MIB))
    return file


def sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_saved(receiver, transfer_id, file):
    saved = receiver.save_file(transfer_id)
    assert sha256(saved) == sha256(file)
    saved.unlink()


def send_file(sender, receiver, file):
    """Return how many MiB a second went over, when the receiver has saved the same bytes."""
    start = time.monotonic()
    sent = sender.send_file(file)
    seconds = time.monotonic() - start
    check_saved(receiver, sent, file)
    return file.stat().st_size / MIB / seconds


@pytest.mark.parametrize(("left", "right"), CELLS, ids=[f"{left} and {right}" for left, right in CELLS])
def test_two_people_meet_talk_and_pass_a_file(met, tmp_path, left, right):
    network, relay, anna, bert = met
    network.set_kind("a", left)
    network.set_kind("b", right)
    seconds = meet(relay, anna, bert, "lab")
    path = "relayed" if must_be_relayed(left, right) else "direct"
    try:
        wait_until(lambda: anna.path() == bert.path() == path, 20, what=f"{path}, but {anna.path()}")
        anna.say("hello")
        assert bert.hear() == "hello"
        bert.say("and to you")
        assert anna.hear() == "and to you"
        mib = LARGE_MIB if ALL and (left, right) in LARGE else FILE_MIB
        rate = send_file(anna, bert, made(tmp_path, mib))
    finally:
        bert.leave()
        anna.leave()
    print(f"\n{left:>20}  {right:>20}  {seconds:5.1f} s  {path:8}  {mib:3} MiB at {rate:5.1f} MiB/s")
    assert seconds < stretched(CONNECT_SECONDS)


only_all = pytest.mark.skipif(not ALL, reason="minutes long: `make nat` runs it")


@contextlib.contextmanager
def in_a_room(met, left, right):
    network, relay, anna, bert = met
    network.set_kind("a", left)
    network.set_kind("b", right)
    meet(relay, anna, bert, "lab")
    try:
        yield
    finally:
        bert.leave()
        anna.leave()


def disturb_a_file(anna, bert, file, *, times, disturb):
    """Send a file and disturb it that many times, each time after more of it has arrived; return how long each took to go on."""
    step = file.stat().st_size // (times + 2)

    def acknowledged():
        [one] = anna.ask("vdo_file_transfers", direction="outgoing")["outgoing"]
        assert one["status"] not in ("completed", "failed"), one
        return one["acked_chunks"] * one["chunk_bytes"]

    def wait_for(size):
        wait_until(lambda: acknowledged() >= size, DISTURBED_SECONDS, what=f"{size:,} bytes of the file")

    sent = anna.ask("vdo_file_send_path", file.parent, file_path=str(file), timeout_ms=1)["transfer"]
    pauses = []
    for number in range(times):
        wait_for((number + 1) * step)
        disturb(number)
        start, before = time.monotonic(), acknowledged()
        wait_for(before + step // 2)  # what was under way already arrives still
        pauses.append(time.monotonic() - start)
    wait_until(
        lambda: anna.transfer(sent["transfer_id"], "outgoing")["status"] == "completed", DISTURBED_SECONDS
    )
    check_saved(bert, sent["transfer_id"], file)
    return pauses


@only_all
def test_a_file_completes_while_the_uplink_changes_20_times(met, tmp_path):
    network, _, anna, bert = met
    kind = "port-restricted cone"
    with in_a_room(met, kind, kind):
        file = made(tmp_path, LARGE_MIB)
        pauses = disturb_a_file(
            anna,
            bert,
            file,
            times=20,
            disturb=lambda number: network.use_uplink("wan" if number % 2 else "wan2"),
        )
        print("\nafter another uplink the file went on after", *(f"{pause:.0f}" for pause in pauses), "s")
        network.use_uplink("wan")


@only_all
def test_a_relay_that_is_killed_and_started_again_is_used_again(met, tmp_path):
    """In the middle of a file that it relays; and by who is connected directly nobody notices."""
    _, relay, anna, bert = met

    def restart(_number):
        relay.kill()
        relay.start()

    with in_a_room(met, "symmetric", "symmetric"):
        pauses = disturb_a_file(anna, bert, made(tmp_path, 64), times=1, disturb=restart)
        print(
            "\nafter a restart of the relay the file went on after",
            *(f"{pause:.0f}" for pause in pauses),
            "s",
        )
        assert anna.path() == "relayed"
    with in_a_room(met, "full cone", "open"):
        relay.kill()
        anna.say("without a relay")
        assert bert.hear() == "without a relay"
        relay.start()
