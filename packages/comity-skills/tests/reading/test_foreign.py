"""Texts in five more languages are told apart and get the score of their own formula."""

import pytest

from comity_skills.reading.foreign import foreign_of, foreign_score
from comity_skills.words.tokens import tokens

EASY = {
    "german": "Der Hund ist klein. Er mag den Ball. Wir gehen in den Park und dann ist er müde.",
    "french": "Le chat dort sur le lit. Il ne veut pas sortir. Nous sommes dans la cuisine avec un ami.",
    "spanish": "El perro está en la casa. No se va. Los niños son muy buenos y la cena es para todos.",
    "italian": "Il gatto dorme sul divano. Non è tardi. La nonna legge e poi si mangia con calma.",
    "portuguese": "O gato está na sala. Não é tarde. A avó lê o livro e os netos são bons com ela.",
}
HARD = {
    "german": "Die Nichteinhaltung der Mitwirkungspflichten führt unter Berücksichtigung der Verordnung zur Leistungsversagung durch die zuständige Verwaltungsbehörde.",
    "french": "L'administration compétente procédera à la régularisation des documents justificatifs conformément à la réglementation communautaire applicable.",
    "spanish": "La administración competente procederá a la regularización de la documentación acreditativa conforme a las disposiciones reglamentarias establecidas.",
    "italian": "L'amministrazione competente provvederà alla regolarizzazione della documentazione giustificativa conformemente alle disposizioni regolamentari vigenti.",
    "portuguese": "A administração competente procederá à regularização da documentação comprovativa conforme as disposições regulamentares estabelecidas.",
}


@pytest.mark.parametrize("language", EASY)
def test_a_language_is_told_by_its_small_words(language):
    assert foreign_of(tokens(EASY[language])) == language


@pytest.mark.parametrize(
    "text", ["The dog is small and he likes the ball.", "Wniosek należy złożyć w terminie.", "", "ok"]
)
def test_in_doubt_nothing_is_told(text):
    assert foreign_of(tokens(text)) is None


@pytest.mark.parametrize("language", EASY)
def test_officialese_is_harder_than_a_story_for_children(language):
    easy = foreign_score(language, EASY[language].replace(".", "").split(), EASY[language].count("."))
    hard = foreign_score(language, HARD[language].replace(".", "").split(), 1)
    assert easy.score >= easy.easy > hard.score >= 0
    assert easy.language == language


def test_the_formula_of_amstad_is_counted_as_published():
    """180 - words in a sentence - 58.5 times syllables in a word: three words of one syllable."""
    assert foreign_score("german", ["der", "Hund", "bellt"], 1).score == 100.0
    assert foreign_score("german", ["Verordnung"] * 10, 1).score == 0.0
    assert foreign_score("german", ["Katze", "Hund"] * 5, 2).score == round(180 - 5 - 58.5 * 1.5, 1)
