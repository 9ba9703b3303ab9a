"""What the tests of the stores are made of."""

import asyncio
import time
from pathlib import Path

from comity.identity.protocol.keys import SigningKey
from comity.store.audit_chain import AuditDraft
from comity.store.audit_trail import AuditTrail, HeadFile

KEY = SigningKey.from_seed(bytes(range(32)))


class HandClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class WallClock:
    """The time of day, for tests that start real processes."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


def draft(result: str = "TEST", **fields: object) -> AuditDraft:
    return AuditDraft(verification_result=result, created_at="2026-01-01T00:00:00.000000Z", **fields)


def trail_at(folder: Path, chain: str = "main") -> AuditTrail:
    return AuditTrail(chain, KEY, HeadFile(folder / "audit" / f"{chain}.head"))
