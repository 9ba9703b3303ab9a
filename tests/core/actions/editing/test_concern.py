from comity.core.actions.crisis import CrisisReport
from comity.core.actions.editing.concern import is_concerning

QUIET = CrisisReport()


def test_what_the_detector_finds_or_hears_mentioned_is_of_concern_in_every_mode():
    for mode in ("strict", "compat", "enhanced"):
        assert is_concerning("x", CrisisReport(detected=True), mode)
        assert is_concerning("x", CrisisReport(mention=True), mode)
        assert not is_concerning("x", QUIET, mode)


def test_the_recorded_substrings_count_in_the_modes_that_recorded_them():
    for text, modes in {
        "There is NO POINT continuing": {"strict", "compat"},
        "I feel overwhelmed": {"compat"},
        "I can't cope": {"compat"},
    }.items():
        assert {
            mode for mode in ("strict", "compat", "enhanced") if is_concerning(text, QUIET, mode)
        } == modes
