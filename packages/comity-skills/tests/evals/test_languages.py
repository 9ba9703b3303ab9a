"""The language of a short sentence is told by its letters, also of sentences that nothing was learned from."""

import json
from functools import cache
from importlib.resources import files

import pytest

from comity_skills.supportive_reply import message_reader
from comity_skills.supportive_reply.data import LATIN
from comity_skills_data import shipped
from evals.languages import LANGUAGES, fitted, sentences

PLACE = files("comity_skills")


@cache
def reader():
    return message_reader(shipped())


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_of_a_short_sentence_is_told(language):
    short = [one for one in sentences(language, "test") if 12 <= len(one) <= 60][:500]
    told = sum(reader().about(one).language == language for one in short)
    assert len(short) > 400
    assert told / len(short) >= 0.95


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("it", "Siete aperti la domenica?"),
        ("it", "Perciò non aspetto."),
        ("es", "La gente me dice guerrera."),
        ("pt", "Luva de malha de aço obrigatória."),
        ("de", "Ich will unbedingt die Einschulung vom Enkel erleben."),
        ("hi", "Mujhe kuch samajh nahi aa raha"),
    ],
)
def test_sentences_whose_small_words_several_languages_share(language, sentence):
    assert reader().about(sentence).language == language


def test_the_weights_are_those_of_the_texts():
    assert json.loads(PLACE.joinpath(LATIN).read_bytes())["weights"] == fitted()
