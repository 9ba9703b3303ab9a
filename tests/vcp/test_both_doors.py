"""The same conversation through either door: handshake, refusals, baseline, context, bad input."""

import asyncio
import json

import pytest
from websockets.exceptions import InvalidStatus

from comity.store.vault import Vault
from comity.vcp.sessions import ConnectionLimits
from tests.vcp.doors import DOORS, open_doors
from tests.vcp.runtime import PERSONAL, TORCH, WIRE, hello, token

pytestmark = [pytest.mark.usefixtures("patience"), pytest.mark.parametrize("door", DOORS)]


def hello_of(size):
    """A hello of exactly so many bytes."""
    message = hello(note="")
    return json.dumps(hello(note="x" * (size - len(json.dumps(message)))))


async def test_a_hello_is_answered_and_the_session_is_known_to_the_house(door):
    async with open_doors() as doors, doors.client(door) as client:
        ack = await client.ask(hello(PERSONAL, TORCH, identity=token()))
        assert (ack["type"], ack["version"], ack["server_id"]) == ("vcp-ack", "3.1", "test-server")
        assert (ack["supported"], ack["unsupported"]) == ([PERSONAL], [TORCH])
        assert ack["core_features"] == dict.fromkeys(ack["core_features"], True)
        session = next(one for one in doors.runtime.service.sessions if one.id == ack["session_id"])
        assert session.active(PERSONAL)
        assert session.identity.owner == "creed:user:alice"


async def test_an_error_may_be_mended_on_the_same_connection_and_a_third_hello_changes_nothing(door):
    async with open_doors(identity="required") as doors, doors.client(door) as client:
        assert (await client.ask(hello(PERSONAL)))["code"] == "IDENTITY_REQUIRED"
        ack = await client.ask(hello(PERSONAL, identity=token()))
        assert ack["type"] == "vcp-ack"
        assert (await client.ask(hello()))["type"] == "vcp-error"
        answer = await client.ask({"categorical": WIRE})
        assert answer["session_id"] == ack["session_id"]


async def test_data_that_is_no_hello_is_served_at_baseline_at_once(door):
    async with open_doors() as doors, doors.client(door) as client:
        answer = await client.ask({"categorical": WIRE, "personal": {"body_signals": "pain"}})
        assert answer["version"] == "1.0"
        assert answer["accepted"] == ["categorical"]
        assert [item["field"] for item in answer["ignored"]] == ["personal"]
        assert (await client.ask(hello()))["type"] == "vcp-error"


async def test_65536_bytes_are_a_hello_and_65537_are_refused_and_closed(door):
    async with open_doors() as doors:
        async with doors.client(door) as client:
            assert (await client.ask(hello_of(65_536)))["type"] == "vcp-ack"
        async with doors.client(door) as client:
            error = await client.ask(hello_of(65_537))
            assert error["type"] == "vcp-error"
            assert "65,536" in error["message"]
            assert await client.ended()


async def test_megabytes_are_refused_before_they_have_arrived_and_the_reason_can_be_read(door):
    async with open_doors() as doors, doors.client(door) as client:
        sending = asyncio.create_task(client.say("x" * 8_000_000))
        assert (await client.hear())["type"] == "vcp-error"
        assert await client.ended()
        await asyncio.wait([sending])
        sending.exception()


async def test_a_session_takes_longer_messages_than_a_hello_may_be(door):
    async with open_doors() as doors, doors.client(door) as client:
        await client.ask(hello())
        answer = await client.ask({"categorical": WIRE, "constitution": "Be kind. " * 20_000})
        assert answer["accepted"] == ["constitution", "categorical"]


async def test_a_message_beyond_the_limit_of_a_session_is_answered(door):
    async with open_doors() as doors, doors.client(door) as client:
        await client.ask(hello())
        sending = asyncio.create_task(client.say("x" * 2_000_000))
        assert (await client.hear())["error"]["code"] == "TOO_LARGE"
        await asyncio.wait([sending])
        sending.exception()


@pytest.mark.parametrize(
    "garbage",
    ["[]", '"vcp-hello"', "17", "not json", "\ufeff{}", '{"a": NaN}', "[" * 10_000, '{"type": "other"}'],
)
async def test_garbage_gets_one_answer_and_the_connection_lives(door, garbage):
    async with open_doors() as doors, doors.client(door) as client:
        assert set(await client.ask(garbage)) == {"error"}
        assert (await client.ask({"categorical": WIRE}))["version"] == "1.0"


@pytest.mark.parametrize(
    "broken",
    [
        '{"type": "vcp-hello", "type": "vcp-hello", "version": "3.1"}',
        '{"type": "vcp-hello", "version": "3.1", "x": ' + "[" * 1000 + "]" * 1000 + "}",
        '{"type": "vcp-hello", "version": 3.1}',
        '{"type": "vcp-hello", "version": "03.1"}',
    ],
)
async def test_a_broken_hello_gets_an_error_and_a_good_one_then_an_ack(door, broken):
    async with open_doors() as doors, doors.client(door) as client:
        assert (await client.ask(broken))["type"] == "vcp-error"
        assert (await client.ask(hello()))["type"] == "vcp-ack"


async def test_a_hello_too_many_is_told_when_to_come_again_whatever_it_calls_itself(door):
    async with open_doors(loopback_handshakes=2) as doors:
        for name in ("one", "two"):
            async with doors.client(door) as client:
                assert (await client.ask(hello(client_id=name)))["type"] == "vcp-ack"
        async with doors.client(door) as client:
            error = await client.ask(hello(client_id="three"))
            assert error["code"] == "RATE_LIMITED"
            assert type(error["retry_after"]) is int
            assert error["retry_after"] >= 1
        assert doors.runtime.counted == [("vcp", "RATE_LIMITED")]


async def test_messages_sent_without_waiting_are_answered_in_their_order(door):
    async with open_doors() as doors, doors.client(door) as client:
        await client.say(hello(identity=token()))
        for depth in (1, 2, 3):
            await client.say({"generation_preferences": {"depth": depth}})
        assert (await client.hear())["type"] == "vcp-ack"
        heard = [(await client.hear())["generation_preferences"]["depth"] for _ in range(3)]
        assert heard == [1, 2, 3]


async def test_a_session_ends_with_an_error_when_the_key_is_taken_away(door):
    async with open_doors() as doors, doors.client(door) as client:
        await client.ask(hello())
        doors.runtime.vault = Vault([])
        doors.runtime.features.check()
        error = await client.hear()
        assert error["type"] == "vcp-error"
        assert "encryption" in error["message"]
        assert await client.ended()


async def test_an_honest_client_gets_in_past_many_that_say_nothing(door):
    async with open_doors(limits=ConnectionLimits(half_open=5)) as doors:
        silent = [doors.client(door) for _ in range(8)]
        first = [await one.__aenter__() for one in silent]
        async with doors.client(door) as client:
            assert (await client.ask(hello()))["type"] == "vcp-ack"
        assert await first[0].ended()
        for one in silent:
            await one.__aexit__(None, None, None)


async def test_when_everybody_talks_a_newcomer_is_told_to_come_later(door):
    async with open_doors(limits=ConnectionLimits(connections=1)) as doors, doors.client(door) as client:
        await client.ask(hello())
        if door == "tcp":
            async with doors.client(door) as other:
                error = await other.hear()
                assert (error["code"], error["retry_after"]) == ("RATE_LIMITED", 5)
                assert await other.ended()
        else:
            with pytest.raises(InvalidStatus) as refused:
                await doors.client(door).__aenter__()
            assert refused.value.response.status_code == 503
        assert (await client.ask({"categorical": WIRE}))["version"] == "3.1"


async def test_a_connection_that_ends_leaves_nothing_behind(door):
    async with open_doors() as doors:
        async with doors.client(door) as client:
            await client.ask(hello())
            assert len(doors.runtime.service.sessions) == 1
        async with asyncio.timeout(5):
            while doors.runtime.service.connections or len(doors.runtime.service.sessions):  # noqa: ASYNC110 - nobody tells when a peer is gone
                await asyncio.sleep(0.01)
