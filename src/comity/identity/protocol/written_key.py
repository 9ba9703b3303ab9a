"""The recovery key as people write it on paper: 14 groups of four characters, the last three bytes a checksum.

The alphabet is Crockford's base 32. It has no I, L, O and U; reading takes I and L for 1 and O for 0, small letters, and any
blanks and dashes.
"""

import re
from hashlib import sha256
from typing import Final

from comity.identity.protocol.keys import KEY_BYTES
from comity.wire.errors import MalformedError

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES: Final = {character: value for value, character in enumerate(_ALPHABET)} | {"O": 0, "I": 1, "L": 1}
_CHECK_BYTES: Final = 3
_GROUP: Final = 4
GROUPS: Final = 14
LETTERS: Final = GROUPS * _GROUP
TEXT_LIMIT: Final = 1024
_SEPARATORS: Final = re.compile(r"[\s\-]+")


def write_key(seed: bytes) -> str:
    number = int.from_bytes(seed + _checksum(seed), "big")
    letters = "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(LETTERS)))
    return " ".join(letters[at : at + _GROUP] for at in range(0, LETTERS, _GROUP))


def read_key(text: str) -> bytes:
    """Return the seed that the text spells. Nothing of the text is ever in the error."""
    if len(text) > TEXT_LIMIT:
        raise MalformedError(
            f"a recovery key has {GROUPS} groups of {_GROUP} characters; this text is too long"
        )
    letters = _SEPARATORS.sub("", text).upper()
    if len(letters) != LETTERS:
        raise MalformedError(
            f"a recovery key has {GROUPS} groups of {_GROUP} characters, so {LETTERS} in all; this one has {len(letters)}"
        )
    number = 0
    for place, letter in enumerate(letters):
        value = _VALUES.get(letter)
        if value is None:
            raise MalformedError(
                f"group {place // _GROUP + 1} of the recovery key has a character that no recovery key has"
            )
        number = number << 5 | value
    data = number.to_bytes(KEY_BYTES + _CHECK_BYTES, "big")
    seed = data[:KEY_BYTES]
    if data[KEY_BYTES:] != _checksum(seed):
        raise MalformedError(
            "the checksum of the recovery key is wrong; compare each group with what you wrote down"
        )
    return seed


def _checksum(seed: bytes) -> bytes:
    return sha256(b"comity recovery key 1\n" + seed).digest()[:_CHECK_BYTES]
