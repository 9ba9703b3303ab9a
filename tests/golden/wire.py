"""What is signed, sent and stored, by example: fixed keys, fixed time, fixed chance."""

import json
from hashlib import sha256
from typing import Any

from msgspec import to_builtins

import comity
from comity.envelopes.protocol.card import serialize
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc, to_a2a_result
from comity.envelopes.protocol.message import SelfEval
from comity.envelopes.protocol.resident import LogEntry
from comity.mcp.socket import Opened, Opening, line_of
from comity.requests.events import NodeEvent
from comity.requests.events import encode as encode_event
from comity.rooms.protocol.channel import write_control, write_data, write_envelope
from comity.rooms.protocol.effects import SendText
from comity.rooms.protocol.hello import mint
from comity.rooms.protocol.invite import invite_secret
from comity.rooms.protocol.signalling import RoomCipher
from comity.rooms.protocol.tool_table import Demands
from comity.store.audit_chain import AuditHead, checkpoint_bytes, encode, head_bytes, link
from comity.vcp.protocol.extension_calls import ExtensionError, write_call, write_refusal, write_result
from comity.vcp.protocol.messages import Hello, read_hello, to_value
from comity.vcp.protocol.negotiation import implicit_session
from comity.votes.protocol.log import (
    reply_with_entry,
    reply_with_refusal,
    tip_of,
    write_act,
    write_entry,
    write_read,
)
from comity.votes.protocol.provenance import write_record
from tests.actions.protocol.driving import Served
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, NOON, after, said, sent
from tests.envelopes.protocol.samples import card
from tests.envelopes.protocol.test_register_event import registered
from tests.rooms.protocol.session_scene import envelope, pair
from tests.rooms.protocol.test_invite import INVITE, members_of
from tests.simulation.rooms import SECURE
from tests.store.samples import draft
from tests.vcp.protocol.negotiation_samples import hello_object, negotiate, policy
from tests.votes.protocol.parties import ID, ratified

_MARGIN = 16_384
"""The longest text that is shown whole; of a longer one its hash."""


def examples() -> dict[str, Any]:
    return {
        "actions": _actions(),
        "audit": _audit(),
        "cards": _cards(),
        "envelopes": _envelopes(),
        "events": _events(),
        "extensions": _extensions(),
        "mcp opening": [
            _text(line_of(Opening(demands=to_builtins(Demands())))),
            _text(line_of(Opened(ok=False, error="no"))),
        ],
        "rooms": _rooms(),
        "vcp": _vcp(),
        "votes": _votes(),
    }


def _text(data: bytes | str) -> str:
    """As it stands, with every byte that is not plain text in hex."""
    if isinstance(data, str):
        return data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.hex()
    return text if len(text) <= _MARGIN else f"{len(data)} bytes, SHA-256 {sha256(data).hexdigest()}"


def _vcp() -> dict[str, Any]:
    hello = hello_object("VCP-X-Torch", "VCP-X-Personal", "VCP-X-Example", client_id="example")
    return {
        "schema": comity.HANDSHAKE_SCHEMA,
        "hello": to_value(Hello(version="3.1", extensions=("VCP-X-Torch",), client_id="example")),
        "ack": to_value(negotiate(read_hello(hello), policy(), session_id="ses_1")),
        "ack of everything": to_value(
            negotiate(
                read_hello(
                    hello_object(
                        *(
                            f"VCP-X-{name}"
                            for name in ("Personal", "Relational", "Consensus", "Torch", "Intent")
                        )
                    )
                ),
                policy(),
                session_id="ses_1",
            )
        ),
        "error": to_value(negotiate(read_hello(hello_object(version="9.0", min_version="9.0")), policy())),
        "implicit session": to_builtins(implicit_session(policy(), "ses_1")),
    }


def _envelopes() -> dict[str, Any]:
    request = sent()
    reply = after(None, BOB, ALICE, payload=said("hello", role="ROLE_AGENT"))
    judged = sent(payload=said("hello", self_eval=SelfEval(0.5, 0.5, 1, 0, 1e-7, 0.25)), dialect="selfeval")
    return {
        "request": to_a2a_jsonrpc(request),
        "request signs": _text(request.signing_payload()),
        "request hash": request.compute_hash().hex(),
        "second request": to_a2a_jsonrpc(after(request)),
        "reply": to_a2a_result(reply, "call-1"),
        "request of the other dialect": to_a2a_jsonrpc(judged),
        "it signs": _text(judged.signing_payload()),
    }


def _cards() -> dict[str, Any]:
    event = registered()
    line = LogEntry(kind="RUN", payload={"task": "✓"}, ts=NOON).signed(ALICE)
    return {
        "card": _text(serialize(card())),
        "card hash": card().card_hash().hex(),
        "registration signs": _text(event.signing_payload()),
        "registration hash": event.event_hash(bytes(32)).hex(),
        "line of a logbook": line.to_line(),
    }


def _audit() -> dict[str, Any]:
    first = link(draft("NODE_STARTED"), position=1, previous_hash=None)
    fields = {
        "checks_passed": ("signature", "caller:vacant:aaaaaaaa"),
        "duration_ms": 1.5,
        "issuer_hash": "ab" * 32,
    }
    second = link(draft("ENVELOPE_OK", **fields), position=2, previous_hash=first.entry_hash)
    head = AuditHead(chain="main", position=2, entry_hash=str(second.entry_hash), at=second.created_at)
    return {
        "entries": [_text(encode(first)), _text(encode(second))],
        "head signs": _text(head_bytes(head)),
        "checkpoint signs": _text(checkpoint_bytes(head)),
    }


def _events() -> list[str]:
    plain = NodeEvent(1, 1_772_314_200.0, "ping", "PING_OK")
    full = NodeEvent(
        2, 1_772_314_200.5, "envelope", "REFUSED", "unknown:-", "mac", "req", "trace", "envelope:mac", 3
    )
    return [_text(encode_event(plain)), _text(encode_event(full))]


def _extensions() -> list[str]:
    refusal = ExtensionError("INVALID_ARGUMENT", "name must be a text", "name")
    return [
        _text(write_call("c1", "torch.give", {"quality_description": "warm"})),
        _text(write_result("c1", {"ok": True})),
        _text(write_refusal("c1", refusal)),
        _text(write_refusal(None, refusal)),
    ]


def _votes() -> dict[str, Any]:
    table = ratified()
    last = table.entries[-1]
    tip = tip_of(last)
    written = write_record(table.entries, table.head)
    record = json.loads(written)
    return {
        "entries": [write_entry(entry) for entry in table.entries],
        "record": {name: value for name, value in record.items() if name != "entries"},
        "record hash": sha256(written).hexdigest(),
        "act": _text(write_act(last, tip)),
        "question": _text(write_read(ID, 3, None)),
        "answer": _text(reply_with_entry(last, tip)),
        "refusal": _text(reply_with_refusal(ExtensionError("FORBIDDEN", "no"), tip)),
    }


def _rooms() -> dict[str, Any]:
    key = bytes(range(32))
    message = envelope("message", {"text": "grüß dich"})
    cipher = RoomCipher("secret")
    return {
        "members of an invite, before they are deflated": members_of(INVITE),
        "secret of an invite": invite_secret(b"node", "blue", 1, 17),
        "join token": mint("secret", room="lab", stream_id="alice", exp=17, nonce="n"),
        "envelope": _text(write_envelope(message)),
        "envelope under a key": _text(write_envelope(message, key)),
        "exact numbers": _text(write_envelope(envelope("message", {"n": 2**60}), key, exact=True)),
        "data": _text(write_data({"any": [1, None]})),
        "control": _text(write_control({"bye": True})),
        "signalling": [
            cipher.room_id("lab"),
            cipher.stream_id("alice"),
            *cipher.encrypt("v=0\r\n", bytes(16)),
        ],
        "two of our nodes": _conversation(own=True),
        "as with the reference": _conversation(own=False),
        "two of our nodes that demand a key": _conversation(own=True, demands=SECURE),
    }


def _conversation(*, own: bool, **options: Any) -> list[str]:
    """All that two peers say: a hello, data, a message with its receipt, shared state, a file, and what is signed."""
    world, left, right = pair(own=own, **options)
    left.send({"text": "hello"})
    world.run(1)
    if own:
        left.send_signed("signed")
        world.run(1)
    left.put("key", "value")
    world.run(1)
    right.send_file(b"0123456789" * 20, chunk_bytes=1024)
    world.run(2)
    return [
        f"{host.name}: {_text(effect.data) if isinstance(effect, SendText) else effect.data.hex()}"
        for host in (left, right)
        for effect in host.sent
    ]


def _actions() -> dict[str, str]:
    served = Served("strict")
    given = (
        '{"type":"list_actions","requestId":5}',
        '{"type":"invoke","requestId":"r","action":"no_such_action","input":{}}',
        '{"type":"invoke","action":"empathetic_reframe","input":[]}',
        '{"type":"else"}',
        "{",
    )
    return {line: _text(served.send(line.encode() + b"\n")) for line in given}
