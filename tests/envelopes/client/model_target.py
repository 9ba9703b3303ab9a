"""A target in a few lines: what a called node does with envelopes, without its doors and its store.

`strict` behaves as the reference release does: no stored replies, no statements, unbound replies, a
failed behaviour uses the number up. Otherwise it follows the rulings: identical bytes get the stored
reply, a conflict is stated under signature, a failure leaves the pair as it was.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec
from comity.envelopes.protocol.chain import PairKey, ReplayState, TipStatement, check_chain
from comity.envelopes.protocol.envelope import (
    VacantEnvelope,
    from_a2a_jsonrpc,
    recognise,
    reply_key,
    signed_envelope,
    to_a2a_result,
)
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.protocol.metadata import with_members
from comity.http.client import HttpResponse
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.wire import strict_json
from comity.wire.errors import ConflictError, NoAnswerError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENDPOINT = "https://target.example/a2a/message/send"


def message(text: str) -> A2AMessage:
    return A2AMessage(parts=(A2APart(text=text),))


def text_of(envelope: VacantEnvelope) -> str:
    return " ".join(part.text for part in envelope.payload.parts)


def answer(status: int, body: Any, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(status, headers or {}, strict_json.dumps(body))


class ModelTarget:
    def __init__(
        self, key: SigningKey, *, strict: bool = False, dialects: tuple[str, ...] = ("seed",)
    ) -> None:
        self.key = key
        self.strict = strict
        self.dialects = dialects
        self.accepted: dict[VacantId, ReplayState] = {}
        self.replied: dict[VacantId, ReplayState] = {}
        self.kept: dict[tuple[VacantId, int], tuple[bytes, bytes]] = {}
        self.executed: list[VacantEnvelope] = []
        self.behaviour: Callable[[VacantEnvelope], Awaitable[str]] = self._echo
        self.refusals: list[HttpResponse] = []
        self.members: dict[str, Any] = {}
        self._turn = asyncio.Lock()
        self._keys = itertools.count()

    def card(self, **policy: Any) -> CapabilityCard:
        promises = policy if self.strict else {"bind_replies": True, **policy}
        return CapabilityCard(
            vacant_id=self.key.vacant_id,
            capability_text="anything",
            substrate_spec=SubstrateSpec(policy=promises),
            endpoint=ENDPOINT,
        ).signed(self.key)

    async def take(self, body: bytes) -> HttpResponse:
        """The order of checks of the contract, as far as a caller can tell."""
        if self.refusals:
            return self.refusals.pop(0)
        request = recognise(from_a2a_jsonrpc(strict_json.loads(body)))
        if request is None or request.dialect not in self.dialects:
            return answer(401, {"detail": "envelope signature did not verify for sender x"})
        async with self._turn:
            return await self._in_turn(request)

    def statement(self, caller: VacantId, state: ReplayState | None = None) -> dict[str, Any]:
        pair = PairKey(caller, self.key.vacant_id)
        state = state or self.accepted.get(caller, ReplayState())
        return TipStatement.of(pair, state, now=NOW).signed(self.key).to_json()

    async def _in_turn(self, request: VacantEnvelope) -> HttpResponse:
        caller = request.from_vacant_id
        digest, kept = self.kept.get((caller, request.sequence_no), (b"", b""))
        if digest == request.compute_hash():
            return HttpResponse(200, {}, kept)
        try:
            state = check_chain(self.accepted.get(caller, ReplayState()), request)
        except ConflictError as conflict:
            refusal: dict[str, Any] = {"detail": conflict.message}
            if not self.strict:
                refusal["statement"] = self.statement(caller)
            return answer(409, refusal)
        if self.strict:
            self.accepted[caller] = state
        self.executed.append(request)
        try:
            text = await self.behaviour(request)
        except ArithmeticError:
            return answer(500, {"detail": "the behaviour failed"})
        self.accepted[caller] = state
        reply = self.reply_to(request, text)
        self.replied[caller] = ReplayState(reply.sequence_no, reply.compute_hash())
        body = to_a2a_result(reply, None)
        body["result"] = {"message": with_members(body["result"]["message"], self.members)}
        result = strict_json.dumps(body)
        if not self.strict:
            self.kept[caller, request.sequence_no] = (request.compute_hash(), result)
        return HttpResponse(200, {}, result)

    def reply_to(self, request: VacantEnvelope, text: str, **changes: Any) -> VacantEnvelope:
        last = self.replied.get(request.from_vacant_id, ReplayState())
        key = f"key {next(self._keys)}" if self.strict else reply_key(request)
        members = {
            "from_vid": self.key.vacant_id,
            "to_vid": request.from_vacant_id,
            "payload": A2AMessage(role="ROLE_AGENT", parts=(A2APart(text=text),)),
            "sequence_no": last.last_sequence_no + 1,
            "prev_envelope_hash": last.chain_tip,
            "idempotency_key": key,
            "timestamp": NOW,
            "signing_key": self.key,
            "dialect": request.dialect,
        }
        return signed_envelope(**(members | changes))

    async def _echo(self, request: VacantEnvelope) -> str:
        return f"echo {text_of(request)}"


class Wire:
    """Carries requests to targets by endpoint, and does to each what `weather` says."""

    def __init__(self, *targets: ModelTarget) -> None:
        self.targets = {target.card().endpoint: target for target in targets}
        self.bodies: list[bytes] = []
        self.weather: list[str | Exception | HttpResponse | None] = []

    async def request(self, method, url, json=None, headers=None, *, body=None) -> HttpResponse:
        assert method == "POST"
        self.bodies.append(body)
        today = self.weather.pop(0) if self.weather else None
        if isinstance(today, HttpResponse):
            return today
        if isinstance(today, Exception):
            raise today
        got = await self.targets[url].take(body)
        if today == "the gateway fails":
            return answer(502, {"detail": "bad gateway"})
        if today == "lose the reply":
            raise NoAnswerError("the wire lost the reply")
        return got

    @property
    def sent(self) -> list[VacantEnvelope]:
        return [recognise(from_a2a_jsonrpc(strict_json.loads(body))) for body in self.bodies]
