"""The official conformance suite finds nothing to complain of in a server that is built with our toolkit."""

import pytest

from compliance.run import RUNS, table, verdicts
from compliance.suite import UnavailableError


@pytest.mark.slow
async def test_the_official_suite_finds_no_failure_in_either_era():
    try:
        found = await verdicts()
    except UnavailableError as reason:
        pytest.skip(f"conformance skipped: {reason}")
    shown = "\n".join(table(found))
    assert [one for judged in found.values() for one in judged if one.complaints] == [], shown
    for requirements, expected in RUNS.items():
        judged = {one.scenario: one for one in found[requirements]}
        assert expected <= judged.keys()
        assert sum(one.passed for one in judged.values()) > 80, shown
