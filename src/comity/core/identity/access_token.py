"""OAuth access tokens that are signed JWTs, judged by the keys of one authorization server (RFC 9068, RFC 8725).

- The key decides the algorithm, never the token: RSA keys verify RS256, P-256 keys ES256, Ed25519 keys EdDSA.
- Issuer and audience must be exactly ours. A token for somebody else is refused, however good its signature.
- Clocks may differ by a minute.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from comity.core.errors import ComityError, MalformedError, UnauthenticatedError
from comity.core.wire import strict_json

LEEWAY: Final = 60.0
LONGEST: Final = 16_384
MOST_KEYS: Final = 64
_SMALLEST_RSA: Final = 2048
_ALGORITHM_OF: Final = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}


class AccessToken(Struct, frozen=True, kw_only=True):
    issuer: str
    subject: str
    scopes: frozenset[str] = frozenset()


class UnknownKeyError(UnauthenticatedError):
    """Signed with a key that is not in the set; the set may have grown since."""

    code = "unknown_key"


class SigningKeys:
    """A JSON Web Key Set, as far as its keys can be used here."""

    def __init__(self, jwks: Any) -> None:
        listed = jwks.get("keys") if isinstance(jwks, Mapping) else None
        if not isinstance(listed, list):
            raise MalformedError("a key set is an object with a list of keys under `keys`")
        self._keys: dict[str | None, tuple[str, Any]] = {}
        for one in listed[:MOST_KEYS]:
            key = _public_key(one) if isinstance(one, Mapping) and one.get("use", "sig") == "sig" else None
            if key is not None:
                id_ = one.get("kid")
                self._keys[id_ if isinstance(id_, str) else None] = _ALGORITHM_OF[one["kty"]], key

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, id_: Any) -> tuple[str, Any]:
        if id_ is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        found = self._keys.get(id_) if isinstance(id_, str | None) else None
        if found is None:
            raise UnknownKeyError("the access token is signed with a key that its issuer does not publish")
        return found


def read_access_token(
    token: str, keys: SigningKeys, *, issuer: str, audience: str, now: float
) -> AccessToken:
    """Raises UnauthenticatedError for a token that is not good here."""
    if len(token) > LONGEST:
        raise _refused("it is too long")
    parts = token.split(".")
    try:
        head, claims = (strict_json.loads(_bytes(part), unique_keys=True) for part in parts[:2])
        signature = _bytes(parts[2])
    except (MalformedError, ValueError, IndexError):
        raise _refused("it is no signed JWT") from None
    if len(parts) != 3 or not isinstance(head, dict) or not isinstance(claims, dict) or "crit" in head:
        raise _refused("it is no signed JWT")
    algorithm, key = keys.find(head.get("kid"))
    if head.get("alg") != algorithm or not _verifies(algorithm, key, signature, ".".join(parts[:2]).encode()):
        raise _refused("its signature does not verify")
    if claims.get("iss") != issuer:
        raise _refused("it is of another issuer")
    meant = claims.get("aud")
    if audience not in (meant if isinstance(meant, list) else [meant]):
        raise _refused("it is meant for somebody else; ask for one for this resource")
    if not _number(claims.get("exp")) or now - LEEWAY > claims["exp"]:
        raise _refused("it has expired; get a new one")
    if "nbf" in claims and (not _number(claims["nbf"]) or now + LEEWAY < claims["nbf"]):
        raise _refused("it is not good yet")
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise _refused("it names no subject")
    scope = claims.get("scope", "")
    return AccessToken(
        issuer=issuer,
        subject=claims["sub"],
        scopes=frozenset(scope.split()) if isinstance(scope, str) else frozenset(),
    )


def _verifies(algorithm: str, key: Any, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    try:
        if algorithm == "RS256":
            key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        elif algorithm == "ES256":
            if len(signature) != 64:
                return False
            pair = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
            key.verify(encode_dss_signature(*pair), signed, ec.ECDSA(hashes.SHA256()))
        else:
            key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _public_key(jwk: Mapping[str, Any]) -> Any:
    """None for a key of another kind, or one too weak to be used."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        match jwk.get("kty"), jwk.get("crv"):
            case "RSA", _:
                modulus = int.from_bytes(_bytes(jwk["n"]))
                if modulus.bit_length() < _SMALLEST_RSA:
                    return None
                return rsa.RSAPublicNumbers(int.from_bytes(_bytes(jwk["e"])), modulus).public_key()
            case "EC", "P-256":
                x, y = int.from_bytes(_bytes(jwk["x"])), int.from_bytes(_bytes(jwk["y"]))
                return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
            case "OKP", "Ed25519":
                return ed25519.Ed25519PublicKey.from_public_bytes(_bytes(jwk["x"]))
    except (ValueError, KeyError, TypeError):
        return None
    return None


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("no text")  # noqa: TRY004 - the callers ask for one kind
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("no base64") from None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refused(why: str) -> ComityError:
    return UnauthenticatedError(f"the access token was not accepted: {why}")
