"""Signatures of lists and proofs (vcp 5.4).

- Signed are all members but `signature`, as sorted JSON without spaces, in ASCII. All that was received
  counts: a member added on the way breaks the signature even if nobody here reads it.
- A key is an Ed25519 public key, as PEM or as the base64 of its 32 bytes. HMAC-SHA256 is for issuers
  that have nothing else, and only when the owner of the node says so for that issuer. Even then a text
  that is a public key is never taken for a secret: everybody knows it, and could sign with it.
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from comity.identity.protocol.keys import KEY_BYTES, SigningKey, verify
from comity.wire.canonical import ascii_form
from comity.wire.errors import InvalidError

_PEM_MARK: Final = "-----"
_PEM_BEGIN: Final = "-----BEGIN PUBLIC KEY-----"
_PEM_END: Final = "-----END PUBLIC KEY-----"
# RFC 8410: the frame that makes 32 bytes a public key of Ed25519
_SPKI: Final = bytes.fromhex("302a300506032b6570032100")


class PublicKey(Struct, frozen=True):
    public: bytes

    def fits(self, message: bytes, signature: bytes) -> bool:
        return verify(self.public, message, signature)


class SharedSecret(Struct, frozen=True):
    secret: bytes

    def fits(self, message: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(hmac.digest(self.secret, message, hashlib.sha256), signature)

    def __repr__(self) -> str:
        return "SharedSecret(<secret>)"


TrustKey = PublicKey | SharedSecret


def read_trust_key(text: str, *, hmac_fallback: bool = False) -> TrustKey:
    """The key that a setting spells; InvalidError when it spells none."""
    text = text.strip()
    if text.startswith(_PEM_MARK):
        return PublicKey(_from_pem(text))
    raw = _base64(text)
    if raw is not None and len(raw) == KEY_BYTES:
        return PublicKey(raw)
    if hmac_fallback and text:
        return SharedSecret(text.encode())
    raise InvalidError(
        "the key of a revocation issuer is an Ed25519 public key, as PEM or as base64 of its 32 bytes; "
        "a shared HMAC secret needs hmac_fallback for that issuer"
    )


def signed_bytes(members: Mapping[str, Any]) -> bytes:
    return ascii_form({name: value for name, value in members.items() if name != "signature"})


def signature_holds(members: Mapping[str, Any], key: TrustKey) -> bool:
    """Whether the member `signature` is the key's, over all the others."""
    written = members.get("signature")
    signature = _base64(written) if isinstance(written, str) else None
    return signature is not None and key.fits(signed_bytes(members), signature)


def sign_members(members: Mapping[str, Any], key: SigningKey) -> str:
    return b64encode(key.sign(signed_bytes(members))).decode()


def _from_pem(text: str) -> bytes:
    der = None
    if text.startswith(_PEM_BEGIN) and text.endswith(_PEM_END):
        der = _base64("".join(text.removeprefix(_PEM_BEGIN).removesuffix(_PEM_END).split()))
    if der is None or len(der) != len(_SPKI) + KEY_BYTES or not der.startswith(_SPKI):
        raise InvalidError("the PEM is not an Ed25519 public key; only these are used here")
    return der.removeprefix(_SPKI)


def _base64(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
