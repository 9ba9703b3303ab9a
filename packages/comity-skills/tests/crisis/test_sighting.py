"""Which languages a text is worth reading in, and what is seen of them."""

from functools import cache
from importlib.resources import files

from comity_skills.crisis.context import IDIOM, NEG, I
from comity_skills.crisis.data import LEXICONS, RULES, SIGNS
from comity_skills.crisis.folding import fold
from comity_skills.crisis.lexicon import read_lexicon
from comity_skills.crisis.sighting import sightings_in


@cache
def lexicon():
    contents = [
        [files("comity_skills").joinpath(name).read_bytes() for name in names]
        for names in (LEXICONS, SIGNS, RULES)
    ]
    return read_lexicon(contents[0], contents[1], *contents[2])


def seen(text):
    return sightings_in(fold(text, lexicon().vocabulary), lexicon())


def codes(text):
    return [sighting.language.code for sighting in seen(text)]


def test_a_text_whose_rules_miss_a_slot_is_not_worth_reading():
    assert not seen("I feel overwhelmed")
    assert not seen("I do not know how to go on like this")
    assert not seen("")
    assert codes("I want to die") == ["en"]


def test_languages_come_in_the_order_in_which_the_text_shows_them():
    assert codes("je veux mourir . I want to kill myself")[:2] == ["fr", "en"]
    assert codes("I want to kill myself . je veux mourir")[:2] == ["en", "fr"]


def test_kana_tells_japanese_from_chinese():
    assert codes("我想自杀") == ["zh"]
    assert "zh" not in codes("もう死にたい、自杀")


def test_hits_are_in_the_order_of_their_ends_the_longer_ones_first():
    (sighting,) = seen("I don't want to live")
    hits = sighting.hits(range(1000))
    assert [end for _, end, _ in hits] == sorted(end for _, end, _ in hits)
    assert [concept for _, _, concept in sighting.hits({I})] == [I]
    assert len(sighting.hits({NEG})) == 1


def test_an_idiom_hides_what_it_covers():
    (sighting,) = seen("I want to die laughing, dying to see you, I want to kill myself")
    idioms = sighting.hits({IDIOM})
    assert idioms
    for start, end, concept in sighting.hits(range(1000)):
        assert concept == IDIOM or not any(
            left <= start and end <= right and right - left > end - start for left, right, _ in idioms
        )


def test_a_language_is_spoken_unless_another_has_more_than_twice_its_words():
    (sighting,) = seen("I want to die")
    assert sighting.spoken()
    by_code = {
        one.language.code: one for one in seen("the suicide rate of the last year in the news of my town")
    }
    assert by_code["en"].spoken()
    assert not by_code["fr"].spoken()
