"""Calls: what runs in place and what waits, deadlines, cancellation, and what of a fault is told to whom."""

import asyncio
import logging

import pytest

from comity.mcp.protocol.catalog import Resources
from comity.mcp.protocol.conversation import INTERNAL
from comity.mcp.protocol.results import Contents, McpError, ToolResult, said, structured
from comity.testing import run_simulated
from comity.wire.errors import (
    ComityError,
    ConfigError,
    InvalidError,
    NotFoundError,
    OverloadedError,
    StoreUnavailableError,
)
from comity.wire.jsonrpc import RpcError
from tests.mcp.counter import Carrier, Counter, read, soon, words

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_plain_handler_is_answered_in_place():
    async def main():
        counter = Counter()
        counter.tool(lambda _c, arguments: said(arguments["x"]))
        outcome = counter.start(arguments={"x": "hi"})
        assert words(read(outcome)) == "hi"
        assert counter.tallied == [("t", "ann", "ok")]

    run_simulated(main)


def test_a_handler_that_waits_is_run_by_whoever_holds_the_carrier():
    async def main():
        counter = Counter()

        async def handler(_context, _arguments):
            await asyncio.sleep(5)
            return said("late")

        counter.tool(handler)
        assert words(await counter.call()) == "late"
        assert counter.tallied == [("t", "ann", "ok")]

    run_simulated(main)


def test_a_call_that_takes_too_long_is_an_error_of_the_tool_and_noticed_by_the_handler():
    async def main():
        counter = Counter()
        seen = []

        async def handler(context, _arguments):
            context.cancelled.on_set(lambda: seen.append("told"))
            await asyncio.sleep(100)

        counter.tool(handler, deadline=2.5)
        result = await counter.call()
        assert result["isError"] is True
        assert "2.5 seconds" in words(result)
        assert seen == ["told"]
        assert counter.tallied == [("t", "ann", "deadline")]

    run_simulated(main)


def test_a_timeout_of_the_handlers_own_is_its_own_fault():
    async def main():
        counter = Counter()

        async def handler(_context, _arguments):
            async with asyncio.timeout(1):
                await asyncio.sleep(10)

        counter.tool(handler)
        assert await counter.call() == INTERNAL

    run_simulated(main)


def test_a_cancelled_call_is_told_and_counted():
    async def main():
        counter = Counter()
        token = []

        async def handler(context, _arguments):
            token.append(context.cancelled)
            await asyncio.sleep(100)

        counter.tool(handler)
        running = asyncio.ensure_future(counter.start())
        await soon(lambda: token)
        assert not token[0].is_set()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert token[0].is_set()
        late = []
        token[0].on_set(lambda: late.append("at once"))
        assert late == ["at once"]
        assert counter.tallied == [("t", "ann", "cancelled")]

    run_simulated(main)


def raising(fault):
    def plain(_context, _arguments):
        raise fault

    async def waiting(_context, _arguments):
        await asyncio.sleep(0)
        raise fault

    return plain, waiting


@pytest.mark.parametrize("fault", [InvalidError("not today"), OverloadedError("not today")])
def test_what_a_tool_refuses_is_for_the_model_to_read(fault):
    async def main():
        for handler in raising(fault):
            counter = Counter()
            counter.tool(handler)
            for modern in (True, False):
                result = await counter.call(modern=modern)
                assert (result["isError"], words(result)) == (True, "not today")
            assert {entry[2] for entry in counter.tallied} == {fault.code}

    run_simulated(main)


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("the secret is 42"),
        ComityError("the secret is 42"),
        StoreUnavailableError("/var/secret is 42"),
        ConfigError("the secret is 42"),
        RecursionError("the secret is 42"),
    ],
)
def test_what_breaks_inside_goes_to_the_log_and_nowhere_else(fault, caplog):
    async def main():
        for handler in raising(fault):
            counter = Counter()
            counter.tool(handler)
            assert await counter.call() == INTERNAL
            assert "42" not in INTERNAL.message

    with caplog.at_level(logging.ERROR, "comity.mcp"):
        run_simulated(main)
    assert len(caplog.records) == 2
    assert "42" in caplog.text


def test_a_refusal_of_the_protocol_stays_one():
    async def main():
        for handler in raising(McpError(-32021, "lacks", {"x": 1})):
            counter = Counter()
            counter.tool(handler)
            assert await counter.call() == RpcError(-32021, "lacks", {"x": 1})

    run_simulated(main)


@pytest.mark.parametrize("answer", [None, {"content": []}, "words", ToolResult([{1, 2}])])
def test_an_answer_that_is_none_is_internal(answer):
    async def main():
        counter = Counter()
        counter.tool(lambda _c, _a: answer)
        assert await counter.call() == INTERNAL

    run_simulated(main)


def test_a_broken_output_schema_is_internal_and_the_log_says_where(caplog):
    async def main():
        counter = Counter()
        counter.tool(lambda _c, _a: structured({"n": "secret"}), output_schema=NUMBER)
        error = await counter.call()
        assert error.code == -32603
        assert "secret" not in error.message

    run_simulated(main)
    assert "/n" in caplog.text


def test_a_schema_that_cannot_be_used_is_internal_and_the_log_says_why(caplog):
    async def main():
        counter = Counter()
        counter.tool(lambda _c, _a: said(""), input_schema={"$ref": "https://example.invalid/x"})
        assert await counter.call() == INTERNAL

    run_simulated(main)
    assert "example.invalid" in caplog.text


def test_a_tool_that_takes_the_walk_itself_is_not_tallied():
    async def main():
        counter = Counter()
        counter.tool(lambda _c, _a: said(""), audit="own")
        await counter.call()
        assert counter.tallied == []

    run_simulated(main)


def test_errors_of_a_tool_are_tallied_as_such():
    async def main():
        counter = Counter()
        counter.tool(lambda _c, _a: said("no", error=True))
        await counter.call()
        assert counter.tallied == [("t", "ann", "error")]

    run_simulated(main)


def test_the_word_on_a_hello_stands_in_the_result_also_when_the_tool_refuses():
    async def main():
        counter = Counter()
        counter.tool(raising(InvalidError("no"))[0], "bad")
        counter.tool(lambda _c, _a: said("yes"), "good")
        for name in ("bad", "good"):
            result = await counter.call(name, reply={"type": "vcp-ack"})
            assert result["_meta"]["space.creed/vcp-ack"] == {"type": "vcp-ack"}

    run_simulated(main)


def test_faults_of_a_resource_have_the_codes_of_the_era():
    async def main():
        counter = Counter()

        async def read_(_context, uri):
            await asyncio.sleep(0)
            raise {"x://none": NotFoundError("none"), "x://full": OverloadedError("later")}[uri]

        counter.catalog.add_resources(
            Resources(group="r", owns=lambda uri: uri.startswith("x://"), read=read_)
        )
        for modern, uri, code in (
            (True, "x://none", -32602),
            (False, "x://none", -32002),
            (True, "x://full", -32603),
        ):
            work = counter.work("resources/read", {"uri": uri}, modern=modern)
            assert (await counter.calls.start(work, Carrier())).code == code

    run_simulated(main)


def test_a_resource_that_is_read_in_place_is_tallied_as_well_done():
    async def main():
        counter = Counter()
        counter.catalog.add_resources(
            Resources(group="r", owns=lambda _u: True, read=lambda _c, uri: Contents([{"uri": uri}]))
        )
        result = read(counter.calls.start(counter.work("resources/read", {"uri": "x://a"}), Carrier()))
        assert result["contents"] == [{"uri": "x://a"}]
        assert counter.tallied == [("resources/read", "ann", "ok")]

    run_simulated(main)


def test_lists_of_resources_are_gathered_from_those_who_wait_and_those_who_do_not():
    async def main():
        counter = Counter()

        async def listed(_context):
            await asyncio.sleep(1)
            return [{"uri": "x://b", "name": "b"}]

        def kind(list_):
            return Resources(group="r", owns=lambda _u: False, read=lambda _c, _u: Contents([]), list=list_)

        counter.catalog.add_resources(kind(lambda _c: [{"uri": "x://a", "name": "a"}]), kind(listed))
        work = counter.work("resources/list", {}, modern=True)
        result = read(await counter.calls.start(work, Carrier()))
        assert [one["name"] for one in result["resources"]] == ["a", "b"]
        assert result["cacheScope"] == "private"
        assert counter.tallied == [("resources/list", "ann", "ok")]

    run_simulated(main)


def test_slow_calls_do_not_hold_up_each_other():
    async def main():
        counter = Counter()

        async def handler(_context, arguments):
            await asyncio.sleep(arguments["s"])
            return said("")

        counter.tool(handler)
        began = counter.clock.monotonic()
        await asyncio.gather(*(counter.call(arguments={"s": 10}) for _ in range(50)))
        assert counter.clock.monotonic() - began == pytest.approx(10)

    run_simulated(main)
