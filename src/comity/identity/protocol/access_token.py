"""OAuth access tokens that are signed JWTs, judged by the keys of one authorization server (RFC 9068, RFC 8725).

- The key decides the algorithm, never the token, and only public-key algorithms are taken.
- Issuer and audience must be exactly ours. A token for somebody else is refused, however good its signature.
- Clocks may differ by a minute. PyJWT would ask the system clock, so the times are compared here, with `now`.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from comity.wire import strict_json
from comity.wire.errors import ComityError, MalformedError, UnauthenticatedError
from comity.wire.machine import SKEW_SECONDS, clock_words

if TYPE_CHECKING:
    from jwt import PyJWK
    from jwt.types import Options

MAX_TOKEN_LENGTH: Final = 16_384
MAX_KEYS: Final = 64
_MIN_RSA: Final = 2048
_ALGORITHMS: Final = frozenset({"RS256", "PS256", "ES256", "ES384", "EdDSA"})
_PUBLIC_MEMBERS: Final = ("kty", "alg", "crv", "n", "e", "x", "y")
_TYPES: Final = frozenset({"at+jwt", "application/at+jwt", "jwt"})
_FORM: Final = re.compile(r"([A-Za-z0-9_-]++)\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]++")
_CHECKED_HERE: "Options" = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
}


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
        self._keys: dict[str | None, PyJWK] = {}
        for one in listed[:MAX_KEYS]:
            key = _public_key(one) if isinstance(one, Mapping) and one.get("use", "sig") == "sig" else None
            if key is not None:
                id_ = one.get("kid")
                self._keys[id_ if isinstance(id_, str) else None] = key

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, id_: Any) -> "PyJWK":
        if id_ is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        found = self._keys.get(id_) if isinstance(id_, str | None) else None
        if found is None:
            raise UnknownKeyError("the access token is signed with a key that its issuer does not publish")
        return found


def read_access_token(
    token: str, keys: SigningKeys, *, issuer: str, audience: str, now: float
) -> AccessToken:
    """Check an access token. Raise UnauthenticatedError for one that is not good here."""
    if len(token) > MAX_TOKEN_LENGTH:
        raise _refused("it is too long")
    head = _head(token)
    type_ = head.get("typ")
    if type_ is not None and not (isinstance(type_, str) and type_.lower() in _TYPES):
        raise _refused("its type (`typ`) is neither at+jwt nor JWT; send an access token")
    claims = _claims(token, keys.find(head.get("kid")), issuer=issuer, audience=audience)
    _check_time(claims, now)
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise _refused("it names no subject")
    return AccessToken(
        issuer=issuer, subject=claims["sub"], scopes=_scopes(claims.get("scope")) | _scopes(claims.get("scp"))
    )


def _check_time(claims: dict[str, Any], now: float) -> None:
    until: Any = claims.get("exp")
    since: Any = claims.get("nbf", now)
    if not _is_number(until) or not _is_number(since):
        raise _refused("it must say when it is expired in `exp`; `exp` and `nbf` are numbers of seconds")
    if now > until:
        raise _refused(
            f"it has expired at {clock_words(until)}, the clock here says {clock_words(now)}; get a new one"
        )
    if since > now + SKEW_SECONDS:
        raise _refused(
            f"it is not valid before {clock_words(since)}, the clock here says {clock_words(now)}; set the wrong clock"
        )


def _head(token: str) -> dict[str, Any]:
    from jwt.utils import base64url_decode

    form = _FORM.fullmatch(token)
    try:
        head = strict_json.loads(base64url_decode(form[1]), unique_keys=True) if form else None
    except (MalformedError, ValueError):
        head = None
    if not isinstance(head, dict) or "crit" in head or head.get("b64", True) is not True:
        raise _refused("it is no signed JWT")
    return head


def _claims(token: str, key: "PyJWK", *, issuer: str, audience: str) -> dict[str, Any]:
    """Return what the issuer signed, and meant for us."""
    import jwt

    try:
        return jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            issuer=issuer,
            audience=audience,
            options=_CHECKED_HERE,
        )
    except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
        raise _refused("its signature does not verify") from None
    except jwt.InvalidAudienceError:
        raise _refused("it is meant for somebody else; ask for one for this resource") from None
    except jwt.InvalidIssuerError:
        raise _refused("it is of another issuer") from None
    except jwt.MissingRequiredClaimError as missing:
        why = "issuer" if missing.claim == "iss" else "audience; it could be meant for somebody else"
        raise _refused(f"it names no {why}") from None
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise _refused("it is no signed JWT") from None


def _public_key(jwk: Mapping[str, Any]) -> "PyJWK | None":
    """Return the key; None for one of another kind or too weak. A private half is not even looked at."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        key = jwt.PyJWK({name: jwk[name] for name in _PUBLIC_MEMBERS if name in jwk})
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    weak = isinstance(key.key, RSAPublicKey) and key.key.key_size < _MIN_RSA
    return key if key.algorithm_name in _ALGORITHMS and not weak else None


def _scopes(value: Any) -> frozenset[str]:
    """`scope` is written with blanks between (RFC 8693); some servers send `scp`, often as a list."""
    if isinstance(value, list):
        return frozenset(each for each in value if isinstance(each, str))
    return frozenset(value.split()) if isinstance(value, str) else frozenset()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refused(why: str) -> ComityError:
    return UnauthenticatedError(f"the access token was not accepted: {why}")
