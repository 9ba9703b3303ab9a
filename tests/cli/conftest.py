"""A command line to talk to: in this process for speed, or as a program of its own."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from comity.cli.app import run
from comity.cli.logs import SparingHandler
from comity.core.guard.audit import AuditDraft, timestamp
from comity.keys.identity import create_identity
from comity.store.audit_trail import AuditTrail, HeadFile
from comity.store.sqlite import SqliteStore
from comity.system_clock import SystemClock
from tests.cli.neighbourhood import Neighbourhood

COMITY = [sys.executable, "-m", "comity"]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def environ(data, tmp_path):
    """What a person's shell would have, and nothing that is set by chance where the tests run."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "COMITY_DATA": str(data)}


@pytest.fixture
def comity(environ, monkeypatch, capsys):
    for name in os.environ:
        if name.startswith(("COMITY_", "XDG_")) or name in {
            "ENVIRONMENT",
            "NO_COLOR",
            "VCP_CONTEXT_ENCRYPTION_KEY",
        }:
            monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments):
        code = run([str(each) for each in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    level = logging.root.level
    yield call
    # a command that ran here would go on telling the tests after this one what it logs
    for handler in [one for one in logging.root.handlers if isinstance(one, SparingHandler)]:
        logging.root.removeHandler(handler)
        handler.close()
    logging.root.setLevel(level)


@pytest.fixture
def program(environ):
    """The same, in a process of its own."""

    def call(*arguments, python=COMITY, **more):
        finished = subprocess.run(
            [*python, *map(str, arguments)],
            env={**environ, **more.pop("env", {})},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            **more,
        )
        return Outcome(finished.returncode, finished.stdout, finished.stderr)

    return call


@pytest.fixture
def identity(data):
    return create_identity(data)


async def _write(data, key, chain, events):
    head = HeadFile(data / "audit" / f"{chain}.head")
    clock = SystemClock()
    store = await SqliteStore.open(data / "comity.db", clock, AuditTrail(chain, key, head))
    for number, event in enumerate(events):
        moment = timestamp(1_800_000_000 + number)
        draft = AuditDraft(
            verification_result=event, created_at=moment, checks_passed=("schema",), duration_ms=3
        )
        await store.commit(audit=[draft])
    await store.close()


@pytest.fixture
def record(data, identity):
    """Write a chain of so many entries; each call begins where the last one ended."""

    def write(count=5, chain="main", event="TOOL_CALL"):
        asyncio.run(_write(data, identity, chain, [event] * count))

    return write


@pytest.fixture
def neighbourhood():
    """Nodes and servers of a test, gone with it."""
    started = Neighbourhood()
    yield started
    started.close()


@pytest.fixture
def start(environ):
    """Start nodes; whatever a test leaves running is stopped."""
    started = []

    def start(data, *more):
        node = subprocess.Popen(
            [*COMITY, "up", "--port", "0", "--json", "--data", str(data), *more],
            env={**environ, "COMITY_LOG_LEVEL": "critical"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(node)
        node.ready = json.loads(node.stdout.readline())
        return node

    yield start
    for node in started:
        node.kill()
        node.communicate()
