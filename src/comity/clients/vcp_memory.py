"""What a server answered last time, kept so that a downgrade is noticed (vcp 1.9).

- One answer is kept for each server and highest version that was asked for: who asks for an older version
  is not surprised to get it.
- What was not asked for this time is remembered from before. What was answered this time replaces the
  rest, so that an alert is given once and not for ever.
- The id of the session is not kept. A record that cannot be read is as good as none, and the log says so.
"""

import logging
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from comity.core.clock import Clock
from comity.core.errors import ComityError
from comity.core.guard.audit import AuditDraft, AuditLevel, privacy_hash, timestamp
from comity.core.negotiation import versions
from comity.core.negotiation.messages import Ack, encode
from comity.store.operations import Put
from comity.store.protocol import Store

log = logging.getLogger("comity.vcp")

SPACE: Final = "vcp:acks"
REMEMBERED: Final = "VCP_ACK_REMEMBERED"


class LastAcks:
    """`audit_level` None is for a store without an audit trail."""

    def __init__(self, store: Store, clock: Clock, *, audit_level: AuditLevel | None = "standard") -> None:
        self._store = store
        self._clock = clock
        self._audit_level = audit_level

    async def recall(self, server: str, version: str) -> Ack | None:
        kept = await self._store.get(SPACE, _key(server, version))
        if kept is None:
            return None
        try:
            ack = msgspec.json.decode(kept.value, type=Ack)
            versions.parse(ack.version)
        except (msgspec.MsgspecError, UnicodeDecodeError, ComityError):
            log.warning("what is stored of the last answer of %s cannot be read and is not compared", server)
            return None
        return ack

    async def remember(self, server: str, version: str, ack: Ack, before: Ack | None) -> None:
        """`before` is what was recalled. Nothing is written when there is nothing new."""
        kept = merged(before, ack)
        if kept == before:
            return
        put = Put(space=SPACE, key=_key(server, version), value=encode(kept))
        await self._store.commit(put, audit=self._entries(server))

    def _entries(self, server: str) -> list[AuditDraft]:
        if self._audit_level is None:
            return []
        return [
            AuditDraft(
                verification_result=REMEMBERED,
                issuer_hash=privacy_hash(server),
                audit_level=self._audit_level,
                created_at=timestamp(self._clock.now()),
            )
        ]


def merged(before: Ack | None, now: Ack) -> Ack:
    """What is known of a server after `now`, the answer to a hello that may have asked for less than before."""
    kept = replace(now, session_id=UNSET)
    if before is None:
        return kept
    answered = {*now.supported, *now.unsupported}
    silent = tuple(name for name in before.supported if name not in answered)
    described = {name: before.capabilities[name] for name in silent if name in before.capabilities}
    return replace(kept, supported=(*now.supported, *silent), capabilities={**now.capabilities, **described})


def _key(server: str, version: str) -> str:
    return f"{version} {server}"
