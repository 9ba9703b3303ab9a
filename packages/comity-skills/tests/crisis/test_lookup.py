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


def test_no_patterns_find_nothing():
    assert list(Lookup.of({}).find(folded("die , 死"))) == []


def test_who_has_read_much_finds_the_same():
    words = Lookup.of({
        " die ": 1, " want to die ": 2, " want to die tomor": 3, " tomor": 4, " die , soon ": 5, "www": 6, "死": 7,
    })  # fmt: skip
    texts = [
        folded(text)
        for text in (
            "I want to die",
            "die , soon and die tomorrow",
            "want to die tomorrow , want to die tomor",
            "soon die to want",
            "www.want",
            "die 死 tomorrow",
            "a stranger may want to die",
        )
    ]
    before = [words.find(text) for text in texts]
    for _ in range(500):
        words.find(folded("I want to die tomorrow and die soon , www. "))
    assert [words.find(text) for text in texts] == before
    assert [sorted(words.in_any_order(text)) for text in texts] == [sorted(found) for found in before]
