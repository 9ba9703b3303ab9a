from functools import cache
from importlib.resources import files

import pytest

from comity_skills.editing.passage import read
from comity_skills.editing.rules import Finding
from comity_skills.editing.tone import ADVICE, in_company, stem, tone_reader, words_of
from comity_skills_data import shipped

PLACE = files("comity_skills")


@cache
def learned():
    return tone_reader(shipped())


def flagged(text, *taken):
    found = [
        Finding(rule="x", category="x", severity="low", start=start, end=end, text="", reason="")
        for start, end in taken
    ]
    return {(one.text, one.category) for one in learned().flagged(read(text), found)}


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("We have been through this form together four times by now.", "reproach"),
        ("Honestly, I'm sick of reminding you about the bins.", "fed_up"),
        ("It's just a bit of stress, everybody has that.", "belittling"),
        ("A grown man who cannot even read a timetable.", "contempt"),
        ("You will have to sort that out with somebody else.", "brush_off"),
        ("Sign by noon or the place goes to the next person on the list.", "pressure"),
        ("We regret nothing and your application was simply not good enough.", "cold_news"),
        ("Normal people don't behave like these schizophrenics.", "stigma"),
        ("Depression is just an excuse for people who don't want to get out of bed.", "willpower"),
        ("Our tea heals anxiety for good, so you can throw your tablets away.", "cure"),
        ("You will never get better, so there is no point in trying.", "no_hope"),
        ("You are 11 lessons behind everybody else in your class.", "shaming"),
    ],
)
def test_a_sentence_that_no_rule_knows_is_flagged_as_what_it_may_be(sentence, kind):
    assert flagged(f"Dear Sam, thank you for your letter. {sentence}") == {(sentence, kind)}


@pytest.mark.parametrize(
    "text",
    [
        "The totals on page 7 do not match the ledger; could you look at them again?",
        "If we don't hear from you by 3 May we will close the request, and you can open it again at any time.",
        "I was lazy about this, and I am sorry.",
        "You are not a burden, and nothing that you did caused this.",
        "About one in six people has a depression at some point, and most of them recover.",
        "The film is a dull, lifeless mess.",
        "Press the red button to stop the engine at once.",
        "",
    ],
)
def test_what_hurts_nobody_is_left_in_peace(text):
    assert flagged(text) == set()


def test_the_words_of_somebody_else_are_not_flagged():
    said = "Honestly, I'm sick of reminding you about the bins."
    assert flagged(said)
    assert flagged(f'She wrote: "{said}"') == set()


def test_where_something_was_found_the_rest_of_the_sentence_is_read():
    text = "You still owe me 300 euros, and you can't keep using your depression as an excuse."
    assert flagged(text, (0, 16)) == {(text[17:], "willpower")}
    assert flagged(text, (0, len(text))) == set()
    assert flagged(text, (0, len(text) - 20)) == set()  # too few words are left


def test_what_is_around_a_sentence_counts_a_little():
    assert in_company([50, -100, -100, -100, -100]) == [30, -90, -90, -90, -120]
    assert in_company([50]) == [30]


def test_every_kind_has_its_advice():
    for advice in ADVICE.values():
        assert advice.reason.endswith(".")
        assert advice.alternative.startswith("(")


def test_a_long_text_gets_no_more_than_twenty():
    assert len([*learned().flagged(read("I'm so sick of chasing you for this. " * 300), [])]) == 20


def test_words_as_people_type_them():
    assert words_of("ur late, I dont care\u2026 42 times!") == [
        "your", "late", "i", "don't", "care", "#", "times", "!"
    ]  # fmt: skip
    assert [stem(word) for word in ("reminding", "reminded", "his", "easily")] == [
        "remind",
        "remind",
        "his",
        "easi",
    ]


def test_words_and_texts_without_end_are_read_in_part():
    assert words_of("a" * 100_000) == ["a" * 24]
    assert flagged("a" * 100_000) == set()
    sick = "I'm so sick of chasing you for this."
    assert flagged(f"{'Thank you. ' * 300}{sick}") == {(sick, "fed_up")}
    assert flagged(f"{'Thank you. ' * 500}{sick}") == set()
