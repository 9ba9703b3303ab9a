"""What people write of on an ordinary day gets the answer to it, in every language, and no neighbour of it gets the wrong one."""

from functools import cache

import pytest

from comity_skills.supportive_reply import SKILL
from tests.prepared import handler_of


@cache
def handler():
    return handler_of(SKILL)


def answered(message, **given):
    return handler()({"message": message, "risk_level": "low", **given}, "enhanced")


def reply(message, **given):
    return answered(message, **given).output["reply"]


def topic(message):
    told = [line for line in answered(message).assumptions if line.startswith("Topic: ")]
    return told[0].removeprefix("Topic: ") if told else None


@pytest.mark.parametrize(
    "message",
    [
        "We had to put our old dog Biscuit to sleep this morning. The house is so quiet without him.",
        "We had to put our old dog Biscuit down on Friday.",
        "My friend's cat died",
        "My horse had to be put down after the accident.",
        "Wir mussten heute unseren alten Hund einschläfern lassen.",
        "Nous avons dû faire endormir notre vieux chat ce matin.",
        "Tuvimos que dormir a nuestra perra Luna esta mañana.",
        "Minha gatinha morreu ontem à noite.",
        "Ieri il nostro cane Birillo è morto.",
        "我家的狗昨天走了",
        "今朝、15年飼った犬が亡くなりました。",
        "오늘 아침에 강아지가 무지개다리를 건넜어요.",
        "مات كلبي أمس",
        "मेरा कुत्ता कल मर गया",
    ],
)
def test_an_animal_that_died_is_mourned_as_an_animal(message):
    assert topic(message) == "pet_loss"
    for mode in ("presence", "practical", "reflection"):
        assert reply(message, support_mode=mode) == reply(message)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("My grandma died and left me her cat.", "grief"),
        ("I put the baby to sleep and then sat down with tea.", None),
        ("My dog passed his obedience class!", None),
        ("My cat threw up on the carpet again.", None),
    ],
)
def test_an_animal_in_a_message_is_not_always_mourned(message, named):
    assert topic(message) == named


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("Thank you, what you said last night really helped me get through.", "thanks"),
        ("Danke, was du gestern gesagt hast, hat mir wirklich geholfen.", "thanks"),
        ("I have my final chemistry exam tomorrow and I feel like I've forgotten everything.", "exam"),
        ("Ho un esame di chimica domani e mi sembra di aver dimenticato tutto.", "exam"),
        ("明天化学期末考试，我觉得我全忘了。", "exam"),  # noqa: RUF001
        ("My girlfriend spends every evening texting her ex and I hate how jealous it makes me.", "jealous"),
        ("My husband is still in touch with his ex.", "jealous"),
        ("Meine Freundin schreibt jeden Abend mit ihrem Ex.", "jealous"),
        ("My mum is waiting for her biopsy results.", "ill_relative"),
        ("Mon chien est malade.", "ill_relative"),
        ("I am waiting for my scan results.", "health_worry"),
        ("My three-year-old has had a fever since Monday and won't stop vomiting.", "sick_child"),
        ("Mein Baby hat seit gestern hohes Fieber.", "sick_child"),
        ("I'm moving to Canada next month and I already miss home.", "moving"),
        ("I had a stupid fight with my best friend and she blocked me.", "quarrel"),
        ("I'm so stressed, I don't know where to start.", "overwhelmed"),
        ("Estoy agobiada, no llego a todo.", "overwhelmed"),
        ("I got rejected by the girl I love.", "unrequited"),
        ("Mein Chef hat mir heute gekündigt.", "job_loss"),
        ("The doctor says it's benign. I could cry with relief.", "relief"),
    ],
)
def test_everyday_troubles_have_an_answer_of_their_own(message, named):
    assert topic(message) == named


@pytest.mark.parametrize(
    "message",
    [
        "My husband pays rent to his ex.",
        "I have a chemistry exam tomorrow.",
        "Estoy esperando los resultados del partido.",
        "Ich warte auf die Ergebnisse der Umfrage.",
        "My boss rejected my holidays.",
        "我不喜欢我的工作。",
        "We are moving to microservices.",
        "My app is overwhelming the database server.",
        "My sister is stressed about her wedding.",
        "I'm not jealous, I'm just curious.",
    ],
)
def test_what_only_sounds_like_a_trouble_is_not_answered_as_one(message):
    assert topic(message) is None


def test_a_wording_within_a_longer_one_counts_once():
    assert topic("My daughter is bullied at school and I can't stop crying.") == "bullied"


@pytest.mark.parametrize(
    "message",
    [
        "My nine-year-old came home crying because the other boys push him and call him a freak every day.",
        "The other kids laugh at my daughter and nobody wants to sit with her.",
        "Mein Sohn kommt jeden Tag weinend heim, weil die anderen Jungen ihn schubsen und beschimpfen.",
        "Mon fils rentre en pleurant parce que les autres le poussent et le traitent de monstre.",
        "Mi hijo vuelve llorando porque los otros niños lo empujan y lo llaman raro.",
    ],
)
def test_a_child_that_others_torment_is_a_bullied_child(message):
    assert topic(message) == "bullied"


@pytest.mark.parametrize(
    "message",
    [
        "My husband shoved me against the wall last night. He says it was my fault.",
        "Mein Mann hat mich gegen die Wand gestoßen. Er sagt, es sei meine Schuld.",
        "Mon mari m'a poussée contre le mur. Il dit que c'est ma faute.",
        "Mi marido me empujó contra la pared. Dice que fue culpa mía.",
        "夫に壁に突き飛ばされました。私のせいだと言います。",
        "My boyfriend says everything is my fault.",
        "My mother keeps saying that the accident is my fault.",
        "Dice que todo es culpa mía.",
        "Elle dit que tout est de ma faute.",
        "他总说都怪我。",
        "남자친구는 항상 제 탓이라고 해요.",
        "पति कहते हैं मेरी ग़लती है।",
    ],
)
def test_blame_that_others_lay_on_the_writer_is_no_shame_of_the_writer(message):
    assert topic(message) != "ashamed"


def test_the_answer_to_shame_does_not_say_that_there_was_a_mistake():
    said = reply("It was my fault and I am so ashamed.")
    assert "does not prove that you did wrong" in said


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("He never hit me.", None),
        ("He pushes me away whenever I try to talk.", None),
        ("My boss pushed me to apply for the promotion", None),
        ("My son hit his sister at school.", None),
    ],
)
def test_nobody_is_called_hurt_who_was_not(message, named):
    assert topic(message) == named


@pytest.mark.parametrize(
    "message",
    [
        "It finally stopped raining here. How is your day going?",
        "What a lovely day!",
        "Endlich hat es aufgehört zu regnen. Wie läuft dein Tag?",
        "Il a enfin arrêté de pleuvoir. Comment se passe ta journée ?",
        "Por fin dejó de llover aquí. ¿Qué tal tu día?",
        "やっと雨がやみました。今日はいかがお過ごしですか。",
    ],
)
def test_small_talk_is_answered_as_small_talk(message):
    assert topic(message) == "small_talk"
    assert answered(message, risk_level="medium").output["reply"] == reply(message)


@pytest.mark.parametrize(
    "message",
    [
        "How are you? My neighbour has stopped greeting me.",
        "It's raining again. Nobody called.",
        "How is your day? She has left.",
    ],
)
def test_a_word_about_the_weather_hides_nothing_else(message):
    assert topic(message) != "small_talk"


@pytest.mark.parametrize("risk", ["low", "medium"])
@pytest.mark.parametrize(
    "message",
    [
        "My React component re-renders forever when I put an object into the useEffect dependency array. Why?",
        "Can someone explain why my Python loop never stops?",
        "My Excel formula returns #REF, what is wrong?",
    ],
)
def test_a_technical_question_calls_for_no_support(message, risk):
    assert reply(message, risk_level=risk).startswith("I see nothing here")


def test_a_machine_in_a_message_about_people_does_not_make_it_technical():
    assert not reply("My boyfriend only cares about Excel. Why?").startswith("I see nothing here")
