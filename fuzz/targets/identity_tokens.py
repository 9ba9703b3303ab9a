"""Identity tokens: the three shapes raise nothing but MalformedError, and what is read is written again."""

import contextlib

from comity.identity.protocol.tokens import (
    IdentityMode,
    Issuer,
    IssuerRegistry,
    SharedKey,
    SignatureKey,
    TokenRefusal,
    parse_identity,
    verify_identity,
)
from comity.identity.protocol.uvc import UvcToken, canonicalise, matches, parse_uri, parse_uvc
from comity.wire.errors import InvalidError, MalformedError

LONGEST = 600

EXAMPLES = [
    b"family.safe.guide",
    b"company.acme.legal.compliance@^1.02.0-rc.1:SEC",
    b" FAMILY..safe.guide@latest : SEC",
    "\uff26amily\uff0esafe.guide\uff201.2.0\uff1aELEM".encode(),
    b"company.**.legal.*",
    b"creed://creed.space/family/safe/guide@1.0.0",
    b"vcp://creed.space/family.safe.guide:SEC",
    b"vcp-i:creed:user:u_8f3k2m:ed25519:base64url_signature",
    b"vcp-i:creed:user:u_8f3k2m:ed25519:" + b"A" * 86,
    b"vcp:i:creedspace:user_42:1709136000:abc123def456",
    b"vcp:i:creed:user_42:1709136000:" + b"0" * 64,
]

_NOW = 1_709_136_000.0
_ISSUERS = IssuerRegistry(
    [
        Issuer(
            name="creed",
            signature_keys=(SignatureKey(bytes(range(32))),),
            shared_keys=(SharedKey(bytes(32)),),
            minimum_tag=32,
        )
    ]
)


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    by_structure = verify_identity(text, mode=IdentityMode.STRUCTURAL, issuers=_ISSUERS, now=_NOW)
    by_proof = verify_identity(text, mode=IdentityMode.VERIFIED, issuers=_ISSUERS, now=_NOW)
    assert not by_proof.ok
    try:
        token = parse_identity(text)
    except MalformedError:
        assert by_structure.refusal is by_proof.refusal is TokenRefusal.MALFORMED
    else:
        assert by_structure.ok
        assert by_structure.owner is None
        _check_written(text, token)
    _check_neighbours(text)


def _check_written(text: str, token: object) -> None:
    if isinstance(token, UvcToken):
        assert parse_uvc(str(token)) == token
        assert canonicalise(str(token)) == canonicalise(text)
        assert matches(token.dotted, token)
    else:
        assert str(token) == text


def _check_neighbours(text: str) -> None:
    """The readers around the parser, each with whatever text there is."""
    try:
        once = canonicalise(text)
    except MalformedError:
        pass
    else:
        assert canonicalise(once) == once
    try:
        uri = parse_uri(text)
    except (MalformedError, InvalidError):
        pass
    else:
        assert parse_uri(str(uri)) == uri
    with contextlib.suppress(MalformedError):
        matches(text, parse_uvc("family.safe.guide"))
