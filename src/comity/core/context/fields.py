"""The members of a context request, and which of them a session takes (vcp 1.8, 1.10, 4.3; ruling 15).

Both sides use this table: a client before it sends, a server before it reads. A member that a session does not support is
listed with the reason, and is not sent or stored.
"""

from typing import Final

from comity.core.negotiation.capabilities import PERSONAL, RELATIONAL
from comity.core.negotiation.session import Session
from comity.core.negotiation.versions import V2_0, V3_0, V3_1

CORE: Final = frozenset(("categorical", "generation_preferences", "generation_prefs"))
EXTENSION_OF: Final = {
    "personal": PERSONAL,
    "preset_id": PERSONAL,
    "transition": PERSONAL,
    "relational_context": RELATIONAL,
}
FIELDS: Final = CORE | EXTENSION_OF.keys() | {"prosaic", "constitution", "stapled_proof", "extensions"}


def why_not(field: str, session: Session) -> str | None:
    """The reason why the session does not take this member; None when it does.

    For `extensions` ask about each extension in it: `why_inactive`.
    """
    if field in EXTENSION_OF:
        return why_inactive(EXTENSION_OF[field], session)
    if field == "prosaic":
        version = session.speaks
        if version >= V3_1:
            return why_inactive(PERSONAL, session)
        return None if version >= V3_0 else f"a VCP {session.version} session has no personal state"
    if field in ("constitution", "stapled_proof"):
        return None if session.speaks >= V2_0 else "a VCP 1.0 session takes no constitution text"
    return None if field in FIELDS else "unknown field"


def why_inactive(extension: str, session: Session) -> str | None:
    if session.speaks < V3_1:
        return f"a VCP {session.version} session has no extensions"
    if not session.active(extension):
        return f"{extension} is not active in this session"
    return None
