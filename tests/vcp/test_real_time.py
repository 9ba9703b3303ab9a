"""The fall-back to VCP 1.0 after five seconds, once, with nothing simulated."""

import asyncio
import json
import time

import pytest

from tests.vcp.doors import DOORS, open_doors
from tests.vcp.runtime import WIRE, hello

SILENT = len(DOORS) + 1  # those that fall back, and the one with half a hello


@pytest.mark.slow
async def test_after_five_seconds_of_silence_a_connection_is_a_session_of_vcp_1_0():
    async with open_doors() as doors, asyncio.timeout(20):
        await asyncio.gather(
            *(_fall_back(doors, door) for door in DOORS), _in_time(doors), _half_a_hello(doors)
        )


async def _fall_back(doors, door):
    async with doors.client(door) as client:
        began = time.monotonic()
        session = await _implicit(doors.runtime.service)
        assert 4.9 <= time.monotonic() - began < 6.5
        assert session.version == "1.0"
        error = await client.ask(hello())
        assert (error["type"], error["code"]) == ("vcp-error", "INTERNAL_ERROR")
        assert (await client.ask({"categorical": WIRE}))["version"] == "1.0"


async def _in_time(doors):
    async with doors.client("tcp") as client:
        await asyncio.sleep(4.0)
        assert (await client.ask(hello()))["type"] == "vcp-ack"


async def _half_a_hello(doors):
    async with doors.client("tcp") as client:
        message = json.dumps(hello()).encode()
        client.writer.write(message[:20])
        await _implicit(doors.runtime.service)
        await asyncio.sleep(0.5)
        client.writer.write(message[20:] + b"\n")
        assert (await client.hear())["type"] == "vcp-error"


async def _implicit(service):
    """One of the sessions without a hello, once all the silent connections have theirs."""
    while True:
        found = [session for session in service.sessions if session.mode == "implicit"]
        if len(found) == SILENT:
            return found[0]
        await asyncio.sleep(0.01)
