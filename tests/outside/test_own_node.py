"""Commands of the owner reach their own node, whatever certificate it was started with."""

import pytest
from msgspec.structs import replace

from comity.runtime.settings import Settings, TlsSettings
from comity.store.claim import running_node as announced
from comity.terminal.open_target import OwnNode
from comity.testing import running_node
from comity.wire.errors import PinRefusedError
from tests.certificates import self_signed


def certificate(folder, *hosts):
    _, cert, key = self_signed(*hosts)
    folder.mkdir()
    (folder / "cert.pem").write_bytes(cert)
    (folder / "key.pem").write_bytes(key)
    return TlsSettings(cert=folder / "cert.pem", key=folder / "key.pem")


@pytest.mark.parametrize("socket", [True, False], ids=["by its socket", "by its address and key"])
async def test_a_command_that_knows_no_certificate_reaches_its_node(tmp_path, socket):
    tls = certificate(tmp_path / "tls", "agent.example")
    async with running_node(tmp_path / "data", tls=tls) as node:
        running = announced(node.settings.data)
        assert running.pin
        if not socket:
            running = replace(running, owner_socket="")
        own = OwnNode(Settings(data=node.settings.data), running)
        assert (await own.ask("GET", "/v1/status"))["ready"] is True
        await own.http.aclose()


async def test_a_node_at_that_address_with_another_key_gets_no_token(tmp_path):
    tls = certificate(tmp_path / "tls", "127.0.0.1")
    async with running_node(tmp_path / "data", tls=tls) as node:
        running = replace(announced(node.settings.data), owner_socket="", pin="ab" * 32)
        own = OwnNode(Settings(data=node.settings.data), running)
        with pytest.raises(PinRefusedError):
            await own.ask("GET", "/v1/status")
        await own.http.aclose()
