"""The second opinion: what it says of a text, where it points, and that no text is too strange or too long for it."""

import itertools
import time
from functools import cache
from importlib.resources import files

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity_skills.crisis import crisis_detector
from comity_skills.crisis.data import OPINION
from comity_skills.crisis.disguise import Vocabulary
from comity_skills.crisis.folding import fold
from comity_skills.crisis.opinion import CATEGORY, Opinion, OpinionFile, passages
from comity_skills_data import shipped

WORDS = Vocabulary(())
SMALL = OpinionFile(
    fingerprint="",
    moderate=70,
    around=260,
    calm=90,
    high=140,
    mention=-300,
    weak=400,
    phrases={
        "en": {" gave away ": 900, " plants ": 300, " letters ": 600, " recipe ": -400, " soon ": 100},
        "de": {" brief": 700},
        "zh": {"单程": 700, "菜谱": -100},
    },
)


@cache
def small():
    return Opinion.of(msgspec.json.encode(SMALL))


@cache
def learned():
    return Opinion.of(files("comity_skills").joinpath(OPINION).read_bytes())


def said(text, opinion=None, *, mention=False, weak=False):
    return (opinion or small()).signal(fold(text, WORDS), mention=mention, weak=weak)


def test_weights_that_come_to_enough_are_a_signal_of_the_phrasing():
    signal = said("i gave away my plants")
    assert (signal.category, signal.severity, signal.language) == (CATEGORY, "high", "en")
    assert not signal.lowered
    assert said("meine briefe hier").severity == "moderate"
    assert said("a recipe for plants") is None
    assert said("") is None


def test_a_text_of_several_passages_has_weights_of_its_own():
    text = f"{'We talked about the weather and the garden for a while. ' * 4}I gave away my plants, and my letters."
    apart = Opinion.of(
        msgspec.json.encode(msgspec.structs.replace(SMALL, long_phrases={"en": {" gave away ": -900}}))
    )
    assert said(text) is not None
    assert said(text, apart) is None
    assert said("i gave away my plants", apart) == said("i gave away my plants")


def test_the_same_weight_says_less_in_a_longer_text():
    text = "letters are on the table"
    assert said(text).severity == "moderate"
    assert said(f"{text}{' and so on' * 10}") is None


def test_nothing_adds_up_over_pages():
    page = "The soup was good and the talk was long. " * 16
    assert said("i gave away my plants and my letters").severity == "high"
    assert said(f"letters came. {page}" * 10) is None


def test_a_long_text_is_as_dangerous_as_its_most_dangerous_passage():
    page = "The soup was good and the talk was long. " * 8
    text = f"{page}I gave away my plants, the letters are written. {page}"
    signal = said(text)
    assert signal.severity == "high"
    assert text[slice(*signal.span)] == "gave away my plants, the letters"


def test_a_passage_among_others_has_to_weigh_more():
    page = "The soup was good and the talk was long. " * 8
    alone = "the letters are on the table"
    assert said(alone).severity == "moderate"
    assert said(f"{page}{alone}. {page}") is None


def test_what_stands_around_a_passage_counts_for_it_and_what_is_further_away_does_not():
    page = "The soup was good and the talk was long. " * 8
    told = "I gave away my plants, the letters are written."
    calm = "The recipe is easy, a recipe for two, one more recipe."
    assert said(f"{page}{told} {page}") is not None
    assert said(f"{page}{calm} {told} {calm} {page}") is None
    assert said(f"{calm} {page}{told} {page}{calm}") is not None


def test_only_a_text_of_several_passages_can_be_calm():
    page = "The soup was good and the talk was long. "
    assert not small().is_calm(fold(page, WORDS))
    assert small().is_calm(fold(page * 8, WORDS))
    assert not small().is_calm(fold(f"{page * 8}I gave away my plants and letters. {page * 8}", WORDS))


def test_passages_cover_the_text_and_are_short():
    for text, unspaced in (
        (" word" * 500, False),
        (" a b . " * 200, False),
        ("字" * 900, True),
        (" one . two ", False),
    ):
        places = passages(text, unspaced=unspaced)
        assert places[0][0] == 0
        assert places[-1][1] == len(text)
        assert all(later[0] <= earlier[1] for earlier, later in itertools.pairwise(places))
        assert max(end - start for start, end in places) <= 2 * (60 if unspaced else 160)


def test_what_the_rules_saw_counts():
    text = "the letters are on the table"
    assert said(text).severity == "moderate"
    assert said(text, mention=True) is None
    assert said(text, mention=True, weak=True).severity == "moderate"


def test_the_span_is_the_stretch_that_weighs_most():
    for text, stretch, language in (
        ("A recipe, please. I GAVE AWAY my Plants!", "GAVE AWAY my Plants", "en"),
        (
            "soon soon, a recipe, another recipe, and letters, letters and letters",
            "letters, letters and letters",
            "en",
        ),
        ("菜谱。票买的是单程", "单程", "zh"),
    ):
        signal = said(text)
        assert signal is not None, text
        assert text[slice(*signal.span)] == stretch, text
        assert signal.language == language, text


def test_a_file_without_phrases_has_no_opinion():
    empty = Opinion.of(msgspec.json.encode(msgspec.structs.replace(SMALL, phrases={})))
    assert said("i gave away my plants 单程", empty) is None


@given(st.text(max_size=200))
def test_no_text_is_too_strange_and_every_span_lies_within_it(text):
    for opinion in (small(), learned()):
        signal = said(text, opinion, weak=True)
        assert signal == said(text, opinion, weak=True)
        if signal is not None:
            start, end = signal.span
            assert 0 <= start < end <= len(text)


@given(st.lists(st.sampled_from([*SMALL.phrases["en"], *SMALL.phrases["zh"], "brief ", " é… ", "\n"])))
def test_a_span_begins_and_ends_with_a_word(parts):
    text = "".join(parts)
    signal = said(text)
    if signal is not None:
        stretch = text[slice(*signal.span)]
        assert stretch == stretch.strip() != ""


def test_half_a_megabyte_takes_twice_the_work_of_a_quarter():
    learned().signal(fold("again 又", WORDS), mention=False, weak=False)
    for part in ("i gave away my letters and nobody will miss me again ", "我选好了地方没人会来 "):
        texts = [fold(part * (size // len(part)), WORDS) for size in (250_000, 500_000)]
        short, long = (min(_seconds(text) for _ in range(3)) for text in texts)
        assert long < 4 * short, part


def _seconds(folded):
    start = time.perf_counter()
    learned().signal(folded, mention=False, weak=True)
    return time.perf_counter() - start


@cache
def detector():
    return crisis_detector(shipped(), phrasing=True)


def test_what_the_rules_let_pass_is_detected_by_its_phrasing():
    for language, text in (
        ("en", "i keep standing at the edge of the platform and i cant tell anyone anymore"),
        ("de", "Der Motor läuft schon. Ich schreib das hier nur noch schnell"),
        ("zh", "我选好了地方 老家水库那边冬天没人去 票买的是单程"),
    ):
        report = detector().detect(text)
        (signal,) = (one for one in report.signals if one.category == CATEGORY)
        assert report.detected, text
        assert (report.severity, signal.language) == (signal.severity, language), text


def test_what_the_rules_are_certain_of_needs_no_second_opinion():
    report = detector().detect("I want to die. I gave away my plants and wrote the letters, it ends tonight.")
    assert report.detected
    assert CATEGORY not in {signal.category for signal in report.signals}


def test_ordinary_texts_and_mentions_stay_what_they_are():
    for text in (
        "Could you quiz me on acid-base disorders?",
        "The last train leaves at half past eleven, so we go right after the show.",
        "Wie lange muss der Kuchen in den Ofen?",
        "请问这个周末去哪里玩比较好",
    ):
        assert detector().detect(text).severity == "none", text
    report = detector().detect("My uncle took his own life in 2010, we talk about it openly now")
    assert (report.detected, report.mention) == (False, True)


PIECES = (
    "i gave away my plants", "it ends tonight", "my uncle took his own life", "i'm not suicidal", "the recipe?",
    "no point anymore", "my brother has a gun and is going to kill himself", "我走了", "对不起", "der Motor läuft schon", ". ", "\n", "nobody will miss me",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_the_verdict_is_that_of_the_report(parts):
    text = " ".join(parts)
    verdict, report = detector().judge(text), detector().detect(text)
    assert (verdict.detected, verdict.mention, verdict.endangered) == (
        report.detected,
        report.mention,
        report.endangered,
    )


def test_nothing_is_read_before_somebody_asks():
    assert Opinion({}.get)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ("I bought the pills, enough this time.", "I can't go on. I bought the pills, enough this time."),
        ("번개탄 사놨어요.", "그냥 다 끝내고 싶어요. 번개탄 사놨어요."),
    ],
)
def test_a_text_that_tells_more_is_no_less_grave(less, more):
    detector = crisis_detector(shipped(), phrasing=True)
    assert (detector.detect(less).severity, detector.detect(more).severity) == ("high", "high")
