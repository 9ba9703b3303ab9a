"""Danger that is told by what people see: who is in it, whether it happens now, and where there is none."""

import pytest

from tests.replies import answered, names, topic


def test_what_was_done_to_the_writer_long_ago_is_no_danger_now():
    message = "When I was 13 my dad beat me with a belt"
    assert answered(message).output["crisis"]["dangers"] == []
    assert topic(message) == "harmed"


@pytest.mark.parametrize(
    "message",
    [
        "My husband is going to kill me if I leave",
        "Er sagt, wenn ich gehe, bringt er mich um",
        "Dice que me va a matar si lo dejo",
        "Il dit qu'il va me tuer si je pars",
        "Dice che mi ammazza se me ne vado",
        "Ele disse que vai me matar se eu contar",
        "彼は別れたら殺すと言っています",
        "他说我离开他就杀了我",
        "떠나면 죽인다고 해요",
        "कहता है अगर मैं गई तो मुझे मार देगा",
        "قال سيقتلني إذا تركته",
    ],
)
def test_a_threat_by_somebody_else_is_violence_against_the_writer(message):
    dangers = answered(message).output["crisis"]["dangers"]
    assert [(one["kind"], one["subject"]) for one in dangers] == [("violence", "self")]


def test_a_saying_is_no_threat():
    for message in ("my mom is going to kill me when she sees the car", "My boss is going to kill me"):
        assert answered(message).output["crisis"]["dangers"] == []


@pytest.mark.parametrize(
    ("message", "danger"),
    [
        (
            "My roommate just posted thanks everyone, it was a good run and turned her phone off. Her car isn't in the lot.",
            ("suicide", "other"),
        ),
        (
            "A pupil comes to class with bruises and is always hungry",
            ("violence", "other"),
        ),
        (
            "My manager locked the stockroom door behind us yesterday and touched me. I froze. I have a shift with him tomorrow and I need this job",
            ("violence", "self"),
        ),
    ],
)
def test_a_danger_that_no_rule_names_is_likely_by_what_is_told(message, danger):
    dangers = answered(message).output["crisis"]["dangers"]
    assert [(one["kind"], one["subject"], one["certain"]) for one in dangers] == [(*danger, False)]


@pytest.mark.parametrize(
    "message",
    [
        "my cousin is on the kitchen floor, he drank something and does not answer",
        "Mi abuelo se ha puesto morado comiendo y no le sale la voz",
        "Mon collègue s'est effondré à la cantine, il a les yeux ouverts mais il ne réagit pas",
        "Der Kleine hat was von dem Rohrreiniger getrunken, er würgt",
        "A minha avó engasgou-se com um pedaço de carne e está a ficar roxa",
        "Il bagnino non c'è e un bambino è sparito sott'acqua",
        "室友喝了一整瓶白酒 吐了一身 怎么摇都不醒",
        "祖母が急にろれつが回らなくなって、右手に力が入らないみたい",
        "할머니가 떡을 드시다가 숨을 못 쉬세요",
        "جدي طاح في الحمام ووجهه أزرق وما يرد",
        "दादाजी के सीने में तेज़ दर्द है, पसीना आ रहा है और होंठ नीले पड़ गए",
    ],
)
def test_an_emergency_told_by_what_is_seen_gets_the_number_first(message):
    output = answered(message).output
    assert [(one["kind"], one["subject"]) for one in output["crisis"]["dangers"]] == [("body", "other")]
    assert "112" in output["escalation_guidance"][0]
    assert not output["crisis"]["detected"]


@pytest.mark.parametrize(
    "message",
    [
        "In the film the lifeguard is off duty and a boy goes under, great scene",
        "Der Torwart lag wie tot am Boden, dann hat er den Elfer gehalten",
        "On a appris le massage cardiaque sur un mannequin, j'ai mal aux bras",
        "梦见室友从楼上掉下去了 吓醒一身汗",
        "La impresora se ha quedado muerta en mitad del trabajo",
        "We resuscitated the sourdough starter after two weeks in the fridge",
        "뉴스에서 봤는데 작년에 익사 사고가 그렇게 많았대",
        "Nonno ha avuto un ictus dieci anni fa, oggi va in bici",
    ],
)
def test_scenes_of_danger_in_which_nobody_is_in_any_raise_no_alarm(message):
    output = answered(message).output
    assert output["crisis"]["dangers"] == []
    assert names().get(output["reply"]) != "alarm"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "My dad has dementia, he took his hunting rifle and drove off, he yelled he'll sort the neighbours out",
            "violence",
        ),
        (
            "Jemand, mit dem ich online zocke, hat im Chat geschrieben, dass heute seine letzte Nacht ist.",
            "suicide",
        ),
        (
            "The bloke next door is hitting his girlfriend again, I can hear her screaming through the wall right now",
            "violence",
        ),
        (
            "Mon meilleur ami est sur le pont, il m'a appelé pour me dire adieu, je ne sais pas quoi faire",
            "suicide",
        ),
        ("楼下有个男的拿着棍子在打他老婆 孩子一直在哭", "violence"),
    ],
)
def test_what_is_happening_now_to_another_is_an_emergency(message, kind):
    output = answered(message).output
    dangers = output["crisis"]["dangers"]
    assert [(one["kind"], one["subject"], one["certain"]) for one in dangers] == [(kind, "other", True)]
    assert (
        names()[output["reply"].removeprefix(" ".join(output["escalation_guidance"][:2])).strip()] == "other"
    )


def test_who_writes_of_another_in_the_phrasing_of_a_crisis_gets_help_for_both():
    message = "bhai ne khud ko kamre mein band kar liya hai aur pankhe se rassi baandh raha hai please help"
    output = answered(message).output
    assert output["crisis"]["detected"]
    assert [(one["kind"], one["subject"]) for one in output["crisis"]["dangers"]] == [("suicide", "other")]


@pytest.mark.parametrize(
    ("locale", "message"),
    [
        ("pt-PT", "O meu vizinho caiu do telhado e não mexe as pernas"),
        ("de-DE", "Mein Kollege kam heute nicht, und sein Handy ist aus, das passt gar nicht zu ihm"),
    ],
)
def test_where_somebody_may_be_in_danger_that_is_asked_and_the_number_comes_first(locale, message):
    output = answered(message, locale=locale).output
    assert names()[output["reply"]] == "alarm"
    assert "112" in output["escalation_guidance"][0]
    assert not output["crisis"]["detected"]


@pytest.mark.parametrize("message", ["我已经把药都吃下去了 现在有点害怕", "손목을 그었는데 피가 안 멈춰요"])
def test_who_has_done_it_already_gets_help_for_the_body_first(message):
    output = answered(message).output
    assert output["crisis"]["detected"]
    assert [(one["kind"], one["subject"]) for one in output["crisis"]["dangers"]] == [("body", "self")]
    assert "112" in output["escalation_guidance"][0]


def test_a_writer_who_may_be_in_danger_without_saying_so_is_asked_and_sees_where_help_is():
    message = "Ich steh auf dem Parkdeck ganz oben und weiß nicht, warum ich wieder runtergehen sollte"
    output = answered(message, locale="de-DE").output
    assert names()[output["reply"]] == "unsure"
    assert "112" in output["escalation_guidance"][0]
    assert any("TelefonSeelsorge" in line for line in output["escalation_guidance"])
    assert not output["crisis"]["detected"]


@pytest.mark.parametrize(
    ("message", "first"),
    [
        ("Meu ex tá na porta do prédio com uma faca mandando eu descer", "Se corre perigo agora"),
        (
            "He hit me and he is still in the house, I'm hiding, please help me right now",
            "If you are in danger now",
        ),
    ],
)
def test_violence_that_is_happening_is_answered_with_what_to_do_first(message, first):
    assert answered(message).output["reply"].startswith(first)
    assert not answered("My boyfriend slapped me two weeks ago").output["reply"].startswith(first)
