"""What every test may ask for: `randomness`, `virtual_clock`, `patience`, and pytest itself as a subject."""

import asyncio
import gc
import signal

import pytest

from tests.waiting import stretched

PATIENCE = 10.0

pytest_plugins = [
    "comity.testing.fixtures",
    "tests.fixtures.command_line",
    "tests.fixtures.http_server",
    "tests.fixtures.pure",
    "pytester",
]


def pytest_configure(config):
    # who runs the tests in the background ignores it, and so would every program that a test starts and interrupts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # a process that has its tests run by others starts faster without Hypothesis
    from hypothesis import settings

    # Nothing is timed in a test: how long an example takes says more about the machine than about the code.
    settings.register_profile("comity", deadline=None)
    settings.load_profile("comity")


def pytest_collection_finish():
    # thousands of collected tests would be walked again by each collection of garbage
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_folder_of_the_user(tmp_path_factory):
    """Nothing that a test keeps goes to the data folder of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
        yield


@pytest.fixture
async def patience():
    """Cancel a test that waits for what never comes, so that it fails and does not hang."""
    loop = asyncio.get_running_loop()
    start = loop.time()

    def give_up():
        nonlocal handle
        left = stretched(PATIENCE) - (loop.time() - start)
        if left > 0:  # the machine has become busy meanwhile
            handle = loop.call_later(left, give_up)
            return
        for task in asyncio.all_tasks(loop):
            task.cancel("patience is at its end")

    handle = loop.call_later(PATIENCE, give_up)
    yield
    handle.cancel()
