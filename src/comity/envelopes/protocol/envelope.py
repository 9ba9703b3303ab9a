"""The envelope: who says what to whom, as which link of their chain, under which signature.

- The signing payload is the sorted form of seven members (envelope 1.2); the signature is not among them. The hash of
  that payload names the envelope in its chain.
- Two dialects sign one member differently: `selfeval` always signs `payload.selfEval`, `seed` never does (envelope
  1.3). Payload, hash and reply belong to the dialect of the signature.
- Payload and hash are worked out once for each envelope: an envelope does not change.
- Which dialect a peer speaks is known by its signature (envelope 0). A message that shows `selfEval` is of the
  dialect `selfeval` and of no other. A message without it is tried as `seed`, then as `selfeval` with null. Whatever
  verified is what the peer speaks: its chain is hashed, and its reply written, in the same dialect.
- A reply says which request it answers: its signed idempotency key is `re:` and the request's hash. The contract
  leaves replies unbound, so a key without that beginning says nothing; whether that is good enough is for the caller
  to decide.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal, Self, get_args

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, field
from msgspec.structs import asdict, force_setattr, replace

from comity.envelopes.protocol import message as members
from comity.envelopes.protocol.errors import EnvelopeFormatError, EnvelopeSignatureError
from comity.envelopes.protocol.message import A2AMessage, A2APart, Role, SelfEval, iso_of_utc, utc
from comity.identity.protocol.keys import AnyPublicKey, AnySigningKey, VacantId, own_key, public_bytes, verify
from comity.wire.canonical import envelope_form, envelope_form_of_text
from comity.wire.errors import MalformedError

Dialect = Literal["seed", "selfeval"]

DIALECTS: tuple[str, ...] = get_args(Dialect)

HASH_BYTES = 32
EMPTY_PREV_HASH = bytes(HASH_BYTES)
LAST_SEQUENCE_NO = 2**63 - 1


def digest(data: bytes) -> bytes:
    """Return the contract's one hash: BLAKE2b of 32 bytes, without key, salt or person."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


class VacantEnvelope(Struct, frozen=True, kw_only=True, dict=True):
    from_vacant_id: VacantId
    to_vacant_id: VacantId
    payload: A2AMessage
    sequence_no: int
    timestamp: datetime
    prev_envelope_hash: bytes = EMPTY_PREV_HASH
    idempotency_key: str = ""
    signature: bytes = b""
    dialect: Dialect = "seed"

    def __post_init__(self) -> None:
        if not isinstance(self.from_vacant_id, VacantId) or not isinstance(self.to_vacant_id, VacantId):
            raise EnvelopeFormatError("from_vacant_id and to_vacant_id must each be a VacantId")
        if not isinstance(self.payload, A2AMessage):
            raise EnvelopeFormatError("payload must be an A2AMessage")
        if type(self.sequence_no) is not int or not 1 <= self.sequence_no <= LAST_SEQUENCE_NO:
            raise EnvelopeFormatError(f"sequence_no must be an integer from 1 to {LAST_SEQUENCE_NO}")
        if type(self.prev_envelope_hash) is not bytes or len(self.prev_envelope_hash) != HASH_BYTES:
            raise EnvelopeFormatError(f"prev_envelope_hash must be exactly {HASH_BYTES} bytes")
        if not isinstance(self.idempotency_key, str):
            raise EnvelopeFormatError("idempotency_key must be a string; leave it out or send an empty one")
        if type(self.signature) is not bytes:
            raise EnvelopeFormatError("signature must be bytes; empty means unsigned")
        _check_dialect(self.dialect, self.payload)
        if not isinstance(self.timestamp, datetime):
            raise EnvelopeFormatError("timestamp must be a datetime; without an offset it is taken as UTC")
        force_setattr(self, "timestamp", utc(self.timestamp))

    @property
    def moment(self) -> str:
        """Return the timestamp as it is written."""
        written: str | None = self.__dict__.get("moment")
        if written is None:
            written = self.__dict__["moment"] = iso_of_utc(self.timestamp)
        return written

    def signing_dict(self) -> dict[str, Any]:
        """Return the seven members that are signed."""
        payload = self.payload.canonical_dict()
        if self.dialect == "selfeval":
            payload.setdefault("selfEval", None)
        return {
            "from": self.from_vacant_id.hex(),
            "idem": self.idempotency_key,
            "payload": payload,
            "prev": self.prev_envelope_hash.hex(),
            "seq": self.sequence_no,
            "to": self.to_vacant_id.hex(),
            "ts": self.moment,
        }

    def signing_payload(self) -> bytes:
        """Return the bytes that are signed."""
        form: bytes | None = self.__dict__.get("form")
        if form is None:
            try:
                # only a self-evaluation holds numbers with a fraction
                spell = envelope_form_of_text if self.payload.self_eval is None else envelope_form
                form = self.__dict__["form"] = spell(self.signing_dict())
            except MalformedError as reason:
                raise EnvelopeFormatError(f"the envelope cannot be signed: {reason.message}") from None
        return form

    def compute_hash(self) -> bytes:
        """Return what the next envelope of the chain names as its `prev_envelope_hash`."""
        hashed: bytes | None = self.__dict__.get("hash")
        if hashed is None:
            hashed = self.__dict__["hash"] = digest(self.signing_payload())
        return hashed

    def signed(self, signing_key: AnySigningKey) -> Self:
        envelope = replace(self, signature=own_key(signing_key).sign(self.signing_payload()))
        # The signature is not part of what is signed: whatever was worked out stays true.
        envelope.__dict__.update(self.__dict__)
        return envelope

    def verify(self, pubkey: AnyPublicKey | None = None) -> bool:
        """Return whether the owner of `pubkey` signed this; the claimed sender when none is given."""
        signer = self.from_vacant_id if pubkey is None else pubkey
        return verify(public_bytes(signer), self.signing_payload(), self.signature)

    def verify_or_raise(self, pubkey: AnyPublicKey | None = None) -> None:
        if not self.verify(pubkey):
            raise EnvelopeSignatureError(
                f"envelope signature did not verify for sender {self.from_vacant_id.short()}"
            )

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return this envelope with other values. The signature stays, and verifies only if it still fits."""
        return replace(self, **(update or {}))

    def model_dump(self) -> dict[str, Any]:
        """Return the fields by name, the payload as one more dict; ids, bytes and the moment stay what they are."""
        return {**asdict(self), "payload": self.payload.model_dump()}


Behaviour = Callable[[VacantEnvelope], Awaitable[A2AMessage]]
"""What answers an envelope: it returns the message of the reply."""


def signed_envelope(
    *,
    from_vid: VacantId,
    to_vid: VacantId,
    payload: A2AMessage,
    sequence_no: int,
    prev_envelope_hash: bytes,
    idempotency_key: str,
    timestamp: datetime,
    signing_key: AnySigningKey,
    dialect: Dialect = "seed",
) -> VacantEnvelope:
    """Return a new envelope under the signature of `signing_key`."""
    key = own_key(signing_key)
    envelope = VacantEnvelope(
        from_vacant_id=from_vid,
        to_vacant_id=to_vid,
        payload=payload,
        sequence_no=sequence_no,
        timestamp=timestamp,
        prev_envelope_hash=prev_envelope_hash,
        idempotency_key=idempotency_key,
        dialect=dialect,
    )
    # the envelope is not shared yet, so it is changed in place
    force_setattr(envelope, "signature", key.sign(envelope.signing_payload()))
    return envelope


def _check_dialect(dialect: Dialect, payload: A2AMessage) -> None:
    if dialect not in DIALECTS:
        raise EnvelopeFormatError("dialect must be 'seed' or 'selfeval'")
    if dialect == "seed" and payload.self_eval is not None:
        raise EnvelopeFormatError(
            "the dialect 'seed' does not sign self_eval; use the dialect 'selfeval' or leave it out"
        )


def recognise(envelope: VacantEnvelope, public: AnyPublicKey | None = None) -> VacantEnvelope | None:
    """Return the envelope in the dialect in which its signature is valid; None if it is valid in no dialect."""
    if envelope.verify(public):
        return envelope
    if envelope.dialect == "seed":
        other = replace(envelope, dialect="selfeval")
        if other.verify(public):
            return other
    return None


def spoken_in(dialect: Dialect, message: A2AMessage) -> A2AMessage:
    """Return the message as far as the dialect can carry it: `seed` knows no self-evaluation."""
    if dialect == "selfeval" or message.self_eval is None:
        return message
    return replace(message, self_eval=None)


_PREFIX = "re:"


def reply_key(request: VacantEnvelope) -> str:
    return _PREFIX + request.compute_hash().hex()


def reply_is_bound(reply: VacantEnvelope, request: VacantEnvelope) -> bool | None:
    """Return True if it answers `request`, False if it answers another one, None if it does not say."""
    if not reply.idempotency_key.startswith(_PREFIX):
        return None
    return reply.idempotency_key == reply_key(request)


# The JSON-RPC carrier (envelope 1.4): envelopes as requests, replies and bare messages, and back.

A2A_VACANT_METADATA_KEY: Final = "urn:vacant:v1"
METHOD: Final = "message/send"
MESSAGE_SEND_PATH: Final = "/a2a/message/send"

_MISSING = re.compile(r"Object missing required field `([^`]+)`")


def to_a2a_jsonrpc(env: VacantEnvelope) -> dict[str, Any]:
    """Return the body of a request. Its id is the idempotency key, or the envelope's hash where that is empty."""
    return {
        "jsonrpc": "2.0",
        "id": env.idempotency_key or env.compute_hash().hex(),
        "method": METHOD,
        "params": {"message": to_a2a_message(env)},
    }


def to_a2a_result(envelope: VacantEnvelope, request_id: Any) -> dict[str, Any]:
    """Return the body of a reply; `request_id` is the id of the request, None if there was none."""
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
                "timestamp": envelope.moment,
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


def from_a2a_jsonrpc(payload: Any = UNSET, *, body: Any = UNSET) -> VacantEnvelope:
    """Return the envelope in the body of a request. `jsonrpc` and `method` are the door's to check.

    The contract's text calls the argument `payload`, and the reference `body`: it is taken under either name.
    """
    if (payload is UNSET) is (body is UNSET):
        raise TypeError(
            "from_a2a_jsonrpc takes one argument: the JSON object of a request, as payload or body"
        )
    try:
        message = convert(body if payload is UNSET else payload, _Request).params.message
    except ValidationError as error:
        raise _fault(error) from None
    return _envelope(message)


def from_a2a_result(body: Any) -> VacantEnvelope:
    """Return the envelope in the body of a reply."""
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
    # What cannot be signed was not signed: half a surrogate pair is refused here, and not as a bad signature.
    envelope.signing_payload()
    return envelope


def _fault(error: ValidationError) -> EnvelopeFormatError:
    """Return the contract's words for what msgspec found."""
    missing = _MISSING.match(str(error))
    if missing is not None:
        return EnvelopeFormatError(f"missing field: '{missing[1]}'")
    place = str(error).rpartition(" - at ")[2]
    place_name = "metadata" if ".metadata" in place else "message"
    return EnvelopeFormatError(f"invalid {place_name}: {members.short_fault(error)}")
