"""The vector runner, run on small folders of its own; and what the rooms have not plugged in yet."""

import json

import pytest

from comity.testing import vectors
from comity.wire.errors import ConfigError, InvalidError, NotFoundError
from tests.places import ROOT
from tests.testing.runners import left_by_the_skills, load_runners


@pytest.fixture(scope="module")
def left():
    """By area, what no runner of either suite takes."""
    load_runners(ROOT)
    elsewhere = {area: set(names) for area, names in left_by_the_skills().items()}
    return {
        area: [name for name in vectors.unplugged(area) if elsewhere[area] & {name, name.partition("[")[0]}]
        for area in vectors.areas_found()
    }


@pytest.mark.vector
@pytest.mark.parametrize("area", vectors.areas_found())
def test_every_vector_file_is_plugged_in(area, left):
    missing = left[area]
    if missing and vectors.folder_was_given():
        pytest.fail(f"no runner understands {', '.join(missing)}")
    if missing:
        pytest.skip(f"no room plugs in this format yet: {', '.join(missing)}")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A vectors folder as `$COMITY_VECTORS` would name it, and a registry of its own."""
    monkeypatch.setenv("COMITY_VECTORS", str(tmp_path / "vectors"))
    monkeypatch.setattr(vectors, "_runners", {})
    path = tmp_path / "vectors"
    (path / "peers").mkdir(parents=True)
    return path


def write(folder, name, content):
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def run(pytester, source):
    """Run a room's test module in a pytest of its own and return the outcomes by test name."""
    pytester.makepyfile("from comity.testing.vectors import *\n" + source)
    pytester.makeini(
        "[pytest]\nasyncio_mode=auto\nasyncio_default_fixture_loop_scope=function\nmarkers=vector"
    )
    result = pytester.inline_run(
        "--disable-plugin-autoload", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"
    )
    return {
        report.nodeid.partition("::")[2]: (report.outcome, str(report.longrepr))
        for report in result.getreports("pytest_runtest_logreport")
        if report.when == "call" or report.skipped
    }


def outcomes(pytester, source):
    return {name: outcome for name, (outcome, _) in run(pytester, source).items()}


JUDGE = """
@format_runner("peers", "sums")
def test_vector_peers_sums(case):
    assert case["a"] + case["b"] == case["sum"]
"""


class TestARunner:
    def test_judges_every_case_under_its_own_name(self, folder, pytester):
        write(
            folder,
            "peers/sums.json",
            [{"name": "good", "a": 1, "b": 2, "sum": 3}, {"a": 1, "b": 2, "sum": 4}],
        )
        assert outcomes(pytester, JUDGE) == {
            "test_vector_peers_sums[sums-good]": "passed",
            "test_vector_peers_sums[sums-1]": "failed",
        }

    def test_runs_cases_of_the_same_name_both(self, folder, pytester):
        case = {"name": "twin", "a": 1, "b": 2, "sum": 3}
        write(folder, "peers/sums.json", [case, case])
        assert list(outcomes(pytester, JUDGE).values()) == ["passed", "passed"]

    def test_reads_json_lines(self, folder, pytester):
        (folder / "peers/sums.jsonl").write_text('{"a":1,"b":1,"sum":2}\n\n{"a":1,"b":1,"sum":1}\n')
        assert list(outcomes(pytester, JUDGE).values()) == ["passed", "failed"]

    def test_may_be_async_and_ask_for_fixtures(self, folder, pytester):
        write(folder, "peers/sums.json", [{"right": True}, {"right": False}])
        source = """
@format_runner("peers", "sums")
async def test_vector_peers_sums(case, tmp_path):
    assert tmp_path.is_dir() and case["right"]
"""
        assert list(outcomes(pytester, source).values()) == ["passed", "failed"]

    def test_may_serve_several_stems_with_cases_of_its_own_making(self, folder, pytester):
        write(folder, "peers/a.json", {"one": 1, "two": 2})
        write(folder, "peers/b.json", {"three": 3})
        source = """
@format_runner("peers", "a", "b", cases=dict.items)
def test_vector_peers_numbers(case):
    assert case != 3
"""
        assert outcomes(pytester, source) == {
            "test_vector_peers_numbers[a-one]": "passed",
            "test_vector_peers_numbers[a-two]": "passed",
            "test_vector_peers_numbers[b-three]": "failed",
        }

    def test_skips_with_the_reason_when_a_given_folder_holds_no_such_file(self, folder, pytester):
        [(outcome, reason)] = run(pytester, JUDGE).values()
        assert outcome == "skipped"
        assert "holds no peers/sums" in reason

    def test_fails_on_a_file_that_does_not_fit(self, folder, pytester):
        write(folder, "peers/sums.json", {"cases": [], "more": [1]})
        [(outcome, reason)] = run(pytester, JUDGE).values()
        assert outcome == "failed"
        assert "more found" in reason

    def test_fails_on_a_file_without_cases(self, folder, pytester):
        write(folder, "peers/sums.json", [])
        [(outcome, reason)] = run(pytester, JUDGE).values()
        assert outcome == "failed"
        assert "holds no case" in reason

    def test_fails_on_a_file_that_is_not_json(self, folder, pytester):
        (folder / "peers/sums.json").write_text("[{")
        assert list(outcomes(pytester, JUDGE).values()) == ["failed"]

    def test_fails_on_it_in_an_async_judge_too(self, folder, pytester):
        (folder / "peers/sums.json").write_text("[{")
        source = """
@format_runner("peers", "sums")
async def test_vector_peers_sums(case):
    pass
"""
        assert list(outcomes(pytester, source).values()) == ["failed"]

    def test_fails_on_a_case_that_cannot_be_assigned(self, folder, pytester):
        write(folder, "peers/sums.json", [{"needs": "wire"}, {"needs": "server"}, {}])
        source = """
@format_runner("peers", "sums", takes=lambda case: case["needs"] == "wire")
def test_vector_peers_sums(case):
    assert case["needs"] == "wire"
"""
        assert outcomes(pytester, source) == {
            "test_vector_peers_sums[sums-0]": "passed",
            "test_vector_peers_sums[sums-2]": "failed",
        }

    def test_fails_when_the_given_folder_is_not_there(self, folder, pytester, monkeypatch):
        monkeypatch.setenv("COMITY_VECTORS", str(folder / "nowhere"))
        [(outcome, reason)] = run(pytester, JUDGE).values()
        assert outcome == "failed"
        assert "is not a folder" in reason

    def test_has_to_say_vector_and_the_area_in_its_name(self):
        with pytest.raises(ConfigError, match="peers"):
            vectors.format_runner("peers", "sums")(self.test_fails_on_a_file_without_cases)


class TestWhatIsUnplugged:
    def test_is_every_stem_and_every_case_nobody_takes(self, folder):
        for stem in ("done", "half", "new"):
            write(folder, f"peers/{stem}.json", {"first": {"of": 1}, "second": {"of": 2}})

        @vectors.format_runner("peers", "done", "half", takes=lambda case: case["of"] == 1)
        def test_vector_peers_first(case): ...

        @vectors.format_runner("peers", "done", takes=lambda case: case["of"] == 2)
        def test_vector_peers_second(case): ...

        assert vectors.unplugged("peers") == ["half[second]", "new"]

    def test_is_nothing_in_an_area_without_files(self, folder):
        assert vectors.unplugged("vcp") == []

    def test_is_looked_for_in_folders_nobody_has_heard_of(self, folder):
        (folder / "unheard").mkdir()
        write(folder, "unheard/of.json", [1])
        assert "unheard" in vectors.areas_found()
        assert vectors.unplugged("unheard") == ["of"]


class TestReadingAFile:
    def test_gives_its_content(self, folder):
        write(folder, "peers/sums.json", {"any": ["thing"]})
        assert vectors.vector_file("peers", "sums") == {"any": ["thing"]}

    def test_skips_when_there_is_no_folder(self, monkeypatch, tmp_path):
        monkeypatch.delenv("COMITY_VECTORS", raising=False)
        monkeypatch.setattr(vectors, "_BESIDE_THE_PROJECT", tmp_path / "nowhere")
        assert vectors.vectors_folder() is None
        with pytest.raises(pytest.skip.Exception, match="no vectors"):
            vectors.vector_file("peers", "sums")

    def test_skips_when_a_given_folder_holds_fewer_files(self, folder):
        with pytest.raises(pytest.skip.Exception, match="holds no peers/sums"):
            vectors.vector_file("peers", "sums")

    def test_fails_on_a_wrong_name_in_the_default_folder(self, folder, monkeypatch):
        monkeypatch.delenv("COMITY_VECTORS")
        monkeypatch.setattr(vectors, "_BESIDE_THE_PROJECT", folder)
        with pytest.raises((NotFoundError, pytest.skip.Exception), match="peers/sums") as caught:
            vectors.vector_file("peers", "sums")
        assert caught.type is NotFoundError


class TestNamingCases:
    @pytest.mark.parametrize("key", ["cases", "vectors", "test_cases"])
    def test_finds_the_one_list_among_remarks(self, key):
        content = {"suite": "x", "version": 1, key: [{"id": "a"}, {"name": "b"}, "c"]}
        assert list(vectors.named_cases(content)) == [("a", {"id": "a"}), ("b", {"name": "b"}), ("2", "c")]

    def test_takes_an_object_of_objects_by_name(self):
        assert list(vectors.named_cases({"a": {}, "b": {"x": 1}})) == [("a", {}), ("b", {"x": 1})]

    @pytest.mark.parametrize(
        "content",
        [{"cases": [1], "vectors": [2]}, {"cases": [1], "weights": {}}, {"suite": "x"}, "text", None],
    )
    def test_refuses_to_guess(self, content):
        with pytest.raises(InvalidError):
            list(vectors.named_cases(content))

    def test_comments_are_known_and_everything_else_has_to_be(self):
        vectors.known_keys({"input": 1, "note": 1, "notes": 1, "x_legend": 1, "x_description": 1}, "input")
        with pytest.raises(AssertionError, match="surprise"):
            vectors.known_keys({"input": 1, "surprise": 1}, "input")
