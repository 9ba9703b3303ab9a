"""Receipts of all kinds, made of a seed, and alterations of them."""

from datetime import UTC, datetime

from comity.envelopes.protocol.envelope import reply_key, signed_envelope, to_a2a_message
from comity.envelopes.protocol.message import A2AMessage, A2APart, SelfEval
from comity.identity.protocol.keys import SigningKey
from comity.receipts.protocol.format import write_receipt
from comity.receipts.protocol.making import (
    receipt_of_call,
    receipt_of_messages,
    receipt_of_range,
    receipt_of_vote,
    without_text,
)
from comity.store import audit_chain
from comity.store.audit_chain import AuditDraft, AuditHead, head_bytes
from comity.votes.protocol.log import write_entry
from comity.wire.merkle import inclusion_parts, leaf_hash, root_of_leaves
from tests.votes.protocol.parties import Table, ratified

ALICE, BOB, EVE = (SigningKey.from_seed(bytes([number]) * 32) for number in (61, 62, 63))
KINDS = ("call", "message", "vote", "agreement", "range")
TEXTS = (
    "",
    "good morning",
    'quotes " and \\',
    "Grüße an 北京 \U0001f600",
    "two\nlines\tand \x7f",
    "ﬀ \U00010000",
)
MOMENT = 1_772_314_200


def envelope(sender, receiver, number, before, text, *, dialect="seed", key="", signer=None, micro=0):
    payload = A2AMessage(parts=(A2APart(text=text),), context_id=text[:3] or None)
    if dialect == "selfeval" and number % 2:
        payload = A2AMessage(parts=payload.parts, self_eval=SelfEval(factual=1.0, honesty=0.25))
    return signed_envelope(
        from_vid=sender.vacant_id,
        to_vid=receiver.vacant_id,
        payload=payload,
        sequence_no=number,
        prev_envelope_hash=before,
        idempotency_key=key,
        timestamp=datetime.fromtimestamp(MOMENT + number + micro / 1e6, UTC),
        signing_key=signer or sender,
        dialect=dialect,
    )


def call(random, *, bound=True, signer=None):
    dialect = random.choice(["seed", "seed", "selfeval"])
    number = random.integer(1, 9)
    before = bytes(32) if number == 1 else random.bytes(32)
    request = envelope(
        ALICE,
        BOB,
        number,
        before,
        random.choice(TEXTS),
        dialect=dialect,
        key="k",
        micro=random.choice([0, 7]),
    )
    key = reply_key(request) if bound else "any"
    reply = envelope(
        BOB, ALICE, 3, random.bytes(32), random.choice(TEXTS), dialect=dialect, key=key, signer=signer
    )
    return receipt_of_call(request, reply)


def call_of(question, answer):
    request = envelope(ALICE, BOB, 1, bytes(32), question)
    return receipt_of_call(request, envelope(BOB, ALICE, 1, bytes(32), answer, key=reply_key(request)))


def messages(random, *, gap=False):
    sent, tips = [], {}
    for place in range(random.integer(2, 6)):
        sender, receiver = random.choice([(ALICE, BOB), (BOB, ALICE)]) if not gap else (ALICE, BOB)
        number, before = tips.get(sender, (1, bytes(32)))
        number += gap and place == 1
        one = envelope(sender, receiver, number, before, random.choice(TEXTS))
        tips[sender] = number + 1, one.compute_hash()
        sent.append(to_a2a_message(one))
    return receipt_of_messages(sent)


def vote(random):
    table = Table(title=random.choice(TEXTS) or "a title")
    if random.chance(0.5):
        table.advance("deliberation")
    return receipt_of_vote(list(map(write_entry, table.entries)), active=False)


def agreement(_random):
    return receipt_of_vote(list(map(write_entry, ratified().entries)), active=True)


def entries(random, count, first=1):
    before = None if first == 1 else random.bytes(32).hex()
    for position in range(first, first + count):
        draft = AuditDraft(
            verification_result=random.choice(["ENVELOPE_OK", "CALL_SENT", "Grüße \x7f"]),
            created_at=audit_chain.timestamp(MOMENT + position),
            checks_passed=("b", "a"),
            duration_ms=random.choice([0.0, 1, 2.5, 0.125]),
            content_hash="sha256:0",
        )
        entry = audit_chain.link(draft, position=position, previous_hash=before)
        before = entry.entry_hash
        yield entry


def audit_range(random, *, count=None, first=None, signer=ALICE):
    first = first or random.choice([1, 1, 5])
    found = list(entries(random, count or random.integer(1, 6), first))
    at = audit_chain.timestamp(MOMENT + 100)
    last = found[-1].chain_position
    tree = {"log": "", "size": last, "root": random.bytes(32).hex()} if random.chance(0.5) else {}
    head = AuditHead(chain="main", position=last, entry_hash=found[-1].entry_hash, at=at, **tree)
    signature = signer.sign(head_bytes(head)).hex()
    return receipt_of_range(ALICE.vacant_id.hex(), found, head, signature)


def proven_range(random, *, total=None, wrong=False):
    """Some entries of a record, and the proof that the last of them is in the tree of the head."""
    before = random.choice([0, 0, 4])  # entries that are older than the tree
    found = list(entries(random, total or random.integer(2, 40), before + 1))
    leaves = [leaf_hash(bytes.fromhex(entry.entry_hash)) for entry in found]
    size, last = len(found), random.integer(0, len(found) - 2)
    head = AuditHead(
        chain="main",
        position=found[-1].chain_position,
        entry_hash=found[-1].entry_hash,
        at=audit_chain.timestamp(MOMENT + 100),
        log="",
        size=size,
        root=root_of_leaves(leaves).hex(),
    )
    shown = found[random.integer(0, last) : last + 1]
    index = last + 1 if wrong else last
    proof = [root_of_leaves(leaves[begin:end]) for begin, end in inclusion_parts(index, size)]
    return receipt_of_range(ALICE.vacant_id.hex(), shown, head, ALICE.sign(head_bytes(head)).hex(), proof)


MAKERS = {"call": call, "message": messages, "vote": vote, "agreement": agreement, "range": audit_range}
RANGES = (audit_range, proven_range)


def good(random):
    kind = random.choice(KINDS)
    return write_receipt((random.choice(RANGES) if kind == "range" else MAKERS[kind])(random))


def unverifiable(random):
    receipt = random.choice([lambda r: call(r, bound=False), lambda r: without_text(call(r))])(random)
    return write_receipt(receipt)


def altered(random):
    """A receipt with something in it that was not so when it was signed."""
    data = good(random)
    at = random.integer(0, len(data) - 1)
    match random.integer(1, 8):
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at + 1 :]
        case 3:
            return data[:at] + data[at : at + 1] + data[at:]
        case 4:
            return write_receipt(call(random, signer=EVE))
        case 5:
            return write_receipt(audit_range(random, signer=EVE))
        case 6:
            return write_receipt(messages(random, gap=True))
        case 7:
            return write_receipt(proven_range(random, wrong=True))
        case _:
            return data[:at] + bytes([data[at] ^ (1 << random.integer(0, 7))]) + data[at + 1 :]
