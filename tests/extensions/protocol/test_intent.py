import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.extensions.protocol import intent
from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.signals import CATEGORIES as DIMENSIONS
from comity.vcp.protocol.signals import Signal, parse

personal = st.fixed_dictionaries(
    {},
    optional={
        dimension: st.builds(Signal, category=st.sampled_from(categories), intensity=st.integers(1, 5))
        for dimension, categories in DIMENSIONS.items()
    },
)
situations = st.sets(st.sampled_from([intent.WORKPLACE, intent.HOME, intent.COLLEAGUES, intent.EVENING]))


def short(result):
    return {"category": result.category, "confidence": result.confidence}


@format_runner("vcp", "intent")
def test_vector_vcp_intent_is_inferred_as_recorded(case):
    known_keys(case, "personal", "signals", "primary", "alternatives")
    result = {dimension: Signal(**signal) for dimension, signal in case["personal"].items()}
    primary, alternatives = intent.infer(result, intent.read_words(case["signals"]))
    assert short(primary) == case["primary"]
    assert [short(other) for other in alternatives] == case["alternatives"]


def best(situation=(), **result):
    signals = {
        dimension: Signal(category=category, intensity=level)
        for dimension, (category, level) in result.items()
    }
    return short(intent.infer(signals, situation)[0])


class TestARule:
    @pytest.mark.parametrize(
        ("situation", "result", "category", "confidence"),
        [
            ([], {"perceived_urgency": ("critical", 4)}, "crisis_support", 0.9),
            ([], {"perceived_urgency": ("critical", 3)}, "routine_check", 0.3),
            (["workplace"], {"perceived_urgency": ("pressured", 1)}, "urgent_task", 0.75),
            ([], {"body_signals": ("pain", 3)}, "health_check", 0.75),
            ([], {"body_signals": ("unwell", 2)}, "casual_conversation", 0.4),
            ([], {"emotional_tone": ("frustrated", 4)}, "emotional_processing", 0.7),
            ([], {"emotional_tone": ("frustrated", 3)}, "casual_conversation", 0.4),
            (["workplace"], {"cognitive_state": ("focused", 1)}, "professional_inquiry", 0.85),
            (["colleagues"], {}, "professional_inquiry", 0.7),
            (["evening"], {"emotional_tone": ("calm", 1)}, "personal_exploration", 0.7),
            (["home"], {}, "personal_exploration", 0.55),
            ([], {"cognitive_state": ("focused", 1)}, "learning", 0.5),
            ([], {}, "casual_conversation", 0.4),
        ],
    )
    def test_gives_its_category_and_confidence(self, situation, result, category, confidence):
        assert best(situation, **result) == {"category": category, "confidence": confidence}

    def test_of_learning_is_silent_beside_anything_as_certain_as_0_7(self):
        signals = {
            "emotional_tone": Signal(category="tense", intensity=4),
            "cognitive_state": Signal(category="focused", intensity=5),
        }
        primary, alternatives = intent.infer(signals, [])
        assert (primary.category, alternatives) == ("emotional_processing", ())

    @given(personal, situations)
    def test_never_gives_more_than_three_alternatives_nor_a_category_twice(self, result, situation):
        primary, alternatives = intent.infer(result, situation)
        found = [primary, *alternatives]
        assert len(alternatives) <= 3
        assert len({one.category for one in found}) == len(found)
        assert [one.confidence for one in found] == sorted((one.confidence for one in found), reverse=True)
        assert all(0 < len(one.reasoning) <= 200 for one in found)

    @given(situations)
    def test_without_personal_signals_is_less_certain(self, situation):
        assert intent.infer({}, situation)[0].confidence <= 0.7

    def test_gives_only_categories_that_are_advertised(self):
        advertised = intent.EXTENSION.capability()
        assert [word.upper() for word in intent.CATEGORIES] == advertised["categories"]
        assert advertised["max_alternatives"] == intent.MAX_ALTERNATIVES


class TestTheSituation:
    def test_comes_from_the_categorical_wire(self):
        wire = "🧑:💬:🔒:🌆:🏢:👔:📱:🧘:🇬🇧"
        assert intent.words_of(parse(wire)) == {"workplace", "colleagues", "evening"}

    def test_of_a_sunrise_is_the_morning_on_the_wire_and_the_evening_in_the_extensions_own_list(self):
        assert intent.words_of(parse("🧑:💬:🔒:🌅:🏠:👤:📱:🧘:🇬🇧")) == {"home", "morning"}
        assert intent.read_words(["🌅", "Office", "nonsense"]) == {"evening", "workplace"}

    def test_is_unknown_without_a_wire(self):
        assert intent.words_of(None) == frozenset()


class TestACorrection:
    def test_is_the_effective_intent_and_leaves_the_inference_beside_it(self):
        result = intent.report(intent.correct("LEARNING"), {}, ["home"])
        assert result.effective == result.user_correction == "learning"
        assert result.primary.category == "personal_exploration"
        assert result.alternatives[0].category == "casual_conversation"

    def test_can_be_taken_back(self):
        result = intent.report(intent.correct(None), {}, ["home"])
        assert result.user_correction is None
        assert result.effective == "personal_exploration"

    def test_to_something_unknown_is_refused(self):
        with pytest.raises(ExtensionError) as refused:
            intent.correct("world_domination")
        assert (refused.value.wire_code, refused.value.field) == ("INVALID_ARGUMENT", "category")

    def test_shows_a_model_the_category_and_nothing_of_the_signals(self):
        signals = {"body_signals": Signal(category="pain", intensity=5)}
        shown = intent.for_model(intent.report(intent.correct(None), signals, []))
        assert shown == intent.IntentForModel(category="health_check", confidence=0.75)
        assert intent.for_model(intent.report(intent.correct("learning"), signals, [])).category == "learning"
