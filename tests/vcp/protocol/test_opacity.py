import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.signals import (
    CATEGORIES,
    SAFETY_FLOOR,
    TEMPERATURE,
    WEIGHTS,
    Categorical,
    ModelSafeContext,
    Signal,
    model_safe,
    parse,
    protection_level,
    score,
)
from tests.vcp.protocol.samples import WIRE

LEVELS = ["standard", "elevated", "high", "critical"]

signals = st.fixed_dictionaries(
    {},
    optional={
        dimension: st.builds(Signal, category=st.sampled_from(categories), intensity=st.integers(1, 5))
        for dimension, categories in CATEGORIES.items()
    },
)


def of(**told):
    return {
        dimension: Signal(category=category, intensity=level) for dimension, (category, level) in told.items()
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
    told = {dimension: Signal(**signal) for dimension, signal in case["signals"].items()}
    assert score(told) == pytest.approx(case["score"], abs=5e-5)
    assert protection_level(told) == case["protection_level"]


class TestTheScore:
    def test_of_nothing_is_nothing(self):
        assert score({}) == 0
        assert protection_level({}) == "standard"

    def test_of_the_worked_example(self):
        told = of(body_signals=("pain", 4), cognitive_state=("foggy", 3))
        assert score(told) == 0.4048
        assert protection_level(told) == "high"

    @given(signals)
    def test_is_four_tenths_of_the_mean_and_six_tenths_of_the_greatest(self, told):
        weighed = [
            WEIGHTS[dimension][signal.category] * signal.intensity / 5 for dimension, signal in told.items()
        ]
        active = [weight for weight in weighed if weight > 0]
        expected = 0.4 * sum(active) / 5 + 0.6 * max(active) if active else 0
        assert score(told) == pytest.approx(expected)
        assert 0 <= score(told) <= 1

    @given(signals, st.sampled_from(sorted(CATEGORIES)))
    def test_never_falls_when_an_intensity_rises(self, told, dimension):
        if dimension in told and told[dimension].intensity < 5:
            stronger = msgspec.structs.replace(told[dimension], intensity=told[dimension].intensity + 1)
            raised = told | {dimension: stronger}
            assert score(raised) >= score(told)
            assert LEVELS.index(protection_level(raised)) >= LEVELS.index(protection_level(told))

    @given(signals, signals)
    def test_never_falls_when_a_signal_is_added(self, told, more):
        assert score(more | told) >= score(told)

    @given(signals)
    def test_does_not_depend_on_who_said_it_and_how_surely(self, told):
        unsure = {
            dimension: msgspec.structs.replace(signal, source="inferred", confidence=0.1)
            for dimension, signal in told.items()
        }
        assert score(unsure) == score(told)


class TestTheLevel:
    @pytest.mark.parametrize(
        ("told", "points", "level"),
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
    def test_is_reached_at_its_threshold(self, told, points, level):
        assert score(told) == pytest.approx(points)
        assert protection_level(told) == level

    @given(signals)
    def test_counts_a_score_on_the_threshold(self, told):
        points = round(score(told) * 5000)
        reached = sum(points >= threshold for threshold in (750, 2000, 3500))
        assert protection_level(told) == LEVELS[reached]

    def test_gives_a_temperature_and_a_floor(self):
        assert [TEMPERATURE[level] for level in LEVELS] == [0.85, 0.6, 0.5, 0.4]
        assert [SAFETY_FLOOR[level] for level in LEVELS] == [0.0, 0.1, 0.2, 0.3]


class TestWhatAModelMayKnow:
    def test_has_exactly_four_members(self):
        assert ModelSafeContext.__struct_fields__ == (
            "protection_level",
            "formality_level",
            "domain",
            "session_active",
        )

    @given(signals)
    def test_names_no_signal_and_no_score(self, told):
        shown = msgspec.json.encode(model_safe(told, parse(WIRE), session_active=True)).decode()
        words = {category for categories in CATEGORIES.values() for category in categories} - {"critical"}
        assert not any(word in shown for word in words)
        assert not any(digit in shown for digit in "0123456789")

    def test_comes_from_the_wire_and_the_level_alone(self):
        told = model_safe(
            of(body_signals=("pain", 4), cognitive_state=("foggy", 3)), parse(WIRE), session_active=True
        )
        assert told == ModelSafeContext(
            protection_level="high", formality_level=None, domain="medical", session_active=True
        )
        assert model_safe({}, None, session_active=False) == ModelSafeContext(
            protection_level="standard", formality_level=None, domain=None, session_active=False
        )
        assert model_safe({}, Categorical(mode="💼"), session_active=True).formality_level == "professional"
