"""Envelopes and cards: no input raises anything but the contract's refusals, and whatever is read has one
form, which is read as the same again.
"""

from typing import Any

from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec, deserialize, serialize
from comity.envelopes.protocol.chain import TipStatement
from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    from_a2a_jsonrpc,
    signed_envelope,
    to_a2a_jsonrpc,
)
from comity.envelopes.protocol.errors import EnvelopeFormatError, UnsupportedHaloVersionError
from comity.envelopes.protocol.message import A2AMessage, A2APart, SelfEval, read_time
from comity.envelopes.protocol.resident import LogEntry
from comity.identity.protocol.keys import SigningKey
from comity.wire.errors import MalformedError
from comity.wire.strict_json import dumps, loads

LONGEST = 1536

_KEY = SigningKey.from_seed(bytes(32))
_NOON = read_time("2026-05-06T12:00:00.000007+00:00")
_MESSAGES = [
    A2AMessage(parts=(A2APart(text="hello \u2713"),), context_id="", message_id="m"),
    A2AMessage(role="ROLE_AGENT", self_eval=SelfEval(factual=1e-5, logical=1.0)),
]
_BODIES = [
    to_a2a_jsonrpc(
        signed_envelope(
            from_vid=_KEY.vacant_id,
            to_vid=_KEY.vacant_id,
            payload=message,
            sequence_no=1,
            prev_envelope_hash=EMPTY_PREV_HASH,
            idempotency_key="key",
            timestamp=_NOON,
            signing_key=_KEY,
            dialect="seed" if message.self_eval is None else "selfeval",
        )
    )
    for message in _MESSAGES
]
_CARD = CapabilityCard(
    vacant_id=_KEY.vacant_id,
    capability_text="echo\n",
    substrate_spec=SubstrateSpec(("mock",), {"a": [1.5, None, 1e-7]}),
    endpoint="https://example.com/a2a/message/send",
)
_STATEMENT = TipStatement(
    from_vacant_id=_KEY.vacant_id,
    to_vacant_id=_KEY.vacant_id,
    sequence_no=3,
    chain_tip=bytes(32),
    timestamp=_NOON,
)
EXAMPLES = [
    *map(dumps, _BODIES),
    serialize(_CARD.signed(_KEY)),
    dumps(_STATEMENT.signed(_KEY).to_json()),
    LogEntry(kind="NOTE", payload={"a": 1}, ts=_NOON).signed(_KEY).to_line().encode(),
]


def check(data: bytes) -> None:
    _check_card(data)
    _check_line(data)
    try:
        value = loads(data, lone_surrogates=True)
    except MalformedError:
        return
    _check_envelope(value)
    _check_statement(value)


def _check_envelope(value: Any) -> None:
    try:
        envelope = from_a2a_jsonrpc(value)
    except EnvelopeFormatError:
        return
    again = from_a2a_jsonrpc(to_a2a_jsonrpc(envelope))
    # A self-evaluation of null is not written, so that only the signature can tell the dialect.
    if envelope.payload.self_eval is not None or envelope.dialect == "seed":
        assert again == envelope
        assert again.signing_payload() == envelope.signing_payload()
    assert envelope.verify() in {True, False}


def _check_statement(value: Any) -> None:
    try:
        statement = TipStatement.from_json(value)
    except EnvelopeFormatError:
        return
    assert TipStatement.from_json(statement.to_json()) == statement


def _check_card(data: bytes) -> None:
    try:
        card = deserialize(data)
    except (EnvelopeFormatError, UnsupportedHaloVersionError):
        return
    written = serialize(card)
    assert deserialize(written) == card
    assert serialize(deserialize(written)) == written


def _check_line(data: bytes) -> None:
    try:
        entry = LogEntry.from_line(data)
    except EnvelopeFormatError:
        return
    assert LogEntry.from_line(entry.to_line()) == entry
