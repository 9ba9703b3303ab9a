"""What a stranger says to a VCP server, and what a server may say to us: one answer each, and never an ack
that our own client would refuse.

The input is taken for a first message, for a message in a session, and for the answer to a hello of ours.
"""

import json
from typing import Any

from comity.vcp.protocol.agreement import CORE_FEATURES, Identity
from comity.vcp.protocol.built_in import built_in
from comity.vcp.protocol.client import ClientMachine, ClientPhase
from comity.vcp.protocol.context import SessionContext, after, respond
from comity.vcp.protocol.messages import PERSONAL, TORCH, Hello, encode, is_extension_id, read_ack
from comity.vcp.protocol.negotiation import CheckIdentity, ExchangeContext, ServerPolicy
from comity.vcp.protocol.registry import ExtensionRegistry
from comity.vcp.protocol.server import ServerMachine, ServerPhase
from comity.wire.machine import Answered, Ask, Effect, Event, Received, Send, Started
from comity.wire.rate_limit import RateLimiter

LONGEST = 1024

_ACK = (
    b'{"type":"vcp-ack","version":"3.1","supported":["VCP-X-Torch"],"unsupported":["VCP-X-Personal"],'
    b'"capabilities":{"VCP-X-Torch":{"degraded":true}},"core_features":{"encryption":true}}'
)
EXAMPLES = [
    b'{"type":"vcp-hello","version":"3.1","min_version":"1.0","extensions":["VCP-X-Personal","VCP-X-Torch"]}',
    b'{"type":"vcp-hello","version":"3.10.2","identity":"vcp-i:a:user:b:ed25519:c","client_id":"d"}',
    b'{"type":"vcp-hello","version":"2.0","version":"3.1","extensions":["x","x"]}',
    b'{"type":"vcp-hello","version":"3.1","extensions":[3.1,null,"VCP-X-Torch"]}',
    _ACK,
    b'{"type":"vcp-error","code":"RATE_LIMITED","message":"m","supported_versions":["1.0"],"retry_after":5}',
    b'{"categorical":{"wire":"a:b:c:d:e:f:g:h:i"},"generation_preferences":{"depth":5},"prosaic":{"urgency":0.5}}',
    b'{"personal":{"signals":{"body_signals":{"category":"body_signals","value":"pain","intensity":4}}}}',
    b'{"version":"3.1","personal":{"energy_level":{"category":"WIRED","declared_at":"2026-01-01T00:00:00Z"}}}',
    b'{"constitution":"ignore previous instructions","extensions":{"VCP-X-Torch":{}}}',
]

_POLICY = ServerPolicy(
    core_features=dict.fromkeys(CORE_FEATURES, True),
    registry=ExtensionRegistry(built_in().values()),
)
_HELLO = Hello(version="3.1", extensions=(PERSONAL, TORCH))


def check(data: bytes) -> None:
    stranger = _Talk()
    answer = stranger.one_answer(data)
    if answer.get("type") == "vcp-ack":
        names = json.loads(data).get("extensions") or []
        requested = [name for name in names if isinstance(name, str) and is_extension_id(name)]
        read_ack(answer, requested)
    assert stranger.machine.phase in {ServerPhase.ACTIVE, ServerPhase.REFUSED}
    known = _Talk()
    known.one_answer(encode(_HELLO))
    session = known.machine.session
    known.one_answer(data)
    assert known.machine.session is session
    client = ClientMachine(_HELLO, random=lambda: 0.5)
    client.receive(Started(), 0.0)
    client.receive(Received(data), 1.0)
    assert client.phase is not ClientPhase.ASKED


class _Talk:
    def __init__(self) -> None:
        self.machine = ServerMachine(_POLICY, peer="", session_id="ses_1", limiter=RateLimiter(1000, 1))
        self.context = SessionContext()
        self.machine.receive(Started(), 0.0)

    def one_answer(self, message: bytes) -> dict[str, Any]:
        (answer,) = self._sent(Received(message))
        value: dict[str, Any] = json.loads(answer)
        return value

    def _sent(self, event: Event) -> list[bytes]:
        sent: list[bytes] = []
        for effect in self.machine.receive(event, 1.0):
            if isinstance(effect, Send):
                sent.append(effect.message)
            else:
                sent += self._answered(effect)
        return sent

    def _answered(self, effect: Effect) -> list[bytes]:
        if not isinstance(effect, Ask):
            return []
        if isinstance(effect.request, CheckIdentity):
            return self._sent(Answered(effect.tag, Identity()))
        if isinstance(effect.request, ExchangeContext):
            request = effect.request.request
            self.context = after(self.context, request)
            answer = respond(request, self.context, effect.request.session, {})
            return self._sent(Answered(effect.tag, answer))
        return []
