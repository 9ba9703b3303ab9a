from importlib.resources import files

import msgspec
import pytest

from comity.core.actions.crisis import DATA
from comity.core.actions.crisis.lexicon import CONTEXT, LANGUAGES, LanguageFile, expand, read_lexicon


def content(name):
    return files("comity.core.actions").joinpath(name).read_bytes()


def language(**more):
    plain = {
        "language": "xx", "reviewed": "2026-01-01", "sources": ["a test"], "gap": 10,
        "concepts": {"WANT": ["want to"], "DIE": ["die"]}, "rules": {"ideation": {"high": ["WANT DIE"]}}, "phrases": {},
    }  # fmt: skip
    return msgspec.json.encode({**plain, **more})


def test_every_language_names_its_sources_and_the_day_of_its_review():
    for name, code in zip(DATA, LANGUAGES, strict=True):
        file = msgspec.json.decode(content(name), type=LanguageFile)
        assert file.language == code
        assert file.sources, name
        assert file.reviewed >= "2026-11-15", name
        for needed in ("I", "THEY", "PAST", "RECOVERY", "FRAME", "SAY", "IDIOM", "MEANS", "TIME"):
            assert file.concepts.get(needed), (name, needed)
        for category in (
            "ideation",
            "hopelessness",
            "burden",
            "self_harm",
            "goodbye",
            "plan",
            "attempt",
            "method",
            "topic",
        ):
            assert category in {**file.rules, **file.phrases}, (name, category)


def test_every_concept_is_used():
    for name in DATA:
        file = msgspec.json.decode(content(name), type=LanguageFile)
        rows = " ".join(row for by in file.rules.values() for rows in by.values() for row in rows)
        used = set(rows.replace("|", " ").split()) | set(CONTEXT)
        assert set(file.concepts) <= used, (name, set(file.concepts) - used)


def test_braces_stand_for_either_word():
    assert list(expand("{kill|end} my{ own|} self")) == [
        "kill my own self",
        "kill my self",
        "end my own self",
        "end my self",
    ]


def test_a_rule_names_only_concepts_that_there_are():
    with pytest.raises(KeyError, match="LIVE"):
        read_lexicon([language(rules={"ideation": {"high": ["WANT LIVE"]}})])


def test_an_unknown_field_is_refused():
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        read_lexicon([language(phrasses={})])


def test_the_rules_of_a_row_are_found_by_its_last_concept():
    lexicon = read_lexicon([language(rules={"ideation": {"high": ["WANT ~ DIE", "WANT 5 WANT|DIE"]}})])
    (one,) = lexicon.languages
    rows = sorted((len(rule.slots), rule.gaps) for rules in one.rules.values() for rule in rules)
    assert rows == [(2, (10, 5)), (2, (10, 5)), (2, (10, 10)), (2, (10, 10))]
