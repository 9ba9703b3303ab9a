"""The sync hello: what a peer can, its key, its token, and between our own nodes who it is (peers 3.2, ruling 57).

Our own layer is announced in `capabilities.comity_v1`. Its signature is the node key's, over the room, the
stream id, the session's public key, moment and nonce of the envelope, and both ends' marks of the channel (DTLS
fingerprints as in SDP, the sender's first; on a websocket link both nonces). So a hello that was recorded or
relayed elsewhere proves nothing here.
"""

from typing import Any, Final

from msgspec import Struct

from comity.identity.protocol.keys import SIGNATURE_BYTES, SigningKey, VacantId, verify
from comity.rooms.protocol.channel import CONTROL_LANE, FILE_LANE, BridgeEnvelope
from comity.wire.canonical import jcs
from comity.wire.errors import ComityError, InvalidError

CAPABILITIES: Final = ("sync_v1", "file_transfer_v1", "state_v1", "resume_v1", "session_mac_v1")
LAYER: Final = "comity_v1"
FILE_HASHES: Final = ("sha256", "chunks")
_PROOF: Final = b"comity-hello-v1\n"
_MOST_CAPABILITIES: Final = 64
_LEAST_MESSAGE: Final = 2048


class OwnLayer(Struct, frozen=True, kw_only=True):
    """What another of our nodes announced; `vacant_id` is proven."""

    vacant_id: VacantId
    lanes: tuple[str, ...]
    file_hash: tuple[str, ...]
    max_message: int

    @property
    def takes_file_frames(self) -> bool:
        return FILE_LANE in self.lanes and "chunks" in self.file_hash


class HelloPayload(Struct, frozen=True, kw_only=True):
    """`layer` is as it was sent; `prove_layer` says whether it holds."""

    capabilities: dict[str, bool]
    public_key: str | None
    join_token: Any
    layer: dict[str, Any] | None


def hello_payload(public_key: str, join_token: str | None, layer: dict[str, Any] | None) -> dict[str, Any]:
    capabilities: dict[str, Any] = dict.fromkeys(CAPABILITIES, True)
    if layer is not None:
        capabilities[LAYER] = layer
    return {"capabilities": capabilities, "public_key": public_key, "join_token": join_token}


def own_layer(
    key: SigningKey,
    *,
    room: str,
    stream_id: str,
    public_key: str,
    ts: int,
    nonce: str,
    fingerprints: tuple[str, str],
    max_message: int,
) -> dict[str, Any]:
    """What we announce; `fingerprints` are ours and theirs."""
    proof = _proof(room, stream_id, public_key, ts, nonce, fingerprints)
    return {
        "id": key.vacant_id.hex(),
        "sig": key.sign(proof).hex(),
        "lanes": [CONTROL_LANE, FILE_LANE],
        "file_hash": list(FILE_HASHES),
        "max_message": max_message,
    }


def read_hello(payload: dict[str, Any]) -> HelloPayload:
    """Lenient, as the reference: capabilities that are not true are not there. Raises InvalidError."""
    offered = payload.get("capabilities")
    if offered is not None and type(offered) is not dict:
        raise InvalidError("capabilities must be an object")
    offered = offered or {}
    if len(offered) > _MOST_CAPABILITIES:
        raise InvalidError(f"a hello names at most {_MOST_CAPABILITIES} capabilities")
    public_key = payload.get("public_key")
    if public_key is not None and not isinstance(public_key, str):
        raise InvalidError("public_key must be a string")
    layer = offered.get(LAYER)
    return HelloPayload(
        capabilities={name: value for name, value in offered.items() if isinstance(value, bool)},
        public_key=public_key or None,
        join_token=payload.get("join_token"),
        layer=layer if type(layer) is dict else None,
    )


def prove_layer(
    hello: HelloPayload, envelope: BridgeEnvelope, *, room: str, fingerprints: tuple[str, str] | None
) -> OwnLayer:
    """The layer of the sender, proven; `fingerprints` are ours and theirs. Raises InvalidError."""
    layer = hello.layer
    assert layer is not None
    if fingerprints is None:
        raise InvalidError("the identity proof cannot be checked: the link has no marks to bind it to")
    ours, theirs = fingerprints
    try:
        vacant_id = VacantId.from_hex(layer.get("id", ""))
        signature = bytes.fromhex(layer.get("sig", ""))
        proof = _proof(
            room, envelope.from_stream_id, hello.public_key or "", envelope.ts, envelope.nonce, (theirs, ours)
        )
    except (ComityError, TypeError, ValueError):
        raise InvalidError("the identity proof is malformed") from None
    if len(signature) != SIGNATURE_BYTES or not verify(vacant_id.public, proof, signature):
        raise InvalidError("the identity proof does not hold on this channel")
    most = layer.get("max_message")
    if type(most) is not int or most < _LEAST_MESSAGE:
        raise InvalidError(f"max_message must be an integer of {_LEAST_MESSAGE} or more")
    return OwnLayer(
        vacant_id=vacant_id,
        lanes=_names(layer.get("lanes")),
        file_hash=_names(layer.get("file_hash")),
        max_message=most,
    )


def _proof(
    room: str,
    stream_id: str,
    public_key: str,
    ts: float,
    nonce: str,
    fingerprints: tuple[str, str],
) -> bytes:
    members = {
        "room": room,
        "from_stream_id": stream_id,
        "public_key": public_key,
        "ts": ts,
        "nonce": nonce,
        "fingerprints": list(fingerprints),
    }
    return _PROOF + jcs(members)


def _names(value: Any) -> tuple[str, ...]:
    if type(value) is not list:
        return ()
    return tuple(name for name in value[:16] if isinstance(name, str))
