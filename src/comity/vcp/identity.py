"""Verify an identity token: first its signature, then its revocation; both results are recorded (vcp 2.1, 5.4).

- No external lookup is made for a token whose signature is not verified.
- If the revocation status is unknown, the token is refused, and the peer learns that the list was the reason. A token
  that the owner of this node revoked is refused in every mode, also in structural mode.
- The identity of an open session is checked again at every exchange, without waiting while a list is at hand.
- A structural token has no owner: its sender stays anonymous for storage and ownership (ruling 20).
- Otherwise the peer learns only that its token was not accepted. The reason goes to the log, without the token.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from comity.identity.protocol.revocation import (
    CrlSource,
    Denylist,
    ProofFinding,
    PublicKey,
    Revocable,
    RevocationList,
    RevocationStatus,
    Source,
    Status,
    Unavailable,
    revocation_status,
    weigh_proof,
)
from comity.identity.protocol.tokens import (
    IdentityMode,
    IssuerRegistry,
    TokenRefusal,
    TokenVerdict,
    subject_id,
    verify_identity,
)
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.negotiation import IdentityRefusedError, SessionEndedError
from comity.vcp.protocol.signals import ContextError
from comity.wire.errors import UnauthenticatedError
from comity.wire.machine import Clock

log = logging.getLogger("comity.vcp")

STALE_GRACE: Final = 300.0

_RETRY_SECONDS: Final = 10
_REVOKED: Final = "the VCP/I identity token has been revoked; obtain another one from its issuer"
_UNAVAILABLE: Final = (
    "the VCP/I identity token could not be checked, because the revocation list of its issuer was not available; "
    "try again later"
)


class Lists(Protocol):
    """The revocation lists of issuers. An outdated one is returned only while the next is being fetched."""

    async def current(self, source: CrlSource) -> RevocationList | Unavailable: ...

    def held(self, source: CrlSource) -> RevocationList | None:
        """Return the list at hand, if it still counts."""
        ...


Decided = Callable[[TokenVerdict, RevocationStatus], None]


class IdentityChecker:
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
        self._issuers = IssuerRegistry() if issuers is None else issuers
        self._lists = lists
        self._denylist = denylist

    async def check(self, token: str, decided: Decided) -> Identity:
        """Verify a token. Raises UnauthenticatedError. `decided` is called with each decision about revocation."""
        verdict = verify_identity(token, mode=self._mode, issuers=self._issuers, now=self._clock.now())
        if verdict.ok:
            status = await self._revocation(verdict)
            decided(verdict, status)
            verdict = verdict.after(status)
        log.info("%s", verdict.log_line)
        match verdict.refusal:
            case None:
                jtis = verdict.revocable.jtis
                return Identity(
                    issuer=verdict.issuer, subject=verdict.subject, owner=verdict.owner, jtis=jtis
                )
            case TokenRefusal.REVOKED:
                raise IdentityRefusedError(_REVOKED)
            case TokenRefusal.LIST_UNAVAILABLE:
                raise IdentityRefusedError(_UNAVAILABLE, retry_after=_RETRY_SECONDS)
            case _:
                raise UnauthenticatedError("the identity token was not accepted; obtain a fresh one")

    async def check_open(self, session: Session) -> None:
        """Raise SessionEndedError if the identity of the session is revoked, or its status is unknown."""
        identity = session.identity
        if identity is None:
            return
        status = await self.still_good(identity.jtis, identity)
        if status.refuses:
            raise _ended(status)

    def ended(self, session: Session) -> SessionEndedError | None:
        """Return why the session has ended, by what is known without a fetch; None if it goes on or nothing is known."""
        identity = session.identity
        if identity is None:
            return None
        verdict = _verdict(identity.jtis, identity)
        source = self._source(verdict)
        held = None if source is None or self._lists is None else self._lists.held(source)
        status = self._status(verdict, held)
        return _ended(status) if status.status is Status.REVOKED else None

    async def check_bundle(self, bundle: str, stapled: Mapping[str, Any] | None, session: Session) -> str:
        """Raise ContextError for a constitution that is revoked, or whose status is unknown. A stapled proof replaces the list of
        the issuer only if a signed member names this bundle: otherwise a proof for one bundle would serve for all.
        Return why a proof did not count, or an empty text.
        """
        proof = ProofFinding(Status.UNKNOWN) if stapled is None else self._weigh(stapled, bundle)
        verdict = _verdict((bundle,), session.identity)
        if proof.status is Status.UNKNOWN or self._denylist().names(verdict.revocable):
            status = await self._revocation(verdict)
        else:
            status = RevocationStatus(proof.status, Source.STAPLED, "as the stapled proof says")
        if status.status is Status.REVOKED:
            raise ContextError(
                "CONSTITUTION_REFUSED", f"constitution has been revoked: {status.detail}", "constitution"
            )
        if status.refuses:
            remedy = "bring a stapled proof"
            if proof.fault:
                remedy = f"bring another stapled proof: this one does not count, because {proof.fault}"
            raise ContextError(
                "CONSTITUTION_REFUSED",
                "constitution could not be checked, because the revocation list of its issuer was not available; try "
                f"again later, or {remedy}",
                "constitution",
            )
        return proof.fault

    def _weigh(self, stapled: Mapping[str, Any], bundle: str) -> ProofFinding:
        """Find what a proof is worth. Responders are the issuers that this node knows, by their keys valid now."""
        if bundle not in (stapled.get("bundle_id"), stapled.get("jti")):
            return ProofFinding(
                Status.UNKNOWN, f"it is not about this constitution: its bundle_id must be {bundle}"
            )
        name, now = stapled.get("responder_id"), self._clock.now()
        responder = self._issuers.get(name) if isinstance(name, str) else None
        if responder is None or not responder.signature_keys:
            return ProofFinding(
                Status.UNKNOWN,
                "this node has no key of its responder; the owner names responders in vcp.issuers",
            )
        valid = [
            PublicKey(key.public)
            for key in responder.signature_keys
            if not (key.validity.too_early(now) or key.validity.too_late(now))
        ]
        return weigh_proof(stapled, valid, now=now)

    async def still_good(self, jtis: tuple[str, ...], identity: Identity | None) -> RevocationStatus:
        """Return the status of what a session depends on (vcp 5.4, 7.2): these ids, and the identity's subject."""
        return await self._revocation(_verdict(jtis, identity))

    async def _revocation(self, verdict: TokenVerdict) -> RevocationStatus:
        source = self._source(verdict)
        found: RevocationList | Unavailable | None = None
        if source is not None:
            if self._lists is None:
                found = Unavailable("this node fetches no lists")
            else:
                found = await self._lists.current(source)
        return self._status(verdict, found)

    def _source(self, verdict: TokenVerdict) -> CrlSource | None:
        issuer = self._issuers.get(verdict.issuer) if verdict.owner and verdict.issuer else None
        return None if issuer is None else issuer.crl

    def _status(self, verdict: TokenVerdict, found: RevocationList | Unavailable | None) -> RevocationStatus:
        return revocation_status(
            verdict.revocable, crl=found, now=self._clock.now(), grace=STALE_GRACE, denylist=self._denylist()
        )


def _verdict(jtis: tuple[str, ...], identity: Identity | None) -> TokenVerdict:
    if identity is None or identity.issuer is None or identity.subject is None:
        return TokenVerdict(revocable=Revocable(jtis))
    subject = subject_id(identity.issuer, identity.subject)
    return TokenVerdict(revocable=Revocable(jtis, subject), issuer=identity.issuer, owner=identity.owner)


def _ended(status: RevocationStatus) -> SessionEndedError:
    reason = _REVOKED if status.status is Status.REVOKED else _UNAVAILABLE
    return SessionEndedError("IDENTITY_INVALID", f"The session ends: {reason}")
