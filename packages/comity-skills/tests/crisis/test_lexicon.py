from importlib.resources import files
from itertools import product

import msgspec
import pytest

from comity_skills.crisis.context import CONTEXT
from comity_skills.crisis.data import LANGUAGES, LEXICONS, RULES, SIGNS
from comity_skills.crisis.detector import CrisisDetector
from comity_skills.crisis.lexicon import (
    MOST_WORDINGS,
    LanguageFile,
    SignRules,
    expand,
    misspellings,
    parts_of,
    read_lexicon,
)

NO_RULES = b'{"rules":{},"signs":{},"guards":{}}'


def content(name):
    return files("comity_skills").joinpath(name).read_bytes()


def language(**more):
    plain = {
        "language": "xx", "written": "2026-01-01", "sources": ["a test"], "gap": 10,
        "concepts": {"WANT": ["want to"], "DIE": ["die"]}, "rules": {"ideation": {"high": ["WANT DIE"]}}, "phrases": {},
    }  # fmt: skip
    return msgspec.json.encode({**plain, **more})


def read(*files, signs=b"{}", rules=NO_RULES):
    return read_lexicon(files, [signs] * len(files), rules)


def test_every_language_names_its_sources_and_the_day_of_its_review():
    for name, code in zip(LEXICONS, LANGUAGES, strict=True):
        file = msgspec.json.decode(content(name), type=LanguageFile)
        assert file.language == code
        assert file.sources, name
        assert file.written >= "2026-11-15", name
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
    for name in LEXICONS:
        file = msgspec.json.decode(content(name), type=LanguageFile)
        rows = " ".join(row for by in file.rules.values() for rows in by.values() for row in rows)
        used = set(rows.replace("|", " ").split()) | set(CONTEXT)
        assert set(file.concepts) <= used, (name, set(file.concepts) - used)


NUMBERS = "{" + "|".join("abcdefghijklmnopqrst") + "}"


def test_a_phrase_of_many_wordings_is_kept_as_its_parts():
    phrase = f"never {NUMBERS} {{so |}}{NUMBERS} {{again|}} {NUMBERS}"
    parts = parts_of(phrase)
    assert parts == [f"never {NUMBERS}", f"{{so |}}{NUMBERS} {{again|}}", NUMBERS]
    whole = {" ".join(wording.split()) for wording in expand(phrase)}
    assert {" ".join(" ".join(one).split()) for one in product(*map(expand, parts))} == whole


def test_the_parts_of_a_phrase_are_found_as_one_and_only_side_by_side():
    assert len(list(expand(f"leave {NUMBERS} {NUMBERS} for ever"))) > MOST_WORDINGS
    file = language(phrases={"plan": {"high": [f"leave {NUMBERS} {NUMBERS} for ever"]}})
    detect = CrisisDetector(read(file)).detect
    (signal,) = detect("now I leave b q for ever and more").signals
    assert (signal.category, signal.severity) == ("plan", "high")
    assert "now I leave b q for ever and more"[slice(*signal.span)] == "leave b q for ever"
    for apart in (
        "leave b and q for ever",
        "leave b, q for ever",
        "q for ever leave b",
        "leave b. q for ever",
    ):
        assert detect(apart).signals == (), apart


def test_braces_stand_for_either_word():
    assert list(expand("{kill|end} my{ own|} self")) == [
        "kill my own self",
        "kill my self",
        "end my own self",
        "end my self",
    ]


def test_a_rule_names_only_concepts_that_there_are():
    with pytest.raises(KeyError, match="LIVE"):
        read(language(rules={"ideation": {"high": ["WANT LIVE"]}}))


def test_an_unknown_field_is_refused():
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        read(language(phrasses={}))


def test_the_rules_of_a_row_are_complete_at_its_last_concept():
    lexicon = read(language(rules={"ideation": {"high": ["WANT ~ DIE", "WANT 5 WANT|DIE"]}}))
    (one,) = lexicon.languages
    rows = sorted((len(rule.slots), rule.gaps) for rule in one.rules for _ in rule.ends)
    assert rows == [(2, (10, 5)), (2, (10, 5)), (2, (10, 10)), (2, (10, 10))]


def test_every_language_fills_every_class_of_the_shared_grammar():
    (rules,) = (msgspec.json.decode(content(name), type=SignRules) for name in RULES)
    rows = [row for by in rules.rules.values() for rows in by.values() for row in rows]
    rows += [row for group in rules.signs.values() for row in group]
    words = {word for row in rows for word in row.replace("|", " ").split() if word.isupper()}
    classes = words | {name for names in rules.guards.values() for name in names}
    assert set(rules.guards) == set(rules.signs)
    for name in SIGNS:
        filled = msgspec.json.decode(content(name), type=dict[str, tuple[str, ...]])
        assert classes <= set(filled), (name, classes - set(filled))
        assert set(filled) <= classes | set(CONTEXT), (name, set(filled) - classes - set(CONTEXT))
        assert all(filled.values()), name
        for phrases in filled.values():
            assert len(phrases) == len(set(phrases)), (name, phrases)


def test_a_row_of_the_shared_grammar_has_a_reach_in_gaps_and_a_guard():
    row = {"plan": {"high": ["A & B + C|D @2.5 !legacy"]}}
    rules = {"rules": row, "signs": {"legacy": {}}, "guards": {"legacy": ["G"]}}
    signs = {name: [name.lower() * 3] for name in "ABCDG"}
    (one,) = read(language(), signs=msgspec.json.encode(signs), rules=msgspec.json.encode(rules)).languages
    (bag,) = [rule for rule in one.rules if rule.bound]
    assert (bag.reach, bag.bound, bag.group) == (25, 2, "legacy")
    assert [len(slot) for slot in bag.slots] == [1, 1, 2]
    assert bag.ends == bag.concepts
    assert len(one.guards["legacy"]) == 1


def test_a_misspelling_differs_by_one_letter():
    assert {"suicde", "sucide", "suiicide", "siucide", "suicode"} <= set(misspellings("suicide"))
    assert "suicidal" not in set(misspellings("suicide"))
