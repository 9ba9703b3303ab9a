from comity_skills.crisis.disguise import Vocabulary
from comity_skills.crisis.folding import fold
from comity_skills.crisis.page import REACH, Page

WORDS = Vocabulary(["word"])


def page(text):
    return Page(text, fold(text, WORDS))


def test_a_sentence_goes_from_stop_to_stop():
    one = page("Go away. I am here! Now, then")
    start = one.text.index("am")
    left, right = one.sentence(start, start + 2)
    assert one.text[left:right].split() == [".", "i", "am", "here"]


def test_a_sentence_ends_where_nobody_can_see():
    one = page("word " * 200)
    left, right = one.sentence(500, 504)
    assert (left, right) == (500 - REACH, 504 + REACH + 1)


def test_a_stop_stands_between_two_sentences():
    one = page("a b. c")
    places = [one.text.index(letter) for letter in "abc"]
    assert not one.stops_between(places[0] + 1, places[1])
    assert one.stops_between(places[1] + 1, places[2])
    assert not page("a b c").stops_between(0, 5)


def test_quotation_marks_stand_around_a_word():
    for text, quoted in {
        'he says "word" now': True,
        "he says 'word' now": True,
        "he says «word» now": True,
        "he says 「word」 now": True,
        "it's a word, isn't it": False,
        'a word and "another thing"': False,
        "word": False,
    }.items():
        one = page(text)
        start = one.text.index("word")
        assert one.quotes(start, start + 4) is quoted, text


def test_laughter_is_seen():
    assert page("word 😂").laughs()
    assert not page("word 🙏").laughs()
    assert not page("haha").laughs()


def test_a_long_text_is_known_as_such():
    assert page("word " * 100).is_long
    assert not page("word").is_long
