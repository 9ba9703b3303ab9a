"""Whichever way a call comes, it is in the record, and the record is whole."""

import asyncio
import contextlib
import json

import pytest

from comity.testing.nodes import bearer, running_node
from tests.mcp.conversing import call, initialize
from tests.mcp.http_talk import Http
from tests.mcp.processes import comity_mcp

CALLS = 3


async def alone(data):
    async with comity_mcp(data) as client:
        await called(client)


async def attached(data):
    async with running_node(data), comity_mcp(data) as client:
        await called(client)


async def called(client):
    for number in range(CALLS):
        assert not (await client.ask(call(number, "vcp_status")))["result"]["isError"]
    assert "error" in await client.ask(call("no", "burn"))
    client.end()
    code, _, err = await client.over()
    assert (code, err) == (0, "")


async def over_http(data):
    async with running_node(data) as node, Http(f"{node.url}/mcp", **bearer(node)) as http:
        session = await http.begin()
        for number in range(CALLS):
            assert (await http.post(call(number, "vcp_status"), **session)).status_code == 200
        await http.send("DELETE", **session)


@pytest.mark.parametrize("way", [alone, attached, over_http])
def test_a_call_leaves_its_entry_and_the_record_verifies(data, comity, way):
    asyncio.run(way(data))
    verified = comity("audit", "verify")
    assert verified.code == 0, verified.err
    tail = comity("audit", "tail", "-n", "100", "--json")
    entries = [json.loads(line) for line in tail.out.splitlines()]
    mine = [one for one in entries if one["verification_result"] == "MCP_VCP_STATUS_OK"]
    counted = [check for one in mine for check in one["checks_passed"] if check.startswith("count:")]
    assert sum(int(check.removeprefix("count:")) for check in counted) == CALLS
    events = {one["verification_result"] for one in entries}
    assert ({"MCP_SESSION_BEGUN", "MCP_SESSION_ENDED"} <= events) is (way is over_http)


def test_a_call_that_needs_no_room_is_recorded_too(data, comity):
    async def parse():
        async with comity_mcp(data) as client:
            await client.ask(initialize())
            await client.ask(call(1, "vcp_parse_csm1", code="N5+F+E"))
            client.end()
            await client.over()

    asyncio.run(parse())
    assert comity("audit", "verify").code == 0
    assert "MCP_VCP_PARSE_CSM1_" in comity("audit", "tail", "--json").out


def test_clients_that_share_a_folder_do_not_disturb_each_other_nor_a_node_that_comes_later(data, comity):
    async def share():
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(comity_mcp(data)) for _ in range(3)]
            await asyncio.gather(*[client.ask(call(1, "vcp_status")) for client in clients])
            async with running_node(data) as node, comity_mcp(data) as guest:
                answers = await asyncio.gather(
                    *[one.ask(call(2, "vacant_describe")) for one in (*clients, guest)]
                )
                ids = {answer["result"]["structuredContent"]["vacant_id"] for answer in answers}
                assert ids == {node.vacant_id.hex()}
            for client in clients:
                client.end()
                assert (await client.over())[0] == 0

    asyncio.run(share())
    assert comity("audit", "verify").code == 0
