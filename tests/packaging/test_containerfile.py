"""The Containerfile: it keeps the usual rules, and its steps make a program that runs."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.places import ROOT

FILE = ROOT / "packaging" / "Containerfile"


def instructions():
    """Each as its word and the rest, stage by stage."""
    text = re.sub(r"^#.*\n", "", FILE.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    stages = []
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append((word, " ".join(rest.split())))
    return stages


def test_it_keeps_the_rules():
    stages = instructions()
    every = [each for stage in stages for each in stage]
    for word, rest in every:
        assert word in {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL",
                        "HEALTHCHECK", "ENTRYPOINT", "CMD"}  # fmt: skip
        if word == "FROM":
            image = rest.split()[0]
            assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim", image)  # a host, and a version
        if word in {"ENTRYPOINT", "CMD"}:
            assert isinstance(json.loads(rest), list)  # no shell that would keep signals from the node
        if word == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
        if word == "RUN" and "-r requirements" in rest:
            assert "--require-hashes" in rest
    last = dict(stages[-1])
    assert last["USER"] == "comity"
    assert [word for word, _ in stages[-1]].index("RUN") < [word for word, _ in stages[-1]].index("USER")
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert "COMITY_DATA=/var/lib/comity" in last["ENV"]
    assert last["VOLUME"] == "/var/lib/comity"


@pytest.mark.slow
def test_its_steps_make_a_program_that_runs(tmp_path):
    """The steps of the first stage as they stand, with another folder for /opt; then what the container starts."""
    opt, source, data = tmp_path / "opt", tmp_path / "src", tmp_path / "data"
    opt.mkdir()
    source.mkdir()
    build, final = instructions()
    for word, rest in build:
        if word == "COPY":
            *names, _target = rest.split()
            for name in names:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / name, source / name)
        if word == "RUN":
            step = rest.replace("/opt/", f"{opt}/").replace("python3 ", f"{sys.executable} ")
            done = subprocess.run(
                ["sh", "-ec", step], cwd=source, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    last = dict(final)
    entry, command = json.loads(last["ENTRYPOINT"]), json.loads(last["CMD"])
    health = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    environ = {"PATH": f"{opt}/comity/bin:{os.environ['PATH']}", "COMITY_DATA": str(data), "COMITY_PORT": "0"}
    node = subprocess.Popen(
        [*entry, *command],
        env=environ,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert json.loads(node.stdout.readline())["ready"] is True
        well = subprocess.run(health, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (well.returncode, json.loads(well.stdout)["ready"]) == (0, True)
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0
        ill = subprocess.run(health, env=environ, cwd=tmp_path, capture_output=True, check=False)
        assert ill.returncode == 1
    finally:
        node.kill()
        node.communicate()
