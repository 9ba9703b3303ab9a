"""Who is in danger besides, or through, somebody else: found near each other, now, and in earnest."""

import json
from functools import cache
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.skills.crisis import DATA, crisis_detector
from comity.skills.crisis.danger import Dangers
from comity.skills.crisis.data import DANGERS, LANGUAGES
from comity.skills.crisis.disguise import Vocabulary
from comity.skills.crisis.folding import fold
from comity.skills.crisis.lexicon import expand


@cache
def detector():
    package = files("comity.skills")
    return crisis_detector({name: package.joinpath(name).read_bytes() for name in DATA})


@cache
def dangers():
    return Dangers(files("comity.skills").joinpath(DANGERS).read_bytes())


@pytest.mark.parametrize(
    ("text", "kind", "weapon"),
    [
        ("My brother says he is going to shoot himself and he has a gun", "suicide", True),
        ("My roommate just swallowed a whole bottle of pills and won't wake up", "overdose", False),
        ("My neighbour is hitting her again and she is screaming", "violence", False),
        ("Mon frère dit qu'il va se tirer une balle et il a une arme", "suicide", True),
        ("Mein Bruder sagt, er erschießt sich, und er hat eine Waffe", "suicide", True),
        ("弟が銃で自殺すると言っています。銃を持っています", "suicide", True),
        ("兄が自分を撃つと言っていて、銃を持っています", "suicide", True),
        ("我弟弟说要朝自己开枪。他有枪", "suicide", True),
        ("형이 자기를 쏘겠다고 하고 총을 가지고 있어요", "suicide", True),
        ("Mi amiga se ha tomado un frasco entero de pastillas y no despierta", "overdose", False),
    ],
)
def test_another_person_in_danger_is_seen_and_is_not_the_writer(text, kind, weapon):
    report = detector().detect(text)
    assert (report.endangered, report.detected, report.subject) == (True, False, "other")
    assert kind in {danger.kind for danger in report.dangers}
    assert any(danger.weapon for danger in report.dangers) is weapon


@pytest.mark.parametrize(
    "text",
    [
        "My uncle killed himself in 1998 and nobody spoke about it",
        "My brother tried to hang himself years ago, he is doing well now",
        "In the film my favourite character is going to kill himself tonight",
        "My sister is going to kill herself laughing when she sees this",
        "My brother is going to the cinema tonight and has a new knife set for the kitchen",
        "The process is going to kill itself when the parent dies",
        "He has a gun licence and my friend has a boat",
    ],
)
def test_the_past_a_story_and_a_joke_are_no_danger_now(text):
    report = detector().detect(text)
    assert not report.endangered
    assert not report.dangers


@pytest.mark.parametrize(
    "text",
    [
        "Meine Mutter hat sich erhängt, als ich neun war.",
        "My mother hanged herself when I was nine.",
        "Mi hermano se ahorcó cuando yo tenía nueve años.",
        "Mon père s'est pendu quand j'avais neuf ans.",
        "Mio padre si è impiccato quando avevo nove anni.",
        "Meu pai se enforcou quando eu tinha nove anos.",
        "我九岁那年妈妈上吊了",
        "私が九歳のとき、母が首を吊って亡くなりました。",
        "아홉 살 때 엄마가 목을 매셨어요.",
        "عندما كنت في التاسعة شنق أبي نفسه.",
        "जब मैं नौ साल की थी तब मेरी माँ ने फाँसी लगा ली थी।",
    ],
)
def test_what_happened_in_childhood_is_past_in_every_language(text):
    report = detector().detect(text)
    assert not report.endangered
    assert not report.detected


def test_what_happened_just_now_is_not_past():
    for text in (
        "Meine Mutter hat sich erhängt, sie atmet nicht, bitte helft!",
        "Mein Bruder hat sich gerade erhängt, was soll ich tun?",
    ):
        assert detector().detect(text).endangered, text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("My husband hits me when he drinks", "violence"),
        ("Mein Freund schlägt mich", "violence"),
        ("Mi marido me pega", "violence"),
        ("Mio marito mi picchia", "violence"),
        ("我老公打我", "violence"),
        ("夫に殴られました", "violence"),
        ("남편이 저를 때려요", "violence"),
        ("زوجي يضربني", "violence"),
        ("मेरे पति मुझे मारते हैं", "violence"),
        ("She beats her son and my uncle touches me at night", "child"),
    ],
)
def test_violence_against_the_writer_and_harm_to_a_child_are_the_writers_own(text, kind):
    report = detector().detect(text)
    assert kind in {danger.kind for danger in report.dangers}
    assert report.subject == "self"
    assert not report.detected


def test_the_writers_own_danger_stays_detected_beside_another_persons():
    report = detector().detect(
        "My roommate swallowed a bottle of pills and won't wake up. And I want to kill myself, too."
    )
    assert (report.endangered, report.detected, report.subject) == (True, True, "self")


def phrases():
    """By language and class."""
    return json.loads(files("comity.skills").joinpath(DANGERS).read_bytes())["languages"]


def found_in(text):
    return {(danger.kind, danger.subject) for danger in dangers().find(fold(text, Vocabulary(())))}


def test_every_language_has_every_class():
    languages = phrases()
    assert set(languages) == set(LANGUAGES)
    assert len({frozenset(classes) for classes in languages.values()}) == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_phrase_of_violence_against_the_writer_or_a_child_is_found_alone(language):
    for name, kind in (("self_violence", "violence"), ("child", "child")):
        for wording in (one for phrase in phrases()[language][name] for one in expand(phrase)):
            assert (kind, "self") in found_in(wording), wording


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_person_is_another_person_in_danger_beside_a_sign_that_it_is_now(language):
    sign = next(expand(phrases()[language]["body"][0]))
    for wording in (one for phrase in phrases()[language]["person"] for one in expand(phrase)):
        assert "other" in {subject for _, subject in found_in(f"{wording} . {sign}")}, wording


@given(st.text(max_size=200))
def test_no_text_is_too_strange_and_every_span_lies_within_it(text):
    for danger in dangers().find(fold(text, Vocabulary(()))):
        start, end = danger.span
        assert 0 <= start < end <= len(text)


def test_a_long_text_holds_no_more_dangers_than_a_report_has_room_for():
    text = "My brother is going to kill himself tonight, he has a gun. " * 2000
    assert 1 <= len(dangers().find(fold(text, Vocabulary(())))) <= 8
