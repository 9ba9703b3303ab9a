"""Receipts: how fast the entries of a `range` are verified, beside the least a verifier can do with the standard library:
parse the file and each entry, hash its fields, compare the links.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from hashlib import sha256

from bench.harness.measure import repeating
from bench.harness.row import Contender, Row, Setting, Unit
from comity.identity.protocol.keys import SigningKey
from comity.receipts.protocol.format import write_receipt
from comity.receipts.protocol.making import receipt_of_range
from comity.receipts.protocol.verify import verify_receipt
from comity.store.audit_chain import AuditDraft, AuditEntry, AuditHead, head_bytes, link, timestamp

KEY = SigningKey.from_seed(bytes(range(32)))
ENTRIES = 100_000
UNHASHED = ("token_count", "content_preview", "entry_hash")
MOMENT = timestamp(1_767_225_600.0)

DRAFT = AuditDraft(
    verification_result="ENVELOPE_OK",
    created_at=MOMENT,
    checks_passed=("rate", "identity", "signature", "chain"),
    duration_ms=1.25,
    content_hash="blake2b:" + "5" * 64,
    request_id_hash="blake2b:" + "7" * 64,
)


@contextlib.contextmanager
def open_range(_setting: Setting) -> Iterator[Sequence[Contender]]:
    data = _receipt()

    def verify() -> None:
        found = verify_receipt(data)
        if found.verdict != "good" or found.facts["last"] != ENTRIES:
            raise ValueError(f"the receipt does not verify: {found.reason}")

    def read_plainly() -> None:
        if _read_plainly(data) != ENTRIES:
            raise ValueError("the plain reader missed entries")

    yield [
        repeating("comity verify", verify, 0, each=ENTRIES),
        repeating("plain reader", read_plainly, 0, each=ENTRIES),
    ]


def _receipt() -> bytes:
    entries: list[AuditEntry] = []
    previous: str | None = None
    for position in range(1, ENTRIES + 1):
        entries.append(link(DRAFT, position=position, previous_hash=previous))
        previous = entries[-1].entry_hash
    head = AuditHead(chain="main", position=ENTRIES, entry_hash=previous or "", at=MOMENT)
    signature = KEY.sign(head_bytes(head)).hex()
    return write_receipt(receipt_of_range(KEY.vacant_id.hex(), entries, head, signature))


def _read_plainly(data: bytes) -> int:
    """Return how many entries hang together, counted the plain way."""
    previous = None
    texts = json.loads(data)["entries"]
    for position, text in enumerate(texts, 1):
        entry = json.loads(text)
        fields = {name: value for name, value in entry.items() if name not in UNHASHED}
        fields["checks_passed"].sort()
        fields["previous_hash"] = fields["previous_hash"] or ""
        form = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        if (entry["chain_position"], entry["previous_hash"]) != (position, previous):
            return position
        previous = entry["entry_hash"]
        if sha256(form).hexdigest() != previous:
            return position
    return len(texts)


ROWS = (
    Row(
        name="receipt-range",
        title="audit entries of a receipt with 100,000, verified",
        unit=Unit.PROCESSOR_RATE,
        open=open_range,
    ),
)
