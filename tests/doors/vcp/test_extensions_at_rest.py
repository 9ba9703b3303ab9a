"""What a node's folder holds of its extensions: nothing in clear, with its key, without it, and after a restart."""

import json

import pytest

from comity.keys.vault_key import VAULT_KEY_FILE
from tests.doors.mcp.extension_clients import hello, over_http
from tests.doors.vcp.extension_scene import FOUR, NORM, PAIN, RefusalError, extension_scene

pytestmark = pytest.mark.usefixtures("patience")

SECRET = "a lighthouse keeper named Ottilie"
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
        vault = scene.node.house.vault
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


async def test_the_key_taken_away_ends_sessions_and_leaves_nothing_in_clear(tmp_path):
    data = tmp_path / "data"
    async with extension_scene(data) as scene, scene.session() as alice:
        await tell(alice)
        before = await scene.stored()
        key = (data / VAULT_KEY_FILE).read_bytes()
        (data / VAULT_KEY_FILE).unlink()
        answer = await alice.ask({"type": "vcp-call", "id": "1", "op": "personal.get", "args": {}})
        if answer["type"] == "vcp-result":  # the refusal may come first, and then the end
            assert not answer["ok"]
            answer = await alice.hear()
        assert answer["type"] == "vcp-error"
        assert "encryption" in answer["message"]
        async with scene.session() as again:  # what cannot be kept is refused
            with pytest.raises(RefusalError):
                await again.call("relational.norm", norm=NORM | {"description": SECRET})
        assert await scene.stored() == before
        assert not in_clear(data, "Ottilie", "body_signals")
        (data / VAULT_KEY_FILE).write_bytes(key)
        (data / VAULT_KEY_FILE).chmod(0o600)
        async with scene.session() as again:
            assert (await again.call("relational.get"))["established_norms"]


async def test_the_key_taken_away_ends_sessions_under_mcp(tmp_path):
    data = tmp_path / "data"
    async with extension_scene(data) as scene, over_http(scene, hello(*FOUR)) as client:
        await client.call("vcp_set_personal_state", signals=PAIN)
        before = await scene.stored()
        (data / VAULT_KEY_FILE).unlink()
        answer = await client.ask(
            "tools/call", name="vcp_set_personal_state", arguments={"signals": {"body_signals": None}}
        )
        assert answer.get("result", {}).get("isError", True), json.dumps(answer)
        assert await scene.stored() == before
