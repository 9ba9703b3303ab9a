"""What `make test` runs: the tests of the skills and those of the node, so that no failure of either is lost."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "test.py"
SKILLS, NODE = "packages/comity-skills/tests", "tests"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("ci_test", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("given", "options", "paths"),
    [
        ("", [], {SKILLS: [SKILLS], NODE: [NODE]}),
        ("-x -k vector", ["-x", "-k", "vector"], {SKILLS: [SKILLS], NODE: [NODE]}),
        ("-k tests", ["-k", "tests"], {SKILLS: [SKILLS], NODE: [NODE]}),
        ("tests/docs -q", ["-q"], {NODE: ["tests/docs"]}),
        (f"{SKILLS}/words -n 0", ["-n", "0"], {SKILLS: [f"{SKILLS}/words"]}),
        ("tests/test_system.py::test_x[a]", [], {NODE: ["tests/test_system.py::test_x[a]"]}),
        (
            f"tests/test_system.py {SKILLS}/test_plain_cases.py",
            [],
            {SKILLS: [f"{SKILLS}/test_plain_cases.py"], NODE: ["tests/test_system.py"]},
        ),
        ("tests/no_such_file.py", ["tests/no_such_file.py"], {SKILLS: [SKILLS], NODE: [NODE]}),
    ],
)
def test_a_path_chooses_its_suite_and_the_rest_goes_to_both(script, given, options, paths):
    assert script.split(given.split()) == (options, paths)


@pytest.mark.parametrize(
    ("skills", "node", "code", "failed"),
    [
        (0, 0, 0, []),
        (0, 5, 0, []),
        (5, 0, 0, []),
        (5, 5, 5, []),
        (1, 0, 1, [SKILLS]),
        (0, 1, 1, [NODE]),
        (1, 5, 1, [SKILLS]),
        (3, 1, 3, [SKILLS, NODE]),
        (-9, 0, -9, [SKILLS]),
    ],
)
def test_no_failure_of_either_is_lost(script, skills, node, code, failed):
    assert script.verdict({SKILLS: skills, NODE: node}) == (code, failed)


def suite(folder, wanted):
    """A suite whose helper has the name that the helper of the other one has."""
    folder.joinpath("tests").mkdir(parents=True, exist_ok=True)
    folder.joinpath("pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\npythonpath = ["."]\n'
        'asyncio_default_fixture_loop_scope = "function"\n'
    )
    folder.joinpath("tests", "helper.py").write_text(f"VALUE = {str(folder)!r}\n")
    folder.joinpath("tests", "test_one.py").write_text(
        f"from tests.helper import VALUE\n\ndef test_one():\n    assert VALUE == {str(wanted)!r}\n"
    )


def run(root, *arguments, broken=""):
    """What `make test` does where both suites have one test each; that of `broken` fails."""
    root.joinpath(".ci").mkdir()
    root.joinpath(".ci", "test.py").write_bytes(SCRIPT.read_bytes())
    for name in (NODE, SKILLS):
        folder = root / Path(name).parent
        suite(folder, "broken" if name == broken else folder)
    command = [sys.executable, ".ci/test.py", "-n", "0", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("broken", ["", SKILLS, NODE])
def test_each_suite_has_its_own_helpers_and_either_may_fail(tmp_path, broken):
    done = run(tmp_path, broken=broken)
    assert done.stdout.count(" passed in ") == (1 if broken else 2), done.stdout
    assert done.returncode == (1 if broken else 0)
    assert done.stderr == (f"failed: {broken} (pytest exited with 1)\n" if broken else "")


def test_after_a_failure_the_rest_is_left_out_where_that_is_wanted(tmp_path):
    done = run(tmp_path, "-x", broken=SKILLS)
    assert (done.returncode, done.stdout.count("collected 1 item")) == (1, 1)


def test_a_suite_in_which_nothing_is_selected_stops_nothing(tmp_path):
    tmp_path.joinpath("tests").mkdir()
    tmp_path.joinpath("tests", "test_two.py").write_text("def test_two():\n    pass\n")
    done = run(tmp_path, "-x", "-k", "test_two")
    assert (done.returncode, done.stdout.count(" passed, 1 deselected")) == (0, 1), done.stdout
