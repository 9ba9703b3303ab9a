"""VCP-X-Personal: declarations, decay and lifecycle."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.extensions.protocol import personal
from comity.extensions.protocol.personal import (
    DECAY_CONFIGS,
    DecayConfig,
    DecayStep,
    PersonalRules,
    PersonalState,
    decayed_intensity,
    effective_intensity,
    lifecycle_state,
    next_drop,
)
from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.signals import CATEGORIES, Signal, protection_level, score
from comity.wire.errors import ConfigError

NOW = 1_772_314_200.0
RULES = PersonalRules(presets={"deep-work": {"cognitive_state": Signal(category="focused", intensity=4)}})

signals = st.fixed_dictionaries(
    {},
    optional={
        dimension: st.builds(Signal, category=st.sampled_from(categories), intensity=st.integers(1, 5))
        for dimension, categories in CATEGORIES.items()
    },
)


def after(result, *, state=None, rules=RULES, now=NOW):
    return personal.declare(state or PersonalState(), personal.read_signals(result), rules, now)


def shown(state, seconds=0.0, rules=RULES):
    return personal.report(state, rules, NOW + seconds)


class TestADeclaration:
    def test_is_shown_with_its_effective_value_and_state(self):
        [result] = shown(after({"emotional_tone": {"category": "tense", "intensity": 5}}), 1800).values()
        assert (result.intensity, result.effective_intensity) == (5, 3)
        assert (result.lifecycle_state, result.source) == ("decaying", "decayed")
        assert result.declared_at == "2026-02-28T21:30:00.000000Z"

    def test_that_is_null_takes_the_signal_back(self):
        state = after({"emotional_tone": {"category": "tense"}, "energy_level": {"category": "rested"}})
        assert list(after({"emotional_tone": None}, state=state).signals) == ["energy_level"]

    def test_from_the_future_counts_as_now(self):
        state = after({"energy_level": {"category": "rested", "declared_at": "2099-01-01T00:00:00Z"}})
        assert state.signals["energy_level"].declared_at == NOW

    def test_of_an_earlier_moment_has_faded_already(self):
        state = after(
            {
                "emotional_tone": {
                    "category": "tense",
                    "intensity": 5,
                    "declared_at": "2026-02-28T22:00:00+01:00",
                }
            }
        )
        assert shown(state)["emotional_tone"].effective_intensity == 3

    def test_replaces_the_one_before_and_keeps_the_pin(self):
        state = personal.pin(after({"energy_level": {"category": "rested"}}), "energy_level", pinned=True)
        result = shown(after({"energy_level": {"category": "wired", "intensity": 4}}, state=state), 1e6)
        assert (result["energy_level"].category, result["energy_level"].effective_intensity) == ("wired", 4)

    @pytest.mark.parametrize(
        ("result", "field"),
        [
            ({"emotional_tone": {"category": "pain"}}, "signals.emotional_tone.category"),
            ({"emotional_tone": {"category": "tense", "intensity": 0}}, "signals.emotional_tone.intensity"),
            ({"emotional_tone": {"category": "tense", "intensity": 6}}, "signals.emotional_tone.intensity"),
            (
                {"emotional_tone": {"category": "tense", "intensity": 2**53}},
                "signals.emotional_tone.intensity",
            ),
            (
                {"emotional_tone": {"category": "tense", "source": "inferred", "confidence": 1.0}},
                "signals.emotional_tone.confidence",
            ),
            (
                {"emotional_tone": {"category": "tense", "confidence": float("nan")}},
                "signals.emotional_tone.confidence",
            ),
            (
                {"emotional_tone": {"category": "tense", "extended": "x" * 257}},
                "signals.emotional_tone.extended",
            ),
            ({"body_signals": {"category": "pain", "source": "inferred"}}, "signals.body_signals.source"),
            ({"appetite": {"category": "tense"}}, "signals.appetite"),
            ([], "signals"),
        ],
    )
    def test_that_is_wrong_is_refused_and_changes_nothing(self, result, field):
        state = after({"energy_level": {"category": "rested"}})
        before = msgspec.json.encode(state)
        good = {"cognitive_state": {"category": "foggy"}}
        with pytest.raises(ExtensionError) as refused:
            after(good | result if isinstance(result, dict) else result, state=state)
        assert (refused.value.wire_code, refused.value.field) == ("INVALID_ARGUMENT", field)
        assert msgspec.json.encode(state) == before

    def test_of_the_body_may_be_inferred_with_consent(self):
        result = {"body_signals": {"category": "pain", "source": "inferred", "confidence": 0.4}}
        state = after(result, rules=PersonalRules(infer_body_signals=True))
        assert state.signals["body_signals"].confidence == 0.4


class TestAPin:
    def test_holds_a_signal_as_it_is(self):
        state = personal.pin(
            after({"energy_level": {"category": "depleted", "intensity": 5}}), "energy_level", True
        )
        result = shown(state, 1e6)["energy_level"]
        assert (result.effective_intensity, result.lifecycle_state, result.source) == (
            5,
            "active",
            "declared",
        )
        released = personal.pin(state, "energy_level", pinned=False)
        assert shown(released, 1e6)["energy_level"].lifecycle_state == "expired"

    @pytest.mark.parametrize(
        ("dimension", "code"), [("energy_level", "PRECONDITION_FAILED"), ("mood", "INVALID_ARGUMENT")]
    )
    def test_needs_a_signal(self, dimension, code):
        with pytest.raises(ExtensionError) as refused:
            personal.pin(PersonalState(), dimension, pinned=True)
        assert refused.value.wire_code == code


class TestEngagement:
    def test_starts_only_what_resets_on_it_anew(self):
        state = after(
            {
                "cognitive_state": {"category": "foggy", "intensity": 5},
                "emotional_tone": {"category": "tense", "intensity": 5},
            }
        )
        result = personal.report(personal.engage(state, RULES, NOW + 1800), RULES, NOW + 1800)
        assert result["cognitive_state"].lifecycle_state == "set"
        assert result["emotional_tone"].effective_intensity == 3

    def test_leaves_a_pinned_signal_alone(self):
        state = personal.pin(
            after({"cognitive_state": {"category": "foggy"}}), "cognitive_state", pinned=True
        )
        assert personal.engage(state, RULES, NOW + 1800) == state


class TestAPreset:
    def test_overwrites_the_dimensions_it_lists_and_no_other(self):
        state = after({"cognitive_state": {"category": "foggy"}, "energy_level": {"category": "wired"}})
        result = shown(personal.apply_preset(state, "deep-work", RULES, NOW))
        assert (result["cognitive_state"].category, result["cognitive_state"].source) == ("focused", "preset")
        assert result["energy_level"].category == "wired"

    def test_that_is_unknown_is_refused(self):
        with pytest.raises(ExtensionError) as refused:
            personal.apply_preset(PersonalState(), "party", RULES, NOW)
        assert refused.value.wire_code == "NOT_FOUND"
        assert "deep-work" in refused.value.message


class TestTime:
    def test_lets_a_signal_expire_and_the_chore_purge_it(self):
        state = after({"perceived_urgency": {"category": "critical", "intensity": 5}})
        assert personal.purge_expired(state, RULES, NOW + 1800) is state
        assert shown(state, 1801)["perceived_urgency"].lifecycle_state == "expired"
        assert personal.effective_signals(state, RULES, NOW + 1801) == {}
        assert personal.purge_expired(state, RULES, NOW + 1801) == PersonalState()

    def test_tells_when_the_first_value_changes(self):
        state = after(
            {
                "perceived_urgency": {"category": "critical", "intensity": 5},
                "body_signals": {"category": "pain", "intensity": 5},
            }
        )
        assert personal.unchanged_for(state, RULES, NOW) == 60
        assert personal.unchanged_for(state, RULES, NOW + 20) == 40
        assert personal.unchanged_for(PersonalState(), RULES, NOW) is None

    @given(signals, st.floats(0, 1e6), st.floats(0, 1e6))
    def test_never_raises_the_protection_a_person_needs(self, result, one, other):
        state = personal.declare(PersonalState(), result, RULES, NOW)
        earlier, later = (
            score(personal.effective_signals(state, RULES, NOW + seconds)) for seconds in sorted((one, other))
        )
        assert later <= earlier

    @given(signals, st.sampled_from(sorted(CATEGORIES)), st.floats(0, 1e5))
    def test_keeps_more_intensity_from_ever_meaning_less_protection(self, result, dimension, seconds):
        if dimension not in result or result[dimension].intensity == 5:
            return
        more = result | {
            dimension: msgspec.structs.replace(result[dimension], intensity=result[dimension].intensity + 1)
        }
        levels = ["standard", "elevated", "high", "critical"]
        low, high = (
            levels.index(
                protection_level(
                    personal.effective_signals(
                        personal.declare(PersonalState(), said, RULES, NOW), RULES, NOW + seconds
                    )
                )
            )
            for said in (result, more)
        )
        assert low <= high


def test_every_dimension_of_a_signal_has_a_decay():
    assert DECAY_CONFIGS.keys() == CATEGORIES.keys()


LIFE = ["set", "active", "decaying", "stale", "expired"]

moments = st.floats(0, 1e4) | st.floats(0, 1e7)
intensities = st.integers(1, 5)


@st.composite
def configs(draw):
    steps = sorted(draw(st.lists(st.integers(1, 100_000), unique=True, max_size=5)))
    levels = sorted(draw(st.lists(intensities, min_size=len(steps), max_size=len(steps))), reverse=True)
    return DecayConfig(
        curve=draw(st.sampled_from(["exponential", "linear", "step"])),
        half_life_seconds=draw(st.floats(0.1, 1e6)),
        fresh_window_seconds=draw(st.floats(0, 1000)),
        stale_threshold=draw(st.floats(0, 1)),
        baseline=draw(intensities),
        full_decay_seconds=draw(st.none() | st.floats(0, 1e6)),
        steps=tuple(
            DecayStep(after_seconds=after, intensity=level)
            for after, level in zip(steps, levels, strict=True)
        ),
        pinned=draw(st.booleans()),
    )


@format_runner("vcp", "personal_state")
def test_vector_vcp_personal_state_fades_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    given_, expected = case["input"], case["expected"]
    known_keys(expected, *EXPECTED_OF_STATE)
    if "decay_configs" in expected:
        for dimension, config in expected["decay_configs"].items():
            for name, value in config.items():
                assert getattr(DECAY_CONFIGS[dimension], name) == value
        return
    fields = DecayConfig.__struct_fields__
    known_keys(given_, "dimension", "declared_intensity", "elapsed_seconds", "config", *fields)
    settings = given_.get("config") or {name: given_[name] for name in fields if name in given_}
    config = msgspec.convert(settings, DecayConfig)
    declared, elapsed = given_["declared_intensity"], given_["elapsed_seconds"]
    if "dimension" in given_:
        assert DECAY_CONFIGS[given_["dimension"]].half_life_seconds == config.half_life_seconds
    if "decayed_intensity" in expected:
        alone = effective_intensity if config.pinned else decayed_intensity
        assert alone(declared, config, elapsed) == expected["decayed_intensity"]
    if "lifecycle_state" in expected:
        assert lifecycle_state(declared, config, elapsed) == expected["lifecycle_state"]
    # vcp 6.1: the prose counts where the upstream vector contradicts it
    for key in ("effective_intensity", "effective_intensity_prose"):
        if key in expected:
            assert effective_intensity(declared, config, elapsed) == expected[key]


EXPECTED_OF_STATE = (
    "decayed_intensity",
    "raw_value",
    "decay_configs",
    "lifecycle_state",
    "effective_intensity",
    "effective_intensity_prose",
    "effective_intensity_upstream",
)


@format_runner("vcp", "personal_decay_grid")
def test_vector_vcp_personal_decay_follows_the_grid(case):
    known_keys(
        case, "dimension", "declared_intensity", "elapsed_seconds", "effective_intensity", "lifecycle_state"
    )
    config = DECAY_CONFIGS[case["dimension"]]
    result = (case["declared_intensity"], config, case["elapsed_seconds"])
    assert effective_intensity(*result) == case["effective_intensity"]
    assert lifecycle_state(*result) == case["lifecycle_state"]


class TestACurve:
    def test_halves_what_is_above_the_baseline_in_each_half_life(self):
        config = DecayConfig(half_life_seconds=100, fresh_window_seconds=0)
        assert [effective_intensity(5, config, seconds) for seconds in (0, 99, 100, 101, 200, 201)] == [
            5,
            3,
            3,
            2,
            2,
            1,
        ]

    def test_does_not_lose_a_level_to_the_last_bits_of_a_clock(self):
        config = DecayConfig(half_life_seconds=720)
        moment = 1_772_314_200.0
        assert effective_intensity(5, config, moment + 720.0000002 - moment) == 3

    def test_that_is_linear_ends_at_the_baseline(self):
        config = DecayConfig(curve="linear", full_decay_seconds=400, fresh_window_seconds=0)
        assert [effective_intensity(5, config, seconds) for seconds in (0, 100, 101, 400, 9000)] == [
            5,
            4,
            3,
            1,
            1,
        ]

    @pytest.mark.parametrize("full", [None, 0])
    def test_that_is_linear_without_an_end_does_not_fade(self, full):
        config = DecayConfig(curve="linear", full_decay_seconds=full)
        assert effective_intensity(5, config, 1e9) == 5

    def test_of_steps_takes_the_last_one_reached(self):
        config = DecayConfig(
            curve="step",
            fresh_window_seconds=0,
            steps=(DecayStep(after_seconds=60, intensity=4), DecayStep(after_seconds=120, intensity=2)),
        )
        assert [effective_intensity(5, config, seconds) for seconds in (59, 60, 119, 120)] == [5, 4, 4, 2]
        assert effective_intensity(3, config, 60) == 3, "a step never lifts what was declared lower"

    def test_holds_inside_the_fresh_window_and_then_counts_from_the_declaration(self):
        config = DecayConfig(half_life_seconds=60, fresh_window_seconds=60)
        assert effective_intensity(5, config, 59.9) == 5
        assert effective_intensity(5, config, 60) == 3

    @given(intensities, configs(), moments, moments)
    def test_never_rises_and_never_falls_below_the_baseline(self, declared, config, one, other):
        earlier, later = sorted((one, other))
        after = effective_intensity(declared, config, later)
        assert config.baseline <= after <= effective_intensity(declared, config, earlier)

    @given(intensities, configs(), moments, moments)
    def test_never_leads_back_to_an_earlier_state(self, declared, config, one, other):
        earlier, later = sorted((one, other))
        before, after = (lifecycle_state(declared, config, moment) for moment in (earlier, later))
        assert LIFE.index(before) <= LIFE.index(after)

    @given(intensities, configs(), moments)
    def test_says_for_how_long_a_value_holds(self, declared, config, elapsed):
        now, holds = effective_intensity(declared, config, elapsed), next_drop(declared, config, elapsed)
        if holds is None:
            assert effective_intensity(declared, config, elapsed + 1e9) == now or config.curve == "linear"
            return
        assert effective_intensity(declared, config, elapsed + holds * 0.999) == now
        assert effective_intensity(declared, config, (elapsed + holds) * 1.001 + 1e-3) < now


class TestASetting:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"half_life_seconds": 0},
            {"half_life_seconds": float("nan")},
            {"fresh_window_seconds": -1},
            {"stale_threshold": 1.1},
            {"baseline": 0},
            {"full_decay_seconds": -1},
            {"steps": (DecayStep(after_seconds=5, intensity=1), DecayStep(after_seconds=9, intensity=2))},
            {"steps": (DecayStep(after_seconds=9, intensity=3), DecayStep(after_seconds=5, intensity=2))},
        ],
    )
    def test_that_makes_no_sense_is_refused(self, wrong):
        with pytest.raises(ConfigError):
            DecayConfig(**wrong)
