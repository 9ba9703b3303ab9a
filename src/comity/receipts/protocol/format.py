"""The format: one JSON object in the form of RFC 8785, with members that are fixed for each kind.

- `call` holds both envelopes of a call, `message` signed messages of rooms, `vote` and `agreement` the log of a vote,
  `range` entries of an audit chain up to its signed head, or to one that is proven to be in the tree of that head.
- An envelope is written as `to_a2a_message` writes it, so a receipt has no member that no signature covers.
- Audit entries are texts: their hash distinguishes 1 from 1.0, and RFC 8785 does not.
- Without its text, an envelope has the member `withheld` with its hash in the place of its parts, and an act of a vote the
  hash of its arguments.
- A receipt has at most 80 MiB. Anything that is not exactly a receipt is refused with one sentence.
"""

import hashlib
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from comity.store.audit_chain import AuditHead
from comity.wire import strict_json
from comity.wire.canonical import jcs
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.merkle import PROOF_LIMIT

VERSION: Final = 1
MAX_BYTES: Final = 80 * 1024 * 1024
MARK: Final = "comity_receipt"

_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class _Kind(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    comity_receipt: Literal[1] = 1


class CallReceipt(_Kind, frozen=True, kw_only=True, tag="call"):
    """A request and the reply to it, each as the message that was sent."""

    request: dict[str, Any]
    reply: dict[str, Any]


class MessageReceipt(_Kind, frozen=True, kw_only=True, tag="message"):
    """Signed messages of rooms, in the order in which a node had them."""

    messages: list[dict[str, Any]]


class VoteReceipt(_Kind, frozen=True, kw_only=True, tag="vote"):
    """All entries of a vote from the first one on."""

    entries: list[dict[str, Any]]


class AgreementReceipt(_Kind, frozen=True, kw_only=True, tag="agreement"):
    """The same of a vote that became active."""

    entries: list[dict[str, Any]]


class RangeHead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where the chain stood when its owner signed. The last members are those of its tree, if it has one."""

    chain: str
    position: int
    entry_hash: str
    at: str
    signature: str
    log: str | None = None
    size: int | None = None
    root: str | None = None

    def signed(self) -> AuditHead:
        """Return what the signature is about."""
        return AuditHead(
            chain=self.chain,
            position=self.position,
            entry_hash=self.entry_hash,
            at=self.at,
            log=self.log,
            size=self.size,
            root=self.root,
        )


class InclusionProof(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """That the last entry is in the tree of the head: the hashes of RFC 9162, 2.1.3, the deepest first."""

    hashes: Annotated[list[_Hash], Meta(max_length=PROOF_LIMIT)]


class RangeReceipt(_Kind, frozen=True, kw_only=True, tag="range"):
    """Entries of the audit chain of `signer`, each as its JSON text, up to the one that the head names, or up to one that
    `proof` shows to be in the tree of the head.
    """

    signer: str
    entries: list[str]
    head: RangeHead
    proof: InclusionProof | UnsetType = UNSET


Receipt = CallReceipt | MessageReceipt | VoteReceipt | AgreementReceipt | RangeReceipt


class NotAReceiptError(InvalidError):
    """The bytes are no receipt of this version."""

    code = "no_receipt"


def write_receipt(receipt: Receipt) -> bytes:
    """Return the bytes of a receipt."""
    members = msgspec.to_builtins(receipt)
    data = _form_of(members)
    if len(data) > MAX_BYTES:
        raise InvalidError(
            f"the receipt would have {len(data):,} bytes, and one has at most {MAX_BYTES:,}; ask for less"
        )
    if strict_json.loads(data) != members:
        raise InvalidError("a number in it is larger than a receipt can hold (2^53)")
    return data


def read_receipt(data: bytes) -> Receipt:
    """Return the receipt that the bytes are. Raise NotAReceiptError for anything else."""
    data = data.removesuffix(b"\n")
    if len(data) > MAX_BYTES:
        raise NotAReceiptError(f"it has more than {MAX_BYTES:,} bytes; a receipt is smaller")
    try:
        value = strict_json.loads(data)
        if not isinstance(value, dict) or MARK not in value:
            raise NotAReceiptError(f"it is not a receipt: a receipt is a JSON object with the member {MARK}")
        if value[MARK] != VERSION or isinstance(value[MARK], bool):
            raise NotAReceiptError(
                f"it is a receipt of another version; this program knows version {VERSION}"
            )
        receipt: Receipt = msgspec.convert(value, Receipt)
        as_written = _form_of(value) == data
    except MalformedError as fault:
        raise NotAReceiptError(f"it is not a receipt, or was cut or altered: {fault.message}") from None
    except msgspec.ValidationError as fault:
        raise NotAReceiptError(f"it is not a receipt of this version: {_short(fault)}") from None
    if not as_written:
        raise NotAReceiptError(
            "it was altered: a receipt has its members once and in the order of RFC 8785, without spaces"
        )
    return receipt


def _form_of(members: dict[str, Any]) -> bytes:
    """Return `jcs(members)`, of many texts by a shorter way: they are written alike in every form."""
    if members.get("kind") != "range":
        return jcs(members)
    entries = strict_json.dumps(members["entries"])
    return jcs({**members, "entries": []}).replace(b'"entries":[]', b'"entries":' + entries, 1)


def hash_of(data: bytes) -> str:
    """Return the name of a receipt: SHA-256 of its bytes."""
    return hashlib.sha256(data.removesuffix(b"\n")).hexdigest()


def _short(fault: Exception) -> str:
    said = str(fault)
    return said if len(said) <= 200 else f"{said[:199]}…"
