from comity_skills.crisis import CrisisReport
from comity_skills.editing.concern import NUMBERS, is_concerning, told_at_the_end

QUIET = CrisisReport()


def test_a_crisis_is_of_concern_in_every_mode_and_a_mention_where_no_count_is_recorded():
    for mode in ("strict", "compat", "enhanced"):
        assert is_concerning("x", CrisisReport(detected=True), mode)
        assert is_concerning("x", CrisisReport(mention=True), mode) == (mode == "enhanced")
        assert not is_concerning("x", QUIET, mode)


def test_a_mention_that_the_output_does_not_answer_is_answered_in_the_last_assumption():
    for report, shown, tells in (
        (QUIET, False, False),
        (CrisisReport(mention=True), False, True),
        (CrisisReport(mention=True), True, False),
        (CrisisReport(detected=True), False, True),
    ):
        first, last = told_at_the_end(("first", "last"), report, shown=shown)
        assert first == "first"
        assert last == (f"last | {NUMBERS}" if tells else "last")


def test_the_recorded_substrings_count_in_the_modes_that_recorded_them():
    for text, modes in {
        "There is NO POINT continuing": {"strict", "compat"},
        "I feel overwhelmed": {"compat"},
        "I can't cope": {"compat"},
    }.items():
        assert {
            mode for mode in ("strict", "compat", "enhanced") if is_concerning(text, QUIET, mode)
        } == modes
