import re
from time import process_time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity_skills.cognitive_accessibility_audit import SKILL
from comity_skills.skill import SkillInputError, SkillOutcome
from tests.prepared import handler_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MODES = ("strict", "compat", "enhanced")
KEEPS = jsonschema.Draft202012Validator(dict(SKILL.contracts["enhanced"].output_schema))


@pytest.fixture(scope="module")
def audit():
    handler = handler_of(SKILL)
    return lambda content, mode="enhanced", **more: handler({"content": content, **more}, mode)


def issues(outcome):
    return [(each["issue"], each["text"]) for each in outcome.output["evidence"]]


def lengths(outcome):
    return {name: len(lines) for name, lines in outcome.output.items()}


def test_recorded_counts_follow_the_thresholds(audit):
    cases = {
        "word " * 160: (2, 5),
        "Pursuant to our policy, complete all fields herein within 24 hours.": (1, 3),
        "1. Enter name. 2. Click save.": (1, 2),
        "Short text.": (1, 2),
        "word " * 19 + "word.": (1, 2),
        "word " * 20 + "word.": (1, 3),
        "It is. " * 26: (1, 3),
        "1. It is. " * 26: (1, 2),
        "The clause wherein it stands.": (1, 3),
        "   ": (1, 2),
    }
    for mode in ("strict", "compat"):
        for content, (findings, recommendations) in cases.items():
            outcome = audit(content, mode)
            assert lengths(outcome) == {"findings": findings, "recommendations": recommendations}, content[
                :40
            ]
            assert list(outcome.output) == ["findings", "recommendations"]
            assert (outcome.uncertainty, len(outcome.assumptions)) == ("medium", 4)


def test_the_mean_sentence_length_is_rounded_half_up(audit):
    # 41 words in 2 sentences are 20.5, which is 21, above the limit of 20
    assert lengths(audit("a " * 20 + "b. " + "a " * 19 + "b.", "strict"))["recommendations"] == 3


def test_the_recorded_jargon_line_names_the_whole_word(audit):
    (finding,) = audit("The clause wherein it stands.", "strict").output["findings"]
    assert "wherein" in finding


def test_jargon_is_found_as_a_whole_word_with_a_plainer_one(audit):
    outcome = audit("As stated herein, the weatherin gauge and the cohereinter stay.")
    assert [each for each in outcome.output["evidence"] if each["issue"] == "jargon"] == [
        {"issue": "jargon", "text": "herein", "start": 10, "end": 16, "suggestion": "in this document"}
    ]
    assert not any(
        "herein" in text
        for issue, text in issues(audit("The box wherein it lies."))
        if issue == "jargon" and text == "herein"
    )


def test_long_sentences_are_told_by_band_and_place(audit):
    content = "one " * 25 + "end. " + "two " * 35 + "end. a short one."
    outcome = audit(content)
    assert [issue for issue, _ in issues(outcome)] == ["long_sentence", "very_long_sentence"]
    numbers = outcome.output["readability"]
    assert (numbers["sentences_over_20_words"], numbers["sentences_over_30_words"]) == (2, 1)


def test_abbreviations_and_decimals_do_not_make_sentences(audit):
    numbers = audit("Dr. Smith paid $3.50, e.g. for tea. He left.").output["readability"]
    assert numbers["sentences"] == 2


def test_hard_text_is_hard_and_easy_text_is_easy(audit):
    hard = audit(
        "Notwithstanding considerable organisational complexity, administrative responsibilities necessitate comprehensive "
        "documentation. Interdepartmental communication facilitates accountability. Standardisation is indispensable."
    )
    easy = audit("The cat sat on the mat. It was a warm day. We had tea and then we went home to bed.")
    assert hard.output["readability"]["flesch_reading_ease"] < 0
    assert any(issue == "long_word" for issue, _ in issues(hard))
    assert easy.output["readability"]["flesch_reading_ease"] > 90
    assert issues(easy) == []
    assert len(easy.output["findings"]) == 1


def test_what_burdens_people_is_found_with_its_words(audit):
    cases = {
        "Click here for the form.": ("ambiguous_link", "Click here"),
        "You must answer within 10 minutes.": ("time_pressure", "within 10 minutes"),
        "Your changes will be lost.": ("no_pause_or_save", "will be lost"),
        "Do not close this window.": ("no_pause_or_save", "Do not close this window"),
        "Listen while reading the text.": ("split_attention", "while reading"),
        "Do not proceed unless asked.": ("double_negative", "Do not proceed unless"),
        "You have 5 minutes to do this.": ("time_pressure", "have 5 minutes to"),
        "Read on. Learn more.": ("ambiguous_link", "Learn more"),
        "Learn more": ("ambiguous_link", "Learn more"),
        "Choose one of 12 plans.": ("too_many_choices", "12 plans"),
    }
    for content, expected in cases.items():
        assert expected in issues(audit(content)), content


def test_what_is_not_there_does_not_burden(audit):
    for content in (
        "There is no time limit.",
        "It works without a countdown.",
        "Learn more about trees.",
        "Choose one of 3 plans.",
        "Here is the page.",
        "Read more books.",
        "There's no need to hurry.",
        "More details are on the way.",
        "Do the steps:\n" + "\n".join(f"{number}. do this" for number in range(1, 10)),
    ):
        assert issues(audit(content)) == [], content


def test_many_choices_are_counted_by_letter_and_by_list(audit):
    lettered = ", ".join(f"Option {letter} for you" for letter in "ABCDEFGH")
    listed = "Choose:\n" + "\n".join(f"- choice {number}" for number in range(9))
    assert "too_many_choices" in dict(issues(audit(lettered)))
    assert "too_many_choices" in dict(issues(audit(listed)))
    numbered = "Which one?\n" + "\n".join(f"{number}. red" for number in range(1, 10))
    assert "too_many_choices" in dict(issues(audit(numbered)))
    assert "too_many_choices" not in dict(issues(audit("Option A or option B. " * 5)))


def test_markup_is_no_text_and_places_stay(audit):
    content = "<p class='a b c d'>Click <a href='/x'>here</a> now.</p><style>p{color:red}</style><p>We help."
    outcome = audit(content)
    assert (outcome.output["readability"]["words"], outcome.output["readability"]["sentences"]) == (5, 2)
    assert outcome.output["findings"] == ['Link text that does not say where it leads: "click here".']
    (link,) = outcome.output["evidence"]
    assert content[link["start"] : link["end"]] == link["text"] == "Click <a href='/x'>here"
    outcome = audit("Read this text. [Click here](https://example.com/a.b?c=d) to go on.")
    assert ("ambiguous_link", "Click here") in issues(outcome)
    assert outcome.output["readability"]["words"] == 8
    for plain in ("1 < 2 and 3 > 2 is so", "We ate [some] cake (a lot)", "a <3 b"):
        assert audit(plain).output["readability"]["words"] == len(re.findall(r"[A-Za-z0-9]+", plain)), plain


def test_a_few_words_are_not_called_hard_to_read(audit):
    for content in ("Liability insurance", "More details are available on request."):
        assert not any("Hard to read" in line for line in audit(content).output["findings"]), content


def test_abbreviations_are_found_unless_common_or_spelled_out(audit):
    found = audit("Enter your DOB, SSN and TIN on the form.")
    assert [text for issue, text in issues(found) if issue == "abbreviation"] == ["DOB", "SSN", "TIN"]
    for content in (
        "Save the PDF to your PC in the US.",
        "Your Social Security number (SSN) and date of birth (DOB) are safe.",
        "STOP READING NOW OR YOU WILL BE SAD. It is fine.",
        "We use the IRS form.",
    ):
        assert not any(issue == "abbreviation" for issue, _ in issues(audit(content))), content


def test_uncertainty_follows_the_evidence(audit):
    sentence = "The form is short and you can save it when you like. "
    assert audit(sentence).uncertainty == "high"
    assert audit(sentence * 4).uncertainty == "medium"
    assert audit(sentence * 12).uncertainty == "low"
    assert audit("El formulario es corto y se puede guardar cuando uno quiera. " * 12).uncertainty == "high"
    assert audit("この書類を確認してください。" * 30).output["readability"]["flesch_reading_ease"] is None


def test_a_content_without_words_is_not_called_free_of_barriers(audit):
    for content in ("😀😀😀", "...", "   ", "12345", "— — —", "<p><img src=a.png></p>"):
        outcome = audit(content)
        assert outcome.output["findings"] == ["There is nothing to judge: the content holds no words."], (
            content
        )
        assert outcome.uncertainty == "high"
    assert "no words" not in audit("👍 Done").output["findings"][0]


def test_what_was_not_judged_is_said(audit):
    (unspaced,) = audit(
        "本契約に関する一切の紛争については、東京地方裁判所を専属的合意管轄裁判所とする。"
    ).output["findings"]
    assert unspaced.startswith("Not judged: ")
    assert "how long the sentences" in unspaced
    assert "no concern" not in unspaced
    (spaced,) = audit("Wniosek należy złożyć w terminie wskazanym w rozporządzeniu.").output["findings"]
    assert spaced.startswith("Not judged: how hard the words are")
    assert "20 words" in spaced
    (german,) = audit(
        "Der Hund ist klein. Er mag den Ball. Wir gehen in den Park und dann ist er müde."
    ).output["findings"]
    assert german.startswith("No barrier was found by the formula for German")
    assert "Not judged: " in german
    (unknown,) = audit("Lesen!").output["findings"]
    assert "language" in unknown
    (few,) = audit("The cat sat.").output["findings"]
    assert few == "No barrier was found. That is no proof that there is none."


def test_words_of_a_script_without_spaces_are_not_counted(audit):
    outcome = audit("この書類を確認してください。" * 60)
    numbers = outcome.output["readability"]
    assert (numbers["words"], numbers["words_per_sentence"], numbers["sentences"]) == (None, None, 60)
    assert (numbers["sentences_over_20_words"], numbers["sentences_over_30_words"]) == (None, None)
    assert outcome.assumptions[1] == "60 sentences; words cannot be counted in a script without spaces."
    KEEPS.validate(dict(outcome.output))


def test_a_text_in_a_language_that_cannot_be_told_gets_no_english_score(audit):
    for content in ("Bitte lesen.", "Lesen!", "Ok", "Stop. Go."):
        outcome = audit(content)
        assert outcome.output["readability"]["flesch_reading_ease"] is None, content
        assert not any("taken for English" in line for line in outcome.assumptions)


def test_german_sentences_are_counted_past_abbreviations_and_dates(audit):
    content = (
        "Hier gelten unsere AGB. Dr. Müller kommt am 3. März um ca. 9 Uhr, z. B. mit Bus Nr. 5. "
        "Bitte bringen Sie u. a. Ihren Ausweis mit."
    )
    numbers = audit(content).output["readability"]
    assert (numbers["language"], numbers["sentences"]) == ("german", 3)


def test_the_context_is_trimmed_and_has_a_default(audit):
    assert audit("x", target_context="  Claim form ").assumptions[0] == "Context: Claim form"
    assert audit("x", "strict").assumptions[0] == "Context: general digital interface"


@given(st.text(max_size=200))
def test_evidence_is_where_it_says_and_the_output_keeps_its_schema(audit, content):
    outcome = audit(content or "x")
    KEEPS.validate(dict(outcome.output))
    for each in outcome.output["evidence"]:
        assert (content or "x")[each["start"] : each["end"]].startswith(each["text"].removesuffix("…"))


def test_a_hostile_text_takes_time_in_proportion(audit):
    # a hundred thousand characters; anything quadratic takes minutes
    begun = process_time()
    for unit in ("! ", "1. ", "a", "- a\n", "no a, ", "\n "):
        audit(unit * (100_000 // len(unit)))
        audit(unit * (100_000 // len(unit)), "strict")
    assert process_time() - begun < 20


@given(JSON, JSON, st.sampled_from(MODES))
def test_any_value_gets_an_outcome_or_a_refusal(audit, content, context, mode):
    try:
        answer = audit(content, mode, target_context=context)
    except SkillInputError as refused:
        answer = refused
    begins = "Input validation failed for action 'cognitive_accessibility_audit': "
    assert isinstance(answer, SkillOutcome) or answer.message.startswith(begins)


MEDICINE = (
    "Take 2 tablets BID PO with food; do NOT exceed 8 tablets/24h. If SOB or angioedema occurs, d/c immediately and "
    "contact your PCP or present to the ED."
)


def named(outcome, issue):
    return [text for one, text in issues(outcome) if one == issue]


def test_abbreviations_of_medicine_are_told_with_their_meaning(audit):
    outcome = audit(MEDICINE)
    assert named(outcome, "abbreviation") == ["BID", "PO", "SOB", "d/c", "PCP", "ED"]
    meanings = {each["text"]: each.get("suggestion") for each in outcome.output["evidence"]}
    assert (meanings["BID"], meanings["d/c"]) == ("twice a day", "stop")
    assert named(outcome, "jargon") == ["angioedema"]
    assert named(audit("Pt c/o chest pain, f/u in 2 wks."), "abbreviation") == ["Pt", "c/o", "f/u", "wks"]
    for content in (
        "Send it to our PO Box in May.",
        "They made a bid and Ed won it.",
        "Take it twice a day (BID).",
    ):
        assert named(audit(content), "abbreviation") == [], content


def test_a_word_in_capitals_for_emphasis_is_no_abbreviation(audit):
    for content in (
        "Do NOT open it. You MUST call us first.",
        "ONLY adults may enter. NEVER run.",
        "Take it with FOOD and plenty of WATER.",
        "The queen waits here. The QUEEN and ALL guests sit.",
    ):
        assert named(audit(content), "abbreviation") == [], content


def test_a_medical_word_is_known_by_its_ending(audit):
    found = audit("The doctor says that you have osteomyelitis and need a laparoscopy this week.")
    assert named(found, "jargon") == ["osteomyelitis", "laparoscopy"]
    assert named(audit("She felt nostalgia for academia and had arthritis in the hand."), "jargon") == []


def test_haste_that_protects_or_binds_the_writer_is_no_pressure(audit):
    for content in (
        MEDICINE,
        "If you smell gas, leave the building. Call 112 immediately.",
        "Call your doctor right away if the pain gets worse.",
        "Report a stolen card immediately.",
        "We will send you the card within 5 days.",
        "We will answer as soon as possible.",
        "You can cancel within 14 days.",
        "Do not call at night unless it is urgent.",
        "The change is effective immediately.",
    ):
        assert named(audit(content), "time_pressure") == [], content
    for content, words in {
        "Your account closes, so reply immediately.": "immediately",
        "Act now, the sale ends!": "Act now",
        "We ask you to pay within 2 days.": "within 2 days",
        "Hurry! Our emergency plumber is cheap today.": "Hurry",
    }.items():
        assert words in named(audit(content), "time_pressure"), content


def test_negatives_that_pile_up_are_told_with_plain_words(audit):
    outcome = audit(
        "The delay was not unexpected, since it had not been ruled out that the room would not be unavailable."
    )
    assert named(outcome, "double_negative") == [
        "not unexpected",
        "not been ruled out that the room would not be unavailable",
    ]
    assert "not unexpected (expected)" in " ".join(outcome.output["findings"])
    for content, words in {
        "It is not at all unlikely to rain.": "not at all unlikely",
        "Do not send the form unless we ask for it.": "Do not send the form unless",
        "Nobody without a card may not enter unless asked.": "Nobody without a card may not enter unless",
    }.items():
        assert named(audit(content), "double_negative") == [words], content
    for content in (
        "Do not eat, do not drink and do not smoke.",
        "No shoes, no shirt, no service.",
        "I don't understand why it isn't open.",
        "Do not leave children unattended.",
        "Do not unplug the device until the light is green.",
        "Unfortunately we could not reach you.",
        "This is not a union matter.",
        "The scan showed nothing unusual.",
    ):
        assert named(audit(content), "double_negative") == [], content


def test_figures_of_speech_are_told_with_plain_words(audit):
    outcome = audit("Keep your eye on the ball. They paid at the eleventh hour, out of the blue.")
    assert named(outcome, "idiom") == ["Keep your eye on the ball", "the eleventh hour", "out of the blue"]
    assert "(the last moment)" in " ".join(outcome.output["findings"])
    for content in (
        "The ball is blue. Keep your eyes closed.",
        "The shop opens at the eleventh day.",
        "The cats and dogs sleep.",
        "Break the chocolate in a bowl of ice.",
    ):
        assert named(audit(content), "idiom") == [], content


def test_codes_dates_and_capitals_are_told(audit):
    assert named(audit("Error 0x80070057 has come up."), "code") == ["0x80070057"]
    assert named(audit("Come on 03/04/2025 please."), "ambiguous_date") == ["03/04/2025"]
    for content in (
        "Come on 04/04/2025.",
        "Come on 23/04/2025.",
        "It is 1/2 of the cake.",
        "Come on 3 April.",
    ):
        assert named(audit(content), "ambiguous_date") == [], content
    shouted = audit("THIS CONTRACT BINDS BOTH SIDES AND NOBODY ELSE.").output["findings"]
    assert any("capitals" in line for line in shouted)
    assert not any("capitals" in line for line in audit("The BBC and NASA say so.").output["findings"])


def test_one_long_sentence_is_told_in_the_singular(audit):
    short = "The lift is new. The shop is open. "
    long = "The museum was founded by a man " + "who liked clocks and birds " * 5 + "very much."
    one = audit(short + long).output["findings"][0]
    assert one == "1 of 3 sentences has more than 20 words: 34."
    two = audit(short + f"{long} {long}").output["findings"][0]
    assert two == "2 of 4 sentences have more than 20 words, 2 of them more than 30; the longest has 34."


def test_in_another_language_what_was_not_judged_is_said_beside_the_findings(audit):
    german = (
        "Hiermit wird Ihnen mitgeteilt, dass Ihr Antrag vom 03.02. unter Ber\u00fccksichtigung der von Ihnen eingereichten "
        "Unterlagen derzeit nicht abschlie\u00dfend beschieden werden kann, da die Nachweise nicht vorliegen."
    )
    findings = audit(german).output["findings"]
    assert findings[0].startswith("1 of 1 sentence has more than 20 words")
    assert findings[-1].startswith("Not judged: jargon")
    assert "Not judged" not in " ".join(audit("Click here now! Hurry!").output["findings"])


def test_long_sentences_without_spaces_are_counted_in_characters(audit):
    long = "\u56fd\u6c11\u5065\u5eb7\u4fdd\u967a\u6599\u306e" * 11 + "\u3002"
    findings = audit("\u4fdd\u967a\u6599\u3067\u3059\u3002" + long).output["findings"]
    assert findings[0] == "1 of 2 sentences has more than 80 characters; the longest has 88."
    assert findings[-1].startswith("Not judged: how hard the words are")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("Click before the timer runs out or lose your chance.", ["timer runs out", "lose your chance"]),
        ("The offer ends tonight.", ["offer ends tonight"]),
        ("Don't wait: you may miss this deal.", ["miss this deal"]),
        ("Buy it while stocks last.", ["while stocks last"]),
        ("The clock is out of order.", []),
        ("The course ends in May.", []),
        ("Let the timer ring and take out the cake.", []),
        ("You will not miss anything.", []),
    ],
)
def test_pressure_by_loss_is_time_pressure(audit, content, words):
    assert named(audit(content), "time_pressure") == words


def test_rows_of_exclamation_marks_are_named(audit):
    assert "Rows of exclamation marks: !!!." in audit("Enter now!!! Win a car.").output["findings"]
    assert "exclamation" not in " ".join(audit("Well done! See you soon!").output["findings"])


def test_an_ease_just_below_the_aim_is_not_called_hard(audit):
    near = (
        "The ISA transfer process can be initiated via the portal once KYC and AML checks have been completed by the "
        "FCA-authorised provider. AER is quoted gross; APR may vary. Transfers effected outside the cooling-off window may "
        "incur an MVR. Where funds are held in a GIA, CGT may be payable on crystallisation. Please consult your IFA."
    )
    assert any(line.startswith("A little harder to read") for line in audit(near).output["findings"])
    far = (
        "Considerable administrative complications necessitate comprehensive organisational reconsideration. "
        * 3
    )
    assert any(line.startswith("Hard to read: ") for line in audit(far).output["findings"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Don't not take it with alcohol.", "Don't not"),
        ("Do not not lock the door.", "Do not not"),
        ("You can't not sign the form.", "can't not"),
        ("Never not wear the helmet.", "Never not"),
    ],
)
def test_that_a_doubled_negation_is_named(audit, content, said):
    assert ("double_negative", said) in issues(audit(content))


def test_that_two_negations_that_stand_apart_are_no_doubled_one(audit):
    for content in (
        "Do not drive. Not even for a short way.",
        "Why not? Not everybody can come.",
        "It is not only cheap but not slow.",
        "I do not know. Never mind.",
    ):
        assert "double_negative" not in dict(issues(audit(content))), content


def test_that_an_abbreviation_is_told_though_its_meaning_is_a_word_of_the_text(audit):
    found = issues(audit("Take 2 tabs w/ food. Do not take the medicine with alcohol."))
    assert {("abbreviation", "tabs"), ("abbreviation", "w/")} <= set(found)
    assert "abbreviation" not in dict(issues(audit("Open the tabs in your browser and close them.")))


def test_that_a_procedure_in_one_sentence_is_to_be_numbered_and_a_label_is_no_jargon(audit):
    procedure = (
        "To reset it go to settings then click security and after that scroll to advanced, there you will find the "
        "credentials tab where you should select the reset option, and then enter the code that is valid for 10 minutes."
    )
    outcome = audit(procedure)
    assert any("numbered steps" in line for line in outcome.output["recommendations"])
    assert "jargon" not in dict(issues(outcome))
    assert ("time_pressure", "valid for 10 minutes") in issues(outcome)
    assert not any(
        "numbered" in line for line in audit("Go to the office. Then sign.").output["recommendations"]
    )
