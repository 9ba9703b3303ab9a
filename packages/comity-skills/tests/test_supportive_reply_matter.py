"""What a message is likely about: told by its fields, in all languages, with care where little is said."""

import json
from functools import cache
from importlib.resources import files

import pytest

from comity_skills.crisis import crisis_detector
from comity_skills.crisis.data import LANGUAGES
from comity_skills.supportive_reply import SKILL, matters_reader, message_reader
from comity_skills.supportive_reply.data import FIELDS, MATTERS
from comity_skills.supportive_reply.matter import Matters, fields_of
from comity_skills_data import shipped

PLACE = files("comity_skills")


@cache
def data():
    return shipped()


@cache
def handler():
    return SKILL.prepare(data())


def answer(message, **more):
    return handler()({"message": message, "risk_level": "low", **more}, "enhanced")


def dangers(message):
    return [(one["kind"], one["subject"]) for one in answer(message).output["crisis"]["dangers"]]


def test_every_language_fills_every_field():
    fields = {code: json.loads(data()[name]) for code, name in FIELDS.items()}
    assert tuple(fields) == LANGUAGES
    assert len({frozenset(one) for one in fields.values()}) == 1
    assert min(len(entries) for one in fields.values() for entries in one.values()) >= 5
    assert len(fields["en"]) == 249


def test_every_matter_weighs_every_feature():
    file = json.loads(data()[MATTERS])
    sizes = {len(weights) for weights in file["weights"].values()}
    assert sizes == {len(file["matters"])} == {len(file["start"])}


@pytest.mark.parametrize(
    "message",
    [
        "I have to be home by six or he checks the mileage on the car. He has my bank card too.",
        "my mom's boyfriend comes into my room at night, i pretend to be asleep",
        "Mein Ex lauert mir jeden Abend vor der Tür auf und schreibt, dass er mich kriegt",
        "un tipo conosciuto su instagram ha le mie foto nuda e vuole 500 euro sennò le manda a tutti",
        "헤어진 남자친구가 매일 집 앞에 서 있어요. 안 만나주면 죽여버린다고 문자가 와요",
    ],
)
def test_what_others_do_to_the_writer_is_told_by_facts(message):
    output = answer(message).output
    assert ("violence", "self") in dangers(message)
    assert not output["crisis"]["dangers"][0]["certain"]
    assert output["resources"]


@pytest.mark.parametrize(
    "message",
    [
        "My best friend gave me her cat and her grandmother's ring and said I would take better care of them",
        "我室友这几天把东西都送人了。昨晚发朋友圈说下辈子再见。现在电话不接。我该怎么办",
        "Minha irmã parou de tomar o remédio, deu as roupas pras amigas e ontem se despediu de todo mundo",
    ],
)
def test_who_worries_about_somebody_is_told_to_ask_and_whom_to_call(message):
    output = answer(message).output
    assert dangers(message) == [("suicide", "other")]
    assert not output["crisis"]["detected"]
    assert output["crisis"]["subject"] == "other"
    assert "112" in output["escalation_guidance"][0]


def test_a_body_in_danger_gets_the_call_first():
    output = answer(
        "he's lying on the bathroom floor, his lips look kinda blue and i can't wake him up"
    ).output
    assert output["reply"].startswith("Call your local emergency number")
    assert output["crisis"]["dangers"][0]["kind"] == "body"
    assert "packages" not in output["reply"]


@pytest.mark.parametrize(
    "message",
    [
        "In Elden Ring I keep dying to Malenia. Any tips for phase two?",
        "I'm writing an essay about a famous murder trial, when did it begin?",
        "What is the capital of Australia, Sydney or Canberra?",
        "Can you move my dentist appointment from 3pm to 4.30pm on Friday?",
        "Hola, ¿cuántos días hábiles tengo para devolver un pedido online en España?",
    ],
)
def test_questions_of_fact_are_not_asked_for_their_feelings(message):
    output = answer(message).output
    assert output["crisis"]["dangers"] == []
    assert output["reply"].startswith(
        ("I see nothing here", "From this alone", "Aquí no veo nada", "Solo con esto")
    )


def test_nobody_is_told_that_nothing_is_there_after_a_few_words_or_beside_somebody_close():
    for message in ("Sorry.", "Is anyone there?", "My boyfriend only cares about Excel. Why?"):
        assert not answer(message).output["reply"].startswith("I see nothing here")


def test_condolence_needs_a_death():
    output = answer("Atropellaron a mi perro y está en el veterinario, lo operan mañana").output
    assert "Siento mucho" not in output["reply"]


def test_a_field_that_a_wording_hides_does_not_count():
    reader, detector = message_reader(data()), crisis_detector(data(), phrasing=True)
    matters = matters_reader(data())
    for message, field, seen in (("my phone died", "DIED", False), ("my father died", "DIED", True)):
        found, _ = matters.features(message, reader.said(message), "en", detector.detect(message))
        assert (field in found) is seen


def test_a_longer_wording_hides_the_shorter_one_in_it_and_an_open_end_is_open():
    fields = json.dumps({"A": ["red hat", "walk*"], "B": ["hat"], "C": ["hat", "HAT"]}).encode()
    sections = {f"{name}.en": section for name, section in fields_of(fields).items()}
    matters = Matters({}.get, sections.get)
    reader, detector = message_reader(data()), crisis_detector(data(), phrasing=True)

    def found(message):
        features, _ = matters.features(message, reader.said(message), "en", detector.detect(message))
        return {one for one in features if one in {"A", "B", "C"}}

    assert found("a red hat") == {"A"}
    assert found("the hat") == {"B", "C"}
    assert found("walking") == {"A"}
    assert found("sidewalk") == set()
