"""Personal signals, the categorical wire, context opacity, and errors of context messages."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.signals import (
    ABSENT,
    CATEGORIES,
    SAFETY_FLOOR,
    SOURCES,
    TEMPERATURE,
    WEIGHTS,
    Categorical,
    ContextError,
    ModelSafeContext,
    Signal,
    domain,
    encode_error,
    formality,
    model_safe,
    parse,
    protection_level,
    read_personal,
    read_prosaic,
    score,
)
from comity.wire.errors import OverloadedError, StoreError
from tests.vcp.protocol.samples import WIRE
from tests.wire.json_values import values

SIGNAL = {"category": "pain", "intensity": 4}

dimensions = st.sampled_from(sorted(CATEGORIES))


def read_one(signal, dimension="body_signals"):
    return read_personal({dimension: signal}).of[dimension]


class TestASignal:
    def test_of_the_first_document_names_its_dimension_and_a_value(self):
        signal = read_one(
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
        assert read_one(SIGNAL | {"extended": "left knee", "value": None}) == Signal(
            category="pain", intensity=4, extended="left knee"
        )

    def test_has_defaults(self):
        assert read_one({"category": "pain"}) == Signal(
            category="pain", intensity=3, source="declared", confidence=1.0, declared_at=None, extended=None
        )

    def test_is_read_in_any_case(self):
        assert read_one({"category": "PAIN", "source": "Inferred_Local"}).source == "inferred_local"
        assert read_one({"category": "body_signals", "value": "Pain"}).category == "pain"

    @pytest.mark.parametrize("source", ["inferred", "inferred_local"])
    def test_that_was_inferred_is_never_certain(self, source):
        assert read_one(SIGNAL | {"source": source}).confidence == 0.5
        assert read_one(SIGNAL | {"source": source, "confidence": 0.99}).confidence == 0.99

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
        result = read_personal({"body_signals": None, "mood": SIGNAL, "extensions": 5})
        assert result.of == {"body_signals": None}
        assert result.unknown_dimensions == ["personal.mood", "personal.extensions"]

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
        result = read_prosaic({"health": None, "mood": 0.5})
        assert result.of == {"body_signals": None}
        assert result.unknown_dimensions == ["prosaic.mood"]

    def test_come_in_an_object(self):
        with pytest.raises(ContextError, match="must be an object"):
            read_prosaic([0.5])


parts = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=":"), min_size=1, max_size=8
)


class TestTheWire:
    def test_of_the_document_has_nine_sides(self):
        result = parse(WIRE)
        assert result == Categorical(
            domain="\U0001f9d1\u2695\ufe0f",
            mode="💬",
            safety="🔒",
            time="🌙",
            setting="🏠",
            audience="👤",
            device="📱",
            activity="🧘",
            region="🇬🇧",
        )
        assert result.wire == WIRE

    @given(st.lists(parts, min_size=9, max_size=9))
    def test_comes_out_as_it_went_in(self, sides):
        wire = ":".join(sides)
        read = parse(wire)
        assert parse(read.wire) == read
        if ABSENT not in wire:
            assert read.wire == wire

    def test_may_say_that_nothing_is_known(self):
        assert parse(":".join([ABSENT] * 9)) == Categorical()
        assert parse(":".join([ABSENT + "\ufe0f"] * 9)) == Categorical()
        assert Categorical(mode="💬").wire == ":".join([ABSENT, "💬", *[ABSENT] * 7])

    @pytest.mark.parametrize(
        "wire",
        [
            "",
            ":",
            "a:b:c:d:e:f:g:h",
            "a:b:c:d:e:f:g:h:i:j",
            "a:b:c:d:e:f:g:h:",
            ":b:c:d:e:f:g:h:i",
            "a:b::d:e:f:g:h:i",
            "a:b:c:d:e:f:g:h:\n",
            "a:b:c:d:e:f:g:h:\x7f",
            "a:b:c:d:e:f:g:h:" + "i" * 65,
            "a" * 100_000,
            ":" * 100_000,
            "⏰🌅|📍🏡",
        ],
    )
    def test_of_another_form_is_refused_by_the_name_of_its_field(self, wire):
        with pytest.raises(ContextError) as refusal:
            parse(wire, "place")
        assert (refusal.value.wire_code, refusal.value.field) == ("INVALID", "place")
        assert len(refusal.value.message) < 300


def about(**sides):
    return Categorical(**sides)


class TestWhatAModelMayKnow:
    @pytest.mark.parametrize(
        "symbol", ["\U0001f9d1\u2695\ufe0f", "\U0001f9d1\u200d\u2695\ufe0f", "\U0001f9d1\u2695", "🏥", "🩺"]
    )
    def test_health_is_medical_with_and_without_joiner_and_selector(self, symbol):
        assert domain(parse(f"{symbol}:💬:🔒:🌙:🏠:👤:📱:🧘:🇬🇧")) == "medical"

    @pytest.mark.parametrize(
        ("symbol", "result"),
        [
            ("⚖️", "legal"),
            ("💰", "financial"),
            ("🏫", "educational"),
            ("🧑‍💻", "technical"),
            ("🌐", "general"),
            ("🦄", None),
            ("medical", None),
            (None, None),
        ],
    )
    def test_a_domain_is_told_by_its_symbol_alone(self, symbol, result):
        assert domain(about(domain=symbol)) == result

    @pytest.mark.parametrize(
        ("mode", "setting", "result"),
        [
            ("😎", "🏢", "casual"),
            ("💼", None, "professional"),
            ("🎓", "🏠", "formal"),
            ("🏛️", None, "formal"),
            ("💬", "🏢", "professional"),
            (None, "🏛️", "formal"),
            ("💬", "🏠", None),
            (None, None, None),
            ("formal", "formal", None),
        ],
    )
    def test_formality_is_told_by_the_mode_or_else_by_the_setting(self, mode, setting, result):
        assert formality(about(mode=mode, setting=setting)) == result

    @given(parts)
    def test_no_text_of_a_clients_passes_through(self, text):
        result = about(domain=text, mode=text, setting=text)
        assert domain(result) in {
            "medical",
            "legal",
            "financial",
            "educational",
            "technical",
            "general",
            None,
        }
        assert formality(result) in {"casual", "professional", "formal", None}


LEVELS = ["standard", "elevated", "high", "critical"]

signals = st.fixed_dictionaries(
    {},
    optional={
        dimension: st.builds(Signal, category=st.sampled_from(categories), intensity=st.integers(1, 5))
        for dimension, categories in CATEGORIES.items()
    },
)


def of(**result):
    return {
        dimension: Signal(category=category, intensity=level)
        for dimension, (category, level) in result.items()
    }


def weights_and_cases(content):
    known_keys(content, "suite", "weights", "cases")
    yield "weights", {"weights": content["weights"]}
    for index, case in enumerate(content["cases"]):
        yield str(index), case


@format_runner("vcp", "opacity", cases=weights_and_cases)
def test_vector_vcp_opacity_is_scored_as_recorded(case):
    if "weights" in case:
        assert case["weights"] == WEIGHTS
        return
    known_keys(case, "signals", "score", "protection_level")
    result = {dimension: Signal(**signal) for dimension, signal in case["signals"].items()}
    assert score(result) == pytest.approx(case["score"], abs=5e-5)
    assert protection_level(result) == case["protection_level"]


class TestTheScore:
    def test_of_nothing_is_nothing(self):
        assert score({}) == 0
        assert protection_level({}) == "standard"

    def test_of_the_worked_example(self):
        result = of(body_signals=("pain", 4), cognitive_state=("foggy", 3))
        assert score(result) == 0.4048
        assert protection_level(result) == "high"

    @given(signals)
    def test_is_four_tenths_of_the_mean_and_six_tenths_of_the_greatest(self, result):
        weighed = [
            WEIGHTS[dimension][signal.category] * signal.intensity / 5 for dimension, signal in result.items()
        ]
        active = [weight for weight in weighed if weight > 0]
        expected = 0.4 * sum(active) / 5 + 0.6 * max(active) if active else 0
        assert score(result) == pytest.approx(expected)
        assert 0 <= score(result) <= 1

    @given(signals, st.sampled_from(sorted(CATEGORIES)))
    def test_never_falls_when_an_intensity_rises(self, result, dimension):
        if dimension in result and result[dimension].intensity < 5:
            stronger = msgspec.structs.replace(result[dimension], intensity=result[dimension].intensity + 1)
            raised = result | {dimension: stronger}
            assert score(raised) >= score(result)
            assert LEVELS.index(protection_level(raised)) >= LEVELS.index(protection_level(result))

    @given(signals, signals)
    def test_never_falls_when_a_signal_is_added(self, result, more):
        assert score(more | result) >= score(result)

    @given(signals)
    def test_does_not_depend_on_who_said_it_and_how_surely(self, result):
        unsure = {
            dimension: msgspec.structs.replace(signal, source="inferred", confidence=0.1)
            for dimension, signal in result.items()
        }
        assert score(unsure) == score(result)


class TestTheLevel:
    @pytest.mark.parametrize(
        ("result", "points", "level"),
        [
            (
                of(body_signals=("pain", 5), cognitive_state=("overloaded", 5), energy_level=("fatigued", 5)),
                0.64,
                "high",
            ),
            (of(perceived_urgency=("critical", 5), body_signals=("unwell", 5)), 0.676, "high"),
            (
                of(
                    perceived_urgency=("critical", 5),
                    body_signals=("unwell", 5),
                    cognitive_state=("overloaded", 1),
                    emotional_tone=("tense", 2),
                ),
                0.7016,
                "critical",
            ),
            (
                of(
                    perceived_urgency=("critical", 5),
                    body_signals=("unwell", 5),
                    cognitive_state=("foggy", 3),
                ),
                0.7,
                "critical",
            ),
            (of(body_signals=("pain", 4), emotional_tone=("tense", 3)), 0.4, "high"),
            (of(body_signals=("pain", 4)), 0.3808, "elevated"),
            (of(emotional_tone=("tense", 3)), 0.1632, "elevated"),
            (of(body_signals=("recovering", 5)), 0.136, "standard"),
        ],
    )
    def test_is_reached_at_its_threshold(self, result, points, level):
        assert score(result) == pytest.approx(points)
        assert protection_level(result) == level

    @given(signals)
    def test_counts_a_score_on_the_threshold(self, result):
        points = round(score(result) * 5000)
        reached = sum(points >= threshold for threshold in (750, 2000, 3500))
        assert protection_level(result) == LEVELS[reached]

    def test_gives_a_temperature_and_a_floor(self):
        assert [TEMPERATURE[level] for level in LEVELS] == [0.85, 0.6, 0.5, 0.4]
        assert [SAFETY_FLOOR[level] for level in LEVELS] == [0.0, 0.1, 0.2, 0.3]


class TestTheSafeContext:
    def test_has_exactly_four_members(self):
        assert ModelSafeContext.__struct_fields__ == (
            "protection_level",
            "formality_level",
            "domain",
            "session_active",
        )

    @given(signals)
    def test_names_no_signal_and_no_score(self, result):
        shown = msgspec.json.encode(model_safe(result, parse(WIRE), session_active=True)).decode()
        words = {category for categories in CATEGORIES.values() for category in categories} - {"critical"}
        assert not any(word in shown for word in words)
        assert not any(digit in shown for digit in "0123456789")

    def test_comes_from_the_wire_and_the_level_alone(self):
        result = model_safe(
            of(body_signals=("pain", 4), cognitive_state=("foggy", 3)), parse(WIRE), session_active=True
        )
        assert result == ModelSafeContext(
            protection_level="high", formality_level=None, domain="medical", session_active=True
        )
        assert model_safe({}, None, session_active=False) == ModelSafeContext(
            protection_level="standard", formality_level=None, domain=None, session_active=False
        )
        assert model_safe({}, Categorical(mode="💼"), session_active=True).formality_level == "professional"


def test_an_error_says_what_is_wrong_and_where():
    said = json.loads(encode_error(ContextError("INVALID", "too much", "personal.mood")))
    assert said == {"error": {"code": "INVALID", "message": "too much", "field": "personal.mood"}}


def test_an_error_about_no_member_says_null():
    said = json.loads(encode_error(ContextError("NO_SESSION", "say hello")))
    assert said == {"error": {"code": "NO_SESSION", "message": "say hello", "field": None}}


def test_other_errors_of_ours_keep_their_own_code():
    assert json.loads(encode_error(StoreError("full")))["error"]["code"] == "STORE"
    assert json.loads(encode_error(OverloadedError("busy")))["error"]["code"] == "OVERLOADED"
