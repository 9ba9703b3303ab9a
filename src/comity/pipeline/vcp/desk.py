"""The identity desk, for those who ask later: is what a session stands on still good? (vcp 5.4, 7.2)

A handshake asks once. Whoever hands out the bundle of a session asks again each time, by the same lists.
"""

from comity.core.identity.verification import Verdict, subject_id
from comity.core.negotiation.session import Identity
from comity.core.revocation.decision import Revocable, RevocationStatus
from comity.pipeline.vcp.identity import IdentityDesk


class VcpDesk(IdentityDesk):
    async def still_good(self, jtis: tuple[str, ...], identity: Identity | None) -> RevocationStatus:
        """`jtis` are the ids of what is asked about; the identity's subject may be revoked as a whole."""
        if identity is None or identity.issuer is None or identity.subject is None:
            return await self._revocation(Verdict(revocable=Revocable(jtis)))
        subject = subject_id(identity.issuer, identity.subject)
        return await self._revocation(
            Verdict(revocable=Revocable(jtis, subject), issuer=identity.issuer, owner=identity.owner)
        )
