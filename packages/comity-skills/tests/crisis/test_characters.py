import sys

from hypothesis import given
from hypothesis import strategies as st

from comity_skills.crisis.characters import LONG_WAY, UNSETTLED, fold_characters, origins_of
from comity_skills.crisis.glyphs import SIMPLIFIED


def test_most_texts_keep_their_positions():
    for text in ("I Want", "mañana", "\uff57ant", "沒有", "हूँ", "a\nb"):
        folded, long_way = fold_characters(text)
        assert len(folded) == len(text)
        assert not long_way


@given(st.text(alphabet="ae\u0301\u0308 \u200bか\u3099ﾊﾟ\u1112\u1161\u11abß½أً", max_size=20))
def test_the_long_way_knows_where_every_character_comes_from(text):
    folded, long_way = fold_characters(text)
    if long_way:
        origins = origins_of(text)
        assert len(origins) == len(folded)
        assert origins == sorted(origins)
        assert all(0 <= origin < len(text) for origin in origins)


def test_a_character_together_with_its_marks_is_one():
    assert fold_characters("か\u3099e\u0301\u200b")[0] == "がe"
    assert fold_characters("\u1112\u1161\u11ab")[0] == "한"


def test_a_capital_i_inside_a_word_is_a_small_l():
    assert fold_characters("kiIl I aIs KIL")[0] == "kill i als kil"


def test_only_the_unsettled_fold_otherwise_on_the_long_way():
    for code in (*range(0x3000), *range(0xF900, 0x10000)):
        character = chr(code)
        short, long_way = fold_characters(character)
        long, _ = fold_characters(f"{character} \u200b")
        # an apostrophe of either kind is no part of a word
        if not long_way and character not in UNSETTLED and character != "`":
            assert long == f"{short} ", hex(code)


def test_the_mark_of_the_long_way_is_no_letter():
    assert not LONG_WAY.isalnum()
    assert len(LONG_WAY) == 1
    assert ord(LONG_WAY) < sys.maxunicode


def test_both_ways_of_writing_chinese_are_one():
    traditional, simplified = "媽媽我撐不下去了決定從橋上跳", "妈妈我撑不下去了决定从桥上跳"
    assert fold_characters(traditional)[0] == fold_characters(simplified)[0]
    assert not set(SIMPLIFIED) & set(SIMPLIFIED.values())


def test_a_ligature_is_its_two_letters():
    assert fold_characters("Cœur de bœuf")[0] == "coeur de boeuf"
