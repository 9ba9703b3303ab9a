"""What a handler is told, and what it can say meanwhile."""

import asyncio

import pytest

from comity.mcp.protocol.results import META_LOG_LEVEL, said
from comity.mcp.protocol.session import McpSession
from comity.testing import run_simulated
from comity.wire.jsonrpc import RpcRequest
from tests.mcp.counter import Carrier, Counter, words


def run(handler, *, modern=True, meta=None, carrier=None, calls=1):
    carrier = carrier or Carrier()

    async def main():
        counter = Counter()
        counter.tool(handler)
        more = {"_meta": meta or {}}
        if not modern and carrier.session is None:
            carrier.session = McpSession(client(counter))
        return [await counter.call(carrier=carrier, modern=modern, more=more) for _ in range(calls)]

    return carrier, run_simulated(main)


def client(counter):
    return counter.work("tools/call", {"name": "t", "arguments": {}}, modern=False).client


def stepping(context, _arguments):
    context.progress(1)
    context.progress(2.5, 3, "nearly")
    return said("")


@pytest.mark.parametrize("token", ["t", 7, ""])
@pytest.mark.parametrize("modern", [True, False])
def test_progress_goes_to_who_gave_a_token(token, modern):
    carrier, _ = run(stepping, modern=modern, meta={"progressToken": token})
    assert carrier.of("notifications/progress") == [
        {"progressToken": token, "progress": 1},
        {"progressToken": token, "progress": 2.5, "total": 3, "message": "nearly"},
    ]


@pytest.mark.parametrize("token", [None, True, 1.5, [], {}])
def test_without_a_token_there_is_no_progress(token):
    carrier, _ = run(stepping, meta={"progressToken": token})
    assert carrier.sent == []


def test_clients_of_one_owner_are_told_apart_by_connection_or_by_what_they_say_of_themselves():
    def telling(context, _arguments):
        return said(context.connection)

    def told(**carrier):
        _, (outcome,) = run(telling, carrier=Carrier(**carrier))
        return words(outcome)

    assert told(connection="stream 1") != told(connection="stream 2")
    assert told() == told() != told(connection="stream 1")


def logging(context, _arguments):
    for level in ("debug", "info", "error"):
        context.log(level, {"at": level}, "shop" if level == "error" else None)
    return said("")


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        (None, []),
        ("debug", ["debug", "info", "error"]),
        ("warning", ["error"]),
        ("emergency", []),
        ("loud", []),
        (7, []),
        ([], []),
    ],
)
def test_a_modern_request_asks_for_its_own_level(wanted, heard):
    carrier, _ = run(logging, meta={META_LOG_LEVEL: wanted})
    assert [one["level"] for one in carrier.of("notifications/message")] == heard


def test_a_legacy_session_has_its_level():
    carrier, _ = run(logging, modern=False, meta={META_LOG_LEVEL: "debug"})
    assert carrier.of("notifications/message") == [
        {"level": "info", "data": {"at": "info"}},
        {"level": "error", "logger": "shop", "data": {"at": "error"}},
    ]
    carrier.session.apply_setting(RpcRequest(1, "logging/setLevel", {"level": "error"}))
    carrier.sent.clear()
    run(logging, modern=False, carrier=carrier)
    assert [one["level"] for one in carrier.of("notifications/message")] == ["error"]


def remembering(context, _arguments):
    context.state["n"] = context.state.get("n", 0) + 1
    return said(str(context.state["n"]))


def test_state_lasts_for_a_legacy_session_and_for_one_modern_request():
    assert [words(one) for one in run(remembering, modern=False, calls=3)[1]] == ["1", "2", "3"]
    assert [words(one) for one in run(remembering, modern=True, calls=3)[1]] == ["1", "1", "1"]


def test_a_handler_knows_who_asks_with_what_and_what_for():
    def handler(context, _arguments):
        assert context.client.owner == "oauth:ann"
        assert context.demands == "d"
        assert context.meta == {"x": 1}
        assert context.inputs == {}
        assert context.input_state is None
        return said("all")

    assert words(run(handler, meta={"x": 1})[1][0]) == "all"


def test_who_nobody_waits_for_says_nothing_more():
    carrier = Carrier()
    contexts = []

    async def handler(context, _arguments):
        contexts.append(context)
        await asyncio.sleep(100)

    async def main():
        counter = Counter()
        counter.tool(handler)
        more = {"_meta": {"progressToken": 1, META_LOG_LEVEL: "debug"}}
        running = asyncio.ensure_future(counter.start(carrier=carrier, more=more))
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait([running])
        contexts[0].progress(1)
        contexts[0].log("error", "x")
        assert carrier.sent == []

    run_simulated(main)


def test_a_stream_is_released_by_its_carrier():
    async def handler(context, _arguments):
        await context.release_stream()
        return said("")

    assert run(handler)[0].released == 1
