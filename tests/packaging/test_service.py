"""The systemd unit: it is valid, it is confined, and what it starts is a node that stops in time."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.places import ROOT

UNIT = ROOT / "packaging" / "comity.service"
ANALYZE = shutil.which("systemd-analyze")
COMITY = [sys.executable, "-m", "comity"]


def unit():
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str
    parser.read_string(UNIT.read_text("utf-8"))
    return parser


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_it(tmp_path):
    there = tmp_path / "comity.service"
    # the program is not installed where the tests run; everything else is judged as it stands
    there.write_text(UNIT.read_text("utf-8").replace("/opt/comity/bin/comity", sys.executable))
    said = subprocess.run([ANALYZE, "verify", str(there)], capture_output=True, text=True, check=False)
    ours = [line for line in said.stderr.splitlines() if "comity.service" in line]
    assert ours == []


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_it_is_confined():
    said = subprocess.run(
        [ANALYZE, "security", "--offline=true", "--no-pager", str(UNIT)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"Overall exposure level for comity\.service: ([\d.]+)", said.stdout)
    if found is None:
        pytest.skip("this systemd judges no unit that is not loaded")
    assert float(found[1]) < 3


def test_what_it_starts_is_a_node_that_is_ready_and_stops_in_time(tmp_path):
    service = unit()["Service"]
    state = tmp_path / service["StateDirectory"]
    config = tmp_path / "config.toml"
    config.write_text(f'data = "{state}"\nport = 0\n')
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == "/opt/comity/bin/comity"
    assert "/etc/comity/config.toml" in arguments
    arguments = [str(config) if each == "/etc/comity/config.toml" else each for each in arguments]
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}  # as a service has it
    mask = int(service["UMask"], 8)
    node = subprocess.Popen(
        [*COMITY, *arguments],
        env=environ,
        umask=mask,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert json.loads(node.stdout.readline())["ready"] is True
        assert state.stat().st_mode & 0o777 == int(service["StateDirectoryMode"], 8)
        began = time.monotonic()
        node.send_signal(signal.SIGTERM)
        assert node.wait(int(service["TimeoutStopSec"])) == 0
        assert time.monotonic() - began < int(service["TimeoutStopSec"])
    finally:
        node.kill()
        node.communicate()


def test_the_pages_name_the_files():
    page = (ROOT / "docs" / "how-to" / "run-in-production.md").read_text("utf-8")
    assert "packaging/comity.service" in page
    assert "packaging/Containerfile" in page
