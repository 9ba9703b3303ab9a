import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.extensions.protocol.personal import (
    DECAY_CONFIGS,
    DecayConfig,
    DecayStep,
    decayed_intensity,
    effective_intensity,
    lifecycle_state,
    next_drop,
)
from comity.testing.vectors import format_runner, known_keys
from comity.wire.errors import ConfigError

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
        case,
        "dimension",
        "declared_intensity",
        "elapsed_seconds",
        "effective_intensity",
        "lifecycle_state",
    )
    config = DECAY_CONFIGS[case["dimension"]]
    told = (case["declared_intensity"], config, case["elapsed_seconds"])
    assert effective_intensity(*told) == case["effective_intensity"]
    assert lifecycle_state(*told) == case["lifecycle_state"]


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
