from hypothesis import given
from hypothesis import strategies as st

from comity_skills.editing.invariants import facts, violations


def test_contractions_count_as_what_they_are_short_for():
    for one, other in (
        ("We can't go", "We cannot go"),
        ("We can\u2019t go", "We can not go"),
        ("It won't work", "It will not work"),
        ("She doesn't pay", "She does not pay"),
        ("We'll come", "We will come"),
        ("You mustn't", "You must not"),
        ("we cant and dont", "we can not and do not"),
    ):
        assert violations(one, other) == (), one


def test_what_must_survive_is_missed_when_it_goes_and_noticed_when_it_comes():
    for before, after, changed in (
        ("We cannot refund you", "We are able to refund you", ("-can", "-not")),
        ("We cannot refund you", "We cannot help you", ("-refund",)),
        ("Pay 20 euros", "Pay 30 euros", ("-=20", "+=30")),
        ("Pay $20.50 now", "Pay $20 now", ("-=$20.50", "+=$20")),
        ("Pay twenty euros", "Pay some euros", ("-twenty", "+some")),
        ("Come by Friday", "Come Friday", ("-by when",)),
        ("Write to John", "Write to him", ("-@John",)),
        ("Write to a@b.example", "Write to c@b.example", ("-=a@b.example", "+=c@b.example")),
        (
            "See https://a.example/x",
            "See https://a.example/y",
            ("-=https://a.example/x", "+=https://a.example/y"),
        ),
        ("You must go", "You can go", ("-must", "+can")),
        ("You have to go", "You may go", ("-have to", "+may")),
        ("No refund without a receipt", "A receipt for a refund", ("-no", "-without")),
        ("I promise", "I hope", ("-promise",)),
        ("It failed", "It ended", ("-shortfall",)),
        ("Call before noon", "Call after noon", ("-before", "+after")),
    ):
        assert violations(before, after) == changed, before


def test_plain_words_for_a_failure_are_the_same_failure():
    assert violations("You failed to pay the bill", "The bill was left unpaid") == ()
    assert violations("You failed the test", "Your attempt at the test was unsuccessful") == ()


def test_suicide_is_no_commitment():
    assert violations("He committed suicide in 2019", "He died by suicide in 2019") == ()
    assert violations("He committed to it", "He agreed to it") == ("-committed", "+agreed")


def test_the_word_that_opens_a_sentence_is_no_name():
    assert facts("We left. They stayed") == {}
    assert facts("we left", opens=False) == {}
    assert facts("Paris called", opens=False) == {"@Paris": 1}


def test_a_tag_or_a_number_before_it_makes_no_name_of_it():
    assert facts("<p>Somebody left.</p>") == {"=<p>": 1, "=</p>": 1}
    assert facts("1) Somebody left") == {"=1": 1}
    assert facts("we met <b>Anna</b>")["@Anna"] == 1


def test_pronouns_and_articles_are_no_names_and_a_department_is():
    assert facts("so: You left. Then The man came, and It's over") == {}
    assert facts("ask IT") == {"@IT": 1}
    assert facts("take vitamin A") == {"@A": 1}


def test_a_word_in_capitals_is_counted_as_what_it_says():
    assert violations("we CAN'T go", "we CANNOT go") == ()
    assert violations("they DON'T pay", "they DO NOT pay") == ()
    assert violations("we met ANNA", "we met") == ("-@ANNA",)
    assert violations("come in May", "come in June") == ("-may", "+june")


@given(st.text(max_size=120))
def test_a_text_keeps_the_facts_of_itself(text):
    assert violations(text, text) == ()


@given(st.lists(st.sampled_from(["we", "not", "20", "John", "refund", "will", "Friday", "tea"]), max_size=8))
def test_order_does_not_matter_and_number_does(words):
    text = "so " + " ".join(words)
    assert violations(text, "so " + " ".join(reversed(words))) == ()
    assert violations(text, f"{text} not") == ("+not",)
