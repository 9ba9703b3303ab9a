import json
from importlib.resources import files

import pytest

from comity_skills.reading.syllables import syllables

COUNTED = [
    "the:1",
    "table:2",
    "apple:2",
    "makes:1",
    "wanted:2",
    "jumped:1",
    "needed:2",
    "washed:1",
    "changes:2",
    "boxes:2",
    "breathes:1",
    "creation:3",
    "nation:2",
    "national:3",
    "education:4",
    "communication:5",
    "university:5",
    "accessibility:6",
    "readability:5",
    "organisation:5",
    "region:2",
    "opinion:3",
    "social:2",
    "official:3",
    "financial:3",
    "editorial:5",
    "industrial:4",
    "precious:2",
    "delicious:3",
    "conscious:2",
    "patient:2",
    "efficient:3",
    "obedient:4",
    "careful:2",
    "carefully:3",
    "homeless:2",
    "handsome:2",
    "completely:3",
    "evaluation:5",
    "continue:3",
    "continued:3",
    "value:2",
    "seeing:2",
    "trying:2",
    "playing:2",
    "player:2",
    "theory:3",
    "reaction:3",
    "bread:1",
    "beautiful:3",
    "queen:1",
    "equal:2",
    "quality:3",
    "question:2",
    "language:2",
    "perpetuate:4",
    "fluent:2",
    "capitalism:5",
    "tourism:3",
    "hour:1",
    "flower:2",
    "entire:2",
    "required:2",
    "administrator:5",
    "hematological:6",
    "corticosteroid:5",
    "pursuant:3",
    "thrombocytopenic:6",
    "simultaneously:6",
    "comprehensive:4",
    "assessment:3",
    "strategy:3",
    "happier:3",
    "happiest:3",
    "movie:2",
    "babies:2",
    "studied:2",
    "applied:2",
    "tried:1",
    "premium:3",
    "union:2",
    "biology:4",
    "partial:2",
    "musician:3",
    "marriage:2",
    "courageous:3",
    "spontaneous:4",
    "surgeon:2",
    "school:1",
    "settled:2",
    "handled:2",
    "called:1",
    "cancelled:2",
    "enabled:3",
    "rules:1",
    "simple:2",
    "responsible:4",
    "strengths:1",
    "moved:1",
    "loved:1",
    "states:1",
]


@pytest.fixture(scope="module")
def exceptions():
    return json.loads(files("comity_skills").joinpath("reading/english.json").read_bytes())["syllables"]


def test_syllables_are_counted_by_rule_without_the_exceptions():
    wrong = [
        (word, int(count), syllables(word, {}))
        for word, count in (pair.split(":") for pair in COUNTED)
        if syllables(word, {}) != int(count)
    ]
    assert len(wrong) <= len(COUNTED) * 0.03, wrong


def test_syllables_are_right_with_the_exceptions(exceptions):
    wrong = [pair for pair in COUNTED if syllables(pair.split(":")[0], exceptions) != int(pair.split(":")[1])]
    assert wrong == []


def test_exceptions_win_and_reach_possessives(exceptions):
    assert syllables("business", exceptions) == 2
    assert syllables("business's", exceptions) == 2
    assert syllables("idea", exceptions) == 3


def test_hyphenated_words_are_the_sum_of_their_parts(exceptions):
    assert syllables("well-being", exceptions) == 3


def test_every_word_has_a_syllable(exceptions):
    assert [syllables(word, exceptions) for word in ("", "-", "42", "hmm", "日本", "é")] == [1] * 6


def test_an_e_at_the_end_of_the_first_part_of_a_compound_is_not_spoken():
    for word, count in {
        "aforementioned": 4, "foremost": 2, "forecast": 2, "therefore": 2, "thereby": 2, "therewith": 2, "hereby": 2,
        "herein": 2, "thereafter": 3, "whereby": 2, "somewhat": 2, "somebody": 3, "homework": 2, "timetable": 3, "lifetime": 2,
        "notebook": 2, "household": 2, "safeguard": 2, "forensic": 3, "forest": 2, "foreign": 2, "hereditary": 5, "timely": 2,
    }.items():  # fmt: skip
        assert syllables(word, {}) == count, word
