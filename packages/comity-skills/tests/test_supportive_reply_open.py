"""A reply claims nothing that it cannot know: no death, no joy, no calm, and no language that it does not read."""

import json
from functools import cache
from importlib.resources import files

import pytest

from comity_skills.supportive_reply import GRIEF_SKILL, SKILL
from comity_skills.supportive_reply.data import SPOKEN
from comity_skills_data import shipped

NOTHING = {
    "en": "I see nothing here",
    "de": "Ich sehe hier nichts",
    "fr": "Je ne vois rien ici",
    "es": "Aquí no veo nada",
    "it": "Qui non vedo nulla",
    "pt": "Não vejo aqui nada",
    "zh": "这里没有看到",
    "ja": "支えが必要なことは",
    "ko": "이 글만으로는",
    "ar": "لا أرى هنا",
    "hi": "यहाँ ऐसा कुछ नहीं",
}
OPEN = {
    "en": "Thank you for writing to me.",
    "de": "Danke, dass du mir schreibst.",
    "fr": "Merci de m'écrire.",
    "es": "Gracias por escribirme.",
    "it": "Grazie di avermi scritto.",
    "pt": "Obrigado por me escrever.",
    "zh": "谢谢你写给我。",
    "ja": "書いてくれて",
    "ko": "글을 남겨 줘서",
    "ar": "شكرا لأنك كتبت لي",
    "hi": "लिखने के लिए धन्यवाद",
}
MODES = ("presence", "practical", "reflection")


@cache
def handler(name=SKILL.name):
    skill = {SKILL.name: SKILL, GRIEF_SKILL.name: GRIEF_SKILL}[name]
    return skill.prepare(shipped())


def answered(message, mode="enhanced", **given):
    return handler()({"message": message, "risk_level": "low", **given}, mode)


def reply(message, **given):
    return answered(message, **given).output["reply"]


def topic(message):
    told = [line for line in answered(message).assumptions if line.startswith("Topic: ")]
    return told[0].removeprefix("Topic: ") if told else None


def language(message):
    return answered(message).assumptions[1].removeprefix("Language of the reply: ")


@pytest.mark.parametrize("support", MODES)
@pytest.mark.parametrize("mode", ["enhanced", "compat"])
@pytest.mark.parametrize(
    "message",
    [
        "I got the job!! I am so happy",
        "My mum was diagnosed with dementia.",
        "I have an exam tomorrow and I'm nervous",
        "My phone died in the middle of the call",
        "I lost my father's watch",
        "She moved out on Sunday and the flat is quiet.",
        "Nobody died, but the evening was bad for all of us.",
    ],
)
def test_no_mode_speaks_of_a_death_where_nobody_died(message, mode, support):
    output = answered(message, mode, support_mode=support).output
    assert "your loss" not in output["reply"]
    assert "you miss" not in output["reply"]
    assert not any(word in str(output["care_notes"]) for word in ("died", "mourn", "grief", "the loss"))
    assert len(output["care_notes"]) == 5


@pytest.mark.parametrize("support", MODES)
@pytest.mark.parametrize("mode", ["enhanced", "compat"])
@pytest.mark.parametrize(
    "message", ["My father died", "We lost the baby in March", "My grandma passed away on Monday"]
)
def test_after_a_death_every_mode_says_that_it_is_sorry(message, mode, support):
    output = answered(message, mode, support_mode=support).output
    assert output["reply"].startswith("I am so sorry for your loss.")
    assert len(output["care_notes"]) == 5


def test_the_modes_differ_without_a_death_too_and_in_every_language():
    for code in OPEN:
        said = {
            reply("I moved house and it is all new", support_mode=support, locale=code) for support in MODES
        }
        assert len(said) == 3, code


def test_the_action_for_grief_is_sorry_whatever_the_words_are():
    given = {"message": "I keep finding his coats in the hall", "support_mode": "presence"}
    for mode in ("strict", "enhanced"):
        output = handler(GRIEF_SKILL.name)(given, mode).output
        assert output["reply"].startswith("I am so sorry for your loss.")


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("My wife lost the baby.", "child_loss"),
        ("My mum was diagnosed with dementia. She didn't recognise me yesterday.", "ill_relative"),
        ("I came out to my parents yesterday and they haven't spoken to me since.", "coming_out"),
        ("I relapsed last night after 200 days sober.", "relapse"),
        (
            "My sister is in hospital after a car accident, we don't know yet if she'll walk again.",
            "ill_relative",
        ),
        ("My son is being bullied at school and the teachers do nothing.", "bullied"),
        ("Nobody came to my birthday party.", "lonely"),
        ("I think I'm burnt out. I stare at the screen and nothing happens.", "burnout"),
        (
            "My landlord raised the rent by 40%, so we have to move in March with two kids.",
            "home",
        ),
        ("I failed. Again. Third time. I guess I'm just too stupid for maths.", "failure"),
        ("I moved to Hamburg three months ago and I still eat lunch alone every single day.", "lonely"),
        ("😭😭😭", "sad"),
        ("The baby finally slept through the night!!!", "joy"),
        ("I'm so proud of my daughter", "pride"),
        ("Thank you so much for your help yesterday", "thanks"),
        ("I was diagnosed with MS last week", "illness"),
        ("I had a fight with my brother and he won't talk to me", "family"),
        ("I had an argument with my best friend", "quarrel"),
        ("Ich wurde heute befördert!!", "joy"),
        ("Mein Vater liegt nach einem Schlaganfall im Krankenhaus", "ill_relative"),
        ("Mi hijo sufre bullying en el colegio", "bullied"),
        ("J'ai fait une fausse couche", "child_loss"),
        ("Ho fatto coming out con i miei genitori", "coming_out"),
        ("Voltei a beber ontem, estava há um ano sem", "relapse"),
        ("妈妈得了癌症 住院了", "ill_relative"),
        ("息子が学校でいじめられています", "bullied"),
        ("번아웃이 온 것 같아요", "burnout"),
        ("تشاجرت مع أخي ولا نتكلم منذ شهر", "family"),
        ("मेरी बेटी पर मुझे गर्व है", "pride"),
    ],
)
def test_what_people_tell_has_an_answer_of_its_own(message, named):
    assert topic(message) == named


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("My neighbour has stopped greeting me.", "en"),
        ("The house is so quiet now.", "en"),
        ("She has not called in weeks.", "en"),
        ("I wore the blue coat today, the one from back then", "en"),
        ("Today was different.", "en"),
        ("Can you tell me why she went?", "en"),
        ("Is anyone there?", "en"),
        ("Sorry.", "en"),
        ("Sorry for everything.", "en"),
        ("Sorry, we are closed, and so is my heart.", "en"),
        ("I am sorry, the refund was for my mother.", "en"),
        ("Meine Tochter zieht morgen nach Kanada.", "de"),
        ("Ma fille part vivre au Canada demain.", "fr"),
        ("Mi hija se va mañana a vivir a Canadá.", "es"),
        ("Mia figlia parte domani per il Canada.", "it"),
        ("Minha filha vai morar no Canadá amanhã.", "pt"),
        ("我女儿明天搬去加拿大。", "zh"),
        ("娘が明日カナダへ引っ越します。", "ja"),
        ("딸이 내일 캐나다로 가요.", "ko"),
        ("ابنتي تسافر غدا إلى كندا.", "ar"),
        ("मेरी बेटी कल कनाडा जा रही है।", "hi"),
    ],
)
def test_what_no_topic_knows_is_asked_about_and_never_denied(message, code):
    either = json.loads(files("comity_skills").joinpath(SPOKEN[code]).read_bytes())["replies"]["either"]
    assert reply(message).startswith((OPEN[code], either))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("What is the capital of France?", "en"),
        ("The fridge is empty again, can you remind me to buy milk?", "en"),
        (
            "TypeError: Cannot read properties of undefined: why does this happen when my list is empty?",
            "en",
        ),
        ("We broke up the old monolith into 12 services last week", "en"),
        ("The meeting starts at ten. Lunch is served in the canteen.", "en"),
        ("Send me the report by Friday.", "en"),
        ("Thanks, talk soon.", "en"),
        ("Der Kühlschrank ist leer, kannst du mich an Milch erinnern?", "de"),
        ("Le fichier est vide.", "fr"),
        ("¿A qué hora sale el tren?", "es"),
        ("A che ora parte il treno?", "it"),
        ("Qual é o horário da biblioteca?", "pt"),
        ("请把文件发给我", "zh"),
        ("会議の資料を送ってください。", "ja"),
        ("파일을 보내 주세요.", "ko"),
        ("متى يصل القطار؟", "ar"),
        ("ट्रेन कब आएगी?", "hi"),
        ("Sorry, no refunds.", "en"),
        ("Sorry, we are fully booked this weekend.", "en"),
        ("Sorry for the delay, the train is late.", "en"),
        ("I will be out of office until Thursday.", "en"),
        ("Leider keine Rückerstattung.", "de"),
        ("Désolé, pas de remboursement.", "fr"),
        ("Lo siento, no hay reembolsos.", "es"),
        ("Non facciamo rimborsi senza scontrino.", "it"),
        ("Não fazemos reembolsos sem talão de compra.", "pt"),
        ("抱歉不能退款。", "zh"),
        ("返金はできません。", "ja"),
        ("환불은 불가능합니다.", "ko"),
        ("المصعد معطل اليوم.", "ar"),
        ("लिफ्ट आज खराब है।", "hi"),
    ],
)
def test_that_nothing_calls_for_support_is_said_only_where_it_is_certain(message, code):
    assert reply(message).startswith(NOTHING[code])


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("試験に落ちてしまいました。両親に何と言えばいいかわかりません。", "ja"),
        ("أشعر بالوحدة منذ انتقلت إلى هذه المدينة", "ar"),
        ("Ho litigato con mio fratello e non ci parliamo da un mese.", "it"),
        ("J'ai eu mon bac avec mention très bien !!", "fr"),
        ("Wir haben geheiratet!! 🎉", "de"),
        ("मैं कल से कुछ खा नहीं पा रही हूँ।", "hi"),
        ("hola", "es"),
        ("guten Morgen", "de"),
        ("I did the guitar solo tonight", "en"),
        ("I met José and Zoë in Łódź", "en"),
    ],
)
def test_the_reply_is_in_the_language_of_the_text(message, code):
    assert language(message) == code


@pytest.mark.parametrize(
    "message",
    [
        "Straciłem dzisiaj pracę i nie wiem co powiedzieć żonie.",
        "Bugün işimi kaybettim ve eşime ne diyeceğimi bilmiyorum",
        "Мне плохо",
        "Ik ben vandaag mijn baan kwijt",
        "Jag har förlorat jobbet idag",
        "امروز کارم را از دست دادم",
        "היום קשה לי",
        "Jeg har ikke sovet i natt",
    ],
)
def test_a_language_that_is_not_read_is_not_judged_however_short_the_text(message):
    assert reply(message).startswith("I cannot read the language")
    assert reply(message, support_mode="presence").startswith("I cannot read the language")


@pytest.mark.parametrize(
    "message",
    [
        "I'm pregnant and I don't know if I'm happy about it.",
        "I'm 16 and I'm pregnant.",
        "He wrote: \"I'm so happy for you!\" but I know he isn't. He wanted that promotion himself.",
        "Everyone says I should be so happy.",
        "I am not so happy with how it went",
        "I passed, but I feel nothing.",
        "She is so happy for him and I sit here.",
        "Ich bin schwanger und weiß nicht, ob ich mich freue.",
        "Je suis enceinte et je ne sais pas si je suis heureuse.",
        "我不知道是不是太开心了",
    ],
)
def test_joy_is_not_read_from_quotes_doubts_and_denials(message):
    assert topic(message) not in {"joy", "pride"}


@pytest.mark.parametrize(
    "message",
    [
        "I can't believe it, I passed!!",
        "I was so nervous but I passed!!",
        "I'm pregnant!! We are so happy",
        "Ich habe bestanden, ich bin so glücklich!",
        "他答应了 太开心了",
    ],
)
def test_joy_is_still_joy(message):
    assert topic(message) == "joy"


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("I got fired today, and honestly? Best day of my life. I hated that place.", "relief"),
        (
            "I am furious. My flatmate ate the cake I baked for my mother's birthday and just laughed.",
            "angry",
        ),
        (
            "I can't sleep. It's 4am. The baby has colic and my husband snores through everything.",
            "tired",
        ),
        ("Je me sens très seule depuis que mon mari est parti.", "lonely"),
        ("I lost my father's watch", None),
        ("J'ai perdu mon portefeuille dans le train", None),
        ("지갑을 잃었어요", None),
        ("فقدت مفاتيحي", None),
        ("Perdi meu celular no ônibus", None),
        ("I lost my father in May", "grief"),
        ("Mozart died in 1791.", None),
        ("The server is down and memory is low", None),
        ("My boss raised an event that was fired twice", None),
        ("Mein Auto ist kaputt und der Tank ist leer", None),
        ("My ex is late again, I'm so angry", "angry"),
        ("My mother is in town. I'm exhausted and haven't slept.", "tired"),
    ],
)
def test_comfort_goes_to_the_feeling_and_not_to_a_thing_or_a_name(message, named):
    assert topic(message) == named


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("My husband is furious with me", None),
        ("She is so tired", None),
        ("I told her I am tired", "tired"),
        ("I'm not sad, just bored.", None),
        ("Sie ist wütend auf mich", None),
    ],
)
def test_a_feeling_is_the_writer_s_own(message, named):
    assert topic(message) == named


@pytest.mark.parametrize(
    "message",
    [
        "Thank you so much. " + "The keys are with the neighbour and the plants are watered. " * 8,
        "Thank you for everything.",
    ],
)
def test_a_word_of_thanks_in_a_letter_or_a_farewell_is_not_answered_as_thanks(message):
    assert topic(message) is None
