"""Trust on a live node: it follows from sessions that are an hour apart, and nothing else brings it."""

import asyncio

import pytest

from comity.extensions.protocol import torch as torches
from comity.extensions.protocol.relational import RelationalState
from comity.extensions.protocol.torch import TorchRules, TorchState
from comity.identity.protocol.keys import SigningKey
from tests.mcp.extension_clients import hello, over_http
from tests.vcp.extension_scene import FOUR, NORM, RELATIONAL, TORCH, WIRE, RefusalError, extension_scene

HOUR = 3600.0
HELLOS = 600
AT_ONCE = 30
LONG_AGO = RelationalState(sessions=500, continuity_depth=500)
CLAIMS = {"trust_level": "deep", "continuity_depth": 900, "standing": "bilateral"}


def foreign_torch(scene, owner, key):
    """A torch that says 500 sessions and is signed as it should be, by whoever holds the key."""
    _, torch = torches.hand_over(
        TorchState(),
        LONG_AGO,
        TorchRules(),
        owner=owner,
        session_id="ses_elsewhere",
        jti="jti-elsewhere",
        key=key,
        now=scene.clock.now(),
    )
    return torch


async def nothing_was_bought(client):
    relation = await client.call("relational.get")
    assert (relation["trust_level"], relation["standing"], relation["continuity_depth"]) == (
        "initial",
        "none",
        0,
    )


class TestTrustIsNotBought:
    async def test_with_six_hundred_hellos_in_a_minute(self):
        async with extension_scene() as scene, asyncio.timeout(300):
            gate = asyncio.Semaphore(AT_ONCE)

            async def visit():
                async with gate, scene.session(door="tcp") as client:
                    answer = await client.ask({"categorical": WIRE})
                    assert answer["accepted"] == ["categorical"]
                    return client.session_id

            seen = await asyncio.gather(*(visit() for _ in range(HELLOS - 1)))
            assert len(set(seen)) == HELLOS - 1
            async with scene.session() as last, scene.client() as too_many:
                await nothing_was_bought(last)
                greeting = hello(*FOUR, identity=scene.token())
                answer = await too_many.ask(greeting)
                assert (answer["code"], answer["retry_after"] > 0) == ("RATE_LIMITED", True)
                for _ in range(50):
                    await last.ask({"categorical": WIRE})
                await nothing_was_bought(last)

    @pytest.mark.parametrize(
        "payload",
        [{"relational_context": CLAIMS}, {"extensions": {RELATIONAL: CLAIMS}}],
        ids=["core", "named"],
    )
    async def test_with_a_payload_that_claims_it(self, payload):
        async with extension_scene() as scene, scene.session() as client:
            result = await client.ask(payload)
            assert result["accepted"] == []
            ignored = {one["field"].rpartition(".")[2] for one in result["ignored"]}
            assert ignored >= CLAIMS.keys()
            await nothing_was_bought(client)
            async with over_http(scene, hello(*FOUR, identity=scene.token())) as model:
                assert (await model.call("vcp_send_context", context=payload))["accepted"] == []
                assert (await model.call("vcp_get_relational_context"))["trust_level"] == "initial"

    async def test_with_a_torch_that_is_forged_or_foreign(self):
        stranger = SigningKey.from_seed(b"\x07" * 32)
        async with extension_scene() as scene, scene.session() as client:
            ours = await client.call("torch.generate")
            theirs = foreign_torch(scene, scene.owner(), stranger)
            refusals = {
                "altered": (ours | {"session_count": 500}, "BAD_SIGNATURE"),
                "in our name": (theirs | {"from": scene.node.vacant_id.hex()}, "BAD_SIGNATURE"),
                "of bob": (foreign_torch(scene, scene.owner("bob"), stranger), "FORBIDDEN"),
            }
            for name, (torch, code) in refusals.items():
                with pytest.raises(RefusalError) as refusal:
                    await client.call("torch.receive", torch=torch)
                assert refusal.value.code == code, name
            unsigned = {name: value for name, value in theirs.items() if name != "signature"}
            for torch in (theirs, unsigned | {"jti": "another"}):
                receipt = await client.call("torch.receive", torch=torch)
                assert (receipt["counted"], receipt["implausible"]) == (0, True)
            result = await client.ask(
                {"extensions": {TORCH: theirs}, "relational_context": {"torch": theirs}}
            )
            assert result["accepted"] == []
            await nothing_was_bought(client)


@pytest.mark.usefixtures("patience")
class TestTrust:
    async def test_grows_with_sessions_that_are_an_hour_apart(self):
        async with extension_scene() as scene:
            levels = []
            for _ in range(6):
                async with scene.session() as client:
                    await client.ask({"categorical": WIRE})
                    levels.append((await client.call("relational.get"))["trust_level"])
                scene.clock.jump(HOUR)
            assert levels == ["initial"] * 4 + ["developing"] * 2

    async def test_is_lost_ninety_days_after_the_last_use(self):
        async with extension_scene() as scene:
            async with scene.session() as client:
                await client.call("relational.norm", norm=NORM)
            scene.clock.jump(89 * 24 * HOUR)
            async with scene.session() as client:
                assert (await client.call("relational.get"))["established_norms"]
            scene.clock.jump(89 * 24 * HOUR)
            async with scene.session() as client:
                assert (await client.call("relational.get"))["established_norms"]
            scene.clock.jump(91 * 24 * HOUR)
            async with scene.session() as client:
                assert not (await client.call("relational.get"))["established_norms"]
