"""Messages that look like the real ones: made here, always the same."""

import json
from typing import Any

CARRIER: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "8a2f6c1e-5d37-4b9e-9a60-3f1f0f6f2b11",
    "method": "message/send",
    "params": {
        "message": {
            "role": "ROLE_USER",
            "parts": [
                {
                    "type": "text",
                    "text": "Zürich to Genève on the 14th, two people, a window seat if any. " * 5,
                },
                {"type": "text", "text": 'The budget is "about 120"; answer with a table.\n'},
            ],
            "contextId": "trip-2026-07",
            "messageId": "m-000184",
            "metadata": {
                "urn:vacant:v1": {
                    "from_vacant_id": "1f" * 32,
                    "to_vacant_id": "a7" * 32,
                    "sequence_no": 184,
                    "timestamp": "2026-01-31T08:15:00.250000+00:00",
                    "prev_envelope_hash": "3c" * 32,
                    "idempotency_key": "8a2f6c1e-5d37-4b9e-9a60-3f1f0f6f2b11",
                    "caller_signature": "5e" * 64,
                }
            },
        }
    },
}
"""A signed message as it travels: 1.2 KB."""

_MESSAGE = CARRIER["params"]["message"]
_METADATA = _MESSAGE["metadata"]["urn:vacant:v1"]

SIGNED_FIELDS: dict[str, Any] = {
    "from": _METADATA["from_vacant_id"],
    "to": _METADATA["to_vacant_id"],
    "seq": _METADATA["sequence_no"],
    "ts": _METADATA["timestamp"],
    "prev": _METADATA["prev_envelope_hash"],
    "idem": _METADATA["idempotency_key"],
    "payload": {name: _MESSAGE[name] for name in ("role", "parts", "contextId", "messageId")},
}
"""What of it is signed."""


def tool_calls(count: int) -> bytes:
    """A stream of short requests, one per line, as a client of tools sends them."""
    return b"".join(
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": number,
                "method": "tools/call",
                "params": {
                    "name": "vdo_send_message",
                    "arguments": {
                        "room": "workshop",
                        "to": "peer-2",
                        "text": f"step {number} of many is done",
                    },
                },
            },
            separators=(",", ":"),
        ).encode()
        + b"\n"
        for number in range(1, count + 1)
    )
