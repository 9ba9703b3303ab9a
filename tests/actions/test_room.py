import pytest

from comity.actions.handler import ActionsHandler, Invocation
from comity.actions.library import Library, load_plugins
from comity.actions.runner import Runner
from comity.requests.handler import Request
from comity.store.audit_trail import log_of
from comity.testing import running_node
from comity.wire.errors import ActionError, NotFoundError, UnauthenticatedError
from tests.callers import OWNER, STRANGER


@pytest.fixture
async def room():
    runner = Runner(Library("enhanced", load_plugins(["tests.actions.sample_plugin"])))
    yield ActionsHandler(runner)
    await runner.aclose()


def request(action="greet", given=None, *, owner=True):
    body = Invocation(action, {"name": "Ada"} if given is None else given)
    return Request(door="test", caller=OWNER if owner else STRANGER, body=body)


async def test_a_call_takes_the_walk_and_is_audited(room):
    async with running_node() as node:
        before = await node.store.end(log_of("main"))
        data = await node.pipeline.run(room, request())
        assert data["output"]["greeting"] == "Hello, Ada"
        node.pipeline.record.flush()
        await node.store.commit()
        assert await node.store.end(log_of("main")) == before + 1


async def test_a_stranger_is_refused_before_anything_is_read(room):
    async with running_node() as node:
        with pytest.raises(UnauthenticatedError):
            await node.pipeline.run(room, request(given=5, owner=False))


@pytest.mark.parametrize(
    ("action", "given", "refusal"),
    [("greet", [], ActionError), ("greet", {}, ActionError), ("nobody", {}, NotFoundError)],
)
async def test_what_cannot_be_called_is_refused(room, action, given, refusal):
    async with running_node() as node:
        with pytest.raises(refusal):
            await node.pipeline.run(room, request(action, given))
