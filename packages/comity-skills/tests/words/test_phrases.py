from comity_skills.words.phrases import Phrases
from comity_skills.words.tokens import tokens


def found(entries, text):
    return [(each.meaning, text[each.start : each.end]) for each in Phrases(entries).find(tokens(text))]


def test_a_phrase_is_found_as_whole_words_only():
    entries = [("form", 1), ("herein", 2), ("text", 3)]
    assert found(entries, "The platform has information wherein context matters") == []
    assert found(entries, "A form; herein: TEXT.") == [(1, "form"), (2, "herein"), (3, "TEXT")]


def test_the_longest_phrase_wins_and_its_words_are_used_up():
    entries = [("red", "colour"), ("red tape", None), ("gulf", "gulf"), ("gulf of mexico", "us")]
    assert found(entries, "red tape, red, Gulf of Mexico, gulf") == [
        ("colour", "red"),
        ("us", "Gulf of Mexico"),
        ("gulf", "gulf"),
    ]


def test_marks_stand_for_choices_gaps_beginnings_and_numbers():
    entries = [("#  minute|minutes time? limit", "limit"), ("captcha*", "captcha")]
    assert found(entries, "5-minute limit, five minutes time limit, reCAPTCHA, captchas") == [
        ("limit", "5-minute limit"),
        ("limit", "five minutes time limit"),
        ("captcha", "captchas"),
    ]


def test_a_phrase_does_not_reach_over_a_comma_or_the_end_of_a_sentence():
    assert found([("time out", 1)], "the time. Out there, time, out") == []


def test_a_longer_phrase_that_breaks_off_leaves_the_shorter_one():
    entries = [("time", "short"), ("time limit is over", "long")]
    assert found(entries, "time limit is near") == [("short", "time")]


def test_the_first_of_two_equal_phrases_counts():
    assert found([("hey", 1), ("hey", 2)], "hey") == [(1, "hey")]
