import json
from importlib.resources import files

import pytest

from comity.skills.reading.measure import english, measure


@pytest.fixture(scope="module")
def known():
    return english(json.loads(files("comity.skills").joinpath("reading/english.json").read_bytes()))


def test_scores_follow_from_counts_made_by_hand(known):
    # 12 words, 2 sentences, 13 syllables (only "kitchen" has two), 48 letters, no word of three syllables
    reading = measure("The cat sat on the mat. It did not like the kitchen.", known)
    assert (len(reading.words), len(reading.sentences)) == (12, 2)
    assert sum(word.syllables for word in reading.words) == 13
    scores = reading.scores
    assert scores.flesch_reading_ease == round(206.835 - 1.015 * 6 - 84.6 * 13 / 12, 1)
    assert scores.flesch_kincaid_grade == round(0.39 * 6 + 11.8 * 13 / 12 - 15.59, 1)
    assert scores.smog_grade == 3.1
    letters = len("ThecatsatonthematItdidnotlikethekitchen")
    assert scores.automated_readability_index == round(4.71 * letters / 12 + 0.5 * 6 - 21.43, 1)
    assert scores.coleman_liau_index == round(5.88 * letters / 12 - 29.6 * 2 / 12 - 15.8, 1)


def test_list_markers_are_no_words(known):
    reading = measure("1. Enter name.\n2. Click save.\n- Done", known)
    assert reading.words_per_sentence == [2, 2, 1]


def test_digits_count_as_characters_and_not_as_letters(known):
    one, two = measure("We have abc now.", known).scores, measure("We have 123 now.", known).scores
    assert one.automated_readability_index == two.automated_readability_index
    assert one.coleman_liau_index > two.coleman_liau_index


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The form is on the next page and you can save it.", "english"),
        ("El formulario está en la página siguiente y no se puede guardar.", "other"),
        ("Das Formular ist auf der nächsten Seite und nicht gespeichert.", "other"),
        ("この書類を確認してください", "other"),
        ("Tämä lomake on lyhyt, täytä kentät", "other"),
        ("Administrative responsibilities necessitate documentation", "english"),
        ("Choose from 12 plans: Plan A, Plan B, Plan C, Plan D, Plan E, Plan F, Plan G.", "english"),
        ("Mrs. Jones vs. Mr. Lee, Inc. No. 5 St. James. Ph.D. holders only.", "unknown"),
        ("Tap Start. Pay. Read. Go. Stop. Done. Save. Open. Quit. Send. Call. " * 2, "other"),
        ("Ok", "unknown"),
        ("", "unknown"),
        ("12345", "unknown"),
    ],
)
def test_language_is_english_other_or_unknown(known, text, language):
    reading = measure(text, known)
    assert reading.language == language
    if language == "other":
        assert reading.scores is None


def test_an_empty_text_has_no_scores(known):
    assert measure("", known).scores is None
    assert measure("...", known).scores is None
