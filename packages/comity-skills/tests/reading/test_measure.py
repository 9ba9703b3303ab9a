from importlib.resources import files

import pytest

from comity_skills.reading.measure import measure, read_reading_data


@pytest.fixture(scope="module")
def known():
    place = files("comity_skills.reading")
    return read_reading_data(
        place.joinpath("english.json").read_bytes(), place.joinpath("abbreviations.json").read_bytes()
    )


def test_scores_follow_from_counts_made_by_hand(known):
    # 12 words, 2 sentences, 13 syllables (only "kitchen" has two), 48 letters, no word of three syllables
    reading = measure("The cat sat on the mat. It did not like the kitchen.", known)
    assert (len(reading.words), len(reading.sentences)) == (12, 2)
    assert sum(word.syllables for word in reading.words) == 13
    scores = reading.scores
    assert scores.flesch_reading_ease == round(206.835 - 1.015 * 6 - 84.6 * 13 / 12, 1)
    assert scores.flesch_kincaid_grade == round(0.39 * 6 + 11.8 * 13 / 12 - 15.59, 1)
    assert scores.smog_grade == 3.1
    letters = len("ThecatsatonthematItdidnotlikethekitchen")
    assert scores.automated_readability_index == round(4.71 * letters / 12 + 0.5 * 6 - 21.43, 1)
    assert scores.coleman_liau_index == round(5.88 * letters / 12 - 29.6 * 2 / 12 - 15.8, 1)


def test_list_markers_are_no_words(known):
    reading = measure("1. Enter name.\n2. Click save.\n- Done", known)
    assert reading.words_per_sentence == [2, 2, 1]


def test_digits_count_as_characters_and_not_as_letters(known):
    one, two = measure("We have abc now.", known).scores, measure("We have 123 now.", known).scores
    assert one.automated_readability_index == two.automated_readability_index
    assert one.coleman_liau_index > two.coleman_liau_index


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The form is on the next page and you can save it.", "english"),
        ("El formulario está en la página siguiente y no se puede guardar.", "other"),
        ("Das Formular ist auf der nächsten Seite und nicht gespeichert.", "other"),
        ("この書類を確認してください", "other"),
        ("Tämä lomake on lyhyt, täytä kentät", "other"),
        ("Wat was er in de doos? We gaan in de week naar zee en is er nog iets over.", "other"),
        ("Bitte lesen.", "other"),
        ("Lesen!", "unknown"),
        ("Administrative responsibilities necessitate documentation", "english"),
        ("Choose from 12 plans: Plan A, Plan B, Plan C, Plan D, Plan E, Plan F, Plan G.", "english"),
        ("Mrs. Jones vs. Mr. Lee, Inc. No. 5 St. James. Ph.D. holders only.", "unknown"),
        ("Tap Start. Pay. Read. Go. Stop. Done. Save. Open. Quit. Send. Call. " * 2, "other"),
        ("Ok", "unknown"),
        ("", "unknown"),
        ("12345", "unknown"),
    ],
)
def test_language_is_english_other_or_unknown(known, text, language):
    reading = measure(text, known)
    assert reading.language == language
    assert reading.scores is None or language == "english"


SPOKEN = {
    "portuguese": (
        "Informamos que, nos termos do disposto no artigo 100.º do Código do Procedimento Administrativo, dispõe V. Exa. do prazo de dez dias úteis para se pronunciar por escrito.",
        "O requerimento deve ser entregue no balcão do serviço, das 9 às 16 horas.",
        "A decisão foi tomada no dia 3 de maio e produz efeitos a partir do dia seguinte.",
        "No uso do poder que me foi conferido, autorizo o pagamento do subsídio.",
        "No caso de não concordar, pode apresentar reclamação no prazo de 15 dias.",
    ),
    "spanish": (
        "De conformidad con lo dispuesto en el artículo 21, se le comunica que dispone de un plazo de diez días.",
        "No me ha llegado la carta, así que no he podido contestar a tiempo.",
    ),
    "italian": (
        "In caso di mancato pagamento entro i termini, si procederà a norma di legge.",
        "La domanda deve essere presentata in carta semplice allo sportello del comune.",
    ),
    "french": (
        "On a reçu votre dossier, on a tout vérifié et on vous tient au courant.",
        "Il n'a pas été possible de donner une suite favorable à votre demande.",
    ),
    "german": (
        "Was war in der Box? Ich will an die See, so wie im Mai.",
        "Gemäß § 45 Abs. 2 Satz 1 SGB X ist der Bescheid zurückzunehmen, soweit er rechtswidrig ist.",
    ),
}


@pytest.mark.parametrize("language", SPOKEN)
def test_words_that_are_english_too_do_not_make_a_text_english(known, language):
    for text in SPOKEN[language]:
        reading = measure(text, known)
        assert (reading.language, reading.foreign and reading.foreign.language) == ("other", language), text
        assert reading.scores is None


@pytest.mark.parametrize(
    "text",
    [
        "Do as I do.",
        "As a rule, do no harm.",
        "Come in. No one is on the line.",
        "Die hard on a plane.",
        "A no to a no is a no.",
        "You can pay on the Rue de la Paix.",
        "We had pain au chocolat and a café au lait.",
        "Pursuant to the regulation, a person may appeal in writing.",
        "Son, do no wrong as a man.",
        "The plan has no end date. Do you agree?",
    ],
)
def test_english_with_words_of_other_languages_stays_english(known, text):
    assert measure(text, known).language == "english"


def test_a_script_without_spaces_has_no_words_to_count(known):
    for text, spaced in (
        ("本契約に関する一切の紛争については、東京地方裁判所を第一審の専属的合意管轄裁判所とする。", False),
        ("请在十天内提交申请。", False),
        ("กรุณายื่นคำขอภายในสิบวัน", False),
        ("신청서는 10일 이내에 제출해야 합니다.", True),
        ("Заявление подаётся в течение десяти дней.", True),
        ("The word 書類 means papers.", True),
    ):
        assert measure(text, known).spaced is spaced, text


def test_an_empty_text_has_no_scores(known):
    assert measure("", known).scores is None
    assert measure("...", known).scores is None
