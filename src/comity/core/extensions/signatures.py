"""Ed25519 signatures as torches and logs write them: base64url without padding, by a key that is named in hex.

Only the one way to write a signature is read; otherwise one signed thing would have several forms.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from comity.core.identity.keys import KEY_BYTES, SIGNATURE_BYTES, SigningKey, verify


def is_key(text: str) -> bool:
    return len(text) == 2 * KEY_BYTES and all(digit in "0123456789abcdef" for digit in text)


def signature_of(message: bytes, key: SigningKey) -> str:
    return urlsafe_b64encode(key.sign(message)).rstrip(b"=").decode()


def signature_bytes(text: str) -> bytes | None:
    """The 64 bytes that the text spells; None when it spells none."""
    try:
        raw = urlsafe_b64decode(text + "==")
    except ValueError:
        return None
    return (
        raw if len(raw) == SIGNATURE_BYTES and urlsafe_b64encode(raw).rstrip(b"=").decode() == text else None
    )


def signature_holds(signer: str, message: bytes, signature: str) -> bool:
    raw = signature_bytes(signature)
    return raw is not None and is_key(signer) and verify(bytes.fromhex(signer), message, raw)
