"""Refusals of strangers, counted by minute, room and reason.

A stranger could otherwise fill the disk with entries about being refused. The count stands among
the checks of the entry, where its hash covers it.
"""

from collections import Counter

from comity.core.guard.audit import AuditDraft, AuditLevel, timestamp

_MINUTE = 60


class RefusalTally:
    def __init__(self, level: AuditLevel = "standard") -> None:
        self._level = level
        self._minute = 0
        self._counts: Counter[str] = Counter()

    def count(self, room: str, code: str, now: float) -> list[AuditDraft]:
        """Count one; the entries of the minute that ended, if one did."""
        ended = self.close_minute(now)
        self._counts[f"{room}:{code}"] += 1
        return ended

    def close_minute(self, now: float, *, anyway: bool = False) -> list[AuditDraft]:
        minute = int(now // _MINUTE)
        if minute == self._minute and not anyway:
            return []
        drafts = [
            AuditDraft(
                verification_result="REFUSED",
                failed_step=reason,
                checks_passed=(f"count:{count}",),
                duration_ms=_MINUTE * 1000,
                audit_level=self._level,
                created_at=timestamp(now),
            )
            for reason, count in sorted(self._counts.items())
        ]
        self._counts.clear()
        self._minute = minute
        return drafts
