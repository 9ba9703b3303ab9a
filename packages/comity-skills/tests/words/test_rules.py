from comity_skills.words.rules import Rule, Rules, advice, counted, evidence, not_counted
from comity_skills.words.spans import MOST_EVIDENCE
from comity_skills.words.tokens import tokens

RULES = Rules(
    [
        Rule(
            id="motion",
            phrases=("animation*", "motion"),
            finding="Movement",
            advice=("Stop it.", "Ask first."),
        ),
        Rule(
            id="stuck", phrases=("cannot be paused",), finding="Stuck", advice=("Let go.",), negatable=False
        ),
    ],
    ignored=("motion detector",),
)


def triggers(text):
    return RULES.triggers(text, tokens(text))


def test_a_rule_says_which_words_set_it_off_and_where():
    text = "Animations that cannot be paused; a motion detector."
    assert evidence(triggers(text)) == [
        {"issue": "motion", "text": "Animations", "start": 0, "end": 10},
        {"issue": "stuck", "text": "cannot be paused", "start": 16, "end": 32},
    ]
    assert text[16:32] == "cannot be paused"


def test_a_mention_of_what_is_missing_is_told_and_not_counted():
    found = triggers("No animations.")
    assert evidence(found) == []
    assert counted(found) == {}
    assert not_counted(found) == [
        {"issue": "motion", "text": "animations", "start": 3, "end": 13, "why": "absent"}
    ]


def test_advice_names_the_words_once():
    found = counted(triggers("Motion, motion and animation."))
    assert advice(found["motion"]) == ['Movement ("motion", "animation"): Stop it.', "Ask first."]


def test_evidence_is_bounded():
    assert len(evidence(triggers("motion. " * 1000))) == MOST_EVIDENCE


def test_a_monstrous_word_is_not_repeated_in_full():
    (line, _) = advice(counted(triggers("animation" + "n" * 10_000))["motion"])
    assert len(line) < 200
