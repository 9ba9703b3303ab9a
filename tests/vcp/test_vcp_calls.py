"""Operations of extensions by `VcpClient`, against a node and against servers that answer oddly."""

import asyncio
import json

import pytest

from comity.identity.secrets import TOKEN_FILE, read_token
from comity.vcp.client import VcpClient
from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.signals import ContextError
from comity.wire.errors import InvalidError, TooLargeError, UnusableAnswerError
from tests.vcp.extension_scene import CONSENSUS, DOORS, FOUR, NORM, PAIN, PERSONAL, extension_scene

pytestmark = pytest.mark.usefixtures("patience")


def url(scene, door):
    return scene.node.url if door == "websocket" else f"tcp://127.0.0.1:{scene.tcp_port}"


@pytest.mark.parametrize("door", DOORS)
async def test_every_extension_is_called_by_its_name(door):
    async with (
        extension_scene() as scene,
        VcpClient.connect(url(scene, door), extensions=(*FOUR, CONSENSUS), identity=scene.token()) as session,
    ):
        result = await session.personal.set(signals=PAIN)
        assert result["signals"]["body_signals"]["category"] == "pain"
        assert (await session.call("personal.get"))["signals"].keys() == {"body_signals"}
        assert (await session.relational.norm(norm=NORM))["established_norms"]
        assert (await session.torch.generate())["primes"] == [NORM["description"]]
        assert (await session.intent.infer())["effective"] == "health_check"
        made = await session.consensus.open(title="T", clauses=["A."], stakeholders=[])
        assert (await session.consensus.list())["deliberations"][0]["delib_id"] == made["id"]


async def test_over_mcp_the_same_calls_answer_what_a_model_may_see(tmp_path):
    async with (
        extension_scene(tmp_path / "data") as scene,
        VcpClient.connect(
            f"{scene.node.url}/mcp",
            extensions=FOUR,
            bearer=read_token(tmp_path / "data" / TOKEN_FILE),
            remember=False,
        ) as session,
    ):
        assert (await session.personal.set(signals=PAIN))["protection_level"] == "high"
        assert (await session.relational.norm(norm=NORM))["established_norms"]
        answer = await session.send_context({"generation_preferences": {"depth": 2}})
        assert answer.message["accepted"] == ["generation_preferences"]
        with pytest.raises(ExtensionError) as refused:
            await session.personal.set(signals={"energy_level": {"category": "calm"}})
        assert (refused.value.wire_code, refused.value.field) == (
            "INVALID_ARGUMENT",
            "signals.energy_level.category",
        )
        with pytest.raises(ExtensionError):
            await session.personal.steal()
        with pytest.raises(ContextError) as wrong:
            await session.send_context({"personal": {"energy_level": {"category": "calm"}}})
        assert wrong.value.wire_code == "INVALID"


async def test_a_refusal_keeps_its_code_and_its_field():
    async with extension_scene() as scene, VcpClient.connect(scene.node.url, extensions=FOUR) as session:
        with pytest.raises(ExtensionError) as refused:
            await session.personal.set(signals={"energy_level": {"category": "calm"}})
        assert refused.value.wire_code == "INVALID_ARGUMENT"
        assert refused.value.field == "signals.energy_level.category"


async def test_calls_run_side_by_side_and_beside_context_requests():
    async with (
        extension_scene() as scene,
        VcpClient.connect(scene.node.url, extensions=FOUR, identity=scene.token()) as session,
    ):
        running = [session.personal.get() for _ in range(40)]
        asking = [session.send_context({"generation_preferences": {"depth": 1 + n % 5}}) for n in range(10)]
        calls, answers = await asyncio.gather(asyncio.gather(*running), asyncio.gather(*asking))
        assert len(calls) == 40
        assert [one.message["generation_preferences"]["depth"] for one in answers] == [1, 2, 3, 4, 5] * 2


async def test_what_is_not_active_is_not_sent():
    async with (
        extension_scene() as scene,
        VcpClient.connect(scene.node.url, extensions=[PERSONAL]) as session,
    ):
        with pytest.raises(ExtensionError) as refused:
            await session.torch.generate()
        assert refused.value.wire_code == "EXTENSION_INACTIVE"
        with pytest.raises(AttributeError):
            _ = session.telepathy
        with pytest.raises(InvalidError):
            await session.personal.set(signals={1, 2})
        with pytest.raises(TooLargeError):
            await session.personal.preset(id="x" * 2_000_000)
        assert session.active


def test_the_groups_are_those_of_the_table():
    from comity.vcp.client_session import GROUPS

    assert {name.partition(".")[0] for name in operations()} == set(GROUPS)


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": "UNKNOWN_MESSAGE", "message": "what?", "field": None}},
        {"type": "vcp-result", "id": "1", "ok": True, "error": {"code": "CONFLICT", "message": "x"}},
        {"type": "vcp-result", "id": "1", "ok": False},
        {"type": "vcp-result", "id": "1", "ok": False, "error": {"code": "MADE_UP", "message": "x"}},
    ],
)
async def test_an_answer_that_breaks_the_agreement_is_told_as_such(answer):
    ack = {
        "type": "vcp-ack",
        "version": "3.1",
        "supported": [PERSONAL],
        "unsupported": [],
        "capabilities": {},
        "core_features": {},
    }

    async def serve(reader, writer):
        await reader.readline()
        writer.write(json.dumps(ack).encode() + b"\n")
        await reader.readline()
        writer.write(json.dumps(answer).encode() + b"\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, VcpClient.connect(f"tcp://127.0.0.1:{port}", extensions=[PERSONAL]) as session:
        with pytest.raises(UnusableAnswerError):
            await session.personal.get()
