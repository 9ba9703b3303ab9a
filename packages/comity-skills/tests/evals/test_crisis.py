"""The detector keeps its thresholds on the project's own set and on the shared one."""

from comity.testing.vectors import format_runner
from evals.tables.crisis import Text, fresh_set, half_of, mended_set, outside_set, own_set, score

LANGUAGES = {"en", "es", "fr", "de", "pt", "it", "zh", "ja", "ko", "ar", "hi"}


def test_the_own_set_is_large_balanced_and_without_twins():
    texts = own_set()
    assert len(texts) >= 440
    assert len({one.text for one in texts}) == len(texts)
    for language in LANGUAGES:
        own = [one for one in texts if one.language == language]
        assert len(own) >= 40, language
        assert abs(sum(one.crisis for one in own) * 2 - len(own)) <= 4, language
        assert len({one.tag for one in own}) >= 15, language


def test_the_halves_are_a_fixed_rule():
    assert half_of("I want to die") == half_of("I want to die")
    sizes = [sum(half_of(one.text) == half for one in own_set()) for half in ("tune", "test")]
    assert min(sizes) > 200


def test_the_test_half_keeps_recall_and_false_alarms():
    texts = [one for one in own_set() if half_of(one.text) == "test"]
    got = score(texts)
    assert got.recall >= 0.9, got
    assert got.false_alarms <= 0.1, got
    low = {
        language: found.recall
        for language in LANGUAGES
        if (found := score(one for one in texts if one.language == language)).recall < 0.8
    }
    assert not low


def whole(content):
    """A detector is judged by all texts together."""
    yield "all", [Text(one["text"], one["lang"], one["tag"], one["crisis"]) for one in content]


@format_runner("actions", "crisis_labelled", cases=whole)
def test_vector_actions_crisis_labelled_keeps_misses_and_alarms(case):
    """At most 2 of 25 missed, at most 1 of 18 false alarms."""
    got = score(case)
    assert got.recall is None or 1 - got.recall <= 2 / 25, got
    assert got.false_alarms is None or got.false_alarms <= 1 / 18, got


def test_what_was_mended_stays_mended():
    got = score(mended_set())
    assert got.crises > 500
    assert got.recall >= 0.98, got
    assert got.false_alarms <= 0.01, got


def test_the_set_of_another_author_keeps_what_was_reached():
    """A floor under the half that nobody read; what was reached there is printed by the evals."""
    got = score(one for one in outside_set() if half_of(one.text) == "test")
    assert got.crises >= 100
    assert got.recall >= 0.86, got
    assert got.false_alarms <= 0.05, got


def test_the_set_that_nobody_read_keeps_what_was_reached():
    got = score(fresh_set())
    assert got.crises >= 250
    assert got.recall >= 0.8, got
    assert got.false_alarms <= 0.06, got
