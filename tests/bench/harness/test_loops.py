"""The event loop beside the rows."""

import contextlib

import pytest

from bench.harness.loops import Loop


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def test_what_is_held_is_entered_and_left_on_the_loop(loop):
    seen = []

    @contextlib.asynccontextmanager
    async def opening():
        seen.append("in")
        yield 7
        seen.append("out")

    with loop.hold(opening()) as value:
        assert (value, seen) == (7, ["in"])
    assert seen == ["in", "out"]


def test_what_cannot_be_entered_says_why(loop):
    @contextlib.asynccontextmanager
    async def opening():
        raise OSError("no room")
        yield

    with pytest.raises(OSError, match="no room"), loop.hold(opening()):
        pass
