"""Where the suite comes from: pinned, from nowhere in particular, and missed with a reason."""

import json
import re

from compliance import suite
from compliance.run import main, table
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


def test_without_npm_nothing_is_run_and_the_reason_is_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(suite, "INSTALLED", tmp_path / "nothing")
    monkeypatch.setenv("PATH", "")
    assert main() == 0
    assert capsys.readouterr().out.startswith("conformance skipped: npm is not installed")


def test_the_table_shows_each_scenario_and_what_is_wrong_with_it():
    good, bad = Verdict("ping", 2, ()), Verdict("caching", 1, ("ttl: missing", "scope: missing"))
    shown = [line.split() for line in table({"2026-07-28": [good, bad]})]
    assert shown[1:] == [
        ["2026-07-28", "ping", "2", "0"],
        ["2026-07-28", "caching", "1", "2"],
        ["ttl:", "missing"],
        ["scope:", "missing"],
        ["2026-07-28", "all", "2", "scenarios", "3", "2"],
    ]


def test_a_warning_is_a_complaint_and_a_note_is_not(tmp_path):
    folder = tmp_path / "server-ping-2026-01-01T00-00-00-000Z"
    folder.mkdir()
    checks = [
        {"id": status.lower(), "status": status, "errorMessage": "why"}
        for status in ("SUCCESS", "WARNING", "FAILURE", "INFO", "SKIPPED")
    ]
    (folder / "checks.json").write_text(json.dumps(checks))
    assert suite._verdicts(tmp_path) == [Verdict("ping", 1, ("warning: why", "failure: why"))]
