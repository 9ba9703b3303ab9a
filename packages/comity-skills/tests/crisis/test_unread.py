# ruff: noqa: RUF001 -- other scripts are the subject
"""A text in a language that is not read is told from one that is."""

from functools import cache
from importlib.resources import files

import pytest

from comity_skills.crisis.unread import Unread
from evals.tables.crisis import detector, half_of, own_set
from evals.tables.crisis_long import long_set


@cache
def unread():
    return Unread(files("comity_skills").joinpath("crisis/unread.json").read_bytes())


@pytest.mark.parametrize(
    "text",
    [
        "Ik wil dood",
        "IK WIL DOOD, IK KAN NIET MEER!",
        "Ik wil niet meer leven, het is een hel en ik ben zo moe",
        "Я больше не хочу жить, мне очень плохо",
        "Δεν θέλω να ζω άλλο, δεν αντέχω πια",
        "Nie chcę już żyć, wszystko jest dla mnie bez sensu, mam dość",
        "Jag vill inte leva längre, jag orkar inte med det här",
        "Artık yaşamak istemiyorum, benim için çok zor bir hayat bu",
        "ฉันไม่อยากมีชีวิตอยู่อีกต่อไปแล้ว",
        "אני לא רוצה לחיות יותר, קשה לי מאוד",
    ],
)
def test_other_scripts_and_the_small_words_of_other_languages_are_told(text):
    assert unread()(text)
    assert unread()(text, detector().folded(text))


@pytest.mark.parametrize(
    "text", ["", "ok", "Hmm", "да", "ik", "123 456", "🙂🙂🙂", "OK thanks, see you on Monday then"]
)
def test_a_few_letters_prove_nothing(text):
    assert not unread()(text)


@pytest.mark.parametrize("text", ["IK WIL DOOD!", "ik,wil.dood", "Ik_wil2dood", "(ik) wil\tdood\x00"])
def test_a_word_is_made_of_letters_whatever_stands_around_it(text):
    assert unread()(text)


def test_no_text_of_a_language_that_is_read_is_taken_for_another():
    texts = [one.text for one in (*long_set(), *own_set()) if half_of(one.text) == "tune"]
    assert [text[:60] for text in texts if unread()(text)] == []
