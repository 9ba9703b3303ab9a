"""Calls that changed nothing: one entry for alike ones of a moment, with their number under the hash."""

import asyncio

from comity.core.guard.audit import link
from comity.pipeline.mcp.tally import MOMENT, CallTally
from comity.testing import SimulatedClock, run_simulated


class Notes:
    def __init__(self):
        self.written = []
        self.observed = []
        self.tally = CallTally(
            SimulatedClock(), note=self.written.append, observe=lambda *seen: self.observed.append(seen)
        )


def counts(drafts):
    return {(d.verification_result, d.failed_step): d.checks_passed[-1] for d in drafts}


def test_alike_calls_of_a_moment_stand_in_one_entry():
    async def main():
        notes = Notes()
        for _ in range(1000):
            notes.tally.count("echo", "ann", "ok")
        notes.tally.count("echo", "ann", "internal")
        notes.tally.count("read", "ann", "asked")
        assert notes.written == []
        await asyncio.sleep(MOMENT + 0.001)
        (drafts,) = notes.written
        assert counts(drafts) == {
            ("MCP_ECHO_OK", None): "count:1000",
            ("MCP_ECHO_FAILED", "internal"): "count:1",
            ("MCP_READ_OK", None): "count:1",
        }
        assert sorted(notes.observed) == [("mcp", "asked", 1), ("mcp", "internal", 1), ("mcp", "ok", 1000)]

    run_simulated(main)


def test_owners_are_kept_apart_and_not_named():
    async def main():
        notes = Notes()
        notes.tally.count("echo", "ann", "ok")
        notes.tally.count("echo", "bob", "ok")
        notes.tally.flush()
        (drafts,) = notes.written
        assert len({draft.issuer_hash for draft in drafts}) == 2
        assert "ann" not in str(drafts)

    run_simulated(main)


def test_each_moment_has_its_own_entry():
    async def main():
        notes = Notes()
        for _ in range(3):
            notes.tally.count("echo", "ann", "ok")
            await asyncio.sleep(2 * MOMENT)
        assert [counts(drafts)["MCP_ECHO_OK", None] for drafts in notes.written] == ["count:1"] * 3

    run_simulated(main)


def test_what_was_counted_is_written_down_at_the_end_and_only_once():
    async def main():
        notes = Notes()
        notes.tally.count("echo", "ann", "ok")
        notes.tally.flush()
        notes.tally.flush()
        await asyncio.sleep(3 * MOMENT)
        assert len(notes.written) == 1

    run_simulated(main)


def test_the_number_is_under_the_hash():
    async def main():
        hashes = set()
        for number in (1, 2, 3):
            notes = Notes()
            for _ in range(number):
                notes.tally.count("echo", "ann", "ok")
            notes.tally.flush()
            ((draft,),) = notes.written
            hashes.add(link(draft, position=1, previous_hash=None).entry_hash)
        assert len(hashes) == 3

    run_simulated(main)
