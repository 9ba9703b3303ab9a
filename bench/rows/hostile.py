"""Honest signed calls beside peers who mean no good.

One node on SQLite, `comity up --agent echo`, with the usual limits, for this machine's own addresses too. Honest callers,
each from an address of its own, send signed calls at a fixed rate, each due at its own moment; the figure is their 99th
percentile, counted from when a call was due. Beside them a hostile process (`bench.hostile`) does its worst, or does not:
the two take turns on the same node, and each turn of the hostile process comes from an address with a fresh budget.
Where a machine has only one address of its own, the limits are so high that the honest callers stay within them.
Everything the honest callers send is signed before time counts, and answers are read, not verified.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from itertools import count

from bench.harness.bars import AtMostTimes
from bench.harness.row import Contender, Open, Row, Setting, UnavailableError, Unit
from bench.harness.servers import serving
from bench.harness.steady_load import percentile, steady_runner, times_at_rate
from bench.hostile import HALF_OPEN
from bench.rows.envelopes import Caller
from comity.identity.key_files import stored_vacant_id

try:
    import resource
except ImportError:  # Windows knows no such limit
    resource = None  # type: ignore[assignment]

CALLERS = 16
PER_SECOND = 400
CALLS_PER_SECOND_OF_TURN = 5_120
"""2,048 calls in a turn of ordinary length: some five seconds."""
QUIET = "quiet"
HAS_ADDRESSES = sys.platform == "linux"
"""Whether all of 127.0.0.0/8 is this machine."""
SETTINGS = "[rate]\nlimit_loopback = true\n" + ("" if HAS_ADDRESSES else "requests = 30_000\n")


@contextlib.contextmanager
def _beside(kind: str, shown: str, setting: Setting) -> Iterator[Sequence[Contender]]:
    folder = setting.folder
    config = folder / "limits.toml"
    config.write_text(SETTINGS, encoding="utf-8")
    up = [sys.executable, "-m", "comity", "up", "--json", "--agent", "echo", "--port", "0"]
    up += ["--config", str(config), "--data", str(folder / "data")]
    with serving(up, folder / "node.stderr") as node, steady_runner() as runner:
        target = stored_vacant_id(folder / "data")
        callers = [Caller(number, node, target) for number in range(CALLERS)]
        addresses = [f"127.0.1.{number + 1}" for number in range(CALLERS)] if HAS_ADDRESSES else None
        fresh = count(1)
        each = max(1, round(CALLS_PER_SECOND_OF_TURN * setting.seconds / CALLERS))

        def quiet() -> float:
            for calls_of_each in (
                max(1, each // 8),
                each,
            ):  # the first ones show that the node is itself again
                calls = [caller.sign_ahead(calls_of_each) for caller in callers]
                times = runner.run(times_at_rate(node, calls, PER_SECOND, addresses))
            return percentile(times, 0.99)

        def hostile() -> float:
            attack = [
                sys.executable,
                "-m",
                "bench.hostile",
                kind,
                node,
                target.hex(),
                f"127.0.2.{next(fresh)}",
            ]
            with serving(attack, folder / "hostile.stderr"):
                return quiet()

        yield [Contender(f"beside {shown}", hostile), Contender(QUIET, quiet)]


def _opening(kind: str, shown: str) -> Open:
    def open_row(setting: Setting) -> contextlib.AbstractContextManager[Sequence[Contender]]:
        if kind == "half-open":
            _refuse_few_files()
        return _beside(kind, shown, setting)

    return open_row


def _refuse_few_files() -> None:
    hard = -1 if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= hard < HALF_OPEN + 1000:
        raise UnavailableError(f"this system allows {hard} open files; {HALF_OPEN + 1000} are needed")


ROWS = tuple(
    Row(
        name=f"hostile-{kind}",
        title=f"99th percentile of honest signed calls, {PER_SECOND} a second, beside {shown}",
        unit=Unit.TIME,
        open=_opening(kind, shown),
        bars=(AtMostTimes(3, QUIET),),
    )
    for kind, shown in (
        ("websockets", "4 WebSockets of one-byte messages"),
        ("garbage", "64 connections of garbage"),
        ("bad-signatures", "64 connections of bad signatures"),
        ("undecodable", "64 connections of JSON that cannot be read"),
        ("valid-calls", "64 connections of valid calls of 20 KB"),
        ("large-bodies", "64 connections of 1 MB bodies"),
        ("half-open", f"{HALF_OPEN:,} half-open connections"),
    )
)
