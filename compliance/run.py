"""`python -m compliance`: the whole suite against our fixtures, as a table. Any failure is an exit status of 1.

Two runs, by the requirements of the last legacy revision and of the modern one. Each also runs scenarios that
its requirements do not score; those that must be among them are named here, so that none is lost in silence.
"""

import asyncio
import sys
from collections.abc import Iterable
from typing import Final

from compliance.server import serving
from compliance.suite import UnavailableError, Verdict, install, judge

RUNS: Final = {
    "2025-11-25": frozenset({"json-schema-2020-12", "server-session-lifecycle", "server-sse-polling"}),
    "2026-07-28": frozenset(
        {
            "http-custom-header-server-validation",
            "http-header-validation",
            "json-schema-2020-12",
            "tasks-capability-negotiation",
            "tasks-dispatch-and-envelope",
            "tasks-lifecycle",
            "tasks-mrtr-composition",
            "tasks-mrtr-input",
            "tasks-request-headers",
            "tasks-request-state-removal",
            "tasks-required-task-error",
            "tasks-status-notifications",
            "tasks-wire-fields",
        }
    ),
}
"""Requirements, and the scenarios that have to be run with them."""


async def verdicts() -> dict[str, list[Verdict]]:
    """By requirements. Raises UnavailableError where the suite cannot be run."""
    suite = await install()
    found: dict[str, list[Verdict]] = {}
    async with serving(0) as url:
        for requirements, expected in RUNS.items():
            judged = await judge(suite, url, requirements)
            missing = expected - {one.scenario for one in judged}
            found[requirements] = judged + [Verdict(one, 0, ("was not run",)) for one in sorted(missing)]
    return found


def table(found: dict[str, list[Verdict]]) -> Iterable[str]:
    yield f"{'requirements':<14}{'scenario':<50}{'passed':>7}{'failed':>8}"
    for requirements, judged in found.items():
        for one in judged:
            yield f"{requirements:<14}{one.scenario:<50}{one.passed:>7}{len(one.complaints):>8}"
            yield from (f"{'':<16}{complaint}" for complaint in one.complaints)
        passed, failed = sum(one.passed for one in judged), sum(len(one.complaints) for one in judged)
        yield f"{requirements:<14}{f'all {len(judged)} scenarios':<50}{passed:>7}{failed:>8}"


def main() -> int:
    try:
        found = asyncio.run(verdicts())
    except UnavailableError as reason:
        sys.stdout.write(f"conformance skipped: {reason}\n")
        return 0
    sys.stdout.write("\n".join(table(found)) + "\n")
    return 1 if any(one.complaints for judged in found.values() for one in judged) else 0
