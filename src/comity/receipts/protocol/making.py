"""Receipts made from what was signed: of a call, of messages, of a vote, of a part of an audit chain."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from comity.envelopes.protocol.envelope import (
    VacantEnvelope,
    from_a2a_message,
    recognise,
    to_a2a_message,
)
from comity.receipts.protocol.format import (
    AgreementReceipt,
    CallReceipt,
    InclusionProof,
    MessageReceipt,
    RangeHead,
    RangeReceipt,
    Receipt,
    VoteReceipt,
    write_receipt,
)
from comity.store import audit_chain
from comity.store.audit_chain import AuditEntry, AuditHead
from comity.wire.canonical import jcs
from comity.wire.errors import InvalidError

WITHHELD: Final = "withheld"


def receipt_of_call(request: VacantEnvelope, reply: VacantEnvelope) -> CallReceipt:
    return CallReceipt(request=to_a2a_message(request), reply=to_a2a_message(reply))


def call_bytes(request: VacantEnvelope, reply: VacantEnvelope) -> bytes:
    """Return the bytes of the receipt of a call."""
    return write_receipt(receipt_of_call(request, reply))


def receipt_of_messages(messages: Iterable[dict[str, Any]]) -> MessageReceipt:
    """Return the receipt of messages as they were sent or received, without what no signature covers."""
    written = []
    for message in messages:
        envelope = recognise(from_a2a_message(message))
        if envelope is None:
            raise InvalidError("a message has no valid signature; a receipt of it would prove nothing")
        written.append(to_a2a_message(envelope))
    if not written:
        raise InvalidError("there is no signed message to make a receipt of")
    return MessageReceipt(messages=written)


def receipt_of_vote(entries: list[dict[str, Any]], *, active: bool) -> VoteReceipt | AgreementReceipt:
    """`entries` are those of the log as `write_entry` of the votes writes them."""
    return AgreementReceipt(entries=entries) if active else VoteReceipt(entries=entries)


def receipt_of_range(
    signer: str,
    entries: Iterable[AuditEntry],
    head: AuditHead,
    signature: str,
    proof: Sequence[bytes] | None = None,
) -> RangeReceipt:
    """`entries` go up to the one that the head names, or up to the one of which `proof` shows that it is in the tree of the
    head. What their hash does not cover is left out.
    """
    covered = (replace(entry, token_count=None, content_preview=None) for entry in entries)
    texts = [audit_chain.encode(entry).decode() for entry in covered]
    if not texts:
        raise InvalidError("there is no entry to make a receipt of")
    return RangeReceipt(
        signer=signer,
        entries=texts,
        head=RangeHead(**to_builtins(head), signature=signature),
        proof=UNSET if proof is None else InclusionProof(hashes=[each.hex() for each in proof]),
    )


def without_text(receipt: Receipt) -> Receipt:
    """Return the receipt with hashes in the place of texts. Nobody can verify it without them."""
    match receipt:
        case CallReceipt(request=request, reply=reply):
            return replace(receipt, request=_withheld(request), reply=_withheld(reply))
        case MessageReceipt(messages=messages):
            return replace(receipt, messages=[_withheld(message) for message in messages])
        case VoteReceipt(entries=entries) | AgreementReceipt(entries=entries):
            return replace(receipt, entries=[_without_arguments(entry) for entry in entries])
        case RangeReceipt():
            return receipt  # it has no text


def _withheld(message: dict[str, Any]) -> dict[str, Any]:
    if WITHHELD in message:
        return message
    envelope = recognise(from_a2a_message(message))
    if envelope is None:
        raise InvalidError("a message has no valid signature; a receipt of it would prove nothing")
    return {"metadata": message["metadata"], WITHHELD: envelope.compute_hash().hex()}


def _without_arguments(entry: dict[str, Any]) -> dict[str, Any]:
    action = entry["action"]
    if WITHHELD in action:
        return entry
    hashed = hashlib.sha256(jcs(action["args"])).hexdigest()
    return {**entry, "action": {"op": action["op"], WITHHELD: hashed}}


def is_withheld(receipt: Receipt) -> bool:
    """Return whether a text is missing."""
    match receipt:
        case CallReceipt(request=request, reply=reply):
            return WITHHELD in request or WITHHELD in reply
        case MessageReceipt(messages=messages):
            return any(WITHHELD in message for message in messages)
        case VoteReceipt(entries=entries) | AgreementReceipt(entries=entries):
            return any(WITHHELD in _action(entry) for entry in entries)
        case RangeReceipt():
            return False


def _action(entry: dict[str, Any]) -> dict[str, Any]:
    action = entry.get("action")
    return action if isinstance(action, dict) else {}
