"""Verify an identity token: first its signature, then its revocation; both results are recorded (vcp 2.1, 5.4).

- No external lookup is made for a token whose signature is not verified.
- If the revocation status is unknown, the token counts as revoked. A token that the owner of this node revoked is refused
  in every mode, also in structural mode.
- A structural token has no owner: its sender stays anonymous for storage and ownership (ruling 20).
- The peer learns only that its token was not accepted. The reason goes to the log, without the token.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from comity.core.clock import Clock
from comity.core.errors import UnauthenticatedError
from comity.core.identity.issuers import IssuerRegistry
from comity.core.identity.verification import IdentityMode, TokenVerdict, subject_id, verify_identity
from comity.core.negotiation.session import Identity
from comity.core.revocation.crl import RevocationList
from comity.core.revocation.decision import (
    Denylist,
    Revocable,
    RevocationStatus,
    Unavailable,
    revocation_status,
)
from comity.core.revocation.reading import CrlSource

log = logging.getLogger("comity.vcp")

STALE_GRACE: Final = 300.0


class Lists(Protocol):
    """Where the lists of issuers come from; one out of date only while the next is being fetched."""

    async def current(self, source: CrlSource) -> RevocationList | Unavailable: ...


Decided = Callable[[TokenVerdict, RevocationStatus], None]


class IdentityDesk:
    def __init__(
        self,
        clock: Clock,
        *,
        mode: IdentityMode = IdentityMode.STRUCTURAL,
        issuers: IssuerRegistry | None = None,
        lists: Lists | None = None,
        denylist: Callable[[], Denylist] = Denylist,
    ) -> None:
        """`denylist` is what the owner of this node has revoked, as it is now."""
        self._clock = clock
        self._mode = mode
        self._issuers = issuers or IssuerRegistry()
        self._lists = lists
        self._denylist = denylist

    async def check(self, token: str, decided: Decided) -> Identity:
        """Raises UnauthenticatedError. `decided` is told of each decision about revocation."""
        verdict = verify_identity(token, mode=self._mode, issuers=self._issuers, now=self._clock.now())
        if verdict.ok:
            status = await self._revocation(verdict)
            decided(verdict, status)
            verdict = verdict.after(status)
        log.info("%s", verdict.log_line)
        if not verdict.ok:
            raise UnauthenticatedError("the identity token was not accepted; obtain a fresh one")
        return Identity(issuer=verdict.issuer, subject=verdict.subject, owner=verdict.owner)

    async def still_good(self, jtis: tuple[str, ...], identity: Identity | None) -> RevocationStatus:
        """Whether what a session stands on is still good, for whoever hands out its bundle later (vcp 5.4, 7.2).
        `jtis` are the ids of what is asked about; the identity's subject may be revoked as a whole.
        """
        if identity is None or identity.issuer is None or identity.subject is None:
            return await self._revocation(TokenVerdict(revocable=Revocable(jtis)))
        subject = subject_id(identity.issuer, identity.subject)
        return await self._revocation(
            TokenVerdict(revocable=Revocable(jtis, subject), issuer=identity.issuer, owner=identity.owner)
        )

    async def _revocation(self, verdict: TokenVerdict) -> RevocationStatus:
        issuer = self._issuers.get(verdict.issuer) if verdict.owner and verdict.issuer else None
        found: RevocationList | Unavailable | None = None
        if issuer is not None and issuer.crl is not None:
            if self._lists is None:
                found = Unavailable("this node fetches no lists")
            else:
                found = await self._lists.current(issuer.crl)
        return revocation_status(
            verdict.revocable,
            crl=found,
            now=self._clock.now(),
            grace=STALE_GRACE,
            denylist=self._denylist(),
        )
