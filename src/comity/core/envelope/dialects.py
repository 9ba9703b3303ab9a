"""Which dialect a peer speaks is known by its signature (envelope 0).

A message that shows `selfEval` is of the dialect `selfeval` and of no other. A message without it is
tried as `seed`, then as `selfeval` with null. Whatever verified is what the peer speaks: its chain is
hashed, and its reply written, in the same dialect.
"""

from msgspec.structs import replace

from comity.core.envelope.envelope import Dialect, VacantEnvelope
from comity.core.envelope.message import A2AMessage
from comity.core.identity.keys import AnyPublicKey


def recognise(envelope: VacantEnvelope, public: AnyPublicKey | None = None) -> VacantEnvelope | None:
    """The envelope in the dialect in which its signature holds; None when it holds in none."""
    if envelope.verify(public):
        return envelope
    if envelope.dialect == "seed":
        other = replace(envelope, dialect="selfeval")
        if other.verify(public):
            return other
    return None


def spoken_in(dialect: Dialect, message: A2AMessage) -> A2AMessage:
    """The message as far as the dialect can carry it: `seed` knows no self-evaluation."""
    if dialect == "selfeval" or message.self_eval is None:
        return message
    return replace(message, self_eval=None)
