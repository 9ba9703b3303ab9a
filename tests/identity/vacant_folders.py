"""Identity folders as the reference release leaves them."""

import json
from datetime import UTC, datetime

from comity.envelopes.protocol.resident import Logbook
from comity.identity.protocol.keys import SigningKey

KEY = SigningKey.from_seed(bytes(range(32)))
TARGET = SigningKey.from_seed(bytes(range(1, 33))).vacant_id
META = {
    "vacant_id_hex": KEY.vacant_id.hex(),
    "state": "ACTIVE",
    "capability_text": "translates",
    "endpoint": "http://127.0.0.1:8443/a2a/message/send",
    "created_at": "2026-05-06T00:00:00+00:00",
    "last_heartbeat_at": None,
    "parent_id_hex": None,
    "halo_published": True,
    "key_storage": "plaintext",
}
CHAINS = {
    TARGET.hex(): {
        "request": {"last_seq": 7, "last_hash_hex": "aa" * 32},
        "response": {"last_seq": 6, "last_hash_hex": "bb" * 32},
    }
}
PLAINTEXT = {"key_storage": "plaintext", "pubkey_hex": KEY.vacant_id.hex(), "seed_hex": KEY.seed.hex()}


def write_folder(folder, *, key=PLAINTEXT, meta=META, chains=CHAINS, logbook=2):
    """Each part as JSON, as bytes that are written as they are, or None to leave it out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("key.json", key), ("meta.json", meta), ("envelope_state.json", chains)):
        if content is not None:
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            (folder / name).write_bytes(data)
    (folder / "key.json").chmod(0o600)
    if logbook is not None:
        lines = logbook if isinstance(logbook, list) else logbook_lines(logbook)
        (folder / "logbook.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def logbook_lines(count):
    book = Logbook()
    for number in range(count):
        book.append("HEARTBEAT", {"number": number}, ts=datetime(2026, 5, 6, 0, number, tzinfo=UTC), key=KEY)
    return [entry.to_line() for entry in book]
