from comity_skills.editing.edits import guarded
from comity_skills.editing.passage import read
from comity_skills.editing.rules import proposed
from comity_skills.editing.shortfall import shortfalls


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


def test_who_failed_stays_who_failed():
    """`you` inside another phrase is not the subject that an attempt can stand for."""
    for text in (
        "Anna and you failed the test.",
        "Anna, Ben, and you failed the test.",
        "Nobody but you failed the test.",
        "Students like you failed the test.",
        "This is the exam you failed.",
        "The one exam that you failed.",
        "See the tests you failed, please.",
        "This is the exam I think you failed.",
        "Here is what you failed.",
    ):
        assert reworded(text) == text
        assert len(list(shortfalls(read(text)))) == 1, text


def test_a_clause_of_its_own_may_follow_other_words():
    for text, expected in {
        "I think you failed the test.": "I think your attempt at the test was unsuccessful.",
        "Our records show that you failed to pay your bill.": "Our records show that your bill was left unpaid.",
        "If you failed the exam, please call us.": "If your attempt at the exam was unsuccessful, please call us.",
        "You failed the test and you failed the exam.": (
            "Your attempt at the test was unsuccessful and your attempt at the exam was unsuccessful."
        ),
        "Result: You failed the test.": "Result: Your attempt at the test was unsuccessful.",
        "1) You failed the test.": "1) Your attempt at the test was unsuccessful.",
        "<p>You failed the test.</p>": "<p>Your attempt at the test was unsuccessful.</p>",
    }.items():
        assert reworded(text) == expected


def test_a_thing_is_said_to_be_missing_or_unfinished_only_if_it_can_be():
    for text in (
        "You failed to enter the building.",
        "You failed to enter the USA.",
        "You failed to enter the correct code.",
        "You failed to send your son.",
        "You failed to send an email.",
        "You failed to include the news.",
        "You failed to answer the door.",
        "You failed to finish your vegetables.",
        "You failed to finish the race.",
        "You failed to confirm the rumour.",
    ):
        assert reworded(text) == text
        assert len(list(shortfalls(read(text)))) == 1, text
    assert reworded("You failed to enter your PIN.") == "Your PIN was missing."


def test_what_fails_over_or_fails_safe_is_nobodys_blame():
    for text in (
        "You failed over the server.",
        "You failed-over to Oslo.",
        "You failed safe.",
        "You failed fast.",
    ):
        assert not list(shortfalls(read(text))), text
    assert list(shortfalls(read("You failed back then.")))


def test_other_failures_are_nobodys_blame():
    for text in (
        "The payment failed.",
        "We failed the test.",
        "You never fail.",
        "If the upload fails, retry.",
    ):
        assert not list(shortfalls(read(text))), text


def reworded_since(text):
    passage = read(text)
    return guarded(passage, proposed(shortfalls(passage, since=True))).text


def test_what_was_not_done_is_told_of_the_thing():
    for text, expected in {
        "You did not send the report.": "The report was not sent.",
        "You didn\u2019t pay the invoice.": "The invoice was not paid.",
        "You still haven't sent us the form.": "The form has still not been sent to us.",
        "You haven't answered my emails yet.": "My emails have not been answered yet.",
        "You have not replied to my email.": "My email has not been answered.",
        "You did not submit the report by 3 May.": "The report was not submitted by 3 May.",
        "You did not meet the deadline.": "The deadline was not met.",
        "You did not complete your mood log.": "Your mood log was not completed.",
        "You forgot to sign the form.": "The form was left unsigned.",
        "You have forgotten to pay the bill.": "The bill has been left unpaid.",
        "If you did not send the form, please call us.": "If the form was not sent, please call us.",
    }.items():
        assert reworded_since(text) == expected
        assert reworded(text) == text


def test_what_another_may_have_done_or_what_belongs_to_the_verb_is_left():
    for text in (
        "You did not finish the race.",
        "You did not meet the client.",
        "You did not attend the meeting.",
        "You did not enter the building.",
        "You did not send the client the report.",
        "You did not follow the instructions properly.",
        "You did not send a postcard.",
        "You did not mention that prices rose.",
        "You didn't send the form?",
        "Anna and you did not send the report.",
        "You forgot your password.",
        "You forgot to attach the file again.",
    ):
        assert reworded_since(text) == text


def test_what_was_left_out_is_offered_as_missing():
    (finding,) = shortfalls(read("It has no legend and you forgot the summary."), since=True)
    assert (finding.replacement, finding.alternative) == (None, "The summary is missing.")
