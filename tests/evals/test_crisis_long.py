"""The long texts are what they claim to be, and the detector keeps its floors on them."""

from collections import Counter

from evals.tables.crisis import half_of
from evals.tables.crisis_long import fresh_set, long_set, others_set

LANGUAGES = {"en", "es", "fr", "de", "pt", "it", "zh", "ja", "ko", "ar", "hi"}


def test_the_long_set_is_large_long_and_without_twins():
    texts = long_set()
    assert len(texts) >= 600
    assert len({one.text for one in texts}) == len(texts)
    assert all(200 <= len(one.text) <= 1500 for one in texts)
    labels = Counter(one.tag for one in texts)
    assert min(labels[label] for label in ("crisis", "distressed", "calm")) >= 200
    crises = Counter(one.language for one in texts if one.crisis)
    assert {language for language, count in crises.items() if count >= 15} == LANGUAGES


def test_both_halves_of_the_long_set_hold_every_language_and_label():
    for half in ("tune", "test"):
        own = {(one.language, one.tag) for one in long_set() if half_of(one.text) == half}
        assert len(own) == len(LANGUAGES) * 3, half


def test_the_other_sets_hold_every_language():
    assert {one.language for one in others_set()} == LANGUAGES
    assert {one.language for one in fresh_set()} == LANGUAGES
