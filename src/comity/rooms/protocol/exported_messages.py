"""Signed messages as a file that anybody can verify offline: one envelope per line, in the form of the wire.

The file proves who said what to whom and in which order: each signature is checked with the key that the id of
the sender is, and the numbers and hashes of each pair have to follow each other without a gap.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from comity.envelopes.protocol.carrier import from_a2a_message
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import VacantEnvelope, recognise
from comity.wire import strict_json
from comity.wire.errors import ComityError, InvalidError

LONGEST_LINE: Final = 1024 * 1024


class ExportedMessage(Struct, frozen=True, kw_only=True):
    envelope: VacantEnvelope
    text: str


def export_lines(messages: Iterable[dict[str, Any]]) -> bytes:
    """`messages` are envelopes as they were sent or received."""
    return b"".join(strict_json.dumps(message) + b"\n" for message in messages)


def verify_export(data: bytes) -> list[ExportedMessage]:
    """All messages, verified. Raises InvalidError that names the first line that does not hold."""
    tips: dict[PairKey, VacantEnvelope] = {}
    verified: list[ExportedMessage] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE:
            raise InvalidError(f"line {number} is longer than {LONGEST_LINE:,} bytes")
        try:
            envelope = recognise(from_a2a_message(strict_json.loads(line, unique_keys=True)))
        except ComityError as why:
            raise InvalidError(f"line {number} is no envelope: {why.message}") from None
        if envelope is None:
            raise InvalidError(f"line {number}: the signature does not verify")
        pair = PairKey.from_envelope(envelope)
        last = tips.get(pair)
        if last is not None and not _follows(last, envelope):
            raise InvalidError(f"line {number} does not follow the message before it from the same sender")
        tips[pair] = envelope
        text = "".join(part.text for part in envelope.payload.parts)
        verified.append(ExportedMessage(envelope=envelope, text=text))
    return verified


def _follows(last: VacantEnvelope, envelope: VacantEnvelope) -> bool:
    return envelope.sequence_no == last.sequence_no + 1 and envelope.prev_envelope_hash == last.compute_hash()
