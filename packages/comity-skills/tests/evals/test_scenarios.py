import pytest

from comity.testing.vectors import vector_file
from evals.tables.scenarios import PREDICATES, STALE, Reply, judge, table, tables


def scenario(**more):
    given = {"message": "Hey guys", "audience": "team", "region": "Japan"}
    return {
        "id": "own",
        "action": "cultural_context_check",
        "input": given,
        "expected": {},
        "reference_result": {},
        **more,
    }


def test_a_scenario_is_met_when_every_expectation_holds():
    both = {
        "adapted_message_contains": "[Adapted for team audience, Japan]",
        "notes_contains": "Hierarchy, RED",
    }
    (met,) = judge([scenario(expected=both)])
    (missed,) = judge([scenario(expected={**both, "notes_contains": "hierarchy, penguins"})])
    assert met.met == {"compat": True, "enhanced": True}
    assert missed.met == {"compat": False, "enhanced": False}


def test_an_expectation_about_an_error_is_met_by_that_error_only():
    refused = scenario(
        input={"message": "x"}, expected={"ok": False, "error_contains": "'audience' is missing"}
    )
    (result,) = judge([refused])
    assert result.met == {"compat": True, "enhanced": True}
    (answered,) = judge([scenario(expected={"ok": False})])
    assert not any(answered.met.values())


def test_an_expectation_that_nobody_stated_is_an_error():
    with pytest.raises(KeyError, match="is_poetry"):
        judge([scenario(expected={"is_poetry": True})])


def test_an_output_without_the_field_meets_nothing():
    for name, wanted in {
        "ranking_length": 1,
        "site_aggregate_range": [0, 100],
        "page3_highest": True,
        "heuristic": True,
        "checklist_sorted": True,
        "findings_count_gte": 1,
        "notes_contains": "x",
    }.items():
        assert not PREDICATES[name](Reply({}), wanted), name


def test_the_table_names_what_was_missed_and_what_is_stale():
    results = judge(
        [
            scenario(expected={"notes_contains": "hierarchy"}, reference_result={"notes_contains": True}),
            scenario(id="bad", expected={"notes_contains": "penguins"}, reference_result={"x": False}),
            scenario(id="sc-11", expected={"notes_contains": "penguins"}, reference_result={"x": False}),
        ]
    )
    found = table(results)
    assert found.rows == [
        ("cultural_context_check", 3, 1, 1, 1, 1 / 3),
        ("all", 3, 1, 1, 1, 1 / 3),
        ("without the stale ones", 2, 1, 1, 1, 0.5),
    ]
    assert found.notes[:2] == ["missed in compat: bad", "missed in enhanced: bad"]
    assert found.notes[2].startswith("stale: sc-11 ")


def test_without_vectors_the_table_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("COMITY_VECTORS", str(tmp_path))
    (empty,) = tables()
    assert empty.notes == ["skipped: the vectors are not here"]


def test_vector_actions_scenarios_have_only_stated_expectations():
    scenarios = vector_file("actions", "scenarios")["structured"]
    assert {name for each in scenarios for name in each["expected"]} <= set(PREDICATES)
    stale = [each for each in scenarios if each["id"] in STALE]
    assert stale
    assert not any(all(each["reference_result"].values()) for each in stale)
