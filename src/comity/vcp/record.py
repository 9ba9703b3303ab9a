"""The acts of VCP for the record: handshakes, refusals, context exchanges, decisions about revocation (vcp 5.5).

An entry contains a session, an owner and a token only as privacy hashes. It contains no text of a client: not its context,
and no names that it chose. Events also show the name that the client of a handshake gives itself.
"""

from comity.identity.protocol.decision import RevocationStatus
from comity.identity.protocol.tokens import TokenVerdict
from comity.requests.caller import Caller, stranger, vcp_identity
from comity.requests.record import Act
from comity.store.audit_chain import privacy_hash
from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.questions import Happened
from comity.vcp.protocol.response import ContextResponse

ROOM = "vcp"

_LONGEST_CLIENT = 64


def caller_in(session: Session | None, address: str) -> Caller:
    """The owner of a session; an unknown caller if it has no owner."""
    identity = None if session is None else session.identity
    if identity is None or identity.owner is None:
        return stranger(address)
    return vcp_identity(identity.owner, address)


def happened(what: Happened, address: str) -> Act:
    session = what.session
    checks: tuple[str, ...] = ("size", "schema") if session is not None else ()
    if session is not None:
        checks += (f"version:{session.version}", *(f"extension:{name}" for name in session.extensions))
        if session.identity is not None:
            checks += (
                ("signature", "revocation") if session.identity.verified else ("structure", "revocation")
            )
    return Act(
        room=ROOM,
        result=what.what,
        caller=caller_in(session, address),
        failed_step=what.code,
        checks=checks,
        about=shown_client(what.client_id),
        hashes=_session_hash(session),
    )


def shown_client(client_id: str) -> str:
    """A client's own name for itself, as it may be shown: short, on one line, with nothing that moves a cursor."""
    cut = client_id[:_LONGEST_CLIENT]
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in cut)


def exchanged(session: Session, response: ContextResponse, address: str, seconds: float) -> Act:
    return Act(
        room=ROOM,
        result="CONTEXT_EXCHANGED",
        caller=caller_in(session, address),
        checks=(
            "size",
            "schema",
            *(f"accepted:{field}" for field in response.accepted),
            f"ignored:{len(response.ignored)}",
        ),
        seconds=max(0.0, seconds),
        hashes=_session_hash(session),
    )


def not_exchanged(session: Session, code: str, address: str) -> Act:
    return Act(
        room=ROOM,
        result="CONTEXT_REFUSED",
        caller=caller_in(session, address),
        failed_step=code,
        checks=("size", "schema"),
        hashes=_session_hash(session),
    )


def revocation(verdict: TokenVerdict, status: RevocationStatus) -> Act:
    source = f"source:{status.source}"
    caller = vcp_identity(verdict.owner) if verdict.owner else stranger("")
    return Act(
        room=ROOM,
        result=f"REVOCATION_{status.status.upper()}",
        caller=caller,
        failed_step="revocation" if status.refuses else None,
        checks=(source,) if status.refuses else (source, "revocation"),
        hashes={"request_id_hash": privacy_hash(verdict.token_id)},
    )


def _session_hash(session: Session | None) -> dict[str, str]:
    return {} if session is None else {"session_id_hash": privacy_hash(session.id)}
