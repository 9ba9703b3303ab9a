"""The agent card of A2A: public, true, and readable by the official SDK."""

import httpx
import pytest
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from comity.envelopes.app import MESSAGE_SEND_BINDING
from comity.runtime.settings import AgentSettings
from comity.testing import bearer, running_node

PATH = "/.well-known/agent-card.json"
ECHO = AgentSettings(behaviour="echo", capability="repeats what it hears", name="Echo")


@pytest.fixture
async def node():
    async with running_node(agent=ECHO) as node:
        yield node


@pytest.fixture
async def http(node):
    async with httpx.AsyncClient(base_url=node.url) as stranger:
        yield stranger


async def test_it_names_one_interface_of_our_own_and_requires_signed_envelopes(node, http):
    answer = await http.get(PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    shown = answer.json()
    assert shown["supportedInterfaces"] == [
        {
            "url": f"{node.url}/a2a/message/send",
            "protocolBinding": MESSAGE_SEND_BINDING,
            "protocolVersion": "1.0",
        }
    ]
    (extension,) = shown["capabilities"]["extensions"]
    assert (extension["uri"], extension["required"]) == ("urn:vacant:v1", True)
    assert extension["params"]["vacantId"] == node.vacant_id.hex()
    assert (shown["name"], shown["description"]) == ("Echo", "repeats what it hears")


async def test_the_official_sdk_reads_every_member_of_it(http):
    card = ParseDict((await http.get(PATH)).json(), AgentCard())
    assert [interface.protocol_binding for interface in card.supported_interfaces] == [MESSAGE_SEND_BINDING]
    assert card.capabilities.extensions[0].required
    assert not card.capabilities.streaming
    assert card.skills[0].description == "repeats what it hears"
    assert card.default_input_modes == ["text/plain"]


async def test_no_member_is_empty(http):
    def leaves(value):
        if isinstance(value, dict | list) and value:
            for inner in value.values() if isinstance(value, dict) else value:
                yield from leaves(inner)
        else:
            yield value

    assert all(leaf not in ("", None, False, 0, [], {}) for leaf in leaves((await http.get(PATH)).json()))


async def test_it_says_where_others_reach_the_agent_and_how_fresh_a_message_must_be():
    public = "https://agent.example/a2a/message/send"
    agent = AgentSettings(behaviour="echo", endpoint=public, freshness_seconds=300)
    async with running_node(agent=agent) as node, httpx.AsyncClient(base_url=node.url) as http:
        shown = (await http.get(PATH)).json()
    assert shown["supportedInterfaces"][0]["url"] == public
    assert shown["capabilities"]["extensions"][0]["params"]["maxSkewSeconds"] == 300
    assert shown["name"] == node.vacant_id.short()


async def test_a_client_that_knows_it_is_told_so(http):
    first = await http.get(PATH)
    assert "max-age" in first.headers["cache-control"]
    tag = first.headers["etag"]
    for known in (tag, f'"other", {tag}'):
        again = await http.get(PATH, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (await http.get(PATH, headers={"if-none-match": '"other"'})).status_code == 200


async def test_an_agent_that_is_gone_has_no_card_any_more(node, http):
    for state, status in (("HIBERNATING", 200), ("SUNK", 410), ("ARCHIVED", 410)):
        await http.post("/v1/state", json={"state": state}, headers=bearer(node))
        assert (await http.get(PATH)).status_code == status


async def test_where_there_is_no_agent_and_no_reset_of_chains_everybody_is_told_404(http):
    for method in ("GET", "POST"):
        assert (await http.request(method, "/a2a/chain/reset")).status_code == 404
    async with running_node() as bare, httpx.AsyncClient(base_url=bare.url) as stranger:
        for path in (PATH, "/a2a/chain/reset"):
            answer = await stranger.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
