import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity_skills.crisis.disguise import Vocabulary
from comity_skills.crisis.folding import fold, fold_phrase, has_unspaced

WORDS = Vocabulary(["kill", "myself", "suicide", "die", "want", "to", "i"])


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("I Want", "i want"),
        ("don\u2019t", "don t"),
        ("\uff57\uff41\uff4e\uff54", "want"),
        ("su\u200bici\u00adde", "suicide"),
        ("\u043a\u0456ll", "kill"),
        ("mañana, über Straße", "manana , uber strase"),
        ("e\u0301te\u0301", "ete"),
        ("シニタイ", "しにたい"),
        ("ｼﾆﾀｲ", "しにたい"),
        ("沒有意義", "没有意义"),
        ("أُرِيدُ", "اريد"),
        ("죽고 싶다", "죽고싶다"),
        ("\u110c\u116e\u11a8", "죽"),
        ("हूँ", "हूं"),
        ("a... b", "a b"),
        ("a. b", "a . b"),
        ("。", "."),
        ("\ud800a", "a"),
        ("a\ufe71b", "ab"),
    ],
)
def test_many_spellings_become_one(text, folded):
    assert fold_phrase(text) == folded


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("k1ll mys3lf", "kill myself"),
        ("k i l l", "kill"),
        ("k.i.l.l m-y-s-e-l-f", "kill myself"),
        ("dieeee", "die"),
        ("killlll", "kill"),
        ("k*ll", "kill"),
        ("*uicide", "suicide"),
        ("$u1c1de", "suicide"),
        ("d!e!", "die !"),
        ("covid19 b2b", "covid19 b2b"),
        ("a b c d", "a b c d"),
    ],
)
def test_a_disguise_is_undone_towards_a_known_word_only(text, folded):
    assert fold(text, WORDS).text.strip() == folded


@given(st.text(max_size=60))
def test_folding_is_stable(text):
    once = fold_phrase(text)
    assert fold_phrase(once) == once


@given(
    st.text(max_size=60),
    st.sampled_from(["suicide", "s u i c i d e", "su\u200bicide", "5uicide", "suiiiicide"]),
)
def test_the_way_back_leads_to_the_word(before, word):
    text = f"{before}. {word}"
    folded = fold(text, WORDS)
    start = folded.text.rindex("suicide")
    left, right = folded.span(start, start + len("suicide"))
    assert text[left:right] == word


@pytest.mark.parametrize(
    ("text", "word", "original"),
    [
        ("죽고 싶다 지금", "싶다", "싶다"),
        ("もう 死にたい です", "死にたい", "死にたい"),
        ("I   w4nt to k1ll", "kill", "k1ll"),
        ("e\u0301te\u0301 pe\u0301nible", "penible", "pe\u0301nible"),
        ("one two", "wo", "wo"),
    ],
)
def test_a_word_is_found_again_in_its_piece(text, word, original):
    folded = fold(text, WORDS)
    start = folded.text.rindex(word)
    left, right = folded.span(start, start + len(word))
    assert text[left:right] == original


@given(st.text(alphabet="abI '.,!*1_-é죽想\n\u0301\u200bß", max_size=30))
def test_a_text_is_folded_piece_by_piece_as_it_is_as_a_whole(text):
    # a tab keeps a text from being folded piece by piece
    assert fold(text, WORDS).text.split() == fold(f"{text.rstrip(' ')}\t", WORDS).text.split()


def test_the_words_are_handed_out():
    assert fold("I want, to k1ll myself!", WORDS).text.split() == [
        "i",
        "want",
        ",",
        "to",
        "kill",
        "myself",
        "!",
    ]
    assert fold("", WORDS).text.split() == []


def test_what_is_written_without_blanks_is_noticed():
    assert has_unspaced("a 죽 b")
    assert fold("想死", WORDS).unspaced
    assert not fold("mañana, हूँ", WORDS).unspaced


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("suicid3 to", ["suicid3", "to"]),
        ("suicid3   to", ["suicide", "to"]),
        ("suicid3 \u200b  to", ["suicide", "to"]),
        ("suicid3 \u00a0 to", ["suicide", "to"]),
        ("d.i e", ["die"]),
        ("d i.e", ["die"]),
        ("d i e", ["die"]),
    ],
)
def test_one_disguise_in_a_text_opens_the_eyes_for_the_others(text, words):
    assert fold(text, WORDS).text.split() == words
