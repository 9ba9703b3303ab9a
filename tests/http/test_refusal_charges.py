"""What a refusal costs the address of a caller who has proven nothing: the same, whichever layer refuses."""

import json
from datetime import UTC, datetime

import httpx
import pytest

from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH, signed_envelope, to_a2a_jsonrpc
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.protocol.keys import SigningKey
from comity.runtime.settings import AgentSettings, RateSettings
from comity.testing import VirtualClock, bearer, running_node

pytestmark = pytest.mark.usefixtures("patience")

BUDGET = RateSettings(requests=100, limit_loopback=True)
REFUSALS = 50
"""Each costs one request and, as a fault, a hundredth of the budget."""
ANN = SigningKey.from_seed(bytes(32))
MALLORY = SigningKey.from_seed(bytes(31) + b"m")
SEND, PUBLISH, VOTES = "/a2a/message/send", "/v1/halo", "/v1/deliberations"
BRACKETS = b"[" * 5000
IN_JSON = {"content-type": "application/json"}


def served():
    return running_node(clock=VirtualClock(), agent=AgentSettings(behaviour="echo"), rate=BUDGET)


def call_of(node, signer, number=1, text="hello"):
    envelope = signed_envelope(
        from_vid=ANN.vacant_id,
        to_vid=node.vacant_id,
        payload=A2AMessage(parts=(A2APart(text=text),)),
        sequence_no=number,
        prev_envelope_hash=EMPTY_PREV_HASH,
        idempotency_key=f"{number} {text}",
        timestamp=datetime.now(UTC),
        signing_key=signer,
    )
    return json.dumps(to_a2a_jsonrpc(envelope)).encode()


async def answers_before_429(node, method, path, **request):
    async with httpx.AsyncClient(base_url=node.url) as client:
        for count in range(200):
            answer = await client.request(method, path, **request)
            if answer.status_code == 429:
                return count
            assert 400 <= answer.status_code < 500
    return None


@pytest.mark.parametrize(
    ("method", "path", "request_of"),
    [
        ("POST", SEND, {"content": BRACKETS, "headers": IN_JSON}),
        ("POST", SEND, {"content": b"{}", "headers": IN_JSON}),
        ("POST", SEND, {"content": b"{}", "headers": {"content-type": "text/plain"}}),
        ("GET", SEND, {}),
        ("POST", PUBLISH, {"content": BRACKETS, "headers": IN_JSON}),
        ("POST", PUBLISH, {"content": b"{}", "headers": IN_JSON}),
        ("DELETE", PUBLISH, {}),
        ("GET", "/v1/capability_card/nobody", {}),
        ("POST", VOTES, {"content": BRACKETS, "headers": IN_JSON}),
        ("POST", "/v1/ping", {"content": BRACKETS, "headers": IN_JSON}),
        ("POST", "/mcp", {"content": BRACKETS, "headers": IN_JSON}),
        ("GET", "/nowhere", {}),
        ("GET", "/.well-known/nowhere", {}),
        ("GET", "/vcp", {}),
    ],
)
async def test_a_refusal_before_any_proof_costs_as_much_as_a_bad_signature(method, path, request_of):
    async with served() as node:
        forged = call_of(node, MALLORY)
        bad_signatures = await answers_before_429(node, "POST", SEND, content=forged, headers=IN_JSON)
    async with served() as node:
        assert await answers_before_429(node, method, path, **request_of) == bad_signatures == REFUSALS


async def test_a_caller_who_signed_or_has_the_token_is_not_charged_for_refusals():
    async with served() as node, httpx.AsyncClient(base_url=node.url) as client:
        assert (await client.post(SEND, content=call_of(node, ANN), headers=IN_JSON)).status_code == 200
        out_of_chain = call_of(node, ANN, text="another first call")
        for _ in range(REFUSALS + 10):
            answer = await client.post(SEND, content=out_of_chain, headers=IN_JSON)
            assert answer.status_code == 409
        for _ in range(2 * REFUSALS):
            answer = await client.post("/v1/ping", content=BRACKETS, headers={**IN_JSON, **bearer(node)})
            assert answer.status_code == 400


async def test_asking_for_a_card_that_is_not_there_costs_a_request():
    async with served() as node, httpx.AsyncClient(base_url=node.url) as client:
        for _ in range(REFUSALS + 10):
            assert (await client.get(f"/v1/capability_card/{'0' * 64}")).status_code == 404
