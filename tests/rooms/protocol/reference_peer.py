"""A stand-in of the reference Node peer, written from the contract sheet, with its habits and its bugs.

It takes the name of the connection for the peer's (which is its own name when it publishes), adds a MAC only to what goes
to one peer by uuid, never checks MACs of `sync.*`, moments or nonces, sends files chunk by chunk, believes a transfer to be
completed when the receiver has all chunks, counts its own clock only, and loses falsy data.
"""

import base64
import hashlib
import hmac
import json

from comity.rooms.protocol.hello import SessionKeys

MAGIC = "vdo_mcp_bridge_v1"


def text_of(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class ReferencePeer:
    def __init__(self, name, *, room="lab", secret=None, enforce=False, require_mac=False, seed=b"R" * 32):
        self.name = name
        self.room = room
        self.secret = secret
        self.enforce = enforce
        self.require_mac = require_mac
        self.keys = SessionKeys(seed)
        self.out = []
        self.shared = None
        self.peer_name = None
        self.state = "discovered"
        self.auth_failed = 0
        self.data = []
        self.entries = {}
        self.clock = 0
        self.incoming = {}
        self.outgoing = None
        self.count = 0
        self.beats = 0
        self.rejected = None
        self.capabilities = {}

    # What it sends.

    def raw(self, message):
        self.out.append(text_of(message).encode())

    def envelope(self, kind, payload, *, sealed=True):
        self.count += 1
        signed = {
            "kind": kind,
            "ts": 1_794_722_067_000 + self.count,
            "nonce": f"p_{self.count:08x}",
            "room": self.room,
            "from_stream_id": self.name,
            "payload": payload,
        }
        message = {"__vdo_mcp": MAGIC, **signed}
        if sealed and self.shared is not None:
            message["mac"] = hmac.new(self.shared, text_of(signed).encode(), hashlib.sha256).hexdigest()
        self.raw({"pipe": message})

    def opened(self, role, peer_name):
        """As a publisher it thinks that the viewer has its own name."""
        self.peer_name = self.name if role == "publisher" else peer_name
        greeting = {"info": {"label": "mcp_bridge"}}
        self.raw(greeting if role == "publisher" else {"audio": False, "video": False, **greeting})
        self.hello("sync.hello", sealed=False)

    def hello(self, kind, *, sealed):
        names = ("sync_v1", "file_transfer_v1", "state_v1", "resume_v1", "session_mac_v1")
        payload = {
            "capabilities": dict.fromkeys(names, True),
            "public_key": self.keys.public_key,
            "join_token": self.token(),
        }
        self.envelope(kind, payload, sealed=sealed)

    def token(self):
        if self.secret is None:
            return None
        claims = {"room": self.room, "stream_id": self.name, "exp": 10**14, "nonce": "join_00112233"}
        body = base64.urlsafe_b64encode(text_of(claims).encode()).rstrip(b"=").decode()
        mac = hmac.new(self.secret.encode(), body.encode(), hashlib.sha256).digest()
        return f"{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    def beat(self):
        self.beats += 1
        self.raw({"pipe": {"type": "bridge.keepalive", "ts": 5, "streamID": self.name}})
        self.envelope("sync.heartbeat", {"room": self.room, "stream_id": self.name}, sealed=False)
        self.raw({"ping": 17})
        if self.beats % 4 == 0:
            self.hello("sync.hello", sealed=False)

    def say(self, value):
        self.raw({"pipe": value})

    def set(self, key, value, *, to_one=False):
        self.clock += 1
        entry = {"key": key, "value": value, "actor": self.name, "clock": self.clock, "updated_at": "x"}
        self.entries[key] = entry
        self.envelope("state.patch", entry, sealed=to_one)

    def send_file(self, data, transfer_id="file_ref", chunk=1024):
        chunks = [data[at : at + chunk] for at in range(0, len(data), chunk)]
        self.outgoing = {"id": transfer_id, "data": data, "chunks": chunks, "status": "offered", "next": 0}
        offer = {
            "transfer_id": transfer_id,
            "name": "ref.bin",
            "mime": "application/octet-stream",
            "total_bytes": len(data),
            "total_chunks": len(chunks),
            "chunk_bytes": chunk,
            "file_hash": hashlib.sha256(data).hexdigest(),
        }
        self.envelope("file.offer", offer)

    # What it hears.

    def handle(self, text):
        message = json.loads(text)
        if "ping" in message:
            self.raw({"pong": message["ping"]})
        if "pipe" not in message:
            return
        value = message["pipe"]
        if isinstance(value, dict) and value.get("__vdo_mcp") == MAGIC:
            self.hear_envelope(value)
        elif value and not (
            isinstance(value, dict) and value.get("type") in {"request", "response", "subscribe"}
        ):
            self.data.append(value)

    def hear_envelope(self, message):
        kind, payload = message["kind"], message["payload"]
        if not kind.startswith("sync.") and not self.passes(message):
            self.auth_failed += 1
            return
        handler = getattr(self, "on_" + kind.replace(".", "_"), None)
        if handler is not None:
            handler(payload)

    def passes(self, message):
        if "mac" not in message:
            return not self.require_mac
        if self.shared is None:
            return False
        signed = {
            name: message[name] for name in ("kind", "ts", "nonce", "room", "from_stream_id", "payload")
        }
        return hmac.new(self.shared, text_of(signed).encode(), hashlib.sha256).hexdigest() == message["mac"]

    def admits(self, payload):
        if self.secret is None or not self.enforce:
            return True
        body = (payload.get("join_token") or ".").partition(".")[0]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)) or b"{}")
        if claims.get("stream_id") == self.peer_name:
            return True
        self.state = "rejected"
        self.envelope("sync.reject", {"reason": "join token stream mismatch"}, sealed=False)
        return False

    def on_sync_hello(self, payload):
        if self.admits(payload):
            self.shared = self.keys.shared_with(payload["public_key"])
            self.capabilities = payload["capabilities"]
            self.state = "hello_received"
            self.hello("sync.hello_ack", sealed=True)
            self.envelope("state.snapshot_req", {"room": self.room, "requester_stream_id": self.name})

    def on_sync_hello_ack(self, payload):
        if self.admits(payload):
            self.shared = self.keys.shared_with(payload["public_key"])
            self.state = "ready"
            self.envelope("state.snapshot_req", {"room": self.room, "requester_stream_id": self.name})

    def on_sync_reject(self, payload):
        self.rejected = payload["reason"]

    def on_state_patch(self, payload):
        current = self.entries.get(payload["key"])
        if current is None or (payload["clock"], payload["actor"]) > (current["clock"], current["actor"]):
            self.entries[payload["key"]] = payload

    def on_state_snapshot(self, payload):
        for entry in payload["entries"]:
            self.on_state_patch(entry)

    def on_state_snapshot_req(self, _payload):
        entries = [self.entries[key] for key in sorted(self.entries)]
        snapshot = {
            "room": self.room,
            "stream_id": self.name,
            "entries": entries,
            "actor_clock": {self.name: self.clock},
            "generated_at": "x",
        }
        self.envelope("state.snapshot", snapshot)

    def on_file_offer(self, payload):
        known = self.incoming.setdefault(
            payload["transfer_id"], {**payload, "chunks": {}, "status": "receiving"}
        )
        self.envelope("file.accept", {"transfer_id": payload["transfer_id"], "next_seq": self.missing(known)})

    @staticmethod
    def missing(transfer):
        return next((seq for seq in range(transfer["total_chunks"] + 1) if seq not in transfer["chunks"]), 0)

    def on_file_chunk(self, payload):
        transfer = self.incoming[payload["transfer_id"]]
        data = base64.b64decode(payload["data_base64"])
        assert hashlib.sha256(data).hexdigest() == payload["chunk_hash"]
        transfer["chunks"].setdefault(payload["seq"], data)
        received = sum(map(len, transfer["chunks"].values()))
        ack = {
            "transfer_id": payload["transfer_id"],
            "seq": payload["seq"],
            "next_seq": self.missing(transfer),
            "received_bytes": received,
        }
        self.envelope("file.ack", ack)

    def on_file_complete(self, payload):
        transfer = self.incoming[payload["transfer_id"]]
        data = b"".join(transfer["chunks"][seq] for seq in range(transfer["total_chunks"]))
        if hashlib.sha256(data).hexdigest() != transfer["file_hash"]:
            transfer["status"] = "failed"
            self.envelope(
                "file.nack",
                {"transfer_id": payload["transfer_id"], "expected_seq": 0, "reason": "file hash mismatch"},
            )
            return
        transfer["status"], transfer["data"] = "completed", data
        ack = {
            "transfer_id": payload["transfer_id"],
            "file_hash": transfer["file_hash"],
            "total_bytes": len(data),
        }
        self.envelope("file.complete_ack", ack)

    def on_file_resume_req(self, payload):
        transfer = self.incoming.get(payload["transfer_id"])
        state = {"transfer_id": payload["transfer_id"], "next_seq": 0, "status": "unknown_transfer"}
        if transfer is not None:
            state |= {"next_seq": self.missing(transfer), "status": transfer["status"]}
        self.envelope("file.resume_state", state)

    def on_file_accept(self, payload):
        self.outgoing["status"] = "transferring"
        self.chunk(payload["next_seq"])

    def on_file_ack(self, payload):
        self.chunk(max(payload["seq"] + 1, payload["next_seq"]))

    def on_file_nack(self, payload):
        if self.outgoing["status"] != "offered":
            self.chunk(payload["expected_seq"])

    def chunk(self, seq):
        transfer = self.outgoing
        if seq >= len(transfer["chunks"]):
            digest = hashlib.sha256(transfer["data"]).hexdigest()
            self.envelope(
                "file.complete",
                {"transfer_id": transfer["id"], "total_bytes": len(transfer["data"]), "file_hash": digest},
            )
            return
        data = transfer["chunks"][seq]
        payload = {
            "transfer_id": transfer["id"],
            "seq": seq,
            "data_base64": base64.b64encode(data).decode(),
            "chunk_hash": hashlib.sha256(data).hexdigest(),
        }
        self.envelope("file.chunk", payload)

    def on_file_complete_ack(self, _payload):
        self.outgoing["status"] = "completed"
