"""A whole node: VCP on its own address, with its own keys, settings and files."""

import asyncio
import contextlib
import json

import httpx
import pytest
from websockets.asyncio.client import connect

from comity.identity.key_files import load_identity
from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.tokens import issue_a
from comity.identity.secrets import VAULT_KEY_FILE
from comity.release import __version__
from comity.runtime.settings import Settings, VcpSettings
from comity.runtime.settings_file import load_settings
from comity.store.audit_log import tail
from comity.testing import running_node
from comity.vcp.part import Vcp
from comity.wire.errors import ConfigError
from tests.ports import unused_port
from tests.vcp.runtime import PERSONAL, WIRE, hello

pytestmark = pytest.mark.usefixtures("patience")


@contextlib.asynccontextmanager
async def talking(node):
    async with connect(node.url.replace("http", "ws", 1) + "/vcp", proxy=None) as peer:

        async def ask(message):
            await peer.send(json.dumps(message))
            return json.loads(await peer.recv())

        ask.peer = peer
        yield ask


def own_token(node, subject="alice"):
    key = load_identity(node.settings.data)
    return issue_a(key, issuer=node.vacant_id.hex(), kind="user", subject=subject)


async def test_no_token_is_needed_and_no_extension_is_claimed_that_is_not_there():
    async with running_node() as node, talking(node) as ask:
        ack = await ask(hello(PERSONAL, "VCP-X-Other"))
        assert (ack["supported"], ack["unsupported"]) == ([PERSONAL], ["VCP-X-Other"])
        assert ack["core_features"] == dict.fromkeys(ack["core_features"], True)
        assert ack["server_id"] == f"comity/{__version__}"


async def test_what_an_owner_tells_is_nowhere_in_the_files_of_the_node(tmp_path):
    data = tmp_path / "data"
    vcp = VcpSettings(identity_mode="verified", identity_policy="verified")
    async with running_node(data, vcp=vcp) as node, talking(node) as ask:
        session_id = (await ask(hello(identity=own_token(node))))["session_id"]
        answer = await ask({"categorical": WIRE, "constitution": "Be kind to the lighthouse keeper."})
        assert answer["accepted"] == ["constitution", "categorical"]
        held = await node.store.get("vcp:session", f"vcp:session:{session_id}:context")
        assert held.value.startswith(b"enc:")
        assert b"lighthouse" in node.runtime.vault.open(held.value)
        assert [entry.verification_result async for entry in tail(node.store, "main", 3)] == [
            "REVOCATION_GOOD",
            "HANDSHAKE_ACK",
            "CONTEXT_EXCHANGED",
        ]
        for file in data.rglob("*"):
            assert not file.is_file() or b"lighthouse" not in file.read_bytes()
        assert (await ask_again(node, own_token(node)[:-4] + "AAAA"))["code"] == "IDENTITY_INVALID"


async def ask_again(node, identity):
    async with talking(node) as ask:
        return await ask(hello(identity=identity))


async def test_an_issuer_that_the_settings_name_is_known():
    key = SigningKey.from_seed(b"i" * 32)
    vcp = VcpSettings(identity_mode="verified", issuers=(f"creed={key.vacant_id.hex()}",))
    async with running_node(vcp=vcp) as node:
        token = issue_a(key, issuer="creed", kind="user", subject="alice")
        assert (await ask_again(node, token))["type"] == "vcp-ack"
        forged = issue_a(SigningKey.from_seed(b"x" * 32), issuer="creed", kind="user", subject="alice")
        assert (await ask_again(node, forged))["code"] == "IDENTITY_INVALID"


async def test_the_key_removed_from_the_folder_ends_the_session_with_an_error(monkeypatch):
    monkeypatch.delenv("VCP_CONTEXT_ENCRYPTION_KEY", raising=False)
    async with running_node() as node, talking(node) as ask:
        await ask(hello())
        (node.settings.data / VAULT_KEY_FILE).unlink()
        error = json.loads(await ask.peer.recv())
        assert error["type"] == "vcp-error"
        assert "encryption" in error["message"]
        assert (await ask_again(node, None))["core_features"]["encryption"] is False


async def test_tcp_is_spoken_where_the_settings_say():
    port = unused_port()
    async with running_node(vcp=VcpSettings(tcp_port=port, server_id="mine")) as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(json.dumps(hello()).encode() + b"\n")
        ack = json.loads(await reader.readline())
        assert (ack["type"], ack["server_id"]) == ("vcp-ack", "mine")
        assert ack["session_id"] in node.runtime.find(Vcp).service.sessions
        writer.close()


async def test_other_paths_are_answered_over_http_whatever_they_ask_to_become():
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as client:
        upgrade = {"connection": "upgrade", "upgrade": "websocket"}
        assert (await client.get("/healthz", headers=upgrade)).status_code == 200
        assert (await client.get("/vcp")).status_code == 426


def test_settings_that_contradict_the_protocol_are_refused(tmp_path):
    for flags in (
        {"vcp.hello_seconds": "1.9"},
        {"vcp.identity_policy": "verified"},
        {"vcp.issuers": ["creed=nonsense"]},
        {"vcp.issuers": ["creed=" + "0" * 64, "creed=" + "1" * 64]},
    ):
        with pytest.raises(ConfigError, match=r"vcp.(hello_seconds|hello-seconds|identity_policy|issuers)"):
            load_settings({"data": tmp_path, **flags}, {})
    assert load_settings({"data": tmp_path, "vcp.hello_seconds": "2.0"}, {}).settings.vcp.hello_seconds == 2.0


def test_the_variable_of_the_protocol_says_how_long_context_is_kept(tmp_path):
    environ = {"VCP_SESSION_TTL_SECONDS": "60"}
    assert load_settings({"data": tmp_path}, environ).settings.vcp.session_ttl_seconds == 60
    environ["COMITY_VCP_SESSION_TTL_SECONDS"] = "70"
    assert load_settings({"data": tmp_path}, environ).settings.vcp.session_ttl_seconds == 70
    assert Settings(data=tmp_path).vcp.session_ttl_seconds == 900
