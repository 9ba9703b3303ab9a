"""A client of the directory that knows the contract and nothing of Comity: httpx, PyNaCl and the standard library.

Usage: directory_stranger.py URL. It publishes two agents, searches, hides one and shows it again, and recounts the chain
of events. It prints one JSON object with what it saw.
"""

import hashlib
import json
import sys
import time

import httpx
from nacl.signing import SigningKey

SEPARATOR = b"\x1f"
ENDPOINT = "http://127.0.0.1:9/a2a/message/send"


def canonical(value, *, ascii_only=False):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only).encode()


def digest(data):
    return hashlib.blake2b(data, digest_size=32).digest()


def event_bytes(kind, actor, payload, key, ts_ms, actor_seq):
    return SEPARATOR.join(
        (
            kind.encode(),
            actor.hex().encode(),
            b"",
            digest(payload),
            key.encode(),
            actor,
            ts_ms.to_bytes(8, "big"),
            actor_seq.to_bytes(8, "big"),
        )
    )


class Publisher:
    def __init__(self, name, http):
        self.http = http
        self.key = SigningKey(digest(name.encode()))
        self.public = bytes(self.key.verify_key)
        self.id = self.public.hex()

    def card(self, text, endpoint):
        spec = {"allowed_substrates": ["mock"], "policy": {}}
        signed = SEPARATOR.join(
            (self.public, text.encode(), canonical(spec), (1).to_bytes(8, "big"), (endpoint or "").encode())
        )
        members = {
            "vacant_id": self.id,
            "capability_text": text,
            "endpoint": endpoint,
            "halo_version": 1,
            "substrate_spec": spec,
            "signature": self.key.sign(signed).signature.hex(),
        }
        return canonical(members), digest(signed).hex()

    def next_number(self):
        """As the published CLI does: page to the end; whatever is not 200 means that there are no events."""
        last = number = 0
        while True:
            page = self.http.get(f"/v1/event_log/{self.id}", params={"from_seq": last, "limit": 2})
            if page.status_code != 200 or not page.json():
                return number + 1
            for row in page.json():
                last, number = row["seq"], max(number, row["actor_seq"])

    def publish(self, text, endpoint=ENDPOINT, visibility="PUBLIC", **more):
        blob, card_hash = self.card(text, endpoint)
        ts_ms, number = int(time.time() * 1000), self.next_number()
        registered = {
            "card_hash": card_hash,
            "halo_version": 1,
            "vacant_id": self.id,
            "visibility": visibility,
        }
        key = f"register:{self.id}:{ts_ms}"
        payload = canonical(registered, ascii_only=True)
        signed = event_bytes("register", self.public, payload, key, ts_ms, number)
        answer = self.http.post(
            "/v1/halo",
            json={
                "capability_card_blob_hex": blob.hex(),
                "runtime_state": "ACTIVE",
                "visibility": visibility,
                "event_ts_ms": ts_ms,
                "event_actor_seq": number,
                "event_idempotency_key": key,
                "event_signature_hex": self.key.sign(signed).signature.hex(),
                **more,
            },
        )
        assert answer.json()["capability_card_hash_hex"] == card_hash
        return answer.json()["event_seq"]


def search(http, words):
    matches = http.post("/v1/query_capability", params={"capability": words, "limit": 5}).json()["matches"]
    return [match["vacant_id"] for match in matches]


def recounted(http):
    """How many events there are whose hashes follow from each other."""
    previous, number = bytes(32), 0
    while (answer := http.get(f"/v1/event/{number + 1}")).status_code == 200:
        row = answer.json()
        signed = event_bytes(
            row["event_type"],
            bytes.fromhex(row["actor_vacant_id"]),
            row["payload_json"].encode(),
            row["idempotency_key"],
            row["ts"],
            row["actor_seq"],
        )
        previous = digest(previous + signed + bytes.fromhex(row["signature_hex"]))
        assert previous.hex() == row["event_hash_hex"]
        number += 1
    return number


def main(url):
    with httpx.Client(base_url=url) as http:
        ann, ben = Publisher("ann", http), Publisher("ben", http)
        numbers = [ann.publish("sings söngs"), ben.publish("counts beans", None, parent_id=ann.id)]
        seen = {"first": search(http, "söngs") == [ann.id] and search(http, "nothing") == []}
        numbers.append(ann.publish("sings older songs"))
        seen["again"] = search(http, "older") == [ann.id]
        numbers.append(ann.publish("sings older songs", visibility="NONE"))
        seen["hidden"] = search(http, "older") == []
        seen["hidden_status"] = http.get(f"/v1/capability_card/{ann.id}").status_code
        numbers.append(ann.publish("sings older songs"))
        seen["shown"] = search(http, "older") == [ann.id]
        seen["parents"] = http.get(f"/v1/lineage/{ben.id}").json()["chain"] == [ann.id]
        down = http.get(f"/v1/lineage/{ann.id}", params={"direction": "descendants", "depth": 1})
        seen["children"] = down.json()["chain"] == [ben.id]
        print(json.dumps({**seen, "numbers": numbers, "chain": recounted(http)}))
    assert not any(name.partition(".")[0] == "comity" for name in sys.modules)


if __name__ == "__main__":
    main(sys.argv[1])
