"""`/v1/rooms`: who may use it, and that only a command on this machine names files outside the shared folders."""

import httpx
import pytest

from comity.http.owner_socket import socket_path
from comity.identity.secrets import make_token
from comity.testing import bearer, running_node

SECRET = b"a token of somebody else"


@pytest.fixture
async def node(tmp_path):
    async with running_node(tmp_path / "data") as node:
        yield node


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "elsewhere" / "token"
    file.parent.mkdir()
    file.write_bytes(SECRET)
    return file


def asking(secret):
    """What the command line says when a person names a file."""
    return {
        "tool": "vdo_file_send_path",
        "arguments": {"session_id": "s", "file_path": str(secret), "target": "x"},
        "folder": str(secret.parent),
    }


async def test_the_cookie_of_a_browser_uses_no_rooms_whatever_it_claims(node, secret):
    async with httpx.AsyncClient(base_url=node.url) as browser:
        await browser.get(node.runtime.new_entry_link())
        for body in (
            asking(secret),
            {"tool": "vdo_list_sessions"},
            {"tool": "invite", "arguments": {"room": "x"}},
        ):
            refused = await browser.post("/v1/rooms", json=body)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (await browser.post("/v1/vault/rotate", json={})).status_code == 403
        assert (await browser.post("/mcp", json={})).status_code == 403


async def test_a_token_over_the_network_names_no_folder_of_the_machine(node, secret):
    _, act = make_token(node.settings.data, "a", "act", now=0, days=None)
    for proof, said in (
        (bearer(node), "only a command on the node's machine"),
        ({"authorization": f"Bearer {act}"}, "the right to"),
    ):
        async with httpx.AsyncClient(base_url=node.url, headers=proof) as client:
            refused = await client.post("/v1/rooms", json=asking(secret))
            assert refused.status_code == 403
            assert said in refused.json()["detail"]


async def test_nobody_says_in_json_that_a_person_typed_a_path(node, secret):
    transport = httpx.AsyncHTTPTransport(uds=str(socket_path(node.settings.data)))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as command:
        refused = await command.post("/v1/rooms", json=asking(secret) | {"typed": True})
        assert refused.status_code == 400
        assert "typed" in refused.json()["detail"]
        passed = await command.post("/v1/rooms", json=asking(secret))
        assert passed.status_code == 400  # the session is not there, the path was not what stopped it
        assert "session" in passed.json()["detail"]
