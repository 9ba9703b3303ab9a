"""The wheels and the source archives: the same bytes wherever and whenever they are built, and the wheels run by themselves."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

import comity
from comity_skills.prepared import FILES
from tests.places import ROOT

SKILLS = "packages/comity-skills"
SOURCES = (
    "src",
    "tests",
    "docs",
    "schemas",
    "packages",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "pyproject.toml",
)
SECONDS = 180

pytestmark = pytest.mark.slow


def build(folder, *, age):
    """All archives, built from a copy of the sources in that folder, as if all were `age` seconds old."""
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    moment = time.time() - age
    for path in folder.rglob("*"):
        os.utime(path, (moment, moment))
    environ = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    for place in (folder, folder / SKILLS):
        subprocess.run(
            [
                sys.executable,
                "-m",
                "hatchling",
                "build",
                "-t",
                "wheel",
                "-t",
                "sdist",
                "-d",
                str(folder / "out"),
            ],
            cwd=place,
            env=environ,
            check=True,
            capture_output=True,
            timeout=SECONDS,
        )
    return sorted((folder / "out").iterdir())


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    first, second = (
        tmp_path_factory.mktemp("here"),
        tmp_path_factory.mktemp("elsewhere") / "deeper" / "still",
    )
    second.mkdir(parents=True)
    return build(first, age=0), build(second, age=1_000_000)


def test_built_twice_in_other_folders_at_other_times_they_have_the_same_hash(archives):
    first, second = ({path.name: sha256(path.read_bytes()).hexdigest() for path in made} for made in archives)
    assert first == second
    kinds = [(name.split("-")[0], Path(name).suffix) for name in first]
    assert sorted(kinds) == [
        ("comity", ".gz"),
        ("comity", ".whl"),
        ("comity_skills", ".gz"),
        ("comity_skills", ".whl"),
    ]


def test_the_node_asks_for_the_skills_of_its_own_release():
    node, skills = (
        tomllib.loads((ROOT / place / "pyproject.toml").read_text("utf-8")) for place in ("", SKILLS)
    )
    assert skills["project"]["version"] == comity.__version__
    assert f"comity-skills=={comity.__version__}" in node["project"]["dependencies"]
    assert skills["project"]["requires-python"] == node["project"]["requires-python"]
    assert (ROOT / SKILLS / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def names_in(path):
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        return archive.getnames()


def test_the_skills_bring_their_data_and_no_archive_the_texts_that_they_are_measured_with(archives):
    for path in archives[0]:
        names = names_in(path)
        assert not [name for name in names if "/evals/" in name and "/tests/evals/" not in name]
        held = any(name.endswith("comity_skills/crisis/lines.json") for name in names)
        assert held is (path.suffix == ".gz" or path.name.startswith("comity_skills"))
        prepared = sum(name.endswith(".bin") for name in names)
        assert prepared == (
            len(FILES) if path.name.startswith("comity_skills") and path.suffix == ".whl" else 0
        )


def test_the_wheels_alone_run_the_demo(archives, tmp_path):
    wheels = [path for path in archives[0] if path.suffix == ".whl"]
    folder = tmp_path / "it"
    venv.create(folder, with_pip=False, symlinks=True)
    (library,) = folder.glob("lib/python*/site-packages")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(library)
    # what they need is lent by the environment of the tests; both come from their wheels, which stand first
    (library / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"

    def run(*words):
        finished = subprocess.run(
            [python, "-P", *words],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": tempfile.gettempdir()},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    for name in ("comity", "comity_skills"):
        assert Path(run("-c", f"import {name}; print({name}.__file__)").strip()).is_relative_to(library)
    assert run("-m", "comity", "--version").strip() == f"comity {comity.__version__}"
    assert run("-m", "comity", "demo", "--fast", "--json").count('"ok":true') == 9
