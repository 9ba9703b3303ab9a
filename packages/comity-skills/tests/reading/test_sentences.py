from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity_skills.reading.sentences import ANY, read_abbreviations, sentences

CASES = {
    "Dr. Smith paid $3.50 for 3.5 kg. He left.": ["Dr. Smith paid $3.50 for 3.5 kg.", "He left."],
    "Use fruit, e.g. apples. Not nuts.": ["Use fruit, e.g. apples.", "Not nuts."],
    "It ends at 5 p.m. Then we go.": ["It ends at 5 p.m.", "Then we go."],
    "It ends at 5 p.m. sharp.": ["It ends at 5 p.m. sharp."],
    "1. Enter name. 2. Click save.": ["1. Enter name.", "2. Click save."],
    "See p. 3. No. Really?": ["See p. 3.", "No.", "Really?"],
    "It is No. 5 now. Fine.": ["It is No. 5 now.", "Fine."],
    "J. K. Rowling wrote it. So do I. Good.": ["J. K. Rowling wrote it.", "So do I.", "Good."],
    'He said "Stop!" and left. We did too.': ['He said "Stop!" and left.', "We did too."],
    '"Stop!" He left.': ['"Stop!"', "He left."],
    "Open example.com/a.html. Then wait... maybe. Wait... What?": [
        "Open example.com/a.html.",
        "Then wait... maybe.",
        "Wait...",
        "What?",
    ],
    "Title here\nThis is text that\nwraps lines.\n\nNext": [
        "Title here",
        "This is text that\nwraps lines.",
        "Next",
    ],
    "You need:\n- milk\n- two eggs\n* salt": ["You need:", "- milk", "- two eggs", "* salt"],
    "今日は晴れです。明日は雨です\uff01": ["今日は晴れです。", "明日は雨です\uff01"],
    "هل أنت هنا؟ نعم.": ["هل أنت هنا؟", "نعم."],
    "नमस्ते। आप कैसे हैं?": ["नमस्ते।", "आप कैसे हैं?"],
    "What?! No!!! Yes.": ["What?!", "No!!!", "Yes."],
    "no end here": ["no end here"],
    "all in small letters. like this! or this": ["all in small letters.", "like this!", "or this"],
    " ... ! ": [],
    "": [],
}


# language: texts whose sentences are parted by a bar
FOREIGN = {
    "german": (
        "Hier gelten unsere AGB. | Dr. Müller kommt am 3. März um ca. 9 Uhr, z. B. mit Bus Nr. 5. | Bitte bringen Sie u. a. Ihren Ausweis mit.",
        "Nach § 45 Abs. 2 Satz 1 Nr. 3 gilt das nicht. | Siehe auch Art. 5 Ziff. 2.",
        "Die Frist endet am 1. Juni. | Im 2. Stock ist das Amt. | Es war das 3. Mal im 19. Jahrhundert.",
        "Das ist z.B. ein Haus, d. h. ein Bau, i. d. R. aus Stein. | Es gilt ggf. bzw. evtl. nicht.",
        "Sie wohnt in der Hauptstr. 5 in Köln. | Ihre Kundennr. 12 gilt.",
        "Vom 3. bis 5. Mai ist zu. | Am 3. 5. 2024 auch. | Kaiser Karl V. und Ludwig XIV. waren da.",
        "Wir haben Äpfel, Birnen usw. | Die Ware ist frisch. | Das war 2024. | Danach kam nichts.",
        "Es sind 5. | Mehr gibt es nicht. | Wir sehen uns um 9. | Bis dann.",
        "Frau Prof. Dr. Weiß und Hr. Meier sind inkl. Fr. Kurz da. | Das war Plan 2. | Gut.",
        "1. Antrag holen. | 2. Antrag ausfüllen.",
        "Die Miete ist am 1. eines Monats fällig. | Es gab keine 3. Chance.",
        "Der Bescheid v. 3.5.2024 gilt gem. § 3 Abs. 1 S. 2 i. V. m. § 5 ff. SGB X. | Gegen ihn ist Widerspruch möglich.",
    ),
    "french": (
        "Selon l'art. 5 al. 2, M. Dupont et Mme. Roy paient env. 20 euros. | C'est tout.",
        "Apportez p. ex. un stylo, c.-à-d. un bleu. | Voir chap. 3, p. 12, fig. 4. | C'est fini.",
        "Prenez du pain, du vin, etc. | Le reste est là. | Il y en a. | Oui.",
        "Voilà ce que c'est. | L\u2019art. 3 s'applique. | Le no. 5 manque.",
    ),
    "spanish": (
        "El Sr. García y la Dra. Ruiz viven en la Avda. Mayor núm. 5. | No salen.",
        "Traiga p. ej. el DNI, según el art. 21 y la pág. 3. | Así es. | Bien.",
        "Vive en EE. UU. desde 1990. | Trae pan, vino, etc. | Luego vuelve.",
        "Abre a las 9 a. m. del lunes, según el art. 3.º de la S. A. y cierra a las 5 p.m. | Luego no hay nadie.",
        "Le informamos a Vd. de que Ud. puede venir. | No va al bar. | Y no. | Es tarde.",
    ),
    "italian": (
        "Il sig. Rossi e il dott. Bianchi citano l'art. 10 della legge n. 241 del 1990. | Non so dov'è. | Va bene.",
        "Porti p. es. un documento, cfr. pag. 3. | Ci sono pane, vino, ecc. | La porta è aperta.",
        "Il termine è di 10 gg. dalla notifica, ai sensi del D. Lgs. n. 33/2013. | Si prega di rispondere.",
        "Spett. Ditta, l'avv. Neri e l'ing. Verdi verranno. | È così. | Chi c'è? | Io.",
    ),
    "portuguese": (
        "Informamos que, nos termos do disposto no artigo 100.º do Código, dispõe V. Exa. do prazo de dez dias.",
        "O Exmo. Sr. Dr. Silva mora na Av. da Liberdade n.º 5. | Não sei o que é. | Está bem.",
        "Traga p. ex. o passaporte, cf. o art. 3 da pág. 2. | Há pão, vinho, etc. | A loja fecha.",
        "A empresa Sol, Lda. paga. | Eng. Costa e Profa. Reis vêm. | Vi o mar. | É azul.",
    ),
    ANY: (
        "§ 45 Abs. 2",
        "Art. 5 Abs. 1 GG",
        "Sr. López, núm. 5",
        "Mrs. Jones vs. Mr. Lee",
    ),
}


@pytest.fixture(scope="module")
def known():
    return read_abbreviations(files("comity_skills").joinpath("reading/abbreviations.json").read_bytes())


@pytest.fixture(scope="module")
def abbreviations(known):
    return known["english"]


def test_sentences_end_where_a_reader_ends_them(abbreviations):
    found = {text: [text[one.start : one.end] for one in sentences(text, abbreviations)] for text in CASES}
    assert {text: got for text, got in found.items() if got != CASES[text]} == {}


@pytest.mark.parametrize("language", FOREIGN)
def test_abbreviations_and_ordinals_of_other_languages_end_no_sentence(known, language):
    for parted in FOREIGN[language]:
        due = [piece for piece in parted.split(" | ") if piece]
        text = parted.replace(" | ", " ")
        assert [text[one.start : one.end] for one in sentences(text, known[language])] == due


def test_the_abbreviations_of_one_language_are_words_of_another(known):
    for text in ("C'est ce que c'est. Oui.", "Il cade dal col. Poi sale.", "Voilà. No. Bon."):
        language = "italian" if "cade" in text else "french"
        assert len(sentences(text, known[language])) == text.count(".")


@given(st.text(alphabet="aA1 .!?\n-\"'。؟e", max_size=60))
def test_sentences_lie_in_order_and_hold_every_letter(abbreviations, text):
    found = sentences(text, abbreviations)
    ends = [0]
    for one in found:
        assert ends[-1] <= one.start < one.end <= len(text)
        ends.append(one.end)
    kept = "".join(text[one.start : one.end] for one in found)
    assert [c for c in kept if c.isalnum()] == [c for c in text if c.isalnum()]


def test_a_date_in_the_middle_of_a_sentence_does_not_end_it(known):
    for text, count in {
        "Ihr Antrag vom 03.02. wird bearbeitet.": 1,
        "Bitte senden Sie die Unterlagen bis zum 17.03. an uns.": 1,
        "Die Frist vom 1.4. bis 30.6. gilt.": 1,
        "Der Kurs beginnt am 03.02. Bitte melden Sie sich an.": 2,
        "Der Preis ist 3.50. Das ist viel.": 2,
    }.items():
        assert len(sentences(text, known["german"])) == count, text
