"""The JSON-RPC carrier (envelope 1.4): envelopes as requests, replies and bare messages, and back.

What is read is judged as received; nothing of A2A's own model is filled in before it. Accepted beside
the form that we write: upper-case hex, any ISO 8601 timestamp, no `idempotency_key` (empty), no `role`
(`ROLE_USER`), no `parts` (none), no `type` of a part, and unknown members, which are neither kept nor
signed. Everything else is an EnvelopeFormatError that names the member; no input raises anything else.

A message with the member `selfEval`, even null, is of the dialect `selfeval`. Without it both dialects
are possible: it is read as `seed`, and `recognise` finds out by the signature.
"""

import re
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, field

from comity.envelopes.protocol import members
from comity.envelopes.protocol.envelope import LAST_SEQUENCE_NO, VacantEnvelope
from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.envelopes.protocol.message import A2AMessage, A2APart, Role, SelfEval

A2A_VACANT_METADATA_KEY: Final = "urn:vacant:v1"
METHOD: Final = "message/send"

_MISSING = re.compile(r"Object missing required field `([^`]+)`")


def to_a2a_jsonrpc(env: VacantEnvelope) -> dict[str, Any]:
    """The body of a request. Its id is the idempotency key, or the envelope's hash where that is empty."""
    return {
        "jsonrpc": "2.0",
        "id": env.idempotency_key or env.compute_hash().hex(),
        "method": METHOD,
        "params": {"message": to_a2a_message(env)},
    }


def to_a2a_result(envelope: VacantEnvelope, request_id: Any) -> dict[str, Any]:
    """The body of a reply; `request_id` is the id of the request, None when it had none."""
    return {"jsonrpc": "2.0", "id": request_id, "result": {"message": to_a2a_message(envelope)}}


def to_a2a_message(envelope: VacantEnvelope) -> dict[str, Any]:
    payload = envelope.payload
    message: dict[str, Any] = {
        "role": payload.role,
        "parts": [{"type": "text", "text": part.text} for part in payload.parts],
        "contextId": payload.context_id,
        "messageId": payload.message_id,
        "metadata": {
            A2A_VACANT_METADATA_KEY: {
                "from_vacant_id": envelope.from_vacant_id.hex(),
                "to_vacant_id": envelope.to_vacant_id.hex(),
                "sequence_no": envelope.sequence_no,
                "timestamp": members.iso_of_utc(envelope.timestamp),
                "prev_envelope_hash": envelope.prev_envelope_hash.hex(),
                "idempotency_key": envelope.idempotency_key,
                "caller_signature": envelope.signature.hex(),
            }
        },
    }
    judged = payload.self_eval
    if judged is not None:
        message["selfEval"] = {name: getattr(judged, name) for name in judged.__struct_fields__}
    return message


def from_a2a_jsonrpc(payload: Any) -> VacantEnvelope:
    """The envelope in the body of a request. `jsonrpc` and `method` are the door's to check."""
    try:
        message = convert(payload, _Request).params.message
    except ValidationError as error:
        raise _fault(error) from None
    return _envelope(message)


def from_a2a_result(body: Any) -> VacantEnvelope:
    """The envelope in the body of a reply."""
    try:
        message = convert(body, _Reply).result.message
    except ValidationError as error:
        raise EnvelopeFormatError(
            f"transport response is not a valid A2A result: {_fault(error).message}"
        ) from None
    return _envelope(message)


def from_a2a_message(message: Any) -> VacantEnvelope:
    try:
        return _envelope(convert(message, _Message))
    except ValidationError as error:
        raise _fault(error) from None


class _Metadata(Struct, gc=False):
    from_vacant_id: str
    to_vacant_id: str
    sequence_no: Annotated[int, Meta(ge=1, le=LAST_SEQUENCE_NO)]
    timestamp: str
    prev_envelope_hash: str
    caller_signature: str
    idempotency_key: str = ""


class _Extensions(Struct, gc=False):
    vacant: _Metadata = field(name=A2A_VACANT_METADATA_KEY)


class _Message(Struct, rename="camel", gc=False):
    metadata: _Extensions
    role: Role = "ROLE_USER"
    parts: tuple[A2APart, ...] = ()
    context_id: str | None = None
    message_id: str | None = None
    self_eval: SelfEval | UnsetType | None = UNSET


class _Holder(Struct, gc=False):
    message: _Message


class _Request(Struct, gc=False):
    params: _Holder


class _Reply(Struct, gc=False):
    result: _Holder


def _envelope(message: _Message) -> VacantEnvelope:
    metadata = message.metadata.vacant
    judged = message.self_eval
    payload = A2AMessage(
        message.role,
        message.parts,
        message.context_id,
        message.message_id,
        None if judged is UNSET else judged,
    )
    try:
        envelope = VacantEnvelope(
            from_vacant_id=members.vacant_id(metadata.from_vacant_id, "from_vacant_id"),
            to_vacant_id=members.vacant_id(metadata.to_vacant_id, "to_vacant_id"),
            payload=payload,
            sequence_no=metadata.sequence_no,
            timestamp=members.read_time(metadata.timestamp),
            prev_envelope_hash=members.hex_bytes(metadata.prev_envelope_hash, "prev_envelope_hash"),
            idempotency_key=metadata.idempotency_key,
            signature=members.hex_bytes(metadata.caller_signature, "caller_signature"),
            dialect="seed" if judged is UNSET else "selfeval",
        )
    except EnvelopeFormatError as reason:
        raise EnvelopeFormatError(f"invalid metadata: {reason.message}") from None
    # What cannot be signed was not signed: half a surrogate pair is told here and not as a bad signature.
    envelope.signing_payload()
    return envelope


def _fault(error: ValidationError) -> EnvelopeFormatError:
    """The contract's words for what msgspec found."""
    missing = _MISSING.match(str(error))
    if missing is not None:
        return EnvelopeFormatError(f"missing field: '{missing[1]}'")
    place = str(error).rpartition(" - at ")[2]
    room = "metadata" if ".metadata" in place else "message"
    return EnvelopeFormatError(f"invalid {room}: {members.short_fault(error)}")
