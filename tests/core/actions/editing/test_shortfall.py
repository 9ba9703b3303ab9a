from comity.core.actions.editing.edits import guarded
from comity.core.actions.editing.passage import read
from comity.core.actions.editing.rules import proposed
from comity.core.actions.editing.shortfall import shortfalls


def reworded(text):
    passage = read(text)
    return guarded(passage, proposed(shortfalls(passage))).text


def test_the_fact_stays_and_the_finger_goes():
    for text, expected in {
        "You failed the test.": "Your attempt at the test was unsuccessful.",
        "You've failed the driving test!": "Your attempt at the driving test has been unsuccessful!",
        "You have failed your credit check.": "Your credit check has been unsuccessful.",
        "You failed to complete your application.": "Your application was left incomplete.",
        "You failed to pay these bills.": "These bills were left unpaid.",
        "You failed to submit the required documents.": "The required documents were missing.",
        "You failed to sign the glass.": "The glass was left unsigned.",
        "You have failed to answer our questions.": "Our questions have been left unanswered.",
        "You failed, please call us.": "Your attempt was unsuccessful, please call us.",
        "I am afraid you failed.": "I am afraid your attempt was unsuccessful.",
    }.items():
        assert reworded(text) == expected


def test_what_is_not_plain_is_flagged_and_left():
    for text in (
        "You failed the team.",
        "You failed me.",
        "You failed the exam again.",
        "You failed the test because you were late.",
        "You failed the test, the interview and the check.",
        "You failed to pay on time.",
        "You failed to complete the form in 2019.",
        "Have you failed the test?",
        "All of you failed the test.",
        "They told me \u201cyou failed the test\u201d.",
    ):
        assert reworded(text) == text
        assert len(list(shortfalls(read(text)))) == 1, text


def test_other_failures_are_nobodys_blame():
    for text in (
        "The payment failed.",
        "We failed the test.",
        "You never fail.",
        "If the upload fails, retry.",
    ):
        assert not list(shortfalls(read(text))), text
