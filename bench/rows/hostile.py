"""Honest signed calls beside peers who mean no good.

One node on SQLite, `comity up --agent echo`, with limits for this machine's own addresses too. Honest callers send
signed calls at a fixed rate, each due at its own moment; the figure is their 99th percentile, counted from when a call
was due. Beside them a hostile process (`bench.hostile`) does its worst, or does not: the two take turns on the same
node. Everything the honest callers send is signed before time counts, and answers are read, not verified.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence

from bench.harness.bars import AtMostTimes
from bench.harness.row import Contender, Open, Row, Setting, UnavailableError, Unit
from bench.harness.servers import serving
from bench.harness.steady_load import percentile, steady_runner, times_at_rate
from bench.hostile import HALF_OPEN
from bench.rows.envelopes import Caller
from comity.keys.identity import stored_vacant_id

try:
    import resource
except ImportError:  # Windows knows no such limit
    resource = None  # type: ignore[assignment]

CALLERS = 16
PER_SECOND = 400
CALLS_PER_SECOND_OF_TURN = 5_120
"""2,048 calls in a turn of ordinary length: some five seconds."""
QUIET = "quiet"
# For each address and minute: somewhat more than the honest callers need.
SETTINGS = """\
[rate]
limit_loopback = true
requests = 30_000
per_seconds = 60
"""


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
        each = max(1, round(CALLS_PER_SECOND_OF_TURN * setting.seconds / CALLERS))

        def quiet() -> float:
            for count in (max(1, each // 8), each):  # the first ones show that the node is itself again
                calls = [caller.sign_ahead(count) for caller in callers]
                times = runner.run(times_at_rate(node, calls, PER_SECOND))
            return percentile(times, 0.99)

        def hostile() -> float:
            attack = [sys.executable, "-m", "bench.hostile", kind, node, target.hex()]
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
        ("large-bodies", "64 connections of 1 MB bodies"),
        ("half-open", f"{HALF_OPEN:,} half-open connections"),
    )
)
