"""The sessions that are open now, for every room that has to know what was agreed: version, active extensions,
identity. There are never more of them than connections.
"""

from collections.abc import Iterator

from comity.core.errors import ForbiddenError, NotFoundError
from comity.core.negotiation.session import Identity, Session


class LiveSessions:
    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._sessions.values()))

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._sessions

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def of(self, session_id: str, identity: Identity | None) -> Session:
        """The session, for its owner. One that nobody owns is for its own connection only."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFoundError("there is no such session; begin a new one")
        owner = None if session.identity is None else session.identity.owner
        if owner is None or identity is None or identity.owner != owner:
            raise ForbiddenError("this session belongs to somebody else; begin one of your own")
        return session

    def began(self, session: Session) -> None:
        self._sessions[session.id] = session

    def ended(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
