"""A head of an audit chain as a checkpoint of C2SP (tlog-checkpoint), a signed note that other people's tools read.

    ORIGIN, size, base64 of the root, an empty line, then `— NAME base64(key hash, signature)`

The signature is Ed25519 over the lines before the empty one, each with its newline. The key hash is the first four bytes
of SHA-256 over name, newline, 0x01 and the public key.
"""

from base64 import b64encode
from hashlib import sha256
from typing import Final

from comity.identity.protocol.keys import SigningKey, VacantId
from comity.store.audit_chain import AuditHead

_ED25519: Final = b"\x01"


def origin_of(owner: VacantId, head: AuditHead) -> str:
    """Return the name of the log: no two have the same."""
    return "/".join(filter(None, ("comity-audit", owner.hex(), head.chain, head.log)))


def checkpoint(head: AuditHead, key: SigningKey) -> str:
    """Return the signed note about a head that names a tree."""
    name = origin_of(key.vacant_id, head)
    root = b64encode(bytes.fromhex(head.root or "")).decode()
    text = f"{name}\n{head.size}\n{root}\n"
    signed = b64encode(_key_hash(name, key.vacant_id) + key.sign(text.encode())).decode()
    return f"{text}\n\N{EM DASH} {name} {signed}\n"


def verifier_key(head: AuditHead, owner: VacantId) -> str:
    """Return the key with which tools for signed notes check the checkpoint."""
    name = origin_of(owner, head)
    public = b64encode(_ED25519 + owner.public).decode()
    return f"{name}+{_key_hash(name, owner).hex()}+{public}"


def _key_hash(name: str, owner: VacantId) -> bytes:
    return sha256(name.encode() + b"\n" + _ED25519 + owner.public).digest()[:4]
