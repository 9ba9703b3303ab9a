"""Who is in danger besides, or through, somebody else: found near each other, now, and in earnest."""

import json
from functools import cache
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity_skills.crisis import crisis_detector
from comity_skills.crisis.danger import Dangers
from comity_skills.crisis.data import DANGERS, LANGUAGES
from comity_skills.crisis.disguise import Vocabulary
from comity_skills.crisis.folding import fold
from comity_skills.crisis.lexicon import expand
from comity_skills_data import shipped


@cache
def detector():
    return crisis_detector(shipped())


@cache
def dangers():
    return Dangers.of(files("comity_skills").joinpath(DANGERS).read_bytes())


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


@pytest.mark.parametrize(
    "text",
    [
        "My husband shoved me against the wall last night because dinner was late. He says it was my fault.",
        "My boyfriend grabbed me by the throat.",
        "My husband pushed me down the stairs.",
        "My wife threw a plate at me yesterday.",
        "My ex came to my flat and pulled me by the hair",
        "My dad locks me in my room without food.",
        "He pushed me. I fell and hit my head.",
        "I was strangled by my boyfriend",
        "My 17 year old son shoved me into the counter tonight",
        "My boyfriend choked me during an argument and said it was a joke",
        "My husband hit me after the match",
        "Since my mother died my husband hits me",
        "Two years ago he hit me for the first time. Yesterday he pushed me down the stairs.",
        "Mein Mann hat mich gestern gegen die Wand geschubst.",
        "Mein Ex hat mich an den Haaren gezogen",
        "Mon mari m'a poussée contre le mur hier soir.",
        "Mon copain m'a attrapée par la gorge",
        "Mi marido me empujó contra la pared anoche.",
        "Mi novio me agarró del cuello",
        "Meu marido me empurrou contra a parede ontem à noite.",
        "Minha esposa jogou um prato em mim",
        "Mio marito mi ha spinta giù dalle scale",
        "Il mio ragazzo mi ha afferrata per la gola",
        "昨晚我老公把我推到墙上",
        "我男朋友掐住我的脖子",
        "夫に階段から突き落とされた",
        "妻に皿を投げつけられました",
        "어젯밤에 남편이 저를 벽으로 밀쳤어요",
        "남자친구가 제 목을 졸랐어요",
        "زوجي دفعني على الحائط أمس لأن العشاء تأخر",
        "زوجي شدني من شعري",
        "मेरे पति ने मुझे सीढ़ियों से धक्का दिया",
        "मेरे बॉयफ्रेंड ने मेरा गला दबाया",
    ],
)
def test_whoever_is_hurt_at_home_is_in_danger(text):
    report = detector().detect(text)
    assert ("violence", "self") in {(danger.kind, danger.subject) for danger in report.dangers}


@pytest.mark.parametrize(
    "text",
    [
        "My husband pushed me to apply for the job.",
        "My boss threw a party for us and my wife loved it",
        "My dad kicked me out of the group chat",
        "My boyfriend hit me up last night",
        "My brother beat me at chess again",
        "My brother kicked me in the shin during the match",
        "The baby kicked me and my husband felt it",
        "My cat scratched me and my boyfriend laughed",
        "My girlfriend and I had a pillow fight and she hit me in the face",
        "My father's death hit me hard",
        "My husband died and the loneliness hits me at night",
        "My wife threatens me with divorce",
        "My husband has never hit me",
        "My husband pushed me down the stairs ten years ago",
        "When I was a child my father hit me.",
        "I broke my arm and my mom drove me to hospital",
        "My mother gets angry when I say no",
        "Mein Bruder schlägt mich immer beim Schach",
        "Mein Sohn hat einen Mitschüler geschlagen",
        "Mon mari m'a poussée à postuler",
        "La mort de ma mère m'a frappée de plein fouet",
        "Mi marido me empujó a presentarme",
        "Mi madre me va a matar si llego tarde",
        "Meu marido me empurrou para me candidatar",
        "Mio marito mi ha spinta a candidarmi",
        "La morte di mia madre mi ha colpita duramente",
        "我老公推我去应聘",
        "我说话总被老公打断",
        "夫に背中を押されて応募しました",
        "息子が学校で友達を殴りました",
        "남편이 지원하라고 저를 밀어줬어요",
        "이 옷이 저한테 맞아요, 엄마가 사줬어요",
        "زوجي دفعني إلى التقديم على الوظيفة",
        "मेरे बेटे ने दूसरे बच्चे को धक्का दिया",
    ],
)
def test_the_words_of_violence_are_often_harmless(text):
    assert not detector().detect(text).dangers


@pytest.mark.parametrize(
    "text",
    [
        "My friend says she has taken all her pills. What do I do?",
        "She has taken all her tablets, please help",
        "My friend took all her pills after her boyfriend left her",
        "My brother swallowed 30 paracetamol an hour ago",
        "Meine Freundin sagt, sie hat alle ihre Tabletten genommen. Was soll ich tun?",
        "Ma sœur a avalé trop de somnifères",
        "Mi hermana tomó demasiadas pastillas para dormir",
        "Minha amiga disse que tomou todos os comprimidos. O que eu faço?",
        "Mia sorella ha preso troppi sonniferi",
        "我朋友说她把药都吃了",
        "妹が睡眠薬を大量に飲みました",
        "친구가 약을 다 먹었다고 해요. 어떻게 해야 하나요?",
        "صديقتي تقول إنها أخذت كل حبوبها. ماذا أفعل؟",
        "मेरी बहन ने नींद की बहुत सारी गोलियाँ खा लीं",
    ],
)
def test_whoever_has_taken_all_their_pills_is_in_danger(text):
    assert ("overdose", "other") in {
        (danger.kind, danger.subject) for danger in detector().detect(text).dangers
    }


@pytest.mark.parametrize(
    "text",
    [
        "My grandmother took all her pills today as the doctor said",
        "My brother took all my money, what should I do?",
        "My son took a full week of vacation",
        "Meine Oma hat heute alle ihre Tabletten genommen, wie vom Arzt verordnet",
        "Ma fille a pris toutes ses affaires",
        "Mi hermana tomó todas las decisiones",
        "Minha irmã tomou todas as decisões",
        "Mia nonna ha preso tutte le pastiglie come ha detto il medico",
        "我奶奶今天按医生说的把药都吃了",
        "祖母は先生の指示通り薬を全部飲みました",
        "친구가 밥을 다 먹고 갔어요",
        "جدتي أخذت كل حبوبها اليوم كما قال الطبيب",
        "मेरे भाई ने सारी मिठाई खा ली",
    ],
)
def test_what_a_doctor_prescribed_and_what_is_no_drug_is_no_overdose(text):
    assert not detector().detect(text).dangers


@pytest.mark.parametrize(
    "text",
    [
        "My brother is on the roof and says he will jump",
        "My daughter cut her wrists and is bleeding",
        "My best friend wrote goodbye and does not answer her phone",
        "Mein Bruder hat einen Strick und sagt, er will nicht mehr leben",
        "Mon ami a une corde et dit qu'il veut en finir",
        "Mi hija se cortó las venas y está sangrando",
        "Meu irmão está na ponte e diz que vai pular",
        "La mia amica ha scritto una lettera d'addio e non risponde",
        "我妹妹割了手腕",
        "友達が屋上にいて、死ぬと言っています",
        "동생이 자살하겠다고 하고 전화를 안 받아요",
        "أخي على الجسر ويقول إنه سيقفز",
        "मेरा भाई पुल पर है और कहता है कि कूद जाएगा",
    ],
)
def test_whoever_may_die_now_is_in_danger(text):
    assert detector().detect(text).endangered


@pytest.mark.parametrize(
    "text",
    [
        "My brother is on the roof repairing the tiles",
        "My friend said goodbye at the airport tonight",
        "My friend wants to end it with her boyfriend. What should I do?",
        "My daughter is going to jump off the trampoline",
        "Mein Mann ist auf dem Dach und repariert die Antenne",
        "Minha amiga diz que vai morrer de rir",
        "我女儿现在急着要跳绳比赛",
        "友達が今ロープを持って登山に行っています",
        "남편이 지금 피곤해 죽겠다고 해요",
        "मेरा भाई अभी रस्सी कूद रहा है",
    ],
)
def test_a_roof_a_rope_and_a_goodbye_alone_are_no_danger(text):
    assert not detector().detect(text).dangers


def test_the_writers_own_danger_stays_detected_beside_another_persons():
    report = detector().detect(
        "My roommate swallowed a bottle of pills and won't wake up. And I want to kill myself, too."
    )
    assert (report.endangered, report.detected, report.subject) == (True, True, "self")


def phrases():
    """By language and class."""
    return json.loads(files("comity_skills").joinpath(DANGERS).read_bytes())["languages"]


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


@pytest.mark.parametrize(
    ("text", "danger"),
    [
        ("남편이 술만 마시면 때려요. 어제는 칼을 들었어요", ("violence", "self")),
        ("동생이 번개탄 사서 차에 들어가 문을 잠갔어요 어떡해요", ("suicide", "other")),
        ("동생이 자살하려고 해요", ("suicide", "other")),
        ("Il mio migliore amico mi ha scritto addio e ha spento il telefono", ("suicide", "other")),
        ("صديقتي ابتلعت علبة دواء كاملة وهي الآن لا ترد", ("overdose", "other")),
        ("Meu marido chega bêbado e bate em mim e na minha filha", ("violence", "self")),
        ("Mio padre ci picchia con la cintura quando beve", ("violence", "self")),
        ("جوزي بيضربني قدام العيال ومش عارفة أروح فين", ("violence", "self")),
        ("मेरे पति और सास दहेज के लिए मुझे रोज़ मारते हैं", ("violence", "self")),
        ("Un mio amico mi ha detto che stasera la fa finita", ("suicide", "other")),
        ("صديقي يريد أن ينتحر اليوم", ("suicide", "other")),
        ("我闺蜜刚发朋友圈说再见了,人在天台上,怎么办", ("suicide", "other")),
        ("Meu pai tá caído no chão, não responde, o que eu faço?", ("body", "other")),
        ("Wenn er trinkt, schlägt er zu.", ("violence", "self")),
        ("Gestern hat er mich gegen die Heizung gestoßen", ("violence", "self")),
    ],
)
def test_danger_is_found_where_the_words_are_few(text, danger):
    assert danger in found_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "남편이 모기를 잡았어요",
        "Ho spento il telefono e sono andato a dormire",
        "أخذت دواء السعال وأنا بخير",
        "Er schlägt zu viele Nägel in die Wand",
        "O sol bate em mim de manhã",
        "Stasera la facciamo finita con i lavori e andiamo a cena",
        "我们昨天在天台吃烧烤",
    ],
)
def test_the_same_words_of_everyday_life_are_no_danger(text):
    assert not found_in(text)


def test_writers_who_name_others_stay_the_ones_in_danger():
    assert ("suicide", "other") not in found_in("我站在楼顶。妈妈对不起。再见了")
    assert ("overdose", "other") not in found_in(
        "My mum is asleep downstairs. I took all the pills an hour ago."
    )


@pytest.mark.parametrize(
    "text",
    [
        "Meine Frau redet kaum noch mit mir.", "Mein Vater isst kaum noch.", "Mein Chef grüßt kaum noch.",
        "my wife hardly talks to me any more", "mi hija ya casi no me habla", "my son won't wake up for school",
        "mio marito non reagisce alle mie critiche", "mon fils ne se réveille pas le matin pour l'école",
        "mi jefe no reacciona a mis correos", "息子が朝起きません", "아들이 아침에 안 일어나요", "我儿子早上叫不醒",
        "mein Kind atmet langsam ein und aus, Yoga ist toll", "इन महीनों में मेरे बेटे को लगा कि सांस रुक जाएगी",
    ],
)  # fmt: skip
def test_a_silent_or_sleepy_person_of_everyday_life_is_in_no_danger(text):
    assert not found_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "mein Bruder atmet kaum noch", "meine Schwester ist kaum noch ansprechbar", "今朝、母が起きません",
        "my son won't wake up when I shake him", "mon frère ne réagit plus quand je le secoue",
        "mi hermano no reacciona a nada", "我爸说话没反应了,怎么办", "동생이 오늘 아침에 안 일어나요",
        "Un mio amico ha preso non so quante gocce di Xanax col vino e respira piano piano",
        "my friend had vodka and sleeping pills and she is breathing really slowly",
        "mon coloc a mélangé alcool et somnifères, il respire très lentement",
    ],
)  # fmt: skip
def test_who_does_not_wake_or_hardly_breathes_is_in_danger_now(text):
    assert detector().detect(text).endangered


@pytest.mark.parametrize(
    "text",
    [
        "One of my boys came in with cigarette-type burns on his arm, he said daddy does that.",
        "My neighbour's kid has burns on her hands and says mum did it.",
        "Meine Oma liegt seit Tagen im selben Nachthemd im Bett und hat offene Stellen am Rücken.",
        "Une de mes élèves a des brûlures de cigarette sur le bras, elle dit que c'est papa qui fait ça",
        "Un alumno llegó con quemaduras de cigarro en el brazo, dice que su papá le hace eso",
        "Minha avó fica trancada no quarto, pede água e está pele e osso",
        "Mia nonna sta tutto il giorno nella sporcizia e la badante non le dà da mangiare",
        "我班上有个学生手臂上有烟头烫伤,他说是爸爸烫的", "隣のおばあさんが食事を与えられず、骨と皮です",
        "우리 반 학생 팔에 담뱃불 자국이 있어요. 아빠가 그랬대요", "جدتي تطلب الماء طوال اليوم وعمي لا يطعمها",
        "दादी को खाना नहीं देते और वह गंदगी में पड़ी रहती हैं",
    ],
)  # fmt: skip
def test_who_sees_that_a_child_or_an_old_person_is_hurt_is_not_the_one_in_danger(text):
    report = detector().detect(text)
    assert {(one.kind, one.subject, one.certain) for one in report.dangers} == {("violence", "other", False)}
    assert (report.detected, report.endangered, report.subject) == (False, False, "other")


@pytest.mark.parametrize(
    "text",
    [
        "a friend told me her stepdad touches her", "Meine Freundin sagt, ihr Stiefvater fasst sie an",
        "mon amie dit que son beau-père la touche", "mi amiga dice que su padrastro la toca",
        "minha amiga contou que o padrasto mexe com ela", "la mia amica dice che il patrigno la tocca",
        "我闺蜜跟我说她被她继父从小摸到大", "友達が義父に触られていると言っています",
        "친구가 새아빠가 자꾸 만진대요", "صديقتي تقول إن زوج أمها يلمسها",
        "मेरी दोस्त कहती है उसके सौतेले पिता उसे गलत तरीके से छूते हैं",
    ],
)  # fmt: skip
def test_a_child_whom_an_adult_touches_is_likely_in_danger_in_every_language(text):
    assert found_in(text) == {("child", "other")}


@pytest.mark.parametrize("text", ["義父に触られています", "삼촌이 자꾸 만져요", "继父经常摸我"])
def test_who_names_nobody_else_is_the_one_who_is_touched(text):
    assert found_in(text) == {("child", "self")}


@pytest.mark.parametrize(
    "text",
    [
        "my son has bruises on his legs from football", "My niece has a tattoo that looks like a skeleton",
        "The teacher touched the boy on the shoulder to calm him", "His speech touched her deeply",
        "The kids have no food allergies and love pizza", "Der Onkel fasst sie an der Hand",
        "Meine Oma hat offene Beine, der Pflegedienst kommt jeden Tag", "there are cigarette burns on the sofa",
        "Mi abuela está en el jardín pidiendo agua para las plantas", "孙子不给奶奶打电话",
    ],
)  # fmt: skip
def test_bruises_and_touches_of_everyday_life_are_nobodys_danger(text):
    report = detector().detect(text)
    assert not report.dangers
    assert not report.detected


@pytest.mark.parametrize(
    "text",
    [
        "minha filha de 15 anos tá se cortando", "a minha filha anda a cortar-se", "mi hija se está cortando",
        "ma fille se coupe les bras", "meine Tochter schneidet sich in die Arme", "mia figlia si sta tagliando",
        "ابنتي تجرح نفسها",
    ],
)  # fmt: skip
def test_another_person_who_cuts_themselves_is_mentioned(text):
    report = detector().detect(text)
    assert (report.detected, report.mention, report.subject) == (False, True, "other")


@pytest.mark.parametrize(
    "text",
    [
        "ma fille se coupe les cheveux", "mi hija se está cortando el pelo", "mia figlia si sta tagliando i capelli",
        "Meine Tochter schneidet sich die Haare selbst",
    ],
)  # fmt: skip
def test_hair_may_be_cut(text):
    assert not detector().detect(text).mention
