"""The long texts are what they claim to be, and the detector keeps its floors on them."""

from collections import Counter

import pytest

from comity_skills.supportive_reply import SKILL
from comity_skills_data import shipped
from evals import sources
from evals.tables.crisis import detector, half_of
from evals.tables.crisis_long import (
    authors_set,
    forum_set,
    found_texts,
    fresh_set,
    life_set,
    long_set,
    more_set,
    once_set,
    others_set,
    rate,
    unread_set,
    unseen_set,
)

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
    for texts in (
        others_set(),
        fresh_set(),
        unread_set(),
        authors_set(),
        life_set(),
        more_set(),
        forum_set(),
        unseen_set(long=False),
        unseen_set(long=True),
        once_set(long=False),
        once_set(long=True),
    ):
        assert {one.language for one in texts} == LANGUAGES


@pytest.mark.parametrize(("own", "least"), [(more_set, 120), (forum_set, 60)])
def test_the_sets_to_learn_from_are_large_long_and_share_no_text(own, least):
    texts = own()
    labels = Counter(one.tag for one in texts)
    assert min(labels[label] for label in ("crisis", "distressed")) >= least
    assert all(200 <= len(one.text) <= 1500 for one in texts)
    sets = (long_set(), more_set(), forum_set(), fresh_set(), unread_set(), authors_set(), life_set())
    everything = [one.text for several in sets for one in several]
    assert len(set(everything)) == len(everything)


def of_the_test_half(*labels):
    return [one for one in long_set() if half_of(one.text) == "test" and one.tag in labels]


def by_language(texts):
    crises = [one for one in texts if one.crisis]
    return {
        language: rate([one for one in crises if one.language == language]).share for language in LANGUAGES
    }


def test_a_crisis_is_found_in_a_long_text_in_every_language():
    """In the half alone Hindi has seven crises and English eighteen: four and fourteen are found."""
    half = of_the_test_half("crisis")
    assert rate(half).share >= 0.89
    shares = by_language(half)
    assert shares.pop("hi") >= 0.5
    assert shares.pop("en") >= 0.75
    assert min(shares.values()) >= 0.8, shares
    for more in (life_set(), unseen_set(long=True), once_set(long=True)):
        together = by_language([*half, *more])
        assert min(together.values()) >= 0.8, together


def test_in_texts_as_people_write_them_crises_are_found_and_distress_is_not_taken_for_one():
    texts = life_set()
    assert len(texts) == 60 * len(LANGUAGES)
    assert rate([one for one in texts if one.crisis]).share >= 0.94
    assert min(by_language(texts).values()) >= 0.8, by_language(texts)
    assert rate([one for one in texts if one.tag == "distressed"]).share <= 0.04
    assert rate([one for one in texts if not one.crisis]).share <= 0.07


def test_in_short_and_long_texts_that_nobody_saw_crises_are_found_and_distress_is_not_taken_for_one():
    short, long = unseen_set(long=False), unseen_set(long=True)
    assert len(short) == len(long) == 30 * len(LANGUAGES)
    assert rate([one for one in short if one.crisis]).share >= 0.87
    assert rate([one for one in long if one.crisis]).share >= 0.95
    assert min(by_language([*short, *long]).values()) >= 0.75, by_language([*short, *long])  # Korean
    assert rate([one for one in (*short, *long) if one.tag == "distressed"]).share <= 0.05
    assert rate([one for one in (*short, *long) if not one.crisis]).share <= 0.06


def test_in_texts_that_were_scored_when_nothing_was_changed_any_more_crises_are_found_in_every_language():
    short, long = once_set(long=False), once_set(long=True)
    assert len(short) == len(long) == 30 * len(LANGUAGES)
    assert rate([one for one in short if one.crisis]).share >= 0.84
    assert rate([one for one in long if one.crisis]).share >= 0.97
    assert min(by_language(long).values()) >= 0.93, by_language(long)
    assert min(by_language(short).values()) >= 0.73, by_language(short)
    assert rate([one for one in short if not one.crisis]).share <= 0.015
    assert rate([one for one in long if one.tag == "distressed"]).share <= 0.05
    assert rate([one for one in long if not one.crisis]).share <= 0.06


def test_of_authors_that_nothing_was_learned_from_eight_of_ten_crises_are_found_with_few_false_alarms():
    """Most of these crises are told without any plain word, and most of the safe texts use the words of danger."""
    texts = authors_set()
    crises, safe = ([one for one in texts if one.crisis is crisis] for crisis in (True, False))
    assert min(len(crises), len(safe)) >= 800
    assert rate(crises).share >= 0.79
    assert rate(safe).share <= 0.07
    assert min(by_language(texts).values()) >= 0.68, by_language(texts)


def test_long_distressed_texts_are_rarely_taken_for_a_crisis():
    assert rate(of_the_test_half("distressed")).share <= 0.05
    assert rate(of_the_test_half("calm")).share <= 0.05


@pytest.mark.parametrize(
    "several",
    [(sources.sentences, sources.fortunes), (sources.strings, sources.manuals)],
    ids=["everyday", "technical"],
)
def test_everyday_and_technical_texts_raise_an_alarm_in_one_of_a_hundred_at_most(several):
    texts = [one for source in several for one in found_texts(source, "test")]
    if not texts:
        pytest.skip(sources.HOW)
    assert len(texts) >= 1000
    assert rate(texts).share <= 0.01


def test_another_person_in_danger_is_seen_and_the_number_comes_first():
    handle = SKILL.prepare(shipped())
    texts = [one for one in others_set() if half_of(one.text) == "test"]
    first = 0
    for one in texts:
        output = handle({"message": one.text, "risk_level": "low"}, "enhanced").output
        first += "112" in output["reply"][:90] and "112" in output["escalation_guidance"][0]
    assert first / len(texts) >= 0.9
    assert not any(detector().detect(one.text).detected for one in texts)
