"""The X25519 keys of a session, as the reference writes them (peers 3.3).

A public key is the standard base64 of its 44-byte SPKI form. The MAC key of two sessions is the raw shared
secret. A key of small order, which would make the secret known to everybody, is refused.
"""

import base64
import binascii
from typing import Any, Final

from nacl.bindings import crypto_scalarmult, crypto_scalarmult_base
from nacl.exceptions import CryptoError

from comity.wire.errors import InvalidError

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
        """The MAC key of this session and the owner of `public_key`."""
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
