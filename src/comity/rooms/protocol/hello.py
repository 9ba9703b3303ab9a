"""The sync hello: what a peer can, its key, its token, and between our own nodes who it is (peers 3.2, ruling 57).

Our own layer is announced in `capabilities.comity_v1`. Its signature is the node key's, over the room, the
stream id, the session's public key, moment and nonce of the envelope, and both ends' marks of the channel (DTLS
fingerprints as in SDP, the sender's first; on a websocket link both nonces). So a hello that was recorded or
relayed elsewhere proves nothing here.
"""

import base64
import binascii
import hmac
from typing import Any, Final

from msgspec import Struct
from nacl.bindings import crypto_scalarmult, crypto_scalarmult_base
from nacl.exceptions import CryptoError

from comity.envelopes.protocol.metadata import is_good
from comity.identity.protocol.keys import SIGNATURE_BYTES, SigningKey, VacantId, verify
from comity.rooms.protocol.channel import CONTROL_CHANNEL, FILE_CHANNEL, BridgeEnvelope
from comity.rooms.protocol.loose_values import is_stream_id
from comity.wire import strict_json
from comity.wire.canonical import jcs, js_stringify
from comity.wire.errors import ComityError, InvalidError, MalformedError, UnauthenticatedError

CAPABILITIES: Final = ("sync_v1", "file_transfer_v1", "state_v1", "resume_v1", "session_mac_v1")
LAYER: Final = "comity_v1"
WITNESS: Final = "witness"
FILE_HASHES: Final = ("sha256", "chunks")
_PROOF: Final = b"comity-hello-v1\n"
_MAX_CAPABILITIES: Final = 64
_MIN_MESSAGE: Final = 2048


class OwnLayer(Struct, frozen=True, kw_only=True):
    """What another of our nodes announced; `vacant_id` is proven. `witness` has signatures of its own."""

    vacant_id: VacantId
    lanes: tuple[str, ...]
    file_hash: tuple[str, ...]
    max_message: int
    witness: dict[str, Any] | None = None
    receipts: tuple[str, ...] = ()

    @property
    def takes_file_frames(self) -> bool:
        return FILE_CHANNEL in self.lanes and "chunks" in self.file_hash


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
    witness: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what we announce; `fingerprints` are ours and theirs."""
    proof = _proof(room, stream_id, public_key, ts, nonce, fingerprints)
    layer = {
        "id": key.vacant_id.hex(),
        "sig": key.sign(proof).hex(),
        "lanes": [CONTROL_CHANNEL, FILE_CHANNEL],
        "file_hash": list(FILE_HASHES),
        "max_message": max_message,
        "receipts": ["read"],
    }
    return layer if witness is None else {**layer, WITNESS: witness}


def read_hello(payload: dict[str, Any]) -> HelloPayload:
    """Lenient, as the reference: capabilities that are not true are not there. Raise InvalidError."""
    offered = payload.get("capabilities")
    if offered is not None and type(offered) is not dict:
        raise InvalidError("capabilities must be an object")
    offered = offered or {}
    if len(offered) > _MAX_CAPABILITIES:
        raise InvalidError(f"a hello names at most {_MAX_CAPABILITIES} capabilities")
    public_key = payload.get("public_key")
    if public_key is not None and not isinstance(public_key, str):
        raise InvalidError("public_key must be a string")
    layer = offered.get(LAYER)
    return HelloPayload(
        capabilities={
            name: value for name, value in offered.items() if isinstance(value, bool) and is_stream_id(name)
        },
        public_key=public_key or None,
        join_token=payload.get("join_token"),
        layer=layer if type(layer) is dict else None,
    )


def prove_layer(
    hello: HelloPayload, envelope: BridgeEnvelope, *, room: str, fingerprints: tuple[str, str] | None
) -> OwnLayer:
    """Return the layer of the sender, proven; `fingerprints` are ours and theirs. Raise InvalidError."""
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
    if type(most) is not int or most < _MIN_MESSAGE:
        raise InvalidError(f"max_message must be an integer of {_MIN_MESSAGE} or more")
    return OwnLayer(
        vacant_id=vacant_id,
        lanes=_names(layer.get("lanes")),
        file_hash=_names(layer.get("file_hash")),
        max_message=most,
        witness=layer[WITNESS] if is_good(WITNESS, layer.get(WITNESS)) else None,
        receipts=_names(layer.get("receipts")),
    )


def _proof(
    room: str, stream_id: str, public_key: str, ts: float, nonce: str, fingerprints: tuple[str, str]
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


# Join tokens (peers 3.4, ruling 38): who may join a room, for how long, under which stream id.


REQUIRED: Final = "join token required"
_MAX_LENGTH: Final = 8192


class JoinTokenError(UnauthenticatedError):
    """A join token that does not open this room; its sentence is the reason that the refused peer gets. `expired`: when
    it did, in milliseconds since 1970, if that is why.
    """

    def __init__(self, message: str, expired: float | None = None) -> None:
        super().__init__(message)
        self.expired = expired


def mint(secret: str, *, room: str, stream_id: str, exp: int, nonce: str, **more: int | str) -> str:
    """`exp` is in milliseconds since 1970; `nonce` is `join_` and 8 hexadecimal digits."""
    claims = {"room": room, "stream_id": stream_id, "exp": exp, "nonce": nonce, **more}
    body = _base64url(js_stringify(claims))
    return f"{body}.{_signature(secret, body)}"


def verify_claims(token: Any, secret: str) -> dict[str, Any]:
    """Return the claims of a token that the secret signed."""
    body, signature = _parts(token)
    expected = _signature(secret, body)
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass")):
        raise JoinTokenError("invalid token signature")
    return _claims(body)


def unproven_claims(token: Any) -> dict[str, Any]:
    """Return what a token says, to know which secret it has to be verified with; nothing may follow from them alone."""
    if token in (None, ""):
        raise JoinTokenError(REQUIRED)
    return _claims(_parts(token)[0])


def _parts(token: Any) -> list[str]:
    if not isinstance(token, str) or not token:
        raise JoinTokenError("token must be a non-empty string")
    parts = token.split(".") if len(token) <= _MAX_LENGTH else []
    if len(parts) != 2:
        raise JoinTokenError("invalid token format")
    return parts


def _claims(body: str) -> dict[str, Any]:
    try:
        claims = strict_json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, binascii.Error, MalformedError):
        raise JoinTokenError("invalid token payload: it is not base64url of JSON") from None
    if type(claims) is not dict:
        raise JoinTokenError("invalid token payload: it must be an object")
    exp = claims.get("exp", 0)
    if isinstance(exp, bool) or not isinstance(exp, int | float):
        raise JoinTokenError("invalid token payload: exp must be a number")
    return claims


def admit(
    token: Any, secret: str, *, room: str, stream_id: str | None, now_ms: float, latest: float | None = None
) -> dict[str, Any]:
    """Return the claims of a token that opens `room` to `stream_id` now. `latest`: a token must not outlive this."""
    if token is None or token == "":
        raise JoinTokenError(REQUIRED)
    claims = verify_claims(token, secret)
    _check_place(claims, "join token", room, stream_id)
    exp = claims.get("exp")
    if exp is not None and now_ms > exp:
        raise JoinTokenError("join token expired", exp)
    if latest is not None and (exp is None or exp > latest):
        raise JoinTokenError("join token outlives the invite")
    return claims


def check_own(token: str, secret: str, *, room: str, stream_id: str, now_ms: float) -> None:
    """The token that we are about to show ourselves (peers 1.3)."""
    try:
        claims = verify_claims(token, secret)
    except JoinTokenError as why:
        raise JoinTokenError(f"invalid join_token: {why.message}") from None
    _check_place(claims, "join_token", room, stream_id)
    if 0 < claims.get("exp", 0) < now_ms:
        raise JoinTokenError("join_token expired", claims["exp"])


def _check_place(claims: dict[str, Any], what: str, room: str, stream_id: str | None) -> None:
    if claims.get("room") is not None and claims["room"] != room:
        raise JoinTokenError(f"{what} room mismatch")
    if claims.get("stream_id") is not None and stream_id is not None and claims["stream_id"] != stream_id:
        raise JoinTokenError(f"{what} stream mismatch")


def _signature(secret: str, body: str) -> str:
    return _base64url(
        hmac.digest(secret.encode("utf-8", "surrogatepass"), body.encode("utf-8", "surrogatepass"), "sha256")
    )


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# The X25519 keys of a session, as the reference writes them (peers 3.3).


KEY_BYTES: Final = 32
_SPKI: Final = bytes.fromhex("302a300506032b656e032100")
_TEXT_LENGTH: Final = 60


class SessionKeys:
    """`secret` is 32 random bytes; it is never shown."""

    __slots__ = ("_secret", "public_key")

    public_key: str

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise InvalidError(f"a session key is made from exactly {KEY_BYTES} bytes")
        self._secret = secret
        self.public_key = base64.b64encode(_SPKI + crypto_scalarmult_base(secret)).decode()

    def shared_with(self, public_key: Any) -> bytes:
        """Return the MAC key of this session and the owner of `public_key`."""
        try:
            return crypto_scalarmult(self._secret, _read_public(public_key))
        except CryptoError:
            raise InvalidError("public_key is a point of small order") from None

    def __repr__(self) -> str:
        return f"SessionKeys({self.public_key})"

    def __reduce__(self) -> Any:
        raise TypeError("session keys are not pickled or copied")


def _read_public(text: Any) -> bytes:
    try:
        if isinstance(text, str) and len(text) == _TEXT_LENGTH:
            spki = base64.b64decode(text, validate=True)
            if len(spki) == len(_SPKI) + KEY_BYTES and spki.startswith(_SPKI):
                return spki[len(_SPKI) :]
    except (ValueError, binascii.Error):
        pass
    raise InvalidError("public_key must be the base64 of an X25519 key in SPKI form")
