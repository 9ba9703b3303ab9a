"""A reply says which request it answers: its signed idempotency key is `re:` and the request's hash.

The contract leaves replies unbound, so a key without that beginning says nothing; whether that is good
enough is for the caller to decide.
"""

from comity.core.envelope.envelope import VacantEnvelope

_PREFIX = "re:"


def reply_key(request: VacantEnvelope) -> str:
    return _PREFIX + request.compute_hash().hex()


def reply_is_bound(reply: VacantEnvelope, request: VacantEnvelope) -> bool | None:
    """True: it answers `request`. False: it answers another one. None: it does not say."""
    if not reply.idempotency_key.startswith(_PREFIX):
        return None
    return reply.idempotency_key == reply_key(request)
