"""What a node's folder holds of its extensions: nothing in clear, with its key, without it, and after a restart."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE

import pytest

from comity.identity.secrets import VAULT_KEY_FILE, read_vault_keys
from comity.runtime.system_clock import SystemClock
from comity.store.vault import Vault
from tests.mcp.extension_clients import hello, over_http
from tests.vcp.extension_scene import FOUR, NORM, PAIN, RefusalError, extension_scene

SECRET = "a lighthouse keeper named Ottilie"
WORDS = ("Ottilie", "body_signals", "emotional_processing", "emotional_tone", "tense", "user:alice")
MODEL = {"valence": {"value": 6.5, "uncertain": True, "label": SECRET}}


@pytest.fixture(autouse=True)
def key_file(monkeypatch):
    monkeypatch.delenv("VCP_CONTEXT_ENCRYPTION_KEY", raising=False)


async def tell(client):
    """Something in every extension that keeps anything."""
    await client.call("personal.set", signals={"body_signals": PAIN["body_signals"] | {"extended": SECRET}})
    await client.call("relational.norm", norm=NORM | {"description": SECRET})
    await client.call("relational.selfmodel", model=MODEL)
    await client.call("intent.correct", category="emotional_processing")
    await client.call("torch.generate")
    await client.ask({"constitution": f"Be kind to {SECRET}.", "personal": PAIN})


def in_clear(data, *words):
    """The files that hold one of the words."""
    return [
        (file.name, word)
        for file in data.rglob("*")
        if file.is_file()
        for word in words
        if word.encode() in file.read_bytes()
    ]


async def test_nothing_is_in_clear_anywhere_in_the_folder(tmp_path):
    data = tmp_path / "data"
    async with extension_scene(data) as scene, scene.session() as alice:
        await tell(alice)
        words = ("Ottilie", "body_signals", "emotional_processing", "established_norms", alice.session_id)
        found = in_clear(data, *words)
        # a session is found by its id; that is no word of anybody's
        assert {word for _, word in found} <= {alice.session_id}
        assert not in_clear(data, "user:alice")
    assert not in_clear(data, "Ottilie", "body_signals", "emotional_processing", "user:alice")


async def test_what_is_purged_or_taken_back_is_nowhere_any_more():
    async with extension_scene() as scene, scene.session() as alice:
        await alice.ask({"personal": PAIN | {"emotional_tone": {"category": "tense", "extended": SECRET}}})
        await alice.ask({"personal": {"emotional_tone": None}})
        vault = scene.node.runtime.vault
        opened = [vault.open(value) for value in (await scene.stored()).values()]
        assert not [value for value in opened if b"tense" in value or b"Ottilie" in value]
        assert [value for value in opened if b"pain" in value]
        await alice.call("personal.purge")
        opened = [vault.open(value) for value in (await scene.stored()).values()]
        assert not [value for value in opened if b"pain" in value]


async def test_all_of_it_is_there_after_a_restart(tmp_path):
    async with extension_scene(tmp_path / "data") as scene, scene.session() as alice:
        await tell(alice)
        id_ = alice.session_id
    async with (
        extension_scene(tmp_path / "data", clock=scene.clock) as scene,
        scene.session() as alice,
        over_http(scene, hello(*FOUR, identity=scene.token())) as client,
    ):
        assert (await alice.call("relational.get"))["established_norms"][0]["description"] == SECRET
        assert (await client.read(f"vcp://personal-state/{id_}"))["protection_level"] == "high"
        assert (await client.read(f"vcp://bundle/{id_}"))["model_safe_context"]["protection_level"] == "high"


async def rotate(data):
    command = [sys.executable, "-m", "comity", "vault", "rotate", "--data", str(data), "--json"]
    running = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    out, err = await running.communicate()
    assert running.returncode == 0, err.decode()
    return json.loads(out)


class TestARotatedKey:
    async def test_is_used_by_the_sessions_that_live_through_every_door_and_the_old_one_is_gone(
        self, tmp_path
    ):
        data = tmp_path / "data"
        async with (
            extension_scene(data, clock=SystemClock()) as scene,
            scene.session() as socket,
            scene.session(door="tcp") as stream,
            over_http(scene, hello(*FOUR, identity=scene.token())) as model,
        ):
            for client in (socket, stream):
                await tell(client)
            await model.call("vcp_set_personal_state", signals=PAIN)
            [old] = read_vault_keys(data / VAULT_KEY_FILE)

            async def talk(client, norms):
                for number in norms:
                    norm = NORM | {"norm_id": f"n{number}", "description": f"{SECRET}, {number} times"}
                    await client.call("relational.norm", norm=norm)

            result, *_ = await asyncio.gather(
                rotate(data), talk(socket, range(10, 40)), talk(stream, range(40, 70))
            )
            assert result["unreadable"] == 0
            assert result["resealed"] >= 4
            [new] = read_vault_keys(data / VAULT_KEY_FILE)
            assert new != old
            assert not in_clear(data, old.decode())
            values = (await scene.stored()).values()
            assert not [value for value in values if Vault([old]).open(value) is not None]
            assert all(Vault([new]).open(value) for value in values)
            for client in (socket, stream):
                assert (await client.call("personal.get"))["signals"]["body_signals"]["category"] == "pain"
                assert len((await client.call("relational.get"))["established_norms"]) == 61
                result = await client.ask({"personal": {"emotional_tone": {"category": "tense"}}})
                assert result["accepted"] == ["personal"]
            assert (await model.call("vcp_get_personal_state"))["protection_level"] == "high"
            assert not in_clear(data, *WORDS)


async def end_of(client):
    """What a session hears when its next call cannot be kept."""
    answer = await client.ask({"type": "vcp-call", "id": "1", "op": "personal.get", "args": {}})
    if answer["type"] == "vcp-result":  # the refusal may come first, and then the end
        assert not answer["ok"]
        answer = await client.hear()
    return answer


class TestAKeyTakenAway:
    async def test_ends_the_sessions_of_every_door_and_leaves_nothing_in_clear(self, tmp_path):
        data = tmp_path / "data"
        async with extension_scene(data) as scene:
            async with (
                scene.session() as socket,
                scene.session(door="tcp") as stream,
                over_http(scene, hello(*FOUR, identity=scene.token())) as model,
            ):
                for client in (socket, stream):
                    await tell(client)
                await model.call("vcp_set_personal_state", signals=PAIN)
                before = await scene.stored()
                key = (data / VAULT_KEY_FILE).read_bytes()
                (data / VAULT_KEY_FILE).unlink()
                for client in (socket, stream):
                    answer = await end_of(client)
                    assert answer["type"] == "vcp-error"
                    assert "encryption" in answer["message"]
                taken_back = {"signals": {"body_signals": None}}
                answer = await model.ask("tools/call", name="vcp_set_personal_state", arguments=taken_back)
                assert answer.get("result", {}).get("isError", True), json.dumps(answer)
            async with scene.session() as again:  # what cannot be kept is refused
                with pytest.raises(RefusalError):
                    await again.call("relational.norm", norm=NORM | {"description": SECRET})
            assert await scene.stored() == before
            assert (data / "comity.db-wal").stat().st_size > 0
            assert not in_clear(data, *WORDS)
            (data / VAULT_KEY_FILE).write_bytes(key)
            (data / VAULT_KEY_FILE).chmod(0o600)
            async with scene.session() as again:
                assert (await again.call("relational.get"))["established_norms"]
        assert not in_clear(data, *WORDS)
