"""Pins: a key known by its hash, in the place of an authority that vouches for a name.

A pin is the SHA-256 of the SubjectPublicKeyInfo of a certificate (RFC 5280, 4.1), in 64 hex digits. The part is found by walking
the few members that come before it, in DER as strict as it is written: whatever is encoded in another way has no pin.
"""

import hashlib
import re
from typing import Final

from comity.wire.errors import MalformedError

PIN: Final = re.compile(r"[0-9a-f]{64}")

_SEQUENCE: Final = 0x30
_INTEGER: Final = 0x02
_VERSION: Final = 0xA0


def pin_of_certificate(der: bytes) -> str:
    """Return the pin of a certificate. Raise MalformedError if it is not DER."""
    start, _ = _member(der, 0, _SEQUENCE)
    start, _ = _member(der, start, _SEQUENCE)
    if der[start : start + 1] == bytes([_VERSION]):
        _, start = _member(der, start, _VERSION)
    _, start = _member(der, start, _INTEGER)
    for _ in ("signature", "issuer", "validity", "subject"):
        _, start = _member(der, start, _SEQUENCE)
    _, end = _member(der, start, _SEQUENCE)
    return hashlib.sha256(der[start:end]).hexdigest()


def _member(der: bytes, at: int, tag: int) -> tuple[int, int]:
    """Return where the content of the member at this place begins, and where it ends."""
    if der[at : at + 1] != bytes([tag]) or at + 2 > len(der):
        raise MalformedError("the certificate is not in the form of X.509")
    length, start = der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        written = der[start : start + count]
        length = int.from_bytes(written, "big")
        start += count
        if not 1 <= count <= 3 or len(written) < count or written[0] == 0 or length < 0x80:
            raise MalformedError("the certificate is not in DER")
    if start + length > len(der):
        raise MalformedError("the certificate is cut off")
    return start, start + length
