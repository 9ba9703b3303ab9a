"""The capability card, called halo on the wire: what a vacant offers, on what, and where (envelope 1.5).

The signing payload is five byte strings joined by 0x1F, which is not escaped: a text or an endpoint that holds 0x1F can
be read as other fields under the same signature. Codec and signature stay as the contract says; code that publishes,
lists or calls must use `refuse_control_characters` first.

As bytes a card is the sorted form with the signature in hex. Reading follows the contract's order: JSON, object,
version, fields. The version is read before anything that a later version might change; only version 1 is known. What
the contract tolerates is tolerated: `halo_version` as "1", 1.9 or true, a `capability_text` that is no string, missing
`endpoint`, `signature` and `substrate_spec`, and unknown members, which are dropped. The signature is not verified.

JSON itself is read strictly: NaN, a key that is there twice and half a surrogate pair have no signed form that two
readers would agree on.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from comity.envelopes.protocol.envelope import digest
from comity.envelopes.protocol.errors import (
    EnvelopeFormatError,
    InvalidEventError,
    UnsupportedHaloVersionError,
)
from comity.envelopes.protocol.message import utc_iso
from comity.identity.protocol.keys import AnySigningKey, VacantId, own_key, verify
from comity.wire import strict_json
from comity.wire.canonical import envelope_form
from comity.wire.errors import MalformedError

MIN_SUPPORTED_HALO_VERSION = 1
MAX_SUPPORTED_HALO_VERSION = 1
DEFAULT_HALO_VERSION = 1
SEPARATOR = b"\x1f"

_MAX_HALO_VERSION = 2**64 - 1
_CONTROL = re.compile("[\x00-\x1f]")
_CONTROL_BUT_LINES = re.compile("[\x00-\x08\x0b-\x1f]")  # and tabs


class SubstrateSpec(Struct, frozen=True):
    """What a vacant may think with, in its order of preference, and any JSON that goes with it.

    `allowed_substrates` may be given as a list; it is kept as a tuple.
    """

    allowed_substrates: tuple[str, ...] = ()
    policy: dict[str, Any] = {}

    def __post_init__(self) -> None:
        names: Any = self.allowed_substrates
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise EnvelopeFormatError("allowed_substrates must be a list of strings")
        if not all(name.strip() for name in names):
            raise EnvelopeFormatError("a name in allowed_substrates is blank; take it out")
        if not isinstance(self.policy, dict):
            raise EnvelopeFormatError("policy must be a JSON object")
        force_setattr(self, "allowed_substrates", tuple(names))

    def as_json(self) -> dict[str, Any]:
        return {"allowed_substrates": list(self.allowed_substrates), "policy": self.policy}

    def canonical_bytes(self) -> bytes:
        try:
            return envelope_form(self.as_json())
        except (MalformedError, TypeError) as reason:
            raise EnvelopeFormatError(f"substrate_spec cannot be signed: {reason}") from None


class CapabilityCard(Struct, frozen=True, kw_only=True):
    vacant_id: VacantId
    capability_text: str
    substrate_spec: SubstrateSpec = SubstrateSpec()
    halo_version: int = DEFAULT_HALO_VERSION
    endpoint: str | None = None
    signature: bytes = b""

    def __post_init__(self) -> None:
        if not isinstance(self.vacant_id, VacantId) or not isinstance(self.substrate_spec, SubstrateSpec):
            raise EnvelopeFormatError("vacant_id must be a VacantId and substrate_spec a SubstrateSpec")
        if not isinstance(self.capability_text, str):
            raise EnvelopeFormatError("capability_text must be a string")
        if self.endpoint is not None and not isinstance(self.endpoint, str):
            raise EnvelopeFormatError("endpoint must be a string or null")
        if type(self.halo_version) is not int or not 1 <= self.halo_version <= _MAX_HALO_VERSION:
            raise EnvelopeFormatError(f"halo_version must be an integer from 1 to {_MAX_HALO_VERSION}")
        if type(self.signature) is not bytes:
            raise EnvelopeFormatError("signature must be bytes; empty means unsigned")

    def signing_payload(self) -> bytes:
        """Return the bytes that are signed. An endpoint of null and an empty one sign alike."""
        try:
            text, endpoint = self.capability_text.encode(), (self.endpoint or "").encode()
        except UnicodeEncodeError:
            raise EnvelopeFormatError(
                "capability_text or endpoint holds half a surrogate pair; give whole characters"
            ) from None
        return SEPARATOR.join(
            (
                self.vacant_id.public,
                text,
                self.substrate_spec.canonical_bytes(),
                self.halo_version.to_bytes(8, "big"),
                endpoint,
            )
        )

    def card_hash(self) -> bytes:
        """Return the name of this card in a registry."""
        return digest(self.signing_payload())

    def signed(self, signing_key: AnySigningKey) -> Self:
        return replace(self, signature=own_key(signing_key).sign(self.signing_payload()))

    def verify(self) -> bool:
        """Return whether the vacant itself signed this card."""
        return verify(self.vacant_id.public, self.signing_payload(), self.signature)


def refuse_control_characters(card: CapabilityCard) -> None:
    """Refuse a card that could be read as another one, or that would act on a reader's terminal.

    Line feed and tab are legal in the text; no control character is in the endpoint.
    """
    for name, value, control in (
        ("capability_text", card.capability_text, _CONTROL_BUT_LINES),
        ("endpoint", card.endpoint or "", _CONTROL),
    ):
        found = control.search(value)
        if found is not None:
            raise EnvelopeFormatError(
                f"{name} of the card of {card.vacant_id.short()} holds the control character "
                f"0x{ord(found[0]):02X}; take it out and sign the card again"
            )


def serialize(card: CapabilityCard) -> bytes:
    card.signing_payload()  # what cannot be signed is refused here, by its name
    return envelope_form(
        {
            "capability_text": card.capability_text,
            "endpoint": card.endpoint,
            "halo_version": card.halo_version,
            "signature": card.signature.hex(),
            "substrate_spec": card.substrate_spec.as_json(),
            "vacant_id": card.vacant_id.hex(),
        }
    )


def deserialize(blob: bytes) -> CapabilityCard:
    """Return the card that `blob` spells. Raises EnvelopeFormatError or UnsupportedHaloVersionError."""
    try:
        members = strict_json.loads(blob, unique_keys=True)
    except MalformedError as reason:
        raise EnvelopeFormatError(f"the card is not JSON: {reason.message}") from None
    if not isinstance(members, dict):
        raise EnvelopeFormatError("the card must be a JSON object")
    version = _halo_version(members)
    try:
        owner, text = members["vacant_id"], members["capability_text"]
    except KeyError as missing:
        raise EnvelopeFormatError(f"missing field: {missing}") from None
    return CapabilityCard(
        vacant_id=_vacant_id(owner),
        capability_text=text if isinstance(text, str) else str(text),
        substrate_spec=_substrate_spec(members.get("substrate_spec")),
        halo_version=version,
        endpoint=members.get("endpoint"),
        signature=_signature(members.get("signature", "")),
    )


def _halo_version(members: dict[str, Any]) -> int:
    try:
        version = int(members.get("halo_version", DEFAULT_HALO_VERSION))
    except (TypeError, ValueError):
        raise EnvelopeFormatError("halo_version must be an integer") from None
    if not MIN_SUPPORTED_HALO_VERSION <= version <= MAX_SUPPORTED_HALO_VERSION:
        raise UnsupportedHaloVersionError(
            f"halo_version {str(version)[:20]} is not supported; publish the card as {DEFAULT_HALO_VERSION}"
        )
    return version


def _vacant_id(text: Any) -> VacantId:
    try:
        return VacantId.from_hex(text)
    except MalformedError as reason:
        raise EnvelopeFormatError(f"invalid vacant_id: {reason.message}") from None


def _substrate_spec(value: Any) -> SubstrateSpec:
    if value is None:
        return SubstrateSpec()
    if not isinstance(value, dict):
        raise EnvelopeFormatError("substrate_spec must be an object or null")
    return SubstrateSpec(value.get("allowed_substrates", ()), value.get("policy", {}))


def _signature(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise EnvelopeFormatError("signature must be a string of hexadecimal digits") from None


# The life cycle of a vacant (envelope 3): six states, seven events, and a table of all transitions.

DAY = 86_400.0


class RuntimeState(StrEnum):
    LOCAL = "LOCAL"
    ACTIVE = "ACTIVE"
    HIBERNATING = "HIBERNATING"
    STALE = "STALE"
    SUNK = "SUNK"
    ARCHIVED = "ARCHIVED"


VacantState = RuntimeState
"""The contract's other name for it."""


class LifecycleEvent(StrEnum):
    TICK = "TICK"
    HEARTBEAT = "HEARTBEAT"
    CALL_RECEIVED = "CALL_RECEIVED"
    REVIEW_RECEIVED = "REVIEW_RECEIVED"
    REVIVE_REQUESTED = "REVIVE_REQUESTED"
    ARCHIVE_REQUESTED = "ARCHIVE_REQUESTED"
    SPAWN_REQUESTED = "SPAWN_REQUESTED"


class Visibility(StrEnum):
    NONE = "NONE"
    RESTRICTED = "RESTRICTED"
    PUBLIC = "PUBLIC"


class Heartbeat(Struct, frozen=True):
    """What a living vacant writes into its logbook, and after how many seconds again."""

    kind: str
    payload: dict[str, Any]
    every: float


_S, _E = RuntimeState, LifecycleEvent

_CALLABLE = frozenset((_S.LOCAL, _S.ACTIVE))
_AWAKE = (_E.TICK, _E.HEARTBEAT, _E.CALL_RECEIVED, _E.REVIEW_RECEIVED, _E.SPAWN_REQUESTED)
_ASLEEP = (_E.TICK, _E.HEARTBEAT, _E.REVIEW_RECEIVED)

TRANSITIONS: Mapping[tuple[RuntimeState, LifecycleEvent], RuntimeState] = MappingProxyType(
    {(state, event): state for state in (_S.LOCAL, _S.ACTIVE) for event in _AWAKE}
    | {(state, event): state for state in (_S.HIBERNATING, _S.STALE, _S.SUNK) for event in _ASLEEP}
    | {
        (_S.HIBERNATING, _E.REVIVE_REQUESTED): _S.ACTIVE,
        (_S.STALE, _E.REVIVE_REQUESTED): _S.ACTIVE,
        (_S.SUNK, _E.ARCHIVE_REQUESTED): _S.ARCHIVED,
        (_S.ARCHIVED, _E.TICK): _S.ARCHIVED,
    }
)

# What time alone does: the state that another one turns into, and after how many seconds.
_TURNS = {_S.HIBERNATING: (_S.STALE, 30 * DAY), _S.SUNK: (_S.ARCHIVED, 180 * DAY)}


def transition(state: RuntimeState, event: LifecycleEvent) -> RuntimeState:
    """Return the state after `event`."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvalidEventError(f"event {event} is not valid in state {state}") from None


def aged(state: RuntimeState, seconds: float) -> RuntimeState:
    """Return the state of a vacant that has been in `state` for so many seconds."""
    older, limit = _TURNS.get(state, (state, 0.0))
    return older if seconds >= limit else state


def can_be_called(state: str) -> bool:
    return state in _CALLABLE


def is_runnable(state: RuntimeState) -> bool:
    return can_be_called(state)


def is_gone(state: str) -> bool:
    """Return whether calls are refused for good, and not only for now."""
    return state in {_S.SUNK, _S.ARCHIVED}


def can_review(state: RuntimeState) -> bool:
    return state in {_S.LOCAL, _S.ACTIVE, _S.HIBERNATING}


def requires_revive(state: RuntimeState) -> bool:
    return state is _S.STALE


def effective_visibility(state: RuntimeState, stored: Visibility) -> Visibility:
    """Return who may see a card: a local vacant is never discoverable, whatever is stored for it."""
    return Visibility.NONE if state is _S.LOCAL else stored


def heartbeat(state: RuntimeState, *, last_active: datetime) -> Heartbeat | None:
    """Return what is due in `state`; nothing once a vacant is archived."""
    match state:
        case _S.LOCAL | _S.ACTIVE:
            return Heartbeat("HEARTBEAT", {"liveness": True}, 60.0)
        case _S.HIBERNATING:
            dormant = {"liveness": "dormant", "last_active": utc_iso(last_active)}
            return Heartbeat("HEARTBEAT", dormant, DAY)
        case _S.STALE:
            return Heartbeat("HEARTBEAT", {"liveness": False, "awaiting_revive": True}, DAY)
        case _S.SUNK:
            return Heartbeat("HEARTBEAT_SUNK", {"liveness": False, "key_in_custody": True}, 600.0)
        case _S.ARCHIVED:
            return None
