from comity_skills.crisis.kept import Kept


def test_what_was_made_once_is_kept():
    asked = []

    def make(key):
        asked.append(key)
        return key.upper()

    kept = Kept(make)
    assert [kept["word"], kept["word"]] == ["WORD", "WORD"]
    assert asked == ["word"]


def test_what_is_longer_than_a_word_is_not_kept():
    kept = Kept(str.upper)
    assert kept["a" * 25] == "A" * 25
    assert kept["죽" * 13] == "죽" * 13
    assert not kept
    assert kept["a" * 24] == "A" * 24
    assert kept["죽" * 12] == "죽" * 12
    assert len(kept) == 2


def test_many_words_do_not_fill_the_memory():
    kept = Kept(str.upper)
    for number in range(20_000):
        assert kept[f"w{number}"] == f"W{number}"
    assert len(kept) < 10_000
