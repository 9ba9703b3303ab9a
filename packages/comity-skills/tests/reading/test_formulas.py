"""Values computed by hand from the published formulas."""

from math import isclose

from comity_skills.reading.formulas import (
    automated_readability_index,
    coleman_liau_index,
    flesch_kincaid_grade,
    flesch_reading_ease,
    smog_grade,
)


def test_flesch_reading_ease_of_a_hundred_words_in_five_sentences():
    # 206.835 - 1.015 * 20 - 84.6 * 1.5
    assert isclose(flesch_reading_ease(100, 5, 150), 59.635)


def test_flesch_kincaid_grade_of_the_same():
    # 0.39 * 20 + 11.8 * 1.5 - 15.59
    assert isclose(flesch_kincaid_grade(100, 5, 150), 9.91)


def test_smog_takes_the_square_root_of_polysyllables_in_thirty_sentences():
    # 1.0430 * 4 + 3.1291, since 16 * 30 / 30 = 16
    assert isclose(smog_grade(30, 16), 7.3011)
    assert isclose(smog_grade(10, 12), 1.0430 * 6 + 3.1291)


def test_automated_readability_index():
    # 4.71 * 4.5 + 0.5 * 20 - 21.43
    assert isclose(automated_readability_index(100, 5, 450), 9.765)


def test_coleman_liau_index():
    # 0.0588 * 450 - 0.296 * 5 - 15.8
    assert isclose(coleman_liau_index(100, 5, 450), 9.18)
