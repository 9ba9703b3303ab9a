from hypothesis import given
from hypothesis import strategies as st

from comity_skills.words.tokens import tokens


def words(text):
    return [token.word for token in tokens(text)]


def test_words_are_folded_and_parted_at_hyphens():
    assert words("Drag-and-DROP, don\u2019t time_out") == ["drag", "and", "drop", "don't", "time", "out"]


def test_full_width_letters_are_folded_and_keep_their_place():
    (token,) = tokens("  \uff23\uff21\uff30\uff34\uff23\uff28\uff21!")
    assert (token.word, token.start, token.end) == ("captcha", 2, 9)


def test_only_spaces_and_hyphens_join_words_to_a_phrase():
    assert [token.joined for token in tokens("time out. Time, out (time)")] == [
        False,
        True,
        False,
        False,
        False,
    ]


def test_clauses_and_sentences_are_counted():
    assert [(t.clause, t.sentence) for t in tokens("a, b. c\n\nd")] == [(0, 0), (1, 0), (2, 1), (3, 2)]


@given(st.text(max_size=80))
def test_places_are_those_of_the_text_as_sent(text):
    last = 0
    for token in tokens(text):
        assert last <= token.start < token.end <= len(text)
        last = token.end
