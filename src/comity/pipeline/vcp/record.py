"""The audit entries of VCP: handshakes, refusals, context exchanges, decisions about revocation (vcp 5.5).

An entry names a session, an owner and a token by their privacy hash. No word of a client is in it: neither its
context nor the names that it made up.
"""

from comity.core.context.response import ContextResponse
from comity.core.guard.audit import AuditDraft, AuditLevel, privacy_hash, timestamp
from comity.core.identity.verification import Verdict
from comity.core.negotiation.questions import Happened
from comity.core.negotiation.session import Session
from comity.core.revocation.decision import RevocationStatus

ANONYMOUS = "anonymous"


def happened(what: Happened, *, now: float, level: AuditLevel) -> AuditDraft:
    session = what.session
    checks: tuple[str, ...] = ("size", "schema") if session is not None else ()
    if session is not None:
        checks += (f"version:{session.version}", *(f"extension:{name}" for name in session.extensions))
        if session.identity is not None:
            checks += (
                ("signature", "revocation") if session.identity.verified else ("structure", "revocation")
            )
    return AuditDraft(
        verification_result=what.what,
        failed_step=what.code,
        checks_passed=checks,
        session_id_hash=_session_hash(session),
        issuer_hash=_owner_hash(session),
        audit_level=level,
        created_at=timestamp(now),
    )


def exchanged(
    session: Session, response: ContextResponse, *, began: float, now: float, level: AuditLevel
) -> AuditDraft:
    """`began` is when the request was taken up, by the same clock as `now`."""
    return AuditDraft(
        verification_result="CONTEXT_EXCHANGED",
        checks_passed=(
            "size",
            "schema",
            *(f"accepted:{field}" for field in response.accepted),
            f"ignored:{len(response.ignored)}",
        ),
        duration_ms=round(max(0.0, now - began) * 1000, 3),
        session_id_hash=_session_hash(session),
        issuer_hash=_owner_hash(session),
        audit_level=level,
        created_at=timestamp(now),
    )


def not_exchanged(session: Session, code: str, *, now: float, level: AuditLevel) -> AuditDraft:
    return AuditDraft(
        verification_result="CONTEXT_REFUSED",
        failed_step=code,
        checks_passed=("size", "schema"),
        session_id_hash=_session_hash(session),
        issuer_hash=_owner_hash(session),
        audit_level=level,
        created_at=timestamp(now),
    )


def revocation(verdict: Verdict, status: RevocationStatus, *, now: float, level: AuditLevel) -> AuditDraft:
    return AuditDraft(
        verification_result=f"REVOCATION_{status.status.upper()}",
        failed_step="revocation" if status.refuses else None,
        checks_passed=(f"source:{status.source}",)
        if status.refuses
        else (f"source:{status.source}", "revocation"),
        request_id_hash=privacy_hash(verdict.token_id),
        issuer_hash=privacy_hash(verdict.owner or ANONYMOUS),
        audit_level=level,
        created_at=timestamp(now),
    )


def _session_hash(session: Session | None) -> str | None:
    return None if session is None else privacy_hash(session.id)


def _owner_hash(session: Session | None) -> str:
    identity = None if session is None else session.identity
    return privacy_hash((identity.owner if identity is not None else None) or ANONYMOUS)
