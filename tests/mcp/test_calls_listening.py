"""A subscription of a modern client: acknowledged first, under its id, only what was asked for, and an end."""

import asyncio

import pytest

from comity.mcp import streams
from comity.mcp.protocol.catalog import Resources
from comity.mcp.protocol.results import META_SUBSCRIPTION, TASKS, Contents, said
from comity.testing import run_simulated
from tests.mcp.counter import Carrier, Counter, read, soon


def a_counter():
    counter = Counter()
    counter.catalog.add_resources(
        Resources(group="r", owns=lambda uri: uri.startswith("x://"), read=lambda _c, _u: Contents([]))
    )
    return counter


def listening(counter, wanted, id_=7, reply=None, **client):
    carrier = Carrier()
    work = counter.work("subscriptions/listen", {"notifications": wanted}, id_=id_, **client)
    return carrier, asyncio.ensure_future(counter.calls.start(work, carrier, reply))


def test_a_subscription_is_acknowledged_with_what_it_will_hear_of():
    async def main():
        counter = a_counter()
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["x://a", "y://b"], "odd": 1}
        carrier, running = listening(counter, wanted)
        await soon(lambda: carrier.sent)
        assert carrier.sent[0]["method"] == "notifications/subscriptions/acknowledged"
        assert carrier.sent[0]["params"] == {
            "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["x://a"]},
            "_meta": {META_SUBSCRIPTION: 7},
        }
        counter.changes.closing.set()
        await running

    run_simulated(main)


def test_only_what_was_asked_for_is_told_under_the_id_of_the_subscription():
    async def main():
        counter = a_counter()
        carrier, running = listening(
            counter, {"toolsListChanged": True, "resourceSubscriptions": ["x://a"]}, "s"
        )
        await soon(lambda: carrier.sent)
        counter.tool(lambda _c, _a: said(""))
        counter.changes.list_changed("prompts")
        counter.changes.resource_updated("x://a")
        counter.changes.resource_updated("x://b")
        counter.changes.task_changed("t", {})
        assert [message["method"] for message in carrier.sent[1:]] == [
            "notifications/tools/list_changed",
            "notifications/resources/updated",
        ]
        assert carrier.sent[2]["params"]["uri"] == "x://a"
        assert all(message["params"]["_meta"] == {META_SUBSCRIPTION: "s"} for message in carrier.sent)
        running.cancel()
        await asyncio.wait([running])

    run_simulated(main)


def test_a_subscription_ends_in_order_with_a_result_under_its_id():
    async def main():
        counter = a_counter()
        carrier, running = listening(counter, {"promptsListChanged": True}, reply={"type": "vcp-ack"})
        await soon(lambda: carrier.sent)
        counter.changes.closing.set()
        result = read(await running)
        assert result["resultType"] == "complete"
        assert result["_meta"][META_SUBSCRIPTION] == 7
        assert result["_meta"]["space.creed/vcp-ack"] == {"type": "vcp-ack"}
        counter.changes.list_changed("prompts")
        assert len(carrier.sent) == 1

    run_simulated(main)


def test_what_is_cancelled_hears_nothing_more():
    async def main():
        counter = a_counter()
        carrier, running = listening(counter, {"toolsListChanged": True})
        await soon(lambda: carrier.sent)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        counter.changes.list_changed("tools")
        assert len(carrier.sent) == 1

    run_simulated(main)


def test_tasks_that_nobody_keeps_are_not_promised():
    async def main():
        counter = a_counter()
        carrier, running = listening(counter, {"taskIds": ["t"]}, capabilities={"extensions": {TASKS: {}}})
        await soon(lambda: carrier.sent)
        assert carrier.sent[0]["params"]["notifications"] == {}
        counter.changes.task_changed("t", {})
        assert len(carrier.sent) == 1
        counter.changes.closing.set()
        await running

    run_simulated(main)


def test_the_number_of_listeners_is_bounded(monkeypatch):
    monkeypatch.setattr(streams, "MAX_LISTENERS", 1)

    async def main():
        counter = a_counter()
        carrier, running = listening(counter, {})
        await soon(lambda: carrier.sent)
        _, refused = listening(counter, {}, id_=8)
        error = await refused
        assert error.code == -32603
        assert "too many subscriptions" in error.message
        counter.changes.closing.set()
        await running

    run_simulated(main)
