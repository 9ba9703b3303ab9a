"""Access tokens and key sets: nothing but the two refusals is raised, and only what our key signed gets in.

The input is taken for a token, for the head and the claims of a token that is signed well, and for a key set.
"""

import base64
import contextlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from comity.identity.protocol.access_token import MAX_KEYS, SigningKeys, read_access_token
from comity.wire import strict_json
from comity.wire.errors import MalformedError, UnauthenticatedError

LONGEST = 1024

_ISSUER, _AUDIENCE, _NOW = "https://login.example", "https://node.example/mcp", 1_790_000_000.0
_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


_POINT = _text(_KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
_KEYS = SigningKeys({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": _POINT}]})
_HEAD = b'{"alg":"EdDSA","kid":"one","typ":"at+jwt"}'
_CLAIMS = (
    b'{"iss":"https://login.example","aud":["https://node.example/mcp"],"exp":1790000060,"nbf":1789999990.5,'
    b'"sub":"alice","scope":"mcp:read mcp:write"}'
)


def _signed(head: bytes, claims: bytes) -> str:
    text = f"{_text(head)}.{_text(claims)}"
    return f"{text}.{_text(_KEY.sign(text.encode()))}"


EXAMPLES = [
    _HEAD,
    _CLAIMS,
    b'{"alg":"none","kid":null,"crit":["exp"]}',
    b'{"iss":"https://login.example","aud":"https://node.example/mcp","exp":1e300,"sub":"a","scope":7}',
    _CLAIMS.replace(b"1790000060", b"1" + b"0" * 400),
    b'{"keys":[{"kty":"OKP","crv":"Ed25519","x":"%b"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}'
    % _POINT.encode(),
    b'{"keys":[{"kty":"RSA","n":"%b","e":"AQAB","kid":7,"use":"enc"}]}' % (b"A" * 80),
    _signed(_HEAD, b"{}").encode(),
    b"..",
]


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    assert not _admits(text) or text == _signed(_HEAD, _CLAIMS)
    _admits(_signed(_HEAD, data))
    _admits(_signed(data, _CLAIMS))
    with contextlib.suppress(MalformedError):
        keys = SigningKeys(strict_json.loads(data))
        assert len(keys) <= MAX_KEYS
        with contextlib.suppress(UnauthenticatedError):
            read_access_token(_signed(_HEAD, _CLAIMS), keys, issuer=_ISSUER, audience=_AUDIENCE, now=_NOW)


def _admits(token: str) -> bool:
    try:
        found = read_access_token(token, _KEYS, issuer=_ISSUER, audience=_AUDIENCE, now=_NOW)
    except UnauthenticatedError:
        return False
    assert found.issuer == _ISSUER
    assert found.subject
    assert all(isinstance(scope, str) for scope in found.scopes)
    return True
