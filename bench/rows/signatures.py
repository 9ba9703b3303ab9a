"""Ed25519 through `core/identity/keys` beside the binding it stands on, on a message of 1 KiB.

Ours checks kinds, lengths and refused keys before it hands pointers to C; the bar is what that may
cost.
"""

import contextlib
import random
from collections.abc import Iterator, Sequence

from nacl.bindings import crypto_sign, crypto_sign_open
from nacl.signing import SigningKey as NaclSigningKey

from bench.harness.bars import AtLeast
from bench.harness.measure import computing
from bench.harness.row import Contender, Row, Setting, Unit
from comity.identity.protocol.keys import SigningKey, verify

RAW = "raw PyNaCl"

_random = random.Random(0)
SEED = _random.randbytes(32)
MESSAGE = _random.randbytes(1024)


@contextlib.contextmanager
def open_verify(setting: Setting) -> Iterator[Sequence[Contender]]:
    key = SigningKey.from_seed(SEED)
    public, signature = key.vacant_id.public, key.sign(MESSAGE)
    nacl_key = NaclSigningKey(SEED).verify_key
    if not verify(public, MESSAGE, signature):
        raise ValueError("our own signature does not verify")
    yield [
        computing("comity verify", lambda: verify(public, MESSAGE, signature), setting.seconds),
        computing(RAW, lambda: crypto_sign_open(signature + MESSAGE, public), setting.seconds),
        computing("PyNaCl VerifyKey", lambda: nacl_key.verify(MESSAGE, signature), setting.seconds),
    ]


@contextlib.contextmanager
def open_sign(setting: Setting) -> Iterator[Sequence[Contender]]:
    key = SigningKey.from_seed(SEED)
    nacl_key = NaclSigningKey(SEED)
    secret = SEED + key.vacant_id.public
    yield [
        computing("comity sign", lambda: key.sign(MESSAGE), setting.seconds),
        computing(RAW, lambda: crypto_sign(MESSAGE, secret)[:64], setting.seconds),
        computing("PyNaCl SigningKey", lambda: nacl_key.sign(MESSAGE), setting.seconds),
    ]


ROWS = (
    Row(
        name="verify",
        title="Ed25519 signatures verified",
        unit=Unit.PROCESSOR_RATE,
        open=open_verify,
        bars=(AtLeast(0.9, of=RAW),),
    ),
    Row(
        name="sign",
        title="Ed25519 signatures made",
        unit=Unit.PROCESSOR_RATE,
        open=open_sign,
        bars=(AtLeast(0.9, of=RAW),),
    ),
)
