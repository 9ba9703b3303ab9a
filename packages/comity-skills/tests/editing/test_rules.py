import pytest
from msgspec import ValidationError, json

from comity_skills.editing.passage import read
from comity_skills.editing.rules import (
    FINDINGS_PER_RULE,
    compiled,
    find,
    in_order,
    is_clinical,
    proposed,
    ruleset,
)


def rules(**rule):
    given = {"id": "r", "category": "c", "severity": "high", "match": r"\bweak\b", "reason": "Because."}
    data = {
        "sources": ["s"],
        "written": "2026-01-01",
        "terms": {"drink": "(?:tea|coffee)"},
        "rules": [{**given, **rule}],
    }
    return compiled(ruleset(json.encode(data)))


def texts(text, **rule):
    return [finding.text for finding in find(read(text), rules(**rule))]


def test_whole_words_are_found_with_their_place():
    (finding,) = find(read("Tea is Weak, weaken it"), rules())
    assert (finding.start, finding.end, finding.text) == (7, 11, "Weak")


def test_context_decides():
    assert texts("weak coffee", unless_after=r"%drink%") == []
    assert texts("weak people", unless_after=r"%drink%") == ["weak"]
    assert texts("not weak", unless_before=r"\bnot") == []
    assert texts("so weak", before=r"\bso") == ["weak"]
    assert texts("too weak", before=r"\bso") == []
    assert texts("weak. Coffee?", unless=r"coffee") == ["weak"]
    assert texts("weak, says the coffee", unless=r"coffee") == []
    assert texts("weak man", needs=r"\bman\b") == ["weak"]
    assert texts("weak. Man!", needs=r"\bman\b") == []


def test_a_replacement_takes_groups_and_capitals_from_the_text():
    (finding,) = find(read("Weak Anna"), rules(match=r"\bweak (\w+)", replace="tired {1}"))
    assert finding.replacement == "Tired Anna"
    assert [edit.replacement for edit in proposed([finding])] == ["Tired Anna"]


def test_an_alternative_takes_groups_from_the_text_too():
    (finding,) = find(read("weak people"), rules(match=r"\bweak (\w+)", alternative="{1} who are tired"))
    assert (finding.replacement, finding.alternative) == (None, "people who are tired")


def test_rewording_asks_for_its_neighbours_and_flagging_does_not():
    for text, replacement in (("the weak tea", "thin"), ("my weak tea", None), ("the weak gin", None)):
        (finding,) = find(read(text), rules(replace="thin", reword_before=r"\bthe", reword_after="%drink%"))
        assert finding.replacement == replacement, text


def test_quoted_words_are_told_at_low_severity_and_never_replaced():
    (finding,) = find(read('He said "weak tea"'), rules(replace="thin"))
    assert (finding.quoted, finding.severity, finding.replacement) == (True, "low", None)


def test_clinical_terms_are_silent_in_a_clinical_domain():
    assert find(read("weak"), rules(clinical="skip"), clinical=True) == []
    assert find(read("weak"), rules(clinical="skip"), clinical=False)
    assert find(read("weak"), rules(), clinical=True)
    assert is_clinical("Psychiatric ward")
    assert is_clinical("medical records")
    assert not is_clinical("billing")


def test_a_link_is_not_read():
    assert texts("see https://weak.example/weak") == []


def test_a_hostile_text_gets_a_bounded_answer():
    assert len(texts("weak " * 5000)) == FINDINGS_PER_RULE


def test_a_rule_with_a_misspelt_field_is_refused():
    with pytest.raises(ValidationError):
        rules(unles="x")


def test_what_lies_inside_another_finding_of_its_kind_is_not_told_twice():
    weak, tea = rules(match=r"weak tea"), rules(match=r"tea")
    other = rules(match=r"tea", category="drinks")
    found = find(read("weak tea, tea"), [*weak, *tea])
    assert [finding.text for finding in found] == ["weak tea", "tea"]
    assert len(find(read("weak tea"), [*weak, *other])) == 2
    assert in_order(reversed(found)) == found


def test_a_group_that_no_longer_opens_loses_its_capital():
    for text, replacement in (
        ("Gin drinkers", "People who drink gin"),
        ("GIN drinkers", "People who drink GIN"),
    ):
        (finding,) = find(read(text), rules(match=r"(gin) drinkers", replace="people who drink {1}"))
        assert finding.replacement == replacement
