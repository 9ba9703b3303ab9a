from comity_skills.editing.edits import Edit, apply, guarded, match_case
from comity_skills.editing.passage import read


def edit(text, original, replacement, place=0):
    start = text.index(original, place)
    return Edit(
        start=start,
        end=start + len(original),
        original=original,
        replacement=replacement,
        reason="Because.",
        category="test",
        severity="low",
    )


def rewritten(text, *pairs):
    return guarded(read(text), [edit(text, *pair) for pair in pairs])


def test_edits_are_applied_in_their_places():
    text = "a crazy plan and a lazy day"
    assert (
        apply(text, [edit(text, "crazy", "bold"), edit(text, "lazy", "slow")]) == "a bold plan and a slow day"
    )
    assert rewritten(text, ("lazy", "slow"), ("crazy", "bold")).text == "a bold plan and a slow day"


def test_an_edit_that_changes_a_fact_is_withdrawn_and_says_which():
    for text, original, replacement, fact in (
        ("We cannot refund you", "We cannot", "We can", "not"),
        ("Pay 20 euros", "20", "30", "20"),
        ("Ask John today", "John", "him", "John"),
        ("You must go", "must", "may", "must"),
        ("Come by Friday", "by Friday", "soon", "by when"),
    ):
        done = rewritten(text, (original, replacement))
        assert done.text == text
        assert done.edits == ()
        (withdrawn,) = done.withdrawn
        assert f"'{fact}'" in withdrawn.reason
        assert withdrawn.reason.startswith("Because. Not applied: ")


def test_each_edit_answers_for_itself():
    """Two edits that only together keep the count of `not` are both withdrawn."""
    text = "We do not mind. We agree."
    done = rewritten(text, ("do not mind", "mind"), ("We agree", "We do not agree"))
    assert done.text == text
    assert len(done.withdrawn) == 2


def test_a_bad_edit_does_not_take_a_good_one_with_it():
    done = rewritten("We cannot help your crazy friend", ("cannot", "can"), ("crazy", "worried"))
    assert done.text == "We cannot help your worried friend"
    assert [one.original for one in done.withdrawn] == ["cannot"]


def test_overlapping_edits_are_decided_for_the_earlier_and_longer():
    done = rewritten("a crazy plan", ("crazy", "bold"), ("crazy plan", "bold idea"), ("plan", "idea"))
    assert done.text == "a bold idea"
    assert len(done.withdrawn) == 2


def test_quotations_and_links_are_left_alone():
    for text in ('He said "a crazy plan"', "see https://a.example/crazy"):
        done = rewritten(text, ("crazy", "bold"))
        assert done.text == text
        assert len(done.withdrawn) == 1


def test_untidy_results_are_withdrawn():
    for text, original, replacement in (
        ("Well, we left", "we left", ", we left"),
        ("We left early", "left", ""),
        ("We saw a crazy man", "crazy", "odd"),
        ("Yes, really.", "really", ""),
        ("We saw the man", "saw", "saw the"),
    ):
        assert rewritten(text, (original, replacement)).text == text, text


def test_untidiness_that_was_there_before_is_not_held_against_an_edit():
    assert rewritten("We  left , a crazy day", ("crazy", "bold")).text == "We  left , a bold day"


def test_capitals_follow_what_was_replaced():
    assert match_case("You failed", "your attempt") == "Your attempt"
    assert match_case("you failed", "your attempt") == "your attempt"
    assert match_case("YOU", "we") == "WE"
    assert match_case("I", "we") == "We"


def test_an_edit_far_from_the_start_of_a_long_sentence_is_judged_by_the_words_around_it():
    text = "word " * 2000 + "Anna has a crazy plan " + "word " * 2000
    assert "bold plan" in rewritten(text, ("crazy", "bold")).text
    assert rewritten(text, ("Anna", "She")).text == text


def test_the_first_word_that_is_looked_at_need_not_open_the_sentence():
    text = "so " + "x" * 300 + " Anna left"
    (withdrawn,) = rewritten(text, ("Anna", "she")).withdrawn
    assert "it changes 'Anna'" in withdrawn.reason


def test_edits_that_are_harmless_alone_and_not_together_are_all_withdrawn():
    text = "we come by mere tea Friday"
    done = rewritten(text, ("mere ", ""), ("tea ", ""))
    assert done.text == text
    assert [one.reason for one in done.withdrawn] == [
        "Because. Not applied: together the edits change 'by when'."
    ] * 2


def test_nothing_is_put_before_a_possessive():
    for text in ("crazy people's rights", "crazy people\u2019s rights"):
        assert rewritten(text, ("crazy people", "people with ideas")).text == text
