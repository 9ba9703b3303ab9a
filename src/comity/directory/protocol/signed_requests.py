"""What is signed for a directory: the event by which a card enters it, and who reads.

The event (envelope 1.6) is signed over eight fields joined by 0x1F; moments are milliseconds here, and payloads are hashed in
their ASCII form. Events are numbered per actor, without gaps, and chained: the hash of each covers the
hash of the one before, its signed bytes and its signature.
"""

import re
from collections.abc import Mapping
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.protocol.card import SEPARATOR, CapabilityCard, Visibility
from comity.envelopes.protocol.envelope import HASH_BYTES, digest
from comity.envelopes.protocol.errors import EnvelopeFormatError, SequenceMonotonicityError
from comity.identity.protocol.keys import AnySigningKey, SigningKey, VacantId, own_key, verify
from comity.wire.canonical import ascii_form, envelope_form
from comity.wire.errors import InvalidError, MalformedError, UnauthenticatedError
from comity.wire.machine import SKEW_SECONDS, clock_words

KIND = "register"

_U64 = 2**64


class RegisterEvent(Struct, frozen=True, kw_only=True):
    actor: VacantId
    payload_hash: bytes
    idempotency_key: str
    ts_ms: int
    actor_seq: int
    subject: VacantId | None = None
    signature: bytes = b""

    def __post_init__(self) -> None:
        if type(self.payload_hash) is not bytes or len(self.payload_hash) != HASH_BYTES:
            raise EnvelopeFormatError(f"payload_hash must be exactly {HASH_BYTES} bytes")
        if type(self.ts_ms) is not int or not 0 <= self.ts_ms < _U64:
            raise EnvelopeFormatError(f"event_ts_ms must be milliseconds from 0 to {_U64 - 1}")
        if type(self.actor_seq) is not int or not 1 <= self.actor_seq < _U64:
            raise EnvelopeFormatError(f"event_actor_seq must be an integer from 1 to {_U64 - 1}")

    def signing_payload(self) -> bytes:
        """Return the bytes that are signed. The actor stands there by name and, once more, as the key."""
        try:
            idempotency_key = self.idempotency_key.encode()
        except UnicodeEncodeError:
            raise EnvelopeFormatError("event_idempotency_key holds half a surrogate pair") from None
        return SEPARATOR.join(
            (
                KIND.encode(),
                self.actor.hex().encode(),
                self.subject.hex().encode() if self.subject else b"",
                self.payload_hash,
                idempotency_key,
                self.actor.public,
                self.ts_ms.to_bytes(8, "big"),
                self.actor_seq.to_bytes(8, "big"),
            )
        )

    def signed(self, signing_key: AnySigningKey) -> Self:
        return replace(self, signature=own_key(signing_key).sign(self.signing_payload()))

    def verify(self) -> bool:
        return verify(self.actor.public, self.signing_payload(), self.signature)

    def event_hash(self, previous: bytes) -> bytes:
        """Return the link after `previous`; the first event of a registry follows 32 zero bytes."""
        return digest(previous + self.signing_payload() + self.signature)


def registered_payload(
    *, vacant_id: VacantId, card_hash: bytes, halo_version: int, visibility: Visibility
) -> bytes:
    """Return what is registered, as the bytes whose hash the event carries."""
    return ascii_form(
        {
            "card_hash": card_hash.hex(),
            "halo_version": halo_version,
            "vacant_id": vacant_id.hex(),
            "visibility": str(visibility),
        }
    )


def register_event(
    card: CapabilityCard, visibility: Visibility, *, idempotency_key: str, ts_ms: int, actor_seq: int
) -> RegisterEvent:
    """Return the event that registers `card`, not signed yet."""
    payload = registered_payload(
        vacant_id=card.vacant_id,
        card_hash=card.card_hash(),
        halo_version=card.halo_version,
        visibility=visibility,
    )
    return RegisterEvent(
        actor=card.vacant_id,
        payload_hash=digest(payload),
        idempotency_key=idempotency_key,
        ts_ms=ts_ms,
        actor_seq=actor_seq,
    )


def check_actor_sequence(last: int, event: RegisterEvent) -> None:
    """Refuse an event that is not the next one of its actor; `last` is 0 for a new actor."""
    if event.actor_seq != last + 1:
        raise SequenceMonotonicityError(f"event_actor_seq must be {last + 1}, got {event.actor_seq}")


# How a reader of the directory proves who it is: three query parameters, signed with its own key.

WINDOW_SECONDS = SKEW_SECONDS

_HEADING = b"comity directory read 1\n"
_SIGNATURE = re.compile("[0-9a-fA-F]{128}")
_MILLISECONDS = re.compile("[0-9]{1,16}")


def prove_reader(key: SigningKey, *, host: str, path: str, now: float) -> dict[str, str]:
    """Return the query parameters that prove the owner of `key`; `host` is what the Host header will say."""
    ts_ms = int(now * 1000)
    signature = key.sign(_signed_bytes(key.vacant_id, host.lower(), path, ts_ms))
    return {
        "caller": key.vacant_id.hex(),
        "caller_ts_ms": str(ts_ms),
        "caller_signature_hex": signature.hex(),
    }


def proven_reader(query: Mapping[str, str], *, host: str, path: str, now: float) -> VacantId | None:
    """Return who reads: None for somebody who offers no proof, whatever it calls itself."""
    named = query.get("caller")
    caller = None if named is None else VacantId.from_hex(named)
    ts_text, signature = query.get("caller_ts_ms"), query.get("caller_signature_hex")
    if ts_text is None and signature is None:
        return None
    if caller is None or ts_text is None or signature is None:
        raise InvalidError("a proof is caller, caller_ts_ms and caller_signature_hex; send all three or none")
    if not _MILLISECONDS.fullmatch(ts_text):
        raise MalformedError("caller_ts_ms is a number of milliseconds since 1970")
    if not _SIGNATURE.fullmatch(signature):
        raise MalformedError("caller_signature_hex is written as 128 hexadecimal digits")
    skew = int(ts_text) / 1000 - now
    if abs(skew) > WINDOW_SECONDS:
        raise UnauthenticatedError(
            f"the proof is {abs(skew):.0f} seconds {'ahead of' if skew > 0 else 'behind'} this node's clock, "
            f"{WINDOW_SECONDS:.0f} are allowed: it says {clock_words(int(ts_text) // 1000)}, this node "
            f"{clock_words(now)}; sign a new one, and look at the clock"
        )
    signed = _signed_bytes(caller, host.lower(), path, int(ts_text))
    if not verify(caller.public, signed, bytes.fromhex(signature)):
        raise UnauthenticatedError(
            f"the proof is not signed by {caller.short()} for this host, path and moment"
        )
    return caller


def _signed_bytes(caller: VacantId, host: str, path: str, ts_ms: int) -> bytes:
    read = {"caller": caller.hex(), "host": host, "method": "GET", "path": path, "ts_ms": ts_ms}
    return _HEADING + envelope_form(read)
