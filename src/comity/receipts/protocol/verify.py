"""Whether a receipt is true, and what follows from it: from its bytes and the public keys in it alone.

- The verdict is `good`, `bad` with the reason, or `not verifiable`: a text was withheld, or the reply does not say which
  request it answers.
- A verdict says who said what to whom, when by whose clock, and in which order; and what it does not prove.
- Votes are counted by the code that counts them everywhere, never by a copy.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import (
    VacantEnvelope,
    from_a2a_message,
    recognise,
    reply_is_bound,
    to_a2a_message,
)
from comity.envelopes.protocol.message import utc_iso
from comity.identity.protocol.keys import is_key, verify
from comity.receipts.protocol.format import (
    AgreementReceipt,
    CallReceipt,
    InclusionProof,
    MessageReceipt,
    NotAReceiptError,
    RangeReceipt,
    Receipt,
    VoteReceipt,
    hash_of,
    read_receipt,
)
from comity.receipts.protocol.making import is_withheld
from comity.store import audit_chain
from comity.store.audit_chain import AuditEntry
from comity.votes.protocol.log import read_entry, write_entry
from comity.votes.protocol.provenance import provenance_of, recount
from comity.wire.errors import ComityError, MalformedError
from comity.wire.merkle import inclusion_holds

Grade = Literal["good", "bad", "not verifiable"]

_OPEN: Final[Grade] = "not verifiable"
_MAX_ACTS: Final = 200


class Statement(Struct, frozen=True, kw_only=True):
    """Who said what to whom: `number` is the place in their order, `time` is by the clock of `who`."""

    who: str
    to: str | None
    number: int
    time: str
    text: str


class Verdict(Struct, frozen=True, kw_only=True):
    """`sha256` names the receipt. `facts` are what its kind shows besides, `proves` and `not_proven` are sentences."""

    verdict: Grade
    kind: str | None = None
    sha256: str | None = None
    reason: str | None = None
    statements: tuple[Statement, ...] = ()
    facts: dict[str, Any] = {}
    proves: tuple[str, ...] = ()
    not_proven: tuple[str, ...] = ()


class _Bad(NamedTuple):
    reason: str


class _Open(NamedTuple):
    """Nothing is wrong, and one thing remains open."""

    reason: str
    verdict: Verdict


_CLOCKS: Final = "that the times are right: each is by the clock of the one who signed"
_PERSONS: Final = "which person or company has a key, and that what was said is true"
_RECEIVED: Final = "that a message arrived: the sender signed it, nobody signed for its receipt"
_MORE: Final = "that nothing else was said before, between or after"


def verify_receipt(data: bytes, now: float | None = None) -> Verdict:
    """Verify a receipt. Raise nothing, whatever the bytes are. By the clock `now`, if there is one, no phase of a vote may
    have been closed before its deadline.
    """
    try:
        receipt = read_receipt(data)
    except NotAReceiptError as fault:
        return Verdict(verdict="bad", reason=fault.message)
    kind, name = str(receipt.__struct_config__.tag), hash_of(data)
    if is_withheld(receipt):
        reason = "texts were withheld, and the signatures cover them; ask for the receipt with its texts"
        return Verdict(verdict="not verifiable", reason=reason, kind=kind, sha256=name)
    try:
        found = _checked(receipt, now)
    except ComityError as fault:
        found = _Bad(fault.message)
    if isinstance(found, _Bad):
        return Verdict(verdict="bad", reason=found.reason, kind=kind, sha256=name)
    if isinstance(found, _Open):
        checked, grade, reason = found.verdict, _OPEN, found.reason
        return replace(checked, verdict=grade, reason=reason, kind=kind, sha256=name)
    return replace(found, kind=kind, sha256=name)


def _checked(receipt: Receipt, now: float | None) -> "Verdict | _Bad | _Open":
    match receipt:
        case CallReceipt():
            return _call(receipt)
        case MessageReceipt():
            return _messages(receipt)
        case RangeReceipt():
            return _range(receipt)
        case VoteReceipt(entries=entries):
            return _vote(entries, now, agreed=False)
        case AgreementReceipt(entries=entries):
            return _vote(entries, now, agreed=True)


def _envelope(message: dict[str, Any], what: str) -> "VacantEnvelope | _Bad":
    """Return the envelope of a message, if it is signed and nothing else is in it."""
    envelope = recognise(from_a2a_message(message))
    if envelope is None:
        return _Bad(f"the signature of {what} is not valid")
    if to_a2a_message(envelope) != message:
        return _Bad(f"{what} holds something that its signature does not cover")
    return envelope


def _call(receipt: CallReceipt) -> "Verdict | _Bad | _Open":
    request, reply = _envelope(receipt.request, "the request"), _envelope(receipt.reply, "the reply")
    if isinstance(request, _Bad):
        return request
    if isinstance(reply, _Bad):
        return reply
    if (reply.from_vacant_id, reply.to_vacant_id) != (request.to_vacant_id, request.from_vacant_id):
        return _Bad("the reply is of or to somebody else than the request")
    bound = reply_is_bound(reply, request)
    if bound is False:
        return _Bad("the reply answers another request")
    caller, agent = request.from_vacant_id.hex(), request.to_vacant_id.hex()
    found = Verdict(
        verdict="good",
        statements=(_statement(request), _statement(reply)),
        facts={"caller": caller, "agent": agent, "idempotency_key": request.idempotency_key},
        proves=(
            f"{_short(caller)} asked {_short(agent)} this, as request {request.sequence_no:,} between them",
            f"{_short(agent)} gave this reply to exactly this request, as its reply {reply.sequence_no:,}",
        ),
        not_proven=(_CLOCKS, _PERSONS, _MORE),
    )
    if bound is None:
        return _Open("both are signed, but the reply does not say which request it answers", found)
    return found


def _messages(receipt: MessageReceipt) -> "Verdict | _Bad":
    last: dict[PairKey, VacantEnvelope] = {}
    statements = []
    if not receipt.messages:
        return _Bad("it holds no message")
    for place, message in enumerate(receipt.messages, 1):
        envelope = _envelope(message, f"message {place}")
        if isinstance(envelope, _Bad):
            return envelope
        pair = PairKey.from_envelope(envelope)
        before = last.get(pair)
        if before is not None and not _follows(before, envelope):
            return _Bad(f"message {place} does not follow the one before it of the same sender")
        last[pair] = envelope
        statements.append(_statement(envelope))
    return Verdict(
        verdict="good",
        statements=tuple(statements),
        proves=("each sender signed its messages, to this receiver, with these numbers and in this order",),
        not_proven=(
            _CLOCKS,
            _PERSONS,
            _RECEIVED,
            "the order between messages of different senders, and in which room they were sent",
        ),
    )


def _follows(before: VacantEnvelope, envelope: VacantEnvelope) -> bool:
    link = before.sequence_no + 1, before.compute_hash()
    return link == (envelope.sequence_no, envelope.prev_envelope_hash)


def _statement(envelope: VacantEnvelope) -> Statement:
    return Statement(
        who=envelope.from_vacant_id.hex(),
        to=envelope.to_vacant_id.hex(),
        number=envelope.sequence_no,
        time=utc_iso(envelope.timestamp),
        text="\n".join(part.text for part in envelope.payload.parts),
    )


def _vote(entries: Sequence[dict[str, Any]], now: float | None, *, agreed: bool) -> "Verdict | _Bad":
    found = recount(list(entries), now)
    if not found.ok or found.head is None:
        place = "" if found.bad_entry is None else f"entry {found.bad_entry:,}: "
        return _Bad(f"{place}{found.reason}")
    read = [read_entry(entry) for entry in entries]
    if [write_entry(entry) for entry in read] != list(entries):
        return _Bad("an entry holds something that is not its own")
    vote = found.head.vote
    if agreed and vote.phase != "active":
        return _Bad(f"it is no agreement: the vote never became active, its phase is {vote.phase}")
    facts: dict[str, Any] = {
        "vote": vote.id,
        "title": vote.title,
        "phase": vote.phase,
        "host": vote.host,
        "parties": sorted(vote.stakeholders),
        "entries": len(read),
    }
    if found.findings:
        facts["findings"] = list(found.findings)
    if agreed:
        facts["rules"] = {one.clause_id: one.text for one in provenance_of(vote).clause_records}
        facts["votes"] = {party: cast.vote for party, cast in vote.votes.items()}
    statements = tuple(
        Statement(
            who=entry.actor,
            to=None,
            number=entry.number,
            time=entry.time,
            text=entry.action.op + ("" if entry.on_behalf is None else f" for {entry.on_behalf}"),
        )
        for entry in read[:_MAX_ACTS]
    )
    return Verdict(
        verdict="good",
        statements=statements,
        facts=facts,
        proves=(
            "each act was signed by its actor, and got its number from the host",
            f"by the rules of the vote, these acts lead to the phase {vote.phase}",
        ),
        not_proven=(
            _CLOCKS,
            _PERSONS,
            "that the host left nobody's act out, and gave no other party another log: compare the logs of the parties",
            "that no act came after the last one here",
        ),
    )


def _range(receipt: RangeReceipt) -> "Verdict | _Bad":
    signer, head = receipt.signer, receipt.head
    if not is_key(signer):
        return _Bad("signer is not the id of a key")
    try:
        signature = bytes.fromhex(head.signature)
    except ValueError:
        signature = b""
    if signature.hex() != head.signature or not verify(
        bytes.fromhex(signer), audit_chain.head_bytes(head.signed()), signature
    ):
        return _Bad("the signature of the head is not valid")
    if not receipt.entries:
        return _Bad("it holds no entry")
    first = last = _entry(1, receipt.entries[0])
    results: Counter[str] = Counter()

    def walk() -> Iterator[AuditEntry]:
        """Yield the entries one by one: a hundred thousand at once would be much memory."""
        nonlocal last
        for place, text in enumerate(receipt.entries, 1):
            last = _entry(place, text)
            results[last.verification_result] += 1
            yield last

    verdict = audit_chain.verify(walk(), first_position=first.chain_position)
    if not verdict.ok:
        return _Bad(verdict.message or "the entries are no chain")
    if not _is_in_record(last, receipt):
        return _Bad("the entries do not end at the signed head, and no proof shows that they are in its tree")
    return Verdict(
        verdict="good",
        facts={
            "signer": signer,
            "chain": head.chain,
            "first": first.chain_position,
            "last": last.chain_position,
            "signed_at": head.at,
            "results": dict(sorted(results.items())),
        },
        proves=(
            f"{_short(signer)} had these {len(receipt.entries):,} entries in its audit record, in this order, when it signed the head",
        ),
        not_proven=(
            "that the times are right: all are by the clock of the signer",
            "that the signer recorded everything, and showed nobody another record",
            "what was said: entries hold hashes, not texts",
        ),
    )


def _is_in_record(entry: AuditEntry, receipt: RangeReceipt) -> bool:
    """Return whether the entry is the one that the head names, or is proven to be in its tree. The tree ends with the entry
    that the head names, so its size says with which one it begins.
    """
    head, proof = receipt.head, receipt.proof
    if not isinstance(proof, InclusionProof):
        return (entry.chain_position, entry.entry_hash) == (head.position, head.entry_hash)
    if head.size is None or head.root is None:
        return False
    return inclusion_holds(
        bytes.fromhex(entry.entry_hash),
        entry.chain_position - 1 - head.position + head.size,
        head.size,
        bytes.fromhex(head.root),
        [bytes.fromhex(each) for each in proof.hashes],
    )


def _entry(place: int, text: str) -> AuditEntry:
    try:
        entry = audit_chain.decode(text.encode(), exact=True)
    except MalformedError as fault:
        raise MalformedError(f"entry {place:,} of the receipt: {fault.message}") from None
    if entry.token_count is not None or entry.content_preview is not None:
        raise MalformedError(f"entry {place:,} of the receipt holds something that its hash does not cover")
    return entry


def _short(key: str) -> str:
    return key[:12]
