"""Calls that changed nothing, counted and audited without anybody waiting for it (ruling 23).

Alike calls (the same tool, the same owner, the same outcome) of one moment stand in one entry, with their
number among its checks, where the hash covers it: a flood costs entries by the moment, not by the call.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from comity.core.clock import Clock
from comity.core.guard.audit import AuditDraft, AuditLevel, privacy_hash, timestamp

MOMENT: Final = 0.05


class CallTally:
    def __init__(
        self,
        clock: Clock,
        *,
        note: Callable[[Sequence[AuditDraft]], None],
        observe: Callable[[str, str, int], None] = lambda _room, _outcome, _number: None,
        level: AuditLevel = "standard",
    ) -> None:
        self._clock = clock
        self._note = note
        self._observe = observe
        self._level = level
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._due: asyncio.TimerHandle | None = None

    def count(self, what: str, owner: str, outcome: str) -> None:
        self._counts[what, owner, outcome] += 1
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(MOMENT, self.flush)

    def flush(self) -> None:
        """Write down what was counted so far."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if not self._counts:
            return
        counts, self._counts = self._counts, Counter()
        now = timestamp(self._clock.now())
        for (_, _, outcome), number in counts.items():
            self._observe("mcp", outcome, number)
        self._note([self._draft(*key, number, now) for key, number in counts.items()])

    def _draft(self, what: str, owner: str, outcome: str, number: int, now: str) -> AuditDraft:
        well = outcome in ("ok", "asked")
        return AuditDraft(
            verification_result=f"MCP_{what.upper()}_{'OK' if well else 'FAILED'}",
            checks_passed=("rate", "identity", f"count:{number}"),
            failed_step=None if well else outcome,
            issuer_hash=privacy_hash(owner),
            audit_level=self._level,
            created_at=now,
        )
