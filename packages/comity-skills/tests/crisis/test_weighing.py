"""Weak signs add up near each other only, and a farewell alone mentions nothing."""

from functools import cache

import pytest

from comity_skills.crisis import crisis_detector
from comity_skills_data import shipped


@cache
def detector():
    return crisis_detector(shipped())


@pytest.mark.parametrize(
    "text",
    [
        "Thanks, talk soon.",
        "Sorry, no refunds.",
        "Please read this before you start.",
        "Goodbye, and thank you for everything!",
        "Take care of my plants, see you next week.",
        "The file does not exist.",
        "w w w w w w w w",
        "파일이 존재하지 않습니다.",
        "Je suis désolé pour le retard.",
    ],
)
def test_a_farewell_an_apology_or_a_program_mentions_nothing(text):
    report = detector().detect(text)
    assert (report.detected, report.mention, report.severity) == (False, False, "none")
    assert not report.signals


def test_a_mention_of_suicide_stays_one():
    assert detector().detect("The new plan for suicide prevention was presented on Wednesday.").mention


def test_signs_say_something_together_only_near_each_other():
    near = "I have written the letters to my family. By the time you find this I will not be here."
    assert detector().detect(near).detected
    between = "The garden was full of people and the soup was warm. " * 12
    first, second = "I have written a letter to my sister.", "It is not your fault."
    assert detector().detect(f"{first} {second}").detected
    assert not detector().detect(f"{first} {between} {second}").detected


@pytest.mark.parametrize(
    "text",
    [
        "パスワードを忘れてしまいました。", "暗証番号を忘れてしまった", "パスワードを忘れてしまったので教えてください",
        "I forgot my password, sorry for the trouble, thanks for everything",
        "Ich habe mein Passwort vergessen, es tut mir leid", "he olvidado mi contraseña, lo siento",
        "j'ai oublié mon mot de passe, désolé", "ho dimenticato la password, scusate",
        "esqueci minha senha, desculpa", "我忘了密码,对不起", "نسيت كلمة المرور، آسف",
        "비밀번호를 잊어버렸어요 죄송합니다", "पासवर्ड भूल गया, माफ़ करना",
    ],
)  # fmt: skip
def test_a_forgotten_password_is_no_farewell(text):
    assert not detector().detect(text).detected


@pytest.mark.parametrize(
    "text",
    [
        "My boss makes my life hell", "I'll make your life hell", "the traffic made my life hell this week",
        "MY LIFE HELL continues: the printer is broken again", "no self-harm, no suicidal thoughts",
    ],
)  # fmt: skip
def test_english_words_are_not_read_as_hindi(text):
    assert not any(signal.language == "hi" for signal in detector().detect(text).signals)
    assert not detector().detect(text).detected


@pytest.mark.parametrize(
    "text",
    ["life hell ban gayi hai meri", "mujhe suicidal thoughts aa rahe hain", "I have suicidal thoughts"],
)
def test_the_same_words_among_hindi_ones_or_in_earnest_are_a_crisis(text):
    assert detector().detect(text).detected


@pytest.mark.parametrize(
    "text",
    [
        "they put a chip behind my ear. the tv told me tonight i have to get it out, ive got the kitchen knife here",
        "the government put a microphone in my tooth and the radio says i must cut it out",
        "Sie haben mir einen Chip hinters Ohr gesetzt, ich muss ihn rausschneiden",
        "Der Fernseher hat mir gesagt, ich soll es tun, das Messer liegt hier",
        "ils m'ont mis une puce dans la tête, il faut l'arracher, j'ai le couteau à la main",
        "me pusieron un chip en la cabeza y tengo que sacármelo, tengo el cuchillo",
        "colocaram um chip na minha cabeça e a tv me manda tirar isso, tô com a faca",
        "mi hanno messo un microchip nel braccio, devo toglierlo, ho il coltello in mano",
        "他们在我耳朵里装了芯片,电视叫我挖出来,我手里拿着刀",
        "歯の中に盗聴器が埋め込まれた。テレビが取り出せと言っている。包丁を持っている",
        "귀에 칩을 심었어요. 티비가 꺼내라고 시켜요. 칼을 들고 있어요",
        "زرعوا شريحة في رأسي والتلفزيون يأمرني أن أخرجها والسكين في يدي",
        "मेरे कान में चिप लगा दी है, टीवी मुझे कहता है काट कर निकाल, चाकू मेरे हाथ में है",
    ],
)
def test_a_command_to_cut_is_an_immediate_danger_whoever_gives_it(text):
    report = detector().detect(text)
    assert (report.detected, report.severity, report.subject) == (True, "immediate", "self")


@pytest.mark.parametrize(
    "text",
    [
        "the vet put a chip behind my dog's ear", "I have a chip in my tooth, can the dentist get it out?",
        "I have an implant under my skin and the doctor will take it out tomorrow",
        "the tv told me there is a storm tonight", "My phone told me to update the app",
        "there's a splinter under my skin, I got it out with a needle", "mi perro tiene un chip en la oreja",
        "the radio said they kill the power tonight", "电视里的人告诉我怎么切菜,我拿着刀学",
    ],
)  # fmt: skip
def test_chips_and_broadcasts_of_everyday_life_command_nothing(text):
    assert not detector().detect(text).detected


@pytest.mark.parametrize(
    "text",
    [
        "I can't do this anymore. tonight i'm done", "I just want it to end. the gun is in the drawer.",
        "다 끝내고 싶어요. 번개탄 사놨어요.",
    ],
)  # fmt: skip
def test_a_time_or_means_at_hand_make_a_crisis_grave(text):
    assert detector().detect(text).severity == "high"


def test_a_time_far_off_in_the_text_makes_nothing_graver():
    between = "The garden was full of people and the soup was warm. " * 12
    assert detector().detect(f"I just want it to end. {between} Tonight is the match.").severity == "moderate"
