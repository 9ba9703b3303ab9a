"""The smallest room: it proves the walk end to end."""

import pytest

from comity.node.http_server import NONCE_LIMIT, PingHandler
from comity.requests.handler import Request
from comity.testing import EPOCH
from comity.wire.errors import InvalidError, UnauthenticatedError
from tests.callers import OWNER, STRANGER
from tests.requests.pipelines import NodeRuntime, settle, simulated


def ping(body, *, owner=True):
    return Request(door="test", caller=OWNER if owner else STRANGER, body=body)


@pytest.mark.parametrize("nonce", ["", "hello", "x" * NONCE_LIMIT, "\N{SNOWMAN}" * NONCE_LIMIT])
@simulated
async def test_the_owner_gets_his_nonce_back(nonce):
    runtime = NodeRuntime()
    answer = await runtime.take(PingHandler(), ping({"nonce": nonce}))
    assert answer == {"pong": nonce, "principal": "local", "at": EPOCH}
    runtime.record.flush()
    await settle()
    entry = (await runtime.store.entries())[0]
    assert entry.verification_result == "PING_OK"
    assert entry.checks_passed == ("rate", "identity", "schema", "count:1", "caller:local:admin")


@simulated
async def test_the_nonce_may_be_left_out():
    assert (await NodeRuntime().take(PingHandler(), ping({})))["pong"] == ""


@simulated
async def test_a_stranger_is_told_where_the_token_is():
    with pytest.raises(UnauthenticatedError, match="file `token` of the data folder"):
        await NodeRuntime().take(PingHandler(), ping({}, owner=False))


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "hello",
        7,
        {"nonce": 7},
        {"nonce": None},
        {"nonce": ["x"]},
        {"nonce": "x" * (NONCE_LIMIT + 1)},
    ],
)
@simulated
async def test_anything_else_is_refused_with_the_shape_of_a_ping(body):
    with pytest.raises(InvalidError, match=f"at most {NONCE_LIMIT} characters"):
        await NodeRuntime().take(PingHandler(), ping(body))
