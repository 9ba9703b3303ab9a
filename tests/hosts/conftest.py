"""A person's home with nothing in it, and a command line that finds only the programs that a test puts there."""

import json
import os
import sys

import pytest

from comity.hosts.clients import Computer


@pytest.fixture
def home(tmp_path):
    return tmp_path


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "a project"
    folder.mkdir()
    return folder


@pytest.fixture
def programs(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    return folder


@pytest.fixture
def environ(data, home, programs):
    return {"HOME": str(home), "COMITY_DATA": str(data), "PATH": str(programs)}


@pytest.fixture
def comity(comity, project, monkeypatch):
    for name in ("CODEX_HOME", "COPILOT_HOME", "CLAUDE_CONFIG_DIR", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    return comity


@pytest.fixture
def machine(home, project, environ):
    return Computer(system="linux", home=home, environ=environ, project=project)


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch):
    """These tests write thousands of small files and pull no plug."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


FAKE = """#!{python} -IS
import json, os, sys
words = sys.argv[1:]
with open(os.path.join({folder!r}, {name!r} + ".log"), "a") as log:
    log.write(json.dumps(words) + chr(10))
{body}
"""


@pytest.fixture
def fake_program(programs):
    """A client's own command: it writes down how it was called, then does what `body` says."""

    def make(name, body):
        path = programs / name
        path.write_text(FAKE.format(python=sys.executable, folder=str(programs), name=name, body=body))
        path.chmod(0o755)
        log = programs / f"{name}.log"

        def calls():
            return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

        return calls

    return make


@pytest.fixture
def tree(home, data, programs):
    """Everything in the home but our own data: names, kinds, modes, bytes."""

    def look():
        found = {}
        for path in sorted(home.rglob("*")):
            if not path.is_relative_to(data) and not path.is_relative_to(programs):
                content = path.read_bytes() if path.is_file() else None
                found[str(path.relative_to(home))] = (path.lstat().st_mode, content)
        return found

    return look
