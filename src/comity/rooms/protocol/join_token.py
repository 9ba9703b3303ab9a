"""Join tokens (peers 3.4, ruling 38): who may join a room, for how long, under which stream id.

    token = B "." S      B = base64url of {"room","stream_id","exp","nonce"}, S = base64url of HMAC-SHA-256(secret, B)

All claims are optional; a claim that is there has to fit. The texts of the refusals are the contract's.
"""

import base64
import binascii
import hmac
from typing import Any, Final

from comity.wire import strict_json
from comity.wire.canonical import js_stringify
from comity.wire.errors import MalformedError, UnauthenticatedError

REQUIRED: Final = "join token required"
_LONGEST: Final = 8192


class JoinTokenError(UnauthenticatedError):
    """A join token that does not open this room; its sentence is what the refused peer is told."""


def mint(secret: str, *, room: str, stream_id: str, exp: int, nonce: str) -> str:
    """`exp` is in milliseconds since 1970; `nonce` is `join_` and 8 hexadecimal digits."""
    body = _base64url(js_stringify({"room": room, "stream_id": stream_id, "exp": exp, "nonce": nonce}))
    return f"{body}.{_signature(secret, body)}"


def verify_claims(token: Any, secret: str) -> dict[str, Any]:
    """The claims of a token that the secret signed."""
    if not isinstance(token, str) or not token:
        raise JoinTokenError("token must be a non-empty string")
    parts = token.split(".") if len(token) <= _LONGEST else ()
    if len(parts) != 2:
        raise JoinTokenError("invalid token format")
    body, signature = parts
    expected = _signature(secret, body)
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass")):
        raise JoinTokenError("invalid token signature")
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
    """The claims of a token that opens `room` to `stream_id` now. `latest`: a token must not outlive this."""
    if token is None or token == "":
        raise JoinTokenError(REQUIRED)
    claims = verify_claims(token, secret)
    if claims.get("room") is not None and claims["room"] != room:
        raise JoinTokenError("join token room mismatch")
    if claims.get("stream_id") is not None and stream_id is not None and claims["stream_id"] != stream_id:
        raise JoinTokenError("join token stream mismatch")
    exp = claims.get("exp")
    if exp is not None and now_ms > exp:
        raise JoinTokenError("join token expired")
    if latest is not None and (exp is None or exp > latest):
        raise JoinTokenError("join token outlives the invite")
    return claims


def check_own(token: str, secret: str, *, room: str, stream_id: str, now_ms: float) -> None:
    """The token that we are about to show ourselves (peers 1.3)."""
    try:
        claims = verify_claims(token, secret)
    except JoinTokenError as why:
        raise JoinTokenError(f"invalid join_token: {why.message}") from None
    if claims.get("room") is not None and claims["room"] != room:
        raise JoinTokenError("join_token room mismatch")
    if claims.get("stream_id") is not None and claims["stream_id"] != stream_id:
        raise JoinTokenError("join_token stream mismatch")
    exp = claims.get("exp", 0)
    if 0 < exp < now_ms:
        raise JoinTokenError("join_token expired")


def _signature(secret: str, body: str) -> str:
    return _base64url(
        hmac.digest(secret.encode("utf-8", "surrogatepass"), body.encode("utf-8", "surrogatepass"), "sha256")
    )


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
