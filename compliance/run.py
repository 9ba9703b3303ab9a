"""`python -m compliance`: the whole suite against our fixtures and against the product itself, as a table. Any failure
is an exit status of 1, and so is a suite that could not be run.

Each of the three is run twice, by the requirements of the last legacy revision and of the modern one. A run also has
scenarios that its requirements do not score; those that must be among them are named here, so that none is lost in
silence. On the product every check counts but those that need a fixture (`excused.py`).
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple

from msgspec.structs import replace

from compliance.excused import NEED_A_FIXTURE, OF_HTTP
from compliance.product import node_behind_its_token, stdio_behind_http
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


class Subject(NamedTuple):
    """What is judged: how it is started, and which checks cannot be made on it."""

    name: str
    serve: Callable[[], AbstractAsyncContextManager[str]]
    excused: frozenset[str] = frozenset()


SUBJECTS: Final = (
    Subject("fixtures", lambda: serving(0)),
    Subject("node", node_behind_its_token, NEED_A_FIXTURE),
    Subject("stdio", stdio_behind_http, NEED_A_FIXTURE | OF_HTTP),
)


class Run(NamedTuple):
    subject: str
    requirements: str


Found = Mapping[Run, list[Verdict]]


async def verdicts() -> Found:
    """Raises UnavailableError where the suite cannot be run."""
    suite = await install()
    found: dict[Run, list[Verdict]] = {}
    for subject in SUBJECTS:
        needed = set(subject.excused)
        async with subject.serve() as url:
            for requirements, expected in RUNS.items():
                judged = await judge(suite, url, requirements)
                missing = expected - {one.scenario for one in judged}
                needed -= {check_of(complaint) for one in judged for complaint in one.complaints}
                found[Run(subject.name, requirements)] = [
                    *(excuse(one, subject.excused) for one in judged),
                    *(Verdict(one, 0, ("was not run",)) for one in sorted(missing)),
                ]
        if needed:
            passed = tuple(f"{one} passes, and need not be excused" for one in sorted(needed))
            found[Run(subject.name, requirements)].append(Verdict("the list of excused checks", 0, passed))
    return found


def excuse(verdict: Verdict, checks: frozenset[str]) -> Verdict:
    """The verdict without the complaints of these checks."""
    complaints = tuple(one for one in verdict.complaints if check_of(one) not in checks)
    return replace(verdict, complaints=complaints, excused=len(verdict.complaints) - len(complaints))


def check_of(complaint: str) -> str:
    return complaint.partition(": ")[0]


def table(found: Found) -> Iterable[str]:
    yield _row("subject", "requirements", "scenario", "passed", "excused", "failed")
    for run, judged in found.items():
        for one in judged:
            yield _row(*run, one.scenario, one.passed, one.excused, len(one.complaints))
            yield from (f"{'':<16}{complaint}" for complaint in one.complaints)
        figures = (
            sum(one.passed for one in judged),
            sum(one.excused for one in judged),
            sum(len(one.complaints) for one in judged),
        )
        yield _row(*run, f"all {len(judged)} scenarios", *figures)


def _row(
    subject: str, requirements: str, scenario: str, passed: int | str, excused: int | str, failed: int | str
) -> str:
    return f"{subject:<10}{requirements:<14}{scenario:<50}{passed:>7}{excused:>9}{failed:>8}"


def main() -> int:
    try:
        found = asyncio.run(verdicts())
    except UnavailableError as reason:
        sys.stdout.write(f"conformance could not be run: {reason}\n")
        return 1
    sys.stdout.write("\n".join(table(found)) + "\n")
    return 1 if any(one.complaints for judged in found.values() for one in judged) else 0
