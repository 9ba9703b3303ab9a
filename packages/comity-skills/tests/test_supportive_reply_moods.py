"""Good news, stories, idioms and children who write: each gets an answer of its own in every language, and no neighbour does."""

import json

import pytest

from comity_skills.supportive_reply.data import SPOKEN
from tests.replies import answered, called, data, names, topic


@pytest.mark.parametrize(
    "message",
    [
        "Just wanted to come back and say thanks. The biopsy was benign. I can breathe again.",
        "My dad's surgery went well, they got all of the tumour. So relieved!",
        "医生说我爸的肿瘤全切干净了，不用化疗！今天全家都松了一口气",  # noqa: RUF001
        "My scan came back clean today.",
        "Mum rang the bell yesterday, she is cancer free.",
        "Meine Mutter ist krebsfrei, keine Chemo mehr.",
        "Die Gewebeprobe war gutartig. Danke fürs Zuhören neulich.",
        "La biopsie est bénigne, pas de chimio pour maman.",
        "Le sacaron todo el tumor a mi padre, no necesita quimio.",
        "A biópsia da minha mãe deu benigno, sem quimio.",
        "L'intervento di papà è andato bene, hanno tolto tutto il tumore.",
        "父の腫瘍は全部取れました。抗がん剤は不要だそうです。",
        "엄마 종양 다 제거됐대요. 항암 안 해도 된대요",
        "استأصلوا الورم بالكامل من أبي ولا يحتاج إلى كيماوي",
        "पापा का ट्यूमर पूरा निकल गया, कीमो की ज़रूरत नहीं",
        "papa ki report normal aayi, cancer nahi hai",
    ],
)
def test_an_illness_that_is_over_is_answered_as_relief(message):
    assert topic(message) == "relief"


@pytest.mark.parametrize(
    "message",
    [
        "The biopsy was not benign. I start chemo on Monday.",
        "I'm waiting for my biopsy results.",
        "The tumour is back after two years in remission.",
        "My dad was cancer free for a year and died on Sunday.",
        "My biopsy was benign but I'm still terrified every night.",
        "Is a cyst usually benign?",
        "They said no more chemo for my dad, it's hospice now.",
        "Keine Chemo hilft mehr, sagt der Arzt.",
        "El cáncer de mi madre se extendió por completo.",
        "检查都正常，可是我每天都疼",  # noqa: RUF001
        "All my tests are normal and I am still in pain every day.",
        "Der Knoten ist leider nicht gutartig.",
    ],
)
def test_an_illness_that_is_not_over_is_no_relief(message):
    assert topic(message) not in {"relief", "joy"}


@pytest.mark.parametrize(
    "message",
    [
        "Ich hab den Ausbildungsplatz!!! Nach 43 Bewerbungen!",
        "I got the apprenticeship!!! After 43 applications!",
        "J'ai eu mon alternance !!! Après 40 candidatures !",
        "¡¡¡Conseguí la beca!!!",
        "Consegui o estágio!!! Depois de 40 currículos!",
        "Ho avuto il tirocinio!!! Dopo 40 domande!",
        "拿到实习offer了！！！",  # noqa: RUF001
        "内定もらえた！！",  # noqa: RUF001
        "인턴 합격!!! 40번 만에!",
        "حصلت على المنحة!!! بعد سنتين",
        "मुझे इंटर्नशिप मिल गई!!!",
        "mujhe internship mil gayi!!!",
        "My baby has her first tooth!!",
    ],
)
def test_news_told_with_several_exclamation_marks_is_joy(message):
    assert topic(message) == "joy"


@pytest.mark.parametrize(
    "message",
    [
        "the kittens opened their eyes today 😍",
        "What a party last night 😂😂",
        "That new comedian absolutely slayed last night, I nearly died laughing, my stomach still hurts.",
    ],
)
def test_a_good_mood_about_something_unknown_is_answered_cheerfully(message):
    assert called(message) == "cheerful"


@pytest.mark.parametrize(
    "message",
    [
        "They cancelled my flight!!",
        "WHERE IS MY ORDER!!!",
        "I got the flu again!!",
        "My life is a joke 😂",
        "nobody came to my birthday lol",
        "I didn't get the apprenticeship!!!",
    ],
)
def test_exclamation_marks_and_laughter_alone_are_no_joy(message):
    assert called(message) != "cheerful"
    assert topic(message) not in {"joy", "small_talk"}


@pytest.mark.parametrize(
    "message",
    [
        "I owe about 14k across four cards and I've stopped opening the letters. My husband doesn't know.",
        "I owe 9,000 and I can't tell anyone",
        "we owe the bank more than 20000",
        "maxed out all my cards again",
        "Ich schulde der Bank 12.000 Euro und mache die Post nicht mehr auf",
        "Je dois 14 000 euros à la banque et je n'ouvre plus le courrier",
        "Debo 14 mil euros entre cuatro tarjetas y ya no abro las cartas",
        "Devo 14 mil reais em quatro cartões e não abro mais as cartas",
        "Devo 12 mila euro alla banca e non apro più le lettere",
        "四张信用卡欠了十四万，催款信我都不敢拆",  # noqa: RUF001
        "カード4枚で300万円になって、封筒が怖くて開けられない",
        "카드 네 장에 천만 원 밀렸어요. 우편물도 못 열겠어요",
        "علي ديون للبنك 14000 ولا أفتح الرسائل",
        "चार क्रेडिट कार्ड पर दो लाख बकाया है, नोटिस नहीं खोलता",
        "char credit card pe 2 lakh bakaya hai, bank ke notice kholna band kar diya",
    ],
)
def test_debts_are_heard_without_the_word(message):
    assert topic(message) == "money"


@pytest.mark.parametrize(
    "message",
    [
        "I owe you one, thanks!",
        "I owe him a coffee.",
        "I must write 2000 words by Friday.",
        "Debo escribir 2000 palabras para el viernes.",
        "Je dois rendre 3000 mots demain.",
        "You still owe me 20 euros for the tickets",
    ],
)
def test_not_all_that_is_owed_is_a_debt(message):
    assert topic(message) != "money"


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("had a massive row with my mum about the guest list and now she isn't speaking to me", "quarrel"),
        ("we had a blazing row last night", "quarrel"),
        ("Hatte einen Riesenkrach mit meiner Schwester", "quarrel"),
        ("Tuve una bronca enorme con mi hermano", "quarrel"),
        ("It rained three days in a row", None),
        ("We sat in the front row", None),
    ],
)
def test_a_row_is_a_quarrel_and_a_front_row_is_not(message, named):
    # one with relatives may be answered as one in the family
    assert (topic(message) in {"quarrel", "family"}) if named else (topic(message) is None)


@pytest.mark.parametrize(
    "message",
    [
        "Sto guardando una serie dove il protagonista finge il suicidio per incassare l'assicurazione, finale bellissimo, me ne consigli altre così?",
        "I watched a film about a man who fakes his suicide, great ending, any similar ones?",
        "Regarde cette série, le héros simule son suicide, super fin",
        "In meinem Krimi begeht der Bankier Selbstmord, wie findet ihr das Ende?",
        "En la novela el protagonista se suicida al final, ¿me recomiendas otras?",
        "No filme o protagonista comete suicídio, que final!",
        "这部电影里男主自杀了，结局太意外了",  # noqa: RUF001
        "ドラマの最終回で主人公が自殺するの、びっくりした",
        "드라마 결말에서 주인공이 자살하는 거 반전이었어",
        "في الفيلم ينتحر البطل في النهاية، هل تنصحني بأفلام مشابهة؟",
        "फ़िल्म के अंत में हीरो आत्महत्या कर लेता है, कमाल का अंत",
        "In the game the villain kills himself in the last level lol",
        "The song is about suicide but the melody is great",
    ],
)
def test_suicide_in_a_story_is_answered_as_a_story(message):
    output = answered(message).output
    assert names()[output["reply"]] == "story"
    assert len(output["escalation_guidance"]) == 1
    assert output["resources"] == []


@pytest.mark.parametrize(
    "message",
    [
        "I watched a film about suicide and it reminded me of my brother",
        "That series about suicide makes me feel like I understand her",
        "A series of suicides in our town, I can't believe it",
        "I read a book about suicide prevention",
        "my friend killed himself like in that film",
        "In my novel the hero takes pills, how many pills would be lethal?",
        "I want to kill myself like the girl in the film",
    ],
)
def test_a_story_that_comes_close_to_the_writer_is_no_mere_story(message):
    assert called(message) != "story"


@pytest.mark.parametrize(
    "message",
    [
        "أبي يحبسني في الغرفة ويأخذ هاتفي ويضربني بالحزام إذا تأخرت خمس دقائق عن المدرسة",
        "My dad hits me with his belt when I get bad grades",
        "I'm 13 and my stepdad beats me every night",
        "Mein Vater schlägt mich, wenn ich schlechte Noten nach Hause bringe",
        "Mon père me frappe quand je rentre tard de l'école",
        "Mi papá me pega con el cinturón si saco malas notas",
        "Meu pai me bate com o cinto quando tiro nota baixa na escola",
        "Mio padre mi picchia quando torno tardi da scuola",
        "我爸用皮带打我，因为我考试没考好，我今年13岁",  # noqa: RUF001
        "お父さんに毎日殴られます。中学生です。",
        "아빠가 저를 때려요. 저 중2예요",
        "पापा मुझे बेल्ट से मारते हैं जब स्कूल में नंबर कम आते हैं",
        "papa mujhe belt se maarte hain jab school mein kam number aate hain",
    ],
)
def test_a_child_who_is_hurt_is_told_to_tell_an_adult(message):
    output = answered(message).output
    assert names()[output["reply"]] == "minor"
    assert output["resources"]


def test_the_guidance_for_a_child_names_a_line_for_children():
    guidance = answered("My dad hits me with his belt when I get bad grades", locale="en-GB").output[
        "escalation_guidance"
    ]
    assert "call 999" in guidance[0]
    assert "line for children and teenagers" in guidance[0]
    assert not any("how to leave safely" in line for line in guidance)


@pytest.mark.parametrize(
    "message",
    [
        "My husband hits me when I come home late from my school, I teach there",
        "I'm 12 weeks pregnant and my boyfriend hits me",
        "my boyfriend slapped me last night",
        "Mein Mann schlägt mich",
    ],
)
def test_an_adult_who_is_hurt_decides_alone(message):
    assert called(message) == "violence"


@pytest.mark.parametrize(
    "message",
    [
        "this heat is killing me",
        "omg my feet are killing me after that shift and my manager is gonna murder me when she sees the till is 20 short",
        "jajaja me muero de hambre, si mi jefe no nos suelta ya a comer lo mato",
        "yaar is garmi ne to maar hi dala, aur upar se boss ne jaan kha rakhi hai aaj, chai pila de koi",
        "Diese Hitze bringt mich noch um",
        "Ich sterbe vor Hunger",
        "Je meurs de faim, vivement midi",
        "Cette chaleur me tue",
        "Tô morrendo de fome",
        "Esse calor tá me matando",
        "Muoio di fame",
        "Questo caldo mi uccide",
        "今天热死我了",
        "お腹すきすぎて死にそう",
        "배고파 죽겠어",
        "الحر قتلني اليوم",
        "बॉस ने आज जान खा रखी है",
    ],
)
def test_an_idiom_is_taken_as_one(message):
    assert called(message) == "idiom"


@pytest.mark.parametrize(
    "message",
    [
        "This job is killing me",
        "the pain is killing me",
        "My husband is going to kill me if I leave",
        "I'm dying of cancer",
        "I'm dead inside",
        "My heart is heavy and this heat is killing me",
    ],
)
def test_what_is_meant_as_it_is_said_is_no_idiom(message):
    assert called(message) not in {"idiom", "cheerful", "nothing"}


@pytest.mark.parametrize(
    "message",
    [
        "yaar ab jeene ka mann nahi karta, kal raat chhat pe khada tha, ek kadam aur aur sab khatam ho jata",
        "mujhe bahut akela lagta hai, koi dost nahi hai",
        "mera order kab aayega?",
        "mera dost ne goli kha li hai aur uth nahi raha",
    ],
)
@pytest.mark.parametrize("given", [{}, {"locale": "hi-IN"}])
def test_hindi_in_latin_letters_is_answered_in_latin_letters(message, given):
    answer = answered(message, **given)
    said = " ".join([answer.output["reply"], *answer.output["escalation_guidance"]])
    assert said.isascii() or set(said) - {"…"} <= set(map(chr, range(128)))
    assert "Language of the reply: hi-Latn" in answer.assumptions


@pytest.mark.parametrize("message", ["मुझे बहुत अकेला लगता है", "I feel so lonely today"])
def test_whoever_asks_for_hindi_and_does_not_write_it_in_latin_letters_gets_devanagari(message):
    answer = answered(message, locale="hi-IN")
    assert "Language of the reply: hi" in answer.assumptions
    assert not answer.output["reply"].isascii()


def test_the_latin_form_has_every_sentence_and_its_places():
    hindi = json.loads(data()[SPOKEN["hi"]])
    assert hindi["latin"]["replies"].keys() == hindi["replies"].keys()
    assert hindi["latin"]["topics"].keys() == hindi["topics"].keys()
    for name, said in hindi["replies"].items():
        for place in ("{number}", "{urls}"):
            assert (place in said) is (place in hindi["latin"]["replies"][name])


def test_every_language_has_every_reply_and_every_kind_of_speech():
    spoken = [json.loads(data()[name]) for name in SPOKEN.values()]
    assert len({frozenset(one["replies"]) for one in spoken}) == 1
    assert len({frozenset(one["speech"]) for one in spoken}) == 1


def test_a_greeting_before_a_question_is_no_small_talk():
    assert called("Hi, do you have opening hours over the bank holiday weekend?") == "nothing"
