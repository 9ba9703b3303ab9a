"""The command: what it measures, writes and answers."""

import json

import pytest

import bench.__main__ as command
from bench.harness.bars import AtLeast
from bench.rows import ROWS
from tests.bench.harness.rows import Diary, fake_row


@pytest.fixture(autouse=True)
def build(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "BUILD", tmp_path / "build")
    return tmp_path / "build"


@pytest.fixture
def run(tmp_path):
    diary = Diary()
    rows = [
        fake_row(diary, [9.0], [3.0], name="quick-one", bars=(AtLeast(2, of="b"),)),
        fake_row(diary, [1.0], [3.0], name="slow-one", bars=(AtLeast(2, of="b"),)),
        fake_row(diary, [1.0], [0.0], name="broken-one"),
    ]
    path = tmp_path / "out" / "bench.json"

    def run_it(*arguments):
        status = command.main(["--json", str(path), *arguments], rows)
        told = json.loads(path.read_bytes()) if path.exists() and path.stat().st_size else None
        return status, told

    run_it.diary = diary
    return run_it


def test_the_rows_that_are_named_are_measured_and_written(run, capsys):
    status, told = run("quick-one", "--rounds", "3")

    assert status == 0
    assert [row["name"] for row in told["rows"]] == ["quick-one"]
    assert len(told["rows"][0]["contenders"][0]["samples"]) == told["rounds"] == 3
    assert "quick-one" in capsys.readouterr().out


def test_without_names_all_rows_are_measured_also_after_one_that_breaks(run):
    status, told = run("--quick")

    assert [row["name"] for row in told["rows"]] == ["quick-one", "slow-one", "broken-one"]
    assert status == 1


def test_a_bar_that_is_not_met_is_loud_and_fails_only_a_strict_run(run, capsys):
    assert run("slow-one", "--quick")[0] == 0
    assert "NOT MET  slow-one" in capsys.readouterr().out
    assert run("slow-one", "--quick", "--strict")[0] == 1
    assert run("quick-one", "--quick", "--strict")[0] == 0


def test_quick_means_fewer_rounds_and_shorter_turns(run):
    _, normal = run("quick-one")
    _, quick = run("quick-one", "--quick")

    assert quick["rounds"] < normal["rounds"] == 5
    assert quick["seconds_per_turn"] < normal["seconds_per_turn"]


def test_an_unknown_row_is_refused_with_the_nearest_name_before_anything_runs(run, capsys):
    status, told = run("quick-on")

    assert (status, told) == (2, None)
    assert "did you mean quick-one?" in capsys.readouterr().err
    assert run.diary.turns == []


def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(run, tmp_path, capsys):
    (tmp_path / "file").write_bytes(b"")

    status, _ = run("quick-one", "--json", str(tmp_path / "file" / "bench.json"))

    assert status == 2
    assert capsys.readouterr().err.startswith("bench: ")
    assert run.diary.turns == []


@pytest.mark.parametrize("rounds", ["0", "-1", "many", "1.5", "1001"])
def test_rounds_are_a_whole_number(run, rounds, capsys):
    with pytest.raises(SystemExit) as refusal:
        run("--rounds", rounds)

    assert refusal.value.code == 2
    assert "whole number from 1 to 1000" in capsys.readouterr().err


def test_data_goes_below_the_build_folder_and_is_removed(run, build):
    run("quick-one", "--quick")

    assert run.diary.folder.is_relative_to(build / "bench-data")
    assert list(build.iterdir()) == []


def test_progress_stays_off_the_standard_output(run, capsys):
    run("quick-one", "--quick")

    told = capsys.readouterr()
    assert told.err == "measuring quick-one\n"
    assert "measuring" not in told.out


def test_rows_are_listed_without_being_measured(run, capsys):
    status, _ = run("--list")

    assert status == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "quick-one",
        "slow-one",
        "broken-one",
    ]
    assert run.diary.turns == []


def test_every_row_has_a_name_of_its_own():
    names = [row.name for row in ROWS]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["verify", "canonical", "rpc-stream", "chain-advance"])
def test_a_row_of_ours_runs_and_has_figures(name, tmp_path):
    path = tmp_path / "bench.json"

    assert command.main([name, "--quick", "--rounds", "1", "--json", str(path)]) == 0

    (row,) = json.loads(path.read_bytes())["rows"]
    assert "broken" not in row
    assert "left_out" in row or all(contender["median"] > 0 for contender in row["contenders"])
