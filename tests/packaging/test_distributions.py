"""The wheel and the source archive: the same bytes wherever and whenever they are built, and the wheel runs by itself."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

import comity
from tests.places import ROOT

SOURCES = ("src", "tests", "docs", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml")
SECONDS = 180

pytestmark = pytest.mark.slow


def build(folder, *, age):
    """Both archives, built from a copy of the sources in that folder, as if all were `age` seconds old."""
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
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder / "out")],
        cwd=folder,
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
    assert {Path(name).suffix for name in first} == {".whl", ".gz"}


def test_the_wheel_alone_runs_the_demo(archives, tmp_path):
    wheel = next(path for path in archives[0] if path.suffix == ".whl")
    folder = tmp_path / "it"
    venv.create(folder, with_pip=False, symlinks=True)
    (library,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(library)
    # what it needs is lent by the environment of the tests; comity itself comes from the wheel, which stands first
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

    assert Path(run("-c", "import comity; print(comity.__file__)").strip()).is_relative_to(library)
    assert run("-m", "comity", "--version").strip() == f"comity {comity.__version__}"
    assert run("-m", "comity", "demo", "--fast", "--json").count('"ok":true') == 9
