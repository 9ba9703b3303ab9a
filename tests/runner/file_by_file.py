"""A pytest plugin for `pytest -n`: the first test runs as soon as the first file is read (`-p tests.runner.file_by_file`).

xdist lets every worker collect all tests before any of them runs. Here a worker collects files only: to xdist, a file
is one item. When its turn comes, the worker imports it, selects from it (`-k`, `-m`) and runs what is selected, each
test with a report of its own. So the other worker tests already while this one reads the next file.

- A file that cannot be imported is an error of its own; the other files still run.
- When a worker dies, its file fails, with the name of the test that was running, and a new worker takes its place.
- A few quick files go first, so that something is seen at once; then the longest, so that no worker is left alone with
  a long one at the end. What takes longer than `SHARE` is dealt out in parts. How long a file took is remembered in
  pytest's cache; for a file never seen, `LONG` knows the extremes and its size stands in for the rest.
- Whatever has to see all tests before the first one runs (a test by its id, `--lf`, `--ff`, `--nf`, `--sw`) is left to
  xdist alone.
"""

import math

import pytest

SECONDS = "file_by_file/seconds"  # in pytest's cache: what the tests of each file took together
SHARE = 10.0
LONG = {
    "tests/docs/test_commands.py": 40.0,
    "tests/bench/test_main.py": 35.0,
    "tests/bench/harness/test_measure.py": 15.0,
    "tests/simulation/test_store_simulation.py": 15.0,
    "tests/store/test_torture.py": 15.0,
    "tests/pipeline/envelopes/test_kill_nine.py": 10.0,
    "tests/agents/test_mcp_tool.py": 10.0,
}
BYTES_PER_SECOND = 10_000
SELECTED = pytest.StashKey[list]()


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    if hasattr(config, "workerinput"):
        if not needs_all_tests(config):
            config.pluginmanager.register(Worker(config.workerinput))
    elif config.getoption("numprocesses", None):
        config.pluginmanager.register(Controller(config))


def needs_all_tests(config):
    options = ("lf", "failedfirst", "newfirst", "stepwise")
    return any(config.getoption(name, False) for name in options) or any("::" in arg for arg in config.args)


class File(pytest.Item):
    """Stands for the tests of a module, or for one part of them, until their turn comes."""

    def __init__(self, *, module, seconds, part, parts, **kwargs):
        super().__init__(name=module.name, nodeid=module.nodeid, path=module.path, **kwargs)
        self.module = module
        self.seconds = seconds
        self.part = part
        self.parts = parts

    def tests(self):
        """What is selected here. A file that cannot be imported is reported on the way and leaves nothing to run."""
        selected = self.module.stash.get(SELECTED, None)
        if selected is None:
            self.module.stash[SELECTED] = selected = list(self.session.genitems(self.module))
            self.config.hook.pytest_collection_modifyitems(
                session=self.session, config=self.config, items=selected
            )
        start, end = (len(selected) * part // self.parts for part in (self.part, self.part + 1))
        return selected[start:end]

    def runtest(self, nextitem=None):
        place = self.session.items.index(self)
        tests = self.tests()
        for test, following in zip(tests, [*tests[1:], nextitem], strict=False):
            self.session.items[place] = test  # xdist takes no report but that of the item in this place
            self.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if self.session.shouldfail or self.session.shouldstop:
                break
        if not tests:
            self.session._setupstate.teardown_exact(nextitem)  # as the last test does where there is one
        self.session.items[place] = self


class Worker:
    def __init__(self, workerinput):
        self.known = LONG | workerinput[SECONDS]
        self.workers = workerinput["workercount"]

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, parent):
        found = yield
        return [item for node in found for item in self.files(parent, node)]

    def files(self, parent, node):
        if not isinstance(node, pytest.Module):
            return [node]
        seconds = self.known.get(node.nodeid, node.path.stat().st_size / BYTES_PER_SECOND)
        parts = max(1, min(self.workers, math.ceil(seconds / SHARE)))
        return [
            File.from_parent(parent, module=node, seconds=seconds / parts, part=part, parts=parts)
            for part in range(parts)
        ]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        """Puts files into order, and keeps them from `-k` and `-m`, which are about tests."""
        files = [item for item in items if isinstance(item, File)]
        if not files:
            return (yield)
        items[:] = [item for item in items if not isinstance(item, File)]
        result = yield
        files.sort(key=lambda file: file.seconds, reverse=True)
        quick = min(
            len(files), 2 * self.workers
        )  # xdist deals two to each worker before it sees how they fare
        items[:0] = files[-quick:] + files[:-quick]
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        if not isinstance(item, File):
            return None
        item.runtest(nextitem)
        return True


class Controller:
    def __init__(self, config):
        self.cache = getattr(config, "cache", None)
        self.known = self.cache.get(SECONDS, {}) if self.cache else {}
        self.took = {}
        self.running = {}
        self.reported = set()
        if config.option.maxschedchunk is None:
            config.option.maxschedchunk = 1  # a file is enough at a time
        terminal = config.pluginmanager.getplugin("terminalreporter")
        if terminal:
            # How many there will be is not known before the last file is read: a line ends with how many there were.
            terminal._get_progress_information_message = lambda: f" [{len(self.reported):>4}]"

    def pytest_configure_node(self, node):
        node.workerinput[SECONDS] = self.known

    def pytest_runtest_logreport(self, report):
        self.reported.add(report.nodeid)
        self.running[report.node] = report.nodeid if report.when != "teardown" else None
        file = report.nodeid.partition("::")[0]
        self.took[file] = self.took.get(file, 0.0) + getattr(report, "duration", 0.0)

    def pytest_handlecrashitem(self, report):
        if test := self.running.get(report.node):
            report.longrepr += f"\nin {test}; what comes after it in this file did not run"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session):
        result = yield
        session.testscollected = len(self.reported)  # until now, files; and no test at all is not a success
        return result

    def pytest_sessionfinish(self, session, exitstatus):
        option = session.config.option
        all_ran = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if (
            self.cache
            and all_ran
            and not (option.keyword or option.markexpr or needs_all_tests(session.config))
        ):
            self.cache.set(SECONDS, self.known | self.took)
