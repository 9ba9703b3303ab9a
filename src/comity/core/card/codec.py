"""Cards as bytes: the sorted form with the signature in hex, and back (envelope 1.5).

Reading follows the contract's order: JSON, object, version, fields. The version is read before anything
that a later version might change; only version 1 is known. What the contract tolerates is tolerated:
`halo_version` as "1", 1.9 or true, a `capability_text` that is no string, missing `endpoint`,
`signature` and `substrate_spec`, and unknown members, which are dropped. The signature is not verified.

JSON itself is read strictly: NaN, a key that is there twice and half a surrogate pair have no signed
form that two readers would agree on.
"""

from typing import Any

from comity.core.card.card import (
    DEFAULT_HALO_VERSION,
    MAX_SUPPORTED_HALO_VERSION,
    MIN_SUPPORTED_HALO_VERSION,
    CapabilityCard,
    SubstrateSpec,
)
from comity.core.envelope.errors import EnvelopeFormatError, UnsupportedHaloVersionError
from comity.core.errors import MalformedError
from comity.core.identity.keys import VacantId
from comity.core.wire import strict_json
from comity.core.wire.canonical import envelope_form


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
    """The card that `blob` spells. Raises EnvelopeFormatError or UnsupportedHaloVersionError."""
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
