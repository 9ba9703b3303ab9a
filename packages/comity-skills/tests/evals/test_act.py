import pytest

from comity.testing.vectors import vector_file
from evals.tables.act import DECIDED, Judged, Score, compare, flagged, judge, score, tables


def test_a_decided_rule_is_flagged_by_its_own_failure_only():
    page = "<html lang=en><title>Hours</title><img src=a.png><a href=/>Hours</a>"
    assert flagged("23a2a8", ["1.1.1"], page)
    assert not flagged("8fc3b6", ["1.1.1"], page)


def test_a_rule_that_is_not_decided_is_flagged_by_its_criteria():
    page = "<html lang=en><title>Hours</title><img src=a.png>"
    assert "000000" not in DECIDED
    assert flagged("000000", ["1.1.1"], page)
    assert not flagged("000000", ["1.2.2"], page)


def test_what_cannot_be_told_is_not_flagged():
    assert not flagged("e7aa44", ["1.2.1"], "<audio src=a.mp3 controls></audio>")


def test_cases_without_a_criterion_are_left_out():
    case = {"rule": "23a2a8", "wcag": [], "expected": "failed", "code": "<img src=a.png>"}
    assert judge([case]) == []
    assert judge([{**case, "wcag": ["1.1.1"]}]) == [Judged("23a2a8", expected=True, flagged=True)]
    other = {**case, "wcag": ["1.1.1"], "expected": "inapplicable"}
    assert judge([other]) == [Judged("23a2a8", expected=False, flagged=True)]


def test_balanced_accuracy_is_the_mean_of_the_two_rates():
    told = [
        Judged("a", one, two) for one, two in ((True, True), (True, False), (False, False), (False, False))
    ]
    assert score(told) == Score(2, 1, 2, 0)
    assert score(told).balanced == pytest.approx(0.75)
    assert score(told[:2]).balanced is None


def test_axe_and_the_audit_are_compared_by_criterion():
    page = {
        "id": "p",
        "html": "<html lang=en><title>t</title><img src=a.png>",
        "wcag_fail": ["1.1.1"],
        "incomplete": [],
    }
    (told,) = compare([page])
    assert (told.axe, told.ours, told.open) == (frozenset({"1.1.1"}), frozenset({"1.1.1"}), False)
    (told,) = compare([{**page, "incomplete": ["aria-hidden-focus", "landmark-one-main"]}])
    assert told.open


def test_vector_actions_act_cases_are_judged_well_enough():
    cases = vector_file("actions", "act_rules")["cases"]
    judged = judge(cases)
    decided = score(one for one in judged if one.rule in DECIDED)
    everything = score(judged)
    assert len({case["rule"] for case in cases} & DECIDED) >= 25
    assert decided.balanced is not None
    assert decided.balanced >= 0.85, decided
    assert everything.balanced is not None
    assert everything.balanced >= 0.72, everything


def test_vector_actions_axe_is_agreed_with():
    pages = compare(vector_file("actions", "a11y_axe"))
    failing = [(page.name, criterion) for page in pages for criterion in page.axe]
    found = [(page.name, criterion) for page in pages for criterion in page.axe & page.ours]
    assert len(found) >= 0.9 * len(failing), sorted(set(failing) - set(found))
    clean = [page for page in pages if not page.axe and not page.open]
    alarms = [(page.name, sorted(page.ours)) for page in clean if page.ours]
    assert len(alarms) <= 0.1 * len(clean), alarms


def test_the_tables_say_so_when_there_are_no_vectors(monkeypatch):
    monkeypatch.setattr("evals.tables.act.vectors_folder", lambda: None)
    assert [(table.name, table.columns, len(table.notes)) for table in tables()] == [
        ("act", (), 1),
        ("axe", (), 1),
    ]
