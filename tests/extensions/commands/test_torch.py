"""`comity torch`, `comity context`, `comity csm1`: as a person types them, beside a running node and without one."""

import asyncio
import io
import json
import sys

import pytest

from comity.testing import running_node
from comity.vcp.protocol.signals import ABSENT
from tests.mcp.extension_clients import hello, over_http
from tests.vcp.extension_scene import NORM, PAIN, RELATIONAL, TORCH, ExtensionScene


@pytest.fixture
def folder(environ, comity):
    assert comity("id", "new").code == 0
    return environ["COMITY_DATA"]


class TestATorch:
    def test_is_given_taken_and_shown(self, folder, comity, tmp_path):
        assert "no torch was handed over yet" in comity("torch", "show").out
        given = comity("torch", "give")
        assert given.code == 0
        torch = tmp_path / "torch.json"
        torch.write_text(given.out)
        taken = comity("torch", "take", str(torch))
        assert "standing  advisory" in taken.out
        assert json.loads(given.out)["jti"] not in taken.out
        again = comity("torch", "take", str(torch))
        assert again.code != 0
        assert "taken before" in again.err
        result = json.loads(comity("torch", "show", "--json").out)
        assert len(result["lineage"]["torch_chain"]) == 1
        assert result["relation"]["trust_level"] == "initial"

    def test_is_read_from_standard_input(self, folder, comity, monkeypatch):
        given = comity("torch", "give").out
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        assert json.loads(comity("torch", "take", "-", "--json").out)["signed"] is True

    def test_that_nobody_signed_gives_nothing(self, folder, comity, tmp_path):
        torch = json.loads(comity("torch", "give").out) | {"session_count": 500}
        del torch["signature"]
        file = tmp_path / "torch.json"
        file.write_text(json.dumps(torch))
        taken = comity("torch", "take", str(file))
        assert "counts    as no session" in taken.out
        assert "this torch is not signed" in taken.err
        assert "more sessions than are possible" in taken.err

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"{", "is not valid JSON"),
            (b"[]", "is not a torch"),
            (b'{"quality_description": "x"}', "handed_at"),
            (b"x" * 70_000, "has more than 65,536 bytes"),
        ],
    )
    def test_that_is_none_is_refused_with_a_sentence(self, folder, comity, tmp_path, content, said):
        file = tmp_path / "torch.json"
        file.write_bytes(content)
        refused = comity("torch", "take", str(file))
        assert refused.code != 0
        assert said in refused.err

    def test_of_a_file_that_is_not_there(self, folder, comity, tmp_path):
        assert "cannot be read" in comity("torch", "take", str(tmp_path / "none")).err

    def test_to_somebody_who_is_no_node(self, folder, comity):
        said = comity("torch", "give", "--to", "bob").err
        assert said == "error: --to must be a key of 64 lower-case hexadecimal digits\n"

    def test_looking_changes_nothing(self, folder, comity):
        before = json.loads(comity("torch", "show", "--json").out)
        assert json.loads(comity("torch", "show", "--json").out) == before
        assert before["lineage"]["session_count"] == 0

    async def test_is_given_beside_a_running_node_and_known_to_its_clients(self, tmp_path, program):
        async with running_node(tmp_path / "data") as node:
            scene = ExtensionScene(node, None, 0)
            async with over_http(scene, hello(RELATIONAL, TORCH)) as client:
                await client.call("vcp_relational_norm", norm=NORM)
                given = await asyncio.to_thread(program, "torch", "give", "--data", tmp_path / "data")
                torch = json.loads(given.out)
                assert torch["primes"] == [NORM["description"]]
                receipt = await client.call("vcp_receive_torch", torch=torch)
                assert receipt["signed"]


class TestForgetting:
    async def test_takes_effect_at_once_while_the_node_runs(self, tmp_path, program):
        data = str(tmp_path / "data")
        async with running_node(tmp_path / "data") as node:
            scene = ExtensionScene(node, None, 0)
            async with (
                over_http(scene, hello("VCP-X-Personal", RELATIONAL)) as client,
                scene.session() as alice,
            ):
                await client.call("vcp_set_personal_state", signals=PAIN)
                await client.call("vcp_relational_norm", norm=NORM)
                await alice.call("relational.norm", norm=NORM)
                id_ = client.ack["session_id"]
                forgot = await asyncio.to_thread(
                    program, "context", "forget", "--session", id_, "--data", data
                )
                assert "removed" in forgot.out
                assert (await client.call("vcp_get_personal_state"))["protection_level"] == "standard"
                assert (await client.call("vcp_get_relational_context"))["established_norms"]
                arguments = ("context", "forget", "--mine", "--yes", "--json", "--data", data)
                result = await asyncio.to_thread(program, *arguments)
                assert json.loads(result.out)["forgotten"] >= 1
                assert (await client.call("vcp_get_relational_context"))["established_norms"] == []
                assert (await alice.call("relational.get"))["established_norms"]  # somebody else's
                arguments = ("context", "forget", "--session", alice.session_id, "--data", data)
                refused = await asyncio.to_thread(program, *arguments)
                assert "belongs to another owner" in refused.err

    def test_says_what_to_give(self, folder, comity):
        for arguments in ((), ("--mine", "--session", "x")):
            assert "either --session ID or --mine" in comity("context", "forget", *arguments).err
        assert "there is no such session" in comity("context", "forget", "--session", "ses_x").err
        assert "--yes" in comity("context", "forget", "--mine").err


class TestContext:
    def test_is_written_and_read_again(self, comity):
        wire = comity(
            "context", "encode", "time=morning", "space=office", "company=children", "cognitive_state=foggy:3"
        ).out.strip()
        result = json.loads(comity("context", "decode", wire, "--json").out)
        assert result.keys() == {"time", "space", "company", "cognitive_state"}
        assert result["cognitive_state"] == "foggy:3"

    def test_that_is_empty_is_told_so(self, comity):
        assert comity("context", "decode", "").out == "The context is empty.\n"
        assert json.loads(comity("context", "decode", "", "--json").out) == {}

    def test_of_nine_symbols_is_read(self, comity):
        result = json.loads(comity("context", "decode", "🧑⚕️:💬:🔒:🌙:🏠:👤:📱:🧘:" + ABSENT, "--json").out)
        assert result["setting"] == "🏠"
        assert "region" not in result

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("encode", "time"), "DIMENSION=VALUE"),
            (("encode", "mood=happy"), "mood"),
            (("encode", "time=noonish"), "time"),
            (("encode", "energy_level=calm:3"), "energy_level"),
            (("decode", "zzz"), "must begin with one of"),
            (("decode", "a:b:c:d:e:f:g:h:"), "symbol 9"),
        ],
    )
    def test_that_is_none_is_refused_by_name(self, comity, arguments, said):
        refused = comity("context", *arguments)
        assert refused.code != 0
        assert said in refused.err


class TestCsm1:
    def test_is_explained(self, comity):
        result = comity("csm1", "parse", "N5+E+F").out
        assert "persona    N nanny" in result
        assert json.loads(comity("csm1", "parse", "N5+F+E", "--json").out)["canonical"] == "N5+E+F"

    def test_is_refused_with_its_label(self, comity):
        refused = comity("csm1", "parse", "X9")
        assert refused.code != 0
        assert "invalid_persona" in refused.err
        result = comity("csm1", "parse", "X9", "--json")
        assert result.code == 1
        assert json.loads(result.out)["label"] == "invalid_persona"
