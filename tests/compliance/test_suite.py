"""Where the suite comes from: pinned, from nowhere in particular, and missed with a reason."""

import contextlib
import json
import re

from compliance import run, suite
from compliance.run import Run, excuse, main, table
from compliance.suite import Verdict


def test_every_package_is_pinned_and_no_host_is_named():
    wanted = json.loads((suite.HERE / "package.json").read_text())
    locked = json.loads((suite.HERE / "npm-shrinkwrap.json").read_text())
    pins = wanted["dependencies"] | wanted["optionalDependencies"]
    assert pins["@modelcontextprotocol/conformance"] == "0.2.0-alpha.12"
    for name, version in pins.items():
        assert re.fullmatch(r"[0-9][0-9a-z.-]*", version), name
        assert locked["packages"][f"node_modules/{name}"]["version"] == version
    assert all("integrity" in one for path, one in locked["packages"].items() if path)
    assert "://" not in json.dumps(locked)


def test_without_npm_nothing_is_run_which_is_a_failure_with_a_reason(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(suite, "INSTALLED", tmp_path / "nothing")
    monkeypatch.setenv("PATH", "")
    assert main() == 1
    assert capsys.readouterr().out.startswith("conformance could not be run: npm is not installed")


def test_the_table_shows_each_scenario_and_what_is_wrong_with_it():
    good, bad = Verdict("ping", 2, ()), Verdict("caching", 1, ("ttl: missing", "scope: missing"), 4)
    shown = [line.split() for line in table({Run("node", "2026-07-28"): [good, bad]})]
    assert shown[1:] == [
        ["node", "2026-07-28", "ping", "2", "0", "0"],
        ["node", "2026-07-28", "caching", "1", "4", "2"],
        ["ttl:", "missing"],
        ["scope:", "missing"],
        ["node", "2026-07-28", "all", "2", "scenarios", "3", "4", "2"],
    ]


def test_only_the_complaints_of_excused_checks_do_not_count():
    verdict = Verdict("tasks", 3, ("a: why", "b: why", "ab: why", "a: again"))
    assert excuse(verdict, frozenset({"a"})) == Verdict("tasks", 3, ("b: why", "ab: why"), 2)


async def test_a_check_that_is_excused_and_passes_is_a_failure_of_the_run(monkeypatch):
    @contextlib.asynccontextmanager
    async def nothing():
        yield "http://127.0.0.1:1/mcp"

    async def judge(_suite, _url, requirements):
        return [Verdict(one, 1, ("first: why",)) for one in run.RUNS[requirements]]

    async def install():
        return None

    monkeypatch.setattr(run, "SUBJECTS", [run.Subject("node", nothing, frozenset({"first", "second"}))])
    monkeypatch.setattr(run, "judge", judge)
    monkeypatch.setattr(run, "install", install)
    found = await run.verdicts()
    failed = [one for judged in found.values() for one in judged if one.complaints]
    assert failed == [Verdict("the list of excused checks", 0, ("second passes, and need not be excused",))]


def test_a_warning_is_a_complaint_and_a_note_is_not(tmp_path):
    folder = tmp_path / "server-ping-2026-01-01T00-00-00-000Z"
    folder.mkdir()
    checks = [
        {"id": status.lower(), "status": status, "errorMessage": "why"}
        for status in ("SUCCESS", "WARNING", "FAILURE", "INFO", "SKIPPED")
    ]
    (folder / "checks.json").write_text(json.dumps(checks))
    assert suite._verdicts(tmp_path) == [Verdict("ping", 1, ("warning: why", "failure: why"))]
