"""The weights in the package are those that training gives for the texts in the repository."""

from importlib.resources import files

import msgspec
import pytest
from msgspec.structs import replace

from comity_skills.crisis.data import LANGUAGES, LEXICONS, OPINION, SIGNS
from comity_skills.crisis.disguise import Vocabulary
from comity_skills.crisis.folding import fold
from comity_skills.crisis.opinion import OpinionFile, breadth_of
from evals.tables.crisis import fresh_set, half_of, outside_set, own_set
from evals.tables.crisis_long import (
    authors_set,
    life_set,
    long_set,
    once_set,
    unread_set,
    unseen_set,
)
from evals.tables.crisis_long import fresh_set as long_fresh_set
from evals.training.fitting import fit
from evals.training.judging import AROUND, CALM, HIGH, MODERATE, Judged, figures
from evals.training.model import LONG, MENTION, SHORT, WEAK, Passage, Seen, learn, look, told_apart
from evals.training.patterns import Finder, meanings
from evals.training.settings import fingerprint
from evals.training.texts import FIGURES, Lesson, lessons, long_lessons

MOST = 2_300_000  # bytes, for short texts and for long ones
WORDS = Vocabulary(())


def shipped():
    return files("comity_skills").joinpath(OPINION).read_bytes()


def test_the_weights_belong_to_the_texts_classes_and_settings():
    file = msgspec.json.decode(shipped(), type=OpinionFile)
    assert file.fingerprint == fingerprint(), "run `make train`"
    assert (file.moderate, file.around, file.calm, file.high) == (MODERATE, AROUND, CALM, HIGH)
    assert file.high > file.moderate > 0
    assert file.around >= file.calm >= file.moderate
    assert file.mention < 0 < file.weak
    assert set(file.phrases) == set(file.long_phrases) == set(LANGUAGES)
    assert len(shipped()) <= MOST


def test_nothing_is_learned_from_the_halves_that_measure():
    learned = {one.text for one in (*lessons(), *long_lessons())}
    halved = (*own_set(), *outside_set(), *long_set())
    kept = {one.text for one in halved if half_of(one.text) == "test"}
    unread = (*fresh_set(), *long_fresh_set(), *unread_set(), *authors_set(), *life_set())
    for texts in (unseen_set, once_set):
        unread += (*texts(long=False), *texts(long=True))
    kept |= {one.text for one in unread}
    assert len(kept) > 1600
    assert not kept & learned


def test_every_language_has_crises_and_calm_texts_to_learn_from():
    for language in LANGUAGES:
        labels = [one.crisis for one in lessons() if one.language == language and one.fold]
        assert min(labels.count(True), labels.count(False)) >= 50, language


def test_authors_who_were_held_back_are_found_more_often_and_daily_life_raises_no_alarm():
    """Floors under what the last training measured. Fewer crises than before are found by their phrasing alone: it took
    that to raise an alarm on one everyday text of a hundred at most.
    """
    measured = {(one["name"], one["crisis"]): one for one in msgspec.json.decode(FIGURES.read_bytes())}
    crises, calm = measured["all", True], measured["all", False]
    assert crises["both"] / crises["texts"] >= 0.59
    assert (calm["both"] - calm["rules"]) / calm["texts"] <= 0.041
    everyday, long = measured["everyday", False], measured["long", False]  # the first are short
    assert everyday["both"] / everyday["texts"] <= 0.012
    assert long["both"] / long["texts"] <= 0.1


def test_what_tells_the_sides_apart_gets_the_weight():
    rows = [([0, 2], [1.0, 1.0]), ([1, 2], [1.0, 1.0])] * 10
    costs = [0.03] * 20
    weights, _ = fit(rows, [True, False] * 10, 3, costs)
    assert weights[0] > 0.05 > -0.05 > weights[1]
    assert abs(weights[2]) < 0.05
    assert fit(rows, [True, False] * 10, 3, costs)[0] == weights
    lighter, _ = fit(rows, [True, False] * 10, 3, [0.003] * 20)
    assert 0 < lighter[0] < weights[0]


def test_a_class_passes_what_was_learned_on_to_words_that_no_text_has():
    known = {" rope ": frozenset({"=TOOL"}), " cord ": frozenset({"=TOOL"}), " soup ": frozenset({" soup "})}
    find = Finder(known)
    seen = [looked("rope", find), looked("soup", find)] * 10
    weights = learn(seen, [True, False] * 10, known, SHORT)
    assert weights.patterns[" cord "] == weights.patterns[" rope "] > 0 > weights.patterns[" soup "]
    assert weights.score(looked("cord", find)) > 0 > weights.score(looked("soup", find))


def test_of_a_crisis_in_a_long_text_the_heaviest_passages_teach():
    known = {" rope ": frozenset({" rope "}), " soup ": frozenset({" soup "})}
    find = Finder(known)
    soup = "The soup was good today and the talk was long, so we stayed. " * 9
    seen = [*[looked("rope", find), looked("soup", find)] * 10, looked(f"{soup} Then the rope. {soup}", find)]
    right = [*[True, False] * 10, True]
    taught = told_apart(seen, right, known, SHORT)
    assert len(seen[-1].passages) > len(taught[-1].passages) == SHORT.teach
    assert dict(taught[-1].passages[0].counts).get(" rope ") == 1


def test_what_is_light_is_left_out_and_the_rest_is_fitted_again_without_it():
    known = {name: frozenset({name}) for name in (" rope ", " soup ", " and ")}
    find = Finder(known)
    seen = [looked("rope and", find), looked("soup and", find)] * 10
    right = [True, False] * 10
    weights = learn(seen, right, known, SHORT)
    assert set(weights.patterns) == {" rope ", " soup "}
    without = {name: found for name, found in known.items() if name != " and "}
    assert weights == learn(seen, right, without, SHORT)


def test_a_passage_of_a_long_text_teaches_less_than_a_short_text():
    known = {" rope ": frozenset({" rope "}), " soup ": frozenset({" soup "})}
    find = Finder(known)
    soup = "The soup was good today and the talk was long, so we stayed a while. " * 6
    seen, right = [looked("rope", find), looked(soup, find)] * 5, [True, False] * 5
    less, more = (learn(seen, right, known, replace(LONG, share=share)) for share in (LONG.share, 1.0))
    assert 0 > less.patterns[" soup "] > more.patterns[" soup "]


def test_a_pattern_stands_for_itself_when_texts_say_it_more_than_once():
    found = meanings([" so tired ", " so tired ", " tiresome ", " 好累啊 ", " 好累了 "], _no_lexicon())
    assert " so tired " in found[" so tired "]
    assert " tiresome " not in found
    assert "好累" in found["好累"]
    assert "=PILLS" in found[" tablet"] & found["安眠药"]


def _no_lexicon():
    empty = b'{"language":"en","written":"","sources":[],"gap":1,"concepts":{},"rules":{},"phrases":{}}'
    return dict.fromkeys(LEXICONS, empty) | dict.fromkeys(SIGNS, b"{}")


@pytest.mark.parametrize(
    ("signs", "seen"),
    [
        ({"mention": True, "weak": False}, [MENTION]),
        ({"mention": True, "weak": True}, [MENTION, WEAK]),
        ({"mention": False, "weak": False}, []),
    ],
)
def test_what_the_rules_say_of_a_text_is_learned_from_where_they_are_not_certain(signs, seen):
    find = Finder([" a "])
    assert look(fold("a", WORDS), find, detected=False, soft=False, **signs).rules == seen
    certain = look(fold("a", WORDS), find, detected=True, soft=False, **signs)
    assert certain == Seen([Passage({" a ": 1}, breadth_of(3))], [], detected=True)


def looked(text, find):
    return look(fold(text, WORDS), find, detected=False, mention=False, weak=False, soft=False)


def test_what_stands_around_a_passage_is_weighed_with_it():
    known = {" rope ": frozenset({" rope "}), " soup ": frozenset({" soup "})}
    find = Finder(known)
    weights = learn([looked("rope", find), looked("soup", find)] * 10, [True, False] * 10, known, SHORT)
    plain = "They stayed for a while, and the talk was long and good. " * 3
    soup = "The soup, more soup and soup again, the best soup of them all in this town. " * 2
    alone, among = (looked(f"{around}Then the rope. {around}", find) for around in (plain, soup))
    more = [weights.wider(seen) - weights.score(seen) for seen in (alone, among)]
    assert more[0] > more[1]
    assert looked("rope", find).passages[0].around is None


def test_figures_count_by_language_and_tag_and_several_passages_have_limits_of_their_own():
    judged = [
        Judged(
            Lesson("", "en", "everyday", crisis=False, author="a"), detected=False, score=MODERATE + at - 97
        )
        for at in range(100)
    ]
    found = Lesson("", "en", "direct", crisis=True, author="a")
    several = Judged(found, detected=False, score=0.0, several=True)
    soft = Judged(found, detected=True, score=0.0, several=True, soft=True)
    judged += [
        Judged(found, detected=False, score=MODERATE),
        replace(several, score=MODERATE),
        replace(several, wider=AROUND - 1),
        replace(several, wider=AROUND),
        replace(soft, wider=CALM),
        replace(soft, wider=CALM - 1),
        replace(soft, several=False),
    ]
    everyone = {(one.name, one.crisis): (one.texts, one.rules, one.both) for one in figures(judged)}
    assert everyone["all", False] == everyone["everyday", False] == everyone["en", False] == (100, 0, 3)
    assert everyone["direct", True] == (7, 3, 4)
