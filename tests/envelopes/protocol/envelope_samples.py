"""Three vacants, a moment, envelopes between them, and strategies for any of these."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import strategies as st

from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    HASH_BYTES,
    LAST_SEQUENCE_NO,
    VacantEnvelope,
    signed_envelope,
)
from comity.envelopes.protocol.message import ROLES, A2AMessage, A2APart, SelfEval
from comity.identity.protocol.keys import SigningKey
from tests.wire.json_values import texts

ALICE, BOB, CAROL = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
KEYS = (ALICE, BOB, CAROL)
NOON = datetime(2026, 5, 6, 12, 0, 0, 7, tzinfo=UTC)


def said(*words, **more):
    return A2AMessage(parts=[A2APart(text=word) for word in words], **more)


def sent(sender=ALICE, to=BOB, *, payload=None, sequence_no=1, prev=EMPTY_PREV_HASH, **more):
    given = {"idempotency_key": "key", "timestamp": NOON} | more
    return signed_envelope(
        from_vid=sender.vacant_id,
        to_vid=to.vacant_id,
        payload=payload or said("hello"),
        sequence_no=sequence_no,
        prev_envelope_hash=prev,
        signing_key=sender,
        **given,
    )


def after(envelope: VacantEnvelope | None, sender=ALICE, to=BOB, **more):
    """The next envelope of the chain that ends on `envelope`."""
    if envelope is None:
        return sent(sender, to, **more)
    number, tip = envelope.sequence_no + 1, envelope.compute_hash()
    return sent(sender, to, sequence_no=number, prev=tip, **more)


offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    NOON.replace(year=1, tzinfo=None),
    NOON.replace(year=9999, tzinfo=None),
    timezones=st.none() | st.just(UTC) | offsets,
)
hashes = st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)
shares = st.floats(0, 1) | st.sampled_from([0, 1, 1e-5, 1e-7, 5e-324])
self_evals = st.builds(SelfEval, *[shares] * 6)


@st.composite
def messages(draw, dialect="seed"):
    return A2AMessage(
        role=draw(st.sampled_from(ROLES)),
        parts=[A2APart(text=text) for text in draw(st.lists(texts, max_size=3))],
        context_id=draw(st.none() | texts),
        message_id=draw(st.none() | texts),
        self_eval=draw(st.none() | self_evals) if dialect == "selfeval" else None,
    )


@st.composite
def envelopes(draw, dialects=("seed", "selfeval")):
    dialect = draw(st.sampled_from(dialects))
    return sent(
        draw(st.sampled_from(KEYS)),
        draw(st.sampled_from(KEYS)),
        payload=draw(messages(dialect)),
        sequence_no=draw(st.integers(1, LAST_SEQUENCE_NO)),
        prev=draw(hashes),
        idempotency_key=draw(texts),
        timestamp=draw(moments),
        dialect=dialect,
    )
