import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.vcp.protocol.signals import CATEGORIES, SOURCES, ContextError, Signal, read_personal, read_prosaic
from tests.wire.json_values import values

SIGNAL = {"category": "pain", "intensity": 4}

dimensions = st.sampled_from(sorted(CATEGORIES))


def told(signal, dimension="body_signals"):
    return read_personal({dimension: signal}).of[dimension]


class TestASignal:
    def test_of_the_first_document_names_its_dimension_and_a_value(self):
        signal = told(
            {
                "category": "body_signals",
                "value": "pain",
                "intensity": 4,
                "source": "declared",
                "confidence": 0.9,
                "declared_at": "2026-02-28T21:30:00Z",
            }
        )
        assert signal == Signal(
            category="pain", intensity=4, confidence=0.9, declared_at="2026-02-28T21:30:00Z"
        )

    def test_of_the_extension_names_its_category(self):
        assert told(SIGNAL | {"extended": "left knee", "value": None}) == Signal(
            category="pain", intensity=4, extended="left knee"
        )

    def test_has_defaults(self):
        assert told({"category": "pain"}) == Signal(
            category="pain", intensity=3, source="declared", confidence=1.0, declared_at=None, extended=None
        )

    def test_is_read_in_any_case(self):
        assert told({"category": "PAIN", "source": "Inferred_Local"}).source == "inferred_local"
        assert told({"category": "body_signals", "value": "Pain"}).category == "pain"

    @pytest.mark.parametrize("source", ["inferred", "inferred_local"])
    def test_that_was_inferred_is_never_certain(self, source):
        assert told(SIGNAL | {"source": source}).confidence == 0.5
        assert told(SIGNAL | {"source": source, "confidence": 0.99}).confidence == 0.99

    @given(dimensions, st.data())
    def test_is_the_same_in_both_shapes(self, dimension, data):
        category = data.draw(st.sampled_from(CATEGORIES[dimension]))
        rest = {
            "intensity": data.draw(st.integers(1, 5)),
            "source": data.draw(st.sampled_from(SOURCES)),
            "confidence": data.draw(st.floats(0, 1, exclude_max=True)),
        }
        first = {"signals": {dimension: {"category": dimension, "value": category} | rest}}
        second = {dimension: {"category": category} | rest}
        assert read_personal(first) == read_personal(second)
        assert read_personal(first).of == {dimension: Signal(category=category, **rest)}

    @pytest.mark.parametrize(
        ("signal", "field"),
        [
            ({"category": "tense"}, "category"),
            ({"category": "body_signals"}, "category"),
            ({"category": "emotional_tone", "value": "pain"}, "category"),
            ({"value": "pain"}, "category"),
            ({"category": "body_signals", "value": "tense"}, "value"),
            ({"category": "body_signals", "value": 5}, "value"),
            ({}, "category"),
            ({"category": ["pain"]}, "category"),
            (SIGNAL | {"intensity": 0}, "intensity"),
            (SIGNAL | {"intensity": 6}, "intensity"),
            (SIGNAL | {"intensity": 3.0}, "intensity"),
            (SIGNAL | {"intensity": True}, "intensity"),
            (SIGNAL | {"intensity": None}, "intensity"),
            (SIGNAL | {"source": "guessed"}, "source"),
            (SIGNAL | {"source": None}, "source"),
            (SIGNAL | {"confidence": 1.01}, "confidence"),
            (SIGNAL | {"confidence": float("nan")}, "confidence"),
            (SIGNAL | {"source": "inferred", "confidence": 1.0}, "confidence"),
            (SIGNAL | {"source": "INFERRED_LOCAL", "confidence": 1}, "confidence"),
            (SIGNAL | {"confidence": -0.1}, "confidence"),
            (SIGNAL | {"confidence": True}, "confidence"),
            (SIGNAL | {"declared_at": "yesterday"}, "declared_at"),
            (SIGNAL | {"declared_at": 5}, "declared_at"),
            (SIGNAL | {"declared_at": "2026-02-28T21:30:00Z" + " " * 60}, "declared_at"),
            (SIGNAL | {"extended": "x" * 257}, "extended"),
            (SIGNAL | {"extended": 5}, "extended"),
        ],
    )
    def test_with_a_wrong_member_is_refused_by_its_path(self, signal, field):
        with pytest.raises(ContextError) as refusal:
            read_personal({"signals": {"body_signals": signal}})
        assert refusal.value.field == f"personal.signals.body_signals.{field}"
        assert refusal.value.wire_code == "INVALID"


class TestPersonal:
    def test_null_is_no_signal_and_unknown_dimensions_are_named(self):
        told = read_personal({"body_signals": None, "mood": SIGNAL, "extensions": 5})
        assert told.of == {"body_signals": None}
        assert told.unknown_dimensions == ["personal.mood", "personal.extensions"]

    @pytest.mark.parametrize("value", [[], "x", 5, {"signals": []}, {"signals": None}, {"body_signals": 5}])
    def test_is_an_object_of_objects(self, value):
        with pytest.raises(ContextError, match="must be an object"):
            read_personal(value)

    @given(values())
    def test_of_any_content_is_read_or_refused(self, value):
        for personal in (
            value,
            {"signals": value},
            {"body_signals": value},
            {"body_signals": {"category": value}},
        ):
            try:
                assert read_personal(personal).of.keys() <= CATEGORIES.keys()
            except ContextError as refusal:
                field = refusal.field
                assert field.startswith("personal")


class TestTheFloatsOf30:
    @pytest.mark.parametrize(
        ("name", "level", "dimension", "category", "intensity"),
        [
            ("urgency", 0.0, "perceived_urgency", "unhurried", 1),
            ("urgency", 0.29, "perceived_urgency", "unhurried", 2),
            ("urgency", 0.3, "perceived_urgency", "time_aware", 2),
            ("urgency", 0.5, "perceived_urgency", "pressured", 3),
            ("urgency", 0.79, "perceived_urgency", "pressured", 4),
            ("urgency", 0.8, "perceived_urgency", "critical", 5),
            ("urgency", 1.0, "perceived_urgency", "critical", 5),
            ("urgency", 1, "perceived_urgency", "critical", 5),
            ("health", 0.1, "body_signals", "neutral", 1),
            ("health", 0.2, "body_signals", "discomfort", 2),
            ("health", 0.4, "body_signals", "pain", 3),
            ("health", 0.6, "body_signals", "unwell", 4),
            ("health", 0.8, "body_signals", "recovering", 5),
            ("cognitive", 0.1, "cognitive_state", "focused", 1),
            ("cognitive", 0.3, "cognitive_state", "reflective", 2),
            ("cognitive", 0.5, "cognitive_state", "distracted", 3),
            ("cognitive", 0.7, "cognitive_state", "foggy", 4),
            ("cognitive", 0.9, "cognitive_state", "overloaded", 5),
            ("affect", 0.1, "emotional_tone", "calm", 1),
            ("affect", 0.3, "emotional_tone", "neutral", 2),
            ("affect", 0.5, "emotional_tone", "tense", 3),
            ("affect", 0.7, "emotional_tone", "frustrated", 4),
            ("affect", 0.9, "emotional_tone", "uplifted", 5),
        ],
    )
    def test_become_signals(self, name, level, dimension, category, intensity):
        assert read_prosaic({name: level}).of == {dimension: Signal(category=category, intensity=intensity)}

    @given(st.floats(0, 1))
    def test_always_become_a_category_of_their_dimension(self, level):
        signals = read_prosaic(dict.fromkeys(["urgency", "health", "cognitive", "affect"], level)).of
        assert len(signals) == 4
        for dimension, signal in signals.items():
            assert signal.category in CATEGORIES[dimension]
            assert 1 <= signal.intensity <= 5

    @pytest.mark.parametrize("level", [-0.01, 1.01, 2, True, "0.5", [], 10**400])
    def test_outside_of_0_to_1_are_refused(self, level):
        with pytest.raises(ContextError) as refusal:
            read_prosaic({"health": level})
        assert refusal.value.field == "prosaic.health"

    def test_may_be_null_and_others_are_named(self):
        told = read_prosaic({"health": None, "mood": 0.5})
        assert told.of == {"body_signals": None}
        assert told.unknown_dimensions == ["prosaic.mood"]

    def test_come_in_an_object(self):
        with pytest.raises(ContextError, match="must be an object"):
            read_prosaic([0.5])
