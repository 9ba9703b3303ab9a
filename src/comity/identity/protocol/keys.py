"""Ed25519: who signs, and whether a signature holds.

- An id *is* a public key. It is handed over by strangers, so nothing is believed of it until a
  signature verifies. An id of any 32 bytes can therefore be named, compared and shown, also one
  that no honest key has: such a key is refused where it matters, in `verify`, and the caller gets
  the contract's answer to a bad signature instead of a parsing error.
- `verify` answers True or False to anything it is given. It refuses keys of small order (whose
  owner can make one signature fit many messages), keys whose bytes are not the canonical form of
  their point, and signatures whose scalar is not reduced.
- Torches and logs write a signature as base64url without padding, by a key that is named in hex. Only this one way to
  write it is read; otherwise one signed thing would have several forms.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import cached_property
from typing import Any, Self, TypeAlias

from msgspec import Struct
from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import CryptoError
from nacl.signing import SigningKey as NaClSigningKey
from nacl.signing import VerifyKey

from comity.wire.errors import ComityError, ConfigError, InvalidError, MalformedError

KEY_BYTES = 32
SIGNATURE_BYTES = 64

_DID_KEY = "did:key:z"
_MULTICODEC_ED25519 = b"\xed\x01"
_DID_KEY_LENGTH = len(_DID_KEY) + 47


class VacantId(Struct, frozen=True, dict=True):
    """The 32 bytes of a public key, as a name."""

    pubkey_bytes: bytes

    def __post_init__(self) -> None:
        if type(self.pubkey_bytes) is not bytes or len(self.pubkey_bytes) != KEY_BYTES:
            raise InvalidError(f"a vacant id is made of exactly {KEY_BYTES} bytes")

    @property
    def public(self) -> bytes:
        return self.pubkey_bytes

    @classmethod
    def from_verify_key(cls, verify_key: VerifyKey) -> Self:
        """Return the id of the owner of a key of PyNaCl's."""
        return cls(public_bytes(verify_key))

    def verify_key(self) -> VerifyKey:
        """Return the key as PyNaCl has it."""
        return VerifyKey(self.pubkey_bytes)

    @classmethod
    def from_hex(cls, text: str) -> Self:
        try:
            public = bytes.fromhex(text) if len(text) == 2 * KEY_BYTES else b""
        except (TypeError, ValueError):
            public = b""
        if len(public) != KEY_BYTES:
            raise MalformedError(f"a vacant id is written as {2 * KEY_BYTES} hexadecimal digits")
        return cls(public)

    @classmethod
    def from_did_key(cls, text: str) -> Self:
        remedy = "an Ed25519 did:key is written as did:key:z6Mk and 44 more base58 characters"
        if len(text) != _DID_KEY_LENGTH or not text.startswith(_DID_KEY):
            raise MalformedError(remedy)
        try:
            data = decode_base58(text.removeprefix(_DID_KEY))
        except ComityError:
            raise MalformedError(remedy) from None
        if len(data) != len(_MULTICODEC_ED25519) + KEY_BYTES or not data.startswith(_MULTICODEC_ED25519):
            raise MalformedError(remedy)
        return cls(data.removeprefix(_MULTICODEC_ED25519))

    def hex(self) -> str:
        return self._hex

    @cached_property
    def _hex(self) -> str:
        return self.pubkey_bytes.hex()

    def short(self) -> str:
        """Return the beginning of the id, for people; never compare it."""
        return self._hex[:12]

    def did_key(self) -> str:
        return _DID_KEY + encode_base58(_MULTICODEC_ED25519 + self.public)

    def __str__(self) -> str:
        return f"vacant:{self.short()}"

    def __repr__(self) -> str:
        return f"VacantId.from_hex('{self.hex()}')"


def id_of(text: str) -> VacantId | None:
    """Return the id that a person typed, in hexadecimal digits or as a did:key; None if it is no id."""
    try:
        if text.startswith("did:"):
            return VacantId.from_did_key(text)
        return VacantId.from_hex(text.removeprefix("vacant:"))
    except MalformedError as reason:
        if text.startswith("did:"):
            raise ConfigError(f"{text[:80]!r} cannot be read: {reason.message}") from None
        return None


class SigningKey:
    """A secret key. It shows its id and never its seed; `seed` is for storing it."""

    __slots__ = ("_secret", "vacant_id")

    vacant_id: VacantId

    def __init__(self, seed: bytes) -> None:
        if not isinstance(seed, bytes) or len(seed) != KEY_BYTES:
            raise InvalidError(f"a signing key is made from a seed of exactly {KEY_BYTES} bytes")
        public, self._secret = crypto_sign_seed_keypair(seed)
        self.vacant_id = VacantId(public)

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        return cls(seed)

    @property
    def verify_key(self) -> VerifyKey:
        """Return the public half, as PyNaCl has it."""
        return self.vacant_id.verify_key()

    @property
    def seed(self) -> bytes:
        return self._secret[:KEY_BYTES]

    def sign(self, message: bytes) -> bytes:
        return crypto_sign(message, self._secret)[:SIGNATURE_BYTES]

    def __repr__(self) -> str:
        return f"SigningKey({self.vacant_id})"

    def __reduce__(self) -> Any:
        raise TypeError("a signing key is not pickled or copied; hand over its seed on purpose")


AnySigningKey: TypeAlias = SigningKey | NaClSigningKey
AnyPublicKey: TypeAlias = VacantId | VerifyKey | bytes


def own_key(key: AnySigningKey) -> SigningKey:
    """Return the key as ours. PyNaCl's signs too, and returns more than the signature: it is never called."""
    if isinstance(key, SigningKey):
        return key
    if isinstance(key, NaClSigningKey):
        return SigningKey(bytes(key))
    raise TypeError(
        f"a signing key must be a comity.SigningKey or a nacl.signing.SigningKey, not {type(key).__name__}"
    )


def public_bytes(key: AnyPublicKey) -> bytes:
    if isinstance(key, VacantId):
        return key.pubkey_bytes
    if isinstance(key, bytes):
        return key
    if isinstance(key, VerifyKey):
        return bytes(key)
    raise TypeError(
        "a public key must be a comity.VacantId, a nacl.signing.VerifyKey or its 32 bytes, "
        f"not {type(key).__name__}"
    )


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the owner of `public` signed `message`; False for whatever is not a proof of that."""
    # the binding hands pointers to C: kinds and lengths are ours to check
    if not (type(public) is bytes and type(message) is bytes and type(signature) is bytes):
        return False
    if len(public) != KEY_BYTES or len(signature) != SIGNATURE_BYTES or public in _REFUSED_KEYS:
        return False
    try:
        crypto_sign_open(signature + message, public)
    except CryptoError:
        return False
    return True


def _refused_keys() -> frozenset[bytes]:
    """Return every 32 bytes that are a point of small order or a y that is not reduced, under both signs.

    libsodium refuses them too. That depends on how it was built, and ids here are keys of strangers.
    """
    prime = 2**255 - 19
    order_eight = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
    small_order = (0, 1, prime - 1, order_eight, prime - order_eight)
    not_reduced = range(prime, 2**255)
    return frozenset(
        (y | sign << 255).to_bytes(KEY_BYTES, "little")
        for y in (*small_order, *not_reduced)
        for sign in (0, 1)
    )


_REFUSED_KEYS = _refused_keys()


BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

_BASE58_VALUES = {character: value for value, character in enumerate(BASE58)}


def encode_base58(data: bytes) -> str:
    """Encode as base58btc, the alphabet of `did:key`. Leading zero bytes become leading `1`s."""
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(BASE58[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return BASE58[0] * zeros + "".join(reversed(digits))


def decode_base58(text: str) -> bytes:
    """Decode base58btc. Both directions are quadratic in length, so callers check the length of foreign texts first."""
    number = 0
    for character in text:
        value = _BASE58_VALUES.get(character)
        if value is None:
            raise MalformedError(f"base58 text holds {character!r}, which is not of its alphabet")
        number = number * 58 + value
    zeros = len(text) - len(text.lstrip(BASE58[0]))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def is_key(text: str) -> bool:
    return len(text) == 2 * KEY_BYTES and all(digit in "0123456789abcdef" for digit in text)


def signature_of(message: bytes, key: SigningKey) -> str:
    return urlsafe_b64encode(key.sign(message)).rstrip(b"=").decode()


def signature_bytes(text: str) -> bytes | None:
    """Return the 64 bytes that the text spells; None when it spells none."""
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
