"""The rooms of a node that runs, as its commands ask for them."""

import contextlib

import pytest

from comity.http.client import HttpResponse
from comity.rooms.commands.target import NodeRooms
from comity.runtime.settings import Settings
from comity.store.claim import RunningNode
from comity.terminal.open_target import OwnNode
from comity.wire import strict_json
from comity.wire.errors import ConflictError, InvalidError, NotFoundError, UnusableAnswerError

NODE = "the node at http://127.0.0.1:8420 refused:"


@pytest.fixture
async def rooms(tmp_path, monkeypatch):
    """Call it with the answer that the node gives to everything."""
    settings = Settings(data=tmp_path)
    (tmp_path / "token").write_text("t" * 43)
    (tmp_path / "token").chmod(0o600)
    async with contextlib.AsyncExitStack() as opened:
        own = OwnNode(settings, RunningNode(pid=1, url="http://127.0.0.1:8420", vacant_id=""))
        node = NodeRooms(settings, own, "client of a test", opened)

        def that_answers(status, body):
            async def request(*_):
                return HttpResponse(status, {}, strict_json.dumps(body))

            monkeypatch.setattr(own.http, "request", request)
            return node

        yield that_answers


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, {"detail": "a file was refused: too large"}, InvalidError, "a file was refused: too large"),
        (400, {}, InvalidError, f"{NODE} status 400"),
        (400, {"detail": ["x"]}, InvalidError, f"{NODE} ['x']"),
        (404, {"detail": "no such path"}, NotFoundError, f"{NODE} no such path"),
        (409, {"detail": "taken"}, ConflictError, f"{NODE} taken"),
        (500, {}, UnusableAnswerError, f"{NODE} status 500"),
    ],
)
async def test_a_refused_tool_speaks_for_itself_and_any_other_refusal_names_the_node(
    rooms, status, body, kind, message
):
    with pytest.raises(kind) as refused:
        await rooms(status, body).ask("vdo_send", {})
    assert refused.value.message == message


async def test_an_answer_is_handed_on(rooms):
    assert await rooms(200, {"ok": True}).ask("vdo_send", {}) == {"ok": True}
