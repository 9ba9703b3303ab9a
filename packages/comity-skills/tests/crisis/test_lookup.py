"""Many patterns are found in one pass, in the order in which they end."""

from comity_skills.crisis.disguise import Vocabulary
from comity_skills.crisis.folding import fold
from comity_skills.crisis.lookup import Lookup

WORDS = Lookup.of({" die ": "en", " want to die ": "en, more", "死": "zh", "想死": "zh, more"})


def folded(text):
    return fold(text, Vocabulary(()))


def test_what_ends_together_is_told_longest_first():
    assert [told for _, told in WORDS.find(folded("I want to die"))] == ["en, more", "en"]


def test_patterns_with_and_without_blanks_are_told_in_the_order_of_the_text():
    assert [told for _, told in WORDS.find(folded("die , 想死 . die"))] == ["en", "zh, more", "zh", "en"]


def test_the_place_is_that_of_the_last_character():
    text = folded("我想死 .")
    assert [text.text[place] for place, _ in WORDS.find(text)] == ["死", "死"]


def test_whether_there_is_one_is_told_without_a_list():
    assert WORDS.finds(folded("I die"))
    assert WORDS.finds(folded("想死"))
    assert not WORDS.finds(folded("dying , 我"))


def test_no_patterns_find_nothing():
    assert list(Lookup.of({}).find(folded("die , 死"))) == []
