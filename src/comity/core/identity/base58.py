"""base58btc, the alphabet of `did:key`.

Leading zero bytes become leading `1`s. Both directions are quadratic in length, so callers check the
length of what strangers send before they decode it.
"""

from comity.core.errors import MalformedError

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

_VALUES = {character: value for value, character in enumerate(ALPHABET)}


def encode(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(ALPHABET[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return ALPHABET[0] * zeros + "".join(reversed(digits))


def decode(text: str) -> bytes:
    number = 0
    for character in text:
        value = _VALUES.get(character)
        if value is None:
            raise MalformedError(f"base58 text holds {character!r}, which is not of its alphabet")
        number = number * 58 + value
    zeros = len(text) - len(text.lstrip(ALPHABET[0]))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
