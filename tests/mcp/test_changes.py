"""Who hears of what has changed, and for how long."""

import pytest

from comity.mcp import streams
from comity.mcp.protocol.results import said
from comity.mcp.sessions import MAX_SESSIONS
from comity.testing import run_simulated
from comity.wire.errors import OverloadedError
from tests.mcp.counter import Counter


def test_who_listens_hears_until_he_stops():
    async def main():
        counter = Counter()
        heard = []
        with counter.changes.subscribe(
            lambda kind, name: (kind, name) == ("list", "tools"), lambda *news: heard.append(news)
        ):
            counter.changes.list_changed("tools")
            counter.changes.list_changed("resources")
        counter.changes.list_changed("tools")
        assert heard == [("notifications/tools/list_changed", {})]

    run_simulated(main)


def test_a_listener_may_stop_while_it_is_told():
    async def main():
        counter = Counter()
        heard = []
        first = counter.changes.subscribe(lambda *_: True, lambda *_: first.__exit__(None, None, None))
        first.__enter__()
        with counter.changes.subscribe(lambda *_: True, lambda *news: heard.append(news)):
            counter.changes.list_changed("tools")
            counter.changes.list_changed("tools")
        assert len(heard) == 2

    run_simulated(main)


def test_too_many_listeners_are_told_to_come_later(monkeypatch):
    monkeypatch.setattr(streams, "MAX_LISTENERS", 0)

    async def main():
        with pytest.raises(OverloadedError), Counter().changes.subscribe(lambda *_: True, lambda *_: None):
            pass

    run_simulated(main)


def test_every_session_there_may_be_can_listen():
    assert streams.MAX_LISTENERS > MAX_SESSIONS


def test_a_change_of_the_catalogue_is_told():
    async def main():
        counter = Counter()
        heard = []
        with counter.changes.subscribe(lambda *_: True, lambda *news: heard.append(news[0])):
            counter.tool(lambda _c, _a: said(""))
        assert heard == ["notifications/tools/list_changed"]

    run_simulated(main)
