"""A caller who keeps his own chain, and an agent that says what he was told."""

import asyncio
from typing import Any

import httpx

from comity.envelopes.client.calls import build_envelope
from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    VacantEnvelope,
    from_a2a_result,
    to_a2a_jsonrpc,
)
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.server import EnvelopeHandler, MessageSend
from comity.identity.protocol.keys import SigningKey
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.runtime.system_clock import SystemClock

SERVER = SigningKey.from_seed(b"server".ljust(32))


def text(content: str, role: str = "ROLE_USER") -> A2AMessage:
    return A2AMessage(role=role, parts=(A2APart(text=content),))


async def echo(envelope: VacantEnvelope) -> A2AMessage:
    return text("echo " + " ".join(part.text for part in envelope.payload.parts), "ROLE_AGENT")


class Caller:
    """Signs the next envelope of its chain each time."""

    def __init__(self, name: str = "caller", **fixed: Any) -> None:
        self.key = SigningKey.from_seed(name.encode().ljust(32))
        self.seq = 0
        self.tip = EMPTY_PREV_HASH
        self.tips = [EMPTY_PREV_HASH]
        self.fixed = fixed

    def next(self, content: str = "hello", **changed: Any) -> VacantEnvelope:
        envelope = build_envelope(
            **{
                "from_vid": self.key.vacant_id,
                "to_vid": SERVER.vacant_id,
                "payload": text(content),
                "sequence_no": self.seq + 1,
                "prev_envelope_hash": self.tip,
                "signing_key": self.key,
                **self.fixed,
                **changed,
            }
        )
        self.seq, self.tip = envelope.sequence_no, envelope.compute_hash()
        self.tips.append(self.tip)
        return envelope


class Server:
    """The handler behind its route, on a store."""

    def __init__(self, store, behaviour=echo, *, state="ACTIVE", **options: Any) -> None:
        self.state = state
        self.store = store
        clock = options.pop("clock", None) or SystemClock()
        self.handler = EnvelopeHandler(
            key=SERVER,
            behaviour=behaviour,
            state_provider=lambda: self.state,
            store=store,
            clock=clock,
            **options,
        )
        self.pipeline = Pipeline(Recorder(store, clock, audited=False), clock, budget=None)
        transport = httpx.ASGITransport(app=MessageSend(self.handler, self.pipeline))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    async def post(self, body: Any, **named: Any) -> httpx.Response:
        if isinstance(body, VacantEnvelope):
            body = to_a2a_jsonrpc(body)
        return await self.http.post("/a2a/message/send", **({"json": body} | named))

    async def reply_to(self, envelope: VacantEnvelope) -> VacantEnvelope:
        response = await self.post(envelope)
        assert response.status_code == 200, response.text
        return from_a2a_result(response.json())


class Gate:
    """A behaviour that waits until it is let go, and counts who came."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.arrived: list[str] = []
        self.someone = asyncio.Event()

    async def __call__(self, envelope: VacantEnvelope) -> A2AMessage:
        self.arrived.append(envelope.payload.parts[0].text)
        self.someone.set()
        await self.open.wait()
        return await echo(envelope)
