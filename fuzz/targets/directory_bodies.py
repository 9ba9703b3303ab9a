"""What strangers send to a directory: every request has one answer in JSON, and none is a fault of ours.

The input is taken as it is for the body of a publication and for a query; where it is an object, its members
also stand in the place of ours in a publication that is signed well.
"""

import asyncio
import json
from typing import Any

from starlette.applications import Starlette

from comity.directory.doors import CARD_PREFIX, PUBLISH_PATH, QUERY_PATH, directory_routes
from comity.directory.protocol.signed_requests import register_event
from comity.envelopes.protocol.card import CapabilityCard, Visibility, serialize
from comity.http.asgi import Message
from comity.identity.protocol.keys import SigningKey
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from comity.wire import strict_json
from comity.wire.errors import ComityError

LONGEST = 2048

_KEY = SigningKey.from_seed(bytes(32))
_OURS: dict[str, Any] = {
    "runtime_state": "ACTIVE",
    "visibility": "PUBLIC",
    "event_actor_seq": 1,
    "event_idempotency_key": "register:1",
    "event_ts_ms": 1_767_225_600_000,
}
_FINE = {200, 400, 401, 403, 404, 409, 413, 429}


def _publication(text: str, members: dict[str, Any]) -> dict[str, Any]:
    card = CapabilityCard(vacant_id=_KEY.vacant_id, capability_text=text).signed(_KEY)
    body = {**_OURS, **members}
    event = register_event(
        card,
        Visibility(body["visibility"]),
        idempotency_key=body["event_idempotency_key"],
        ts_ms=body["event_ts_ms"],
        actor_seq=body["event_actor_seq"],
    ).signed(_KEY)
    signed = {"capability_card_blob_hex": serialize(card).hex(), "event_signature_hex": event.signature.hex()}
    return {**signed, **body}


EXAMPLES = [
    strict_json.dumps(_publication("echo", {})),
    strict_json.dumps(
        {"base_model": "m", "owner_org": "o", "declared_capabilities": ["a", "é"], "version": 2, "text": "t"}
    ),
    strict_json.dumps(
        {"visibility": "LOCAL", "parent_id": _KEY.vacant_id.hex(), "event_idempotency_key": "k" * 256}
    ),
    b'{"event_ts_ms":9223372036854775807,"event_actor_seq":2,"version":"1.0","text":"echo again"}',
    b"capability=echo&family=&limit=100",
    b"capability=%C3%A9%22*%20OR&limit=0&limit=1",
    b"reader=%00&ts=1&sig=zz",
]


class _Directory:
    """One for each input: what was published before is no matter."""

    def __init__(self) -> None:
        clock = VirtualClock()
        store = MemoryStore(clock, trail=AuditTrail("main", _KEY))
        pipeline = Pipeline(Recorder(store, clock), clock, budget=None)
        self._app = Starlette(routes=directory_routes(pipeline=pipeline, store=store, clock=clock))

    async def ask(self, method: str, path: str, *, query: bytes = b"", body: bytes = b"") -> int:
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "scheme": "http",
            "headers": [(b"host", b"directory.example"), (b"content-type", b"application/json")],
            "client": ("192.0.2.7", 5000),
            "server": ("127.0.0.1", 8420),
        }
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start, *rest = sent
        status = int(start["status"])
        assert status in _FINE, (status, rest)
        told = json.loads(b"".join(message.get("body", b"") for message in rest))
        assert isinstance(told, dict)
        assert status == 200 or told["detail"]
        return status


_RUNNER = asyncio.Runner()


def check(data: bytes) -> None:
    _RUNNER.run(_story(data))


async def _story(data: bytes) -> None:
    directory = _Directory()
    await directory.ask("POST", PUBLISH_PATH, body=data)
    await directory.ask("POST", QUERY_PATH, query=data)
    await directory.ask("GET", CARD_PREFIX + _KEY.vacant_id.hex(), query=data)
    try:
        members = strict_json.loads(data)
        if not isinstance(members, dict):
            return
        text = members.pop("text", "echo")
        body = strict_json.dumps(_publication(text if isinstance(text, str) else "", members))
    except (ComityError, AttributeError, OverflowError, TypeError, ValueError):
        return  # what cannot even be signed
    if await directory.ask("POST", PUBLISH_PATH, body=body) == 200:
        assert await directory.ask("POST", PUBLISH_PATH, body=body) == 200  # again: its first answer
