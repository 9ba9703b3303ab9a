"""Running file by file, seen from outside: every test is reported once, and nothing that goes wrong is lost."""

import json
from pathlib import Path

import pytest

from tests.runner.file_by_file import LONG, SECONDS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*args, workers=2):
        plugins = ("-p", "tests.runner.file_by_file", "-p", "no:asyncio", "-p", "no:anyio")
        return pytester.runpytest_subprocess(*plugins, f"-n{workers}", "-ra", *args)

    return run


def test_a_run_of_many_files_reports_each_test_each_error_and_each_skip_once(pytester, run):
    pytester.makepyfile(
        test_good="""
            import pytest

            @pytest.mark.parametrize("number", range(5))
            def test_right(number):
                pass
        """,
        test_bad="""
            def test_wrong():
                assert 1 == 2, "one is not two"

            def test_also_right():
                pass
        """,
        test_broken="import no_such_module",
        test_empty="",
        test_absent="import pytest; pytest.skip('not on this machine', allow_module_level=True)",
    )
    result = run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=6, failed=1, errors=1, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "E*one is not two",
            "FAILED test_bad.py::test_wrong - *",
            "ERROR test_broken.py*",
            "*No module named 'no_such_module'",
            "SKIPPED*not on this machine",
        ]
    )


def test_all_green_is_a_success(pytester, run):
    pytester.makepyfile(test_one="def test_it(): pass", test_two="def test_it(): pass", test_three="")
    result = run()
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)


def test_words_and_marks_select_tests_in_every_file_and_nothing_selected_is_no_success(pytester, run):
    pytester.makepyfile(
        test_one="def test_apple(): pass\ndef test_pear(): assert False",
        test_two="import pytest\n@pytest.mark.skipif('True')\ndef test_apple(): pass\ndef test_plum(): assert False",
    )
    result = run("-k", "apple")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, skipped=1)
    result = run("-m", "skipif")
    result.assert_outcomes(skipped=1)
    assert run("-k", "cherry").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_killed_worker_fails_its_file_by_the_name_of_the_test_and_the_rest_still_runs(pytester, run):
    pytester.makepyfile(
        test_deadly="""
            import os, signal

            def test_before(): pass

            def test_kill(): os.kill(os.getpid(), signal.SIGKILL)

            def test_after(): pass
        """,
        **{f"test_{name}": "def test_it(): pass" for name in "abcdef"},
    )
    result = run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(
        ["*crashed while running 'test_deadly.py'", "in test_deadly.py::test_kill; what comes*"]
    )


def test_the_first_failure_stops_the_run_when_asked(pytester, run):
    pytester.makepyfile(test_one="def test_a(): assert False\ndef test_b(): pass\ndef test_c(): pass")
    result = run("-x", workers=1)
    assert result.ret != pytest.ExitCode.OK
    result.assert_outcomes(failed=1)


def test_what_failed_last_time_and_tests_named_by_their_ids_are_found(pytester, run):
    pytester.makepyfile(
        test_one="def test_good(): pass\ndef test_bad(): assert False",
        test_two="def test_good(): pass\ndef test_other(): pass",
    )
    run().assert_outcomes(passed=3, failed=1)
    run("--lf").assert_outcomes(failed=1)
    run("test_two.py::test_other").assert_outcomes(passed=1)
    run("test_two.py").assert_outcomes(passed=2)


def test_a_long_file_is_dealt_out_in_parts_and_each_of_its_tests_runs_once(pytester, run):
    pytester.makepyfile(
        test_long="""
            import pytest

            @pytest.fixture(scope="module", autouse=True)
            def opened():
                yield

            @pytest.mark.parametrize("number", range(7))
            def test_it(number):
                pass
        """,
        test_broken="import no_such_module",
    )
    remembered = pytester.path / ".pytest_cache" / "v" / SECONDS
    remembered.parent.mkdir(parents=True)
    remembered.write_text(json.dumps({"test_long.py": 1000.0, "test_broken.py": 1000.0}))
    result = run("-v")
    result.assert_outcomes(passed=7, errors=1)
    shown = result.stdout.str()
    assert all(shown.count(f"PASSED test_long.py::test_it[{number}]") == 1 for number in range(7))
    assert json.loads(remembered.read_text())["test_long.py"] < 1000


def test_fixtures_of_the_whole_session_live_from_file_to_file(pytester, run):
    pytester.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def opened(tmp_path_factory):
            with open("opened.txt", "a") as file:
                file.write("once\\n")
    """)
    used = "def test_it(opened): pass"
    pytester.makepyfile(test_one=used, test_two=used, test_none="", test_three=used)
    run(workers=1).assert_outcomes(passed=3)
    assert (pytester.path / "opened.txt").read_text() == "once\n"


def test_the_files_known_to_be_long_exist():
    assert [name for name in LONG if not (ROOT / name).is_file()] == []
