import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.extensions.protocol import personal
from comity.extensions.protocol.personal import DECAY_CONFIGS, PersonalRules, PersonalState
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.signals import CATEGORIES, Signal, protection_level, score

NOW = 1_772_314_200.0
RULES = PersonalRules(presets={"deep-work": {"cognitive_state": Signal(category="focused", intensity=4)}})

signals = st.fixed_dictionaries(
    {},
    optional={
        dimension: st.builds(Signal, category=st.sampled_from(categories), intensity=st.integers(1, 5))
        for dimension, categories in CATEGORIES.items()
    },
)


def after(told, *, state=None, rules=RULES, now=NOW):
    return personal.declare(state or PersonalState(), personal.read_signals(told), rules, now)


def shown(state, seconds=0.0, rules=RULES):
    return personal.report(state, rules, NOW + seconds)


class TestADeclaration:
    def test_is_shown_with_its_effective_value_and_state(self):
        [told] = shown(after({"emotional_tone": {"category": "tense", "intensity": 5}}), 1800).values()
        assert (told.intensity, told.effective_intensity) == (5, 3)
        assert (told.lifecycle_state, told.source) == ("decaying", "decayed")
        assert told.declared_at == "2026-02-28T21:30:00.000000Z"

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
        told = shown(after({"energy_level": {"category": "wired", "intensity": 4}}, state=state), 1e6)
        assert (told["energy_level"].category, told["energy_level"].effective_intensity) == ("wired", 4)

    @pytest.mark.parametrize(
        ("told", "field"),
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
    def test_that_is_wrong_is_refused_and_changes_nothing(self, told, field):
        state = after({"energy_level": {"category": "rested"}})
        before = msgspec.json.encode(state)
        good = {"cognitive_state": {"category": "foggy"}}
        with pytest.raises(ExtensionError) as refused:
            after(good | told if isinstance(told, dict) else told, state=state)
        assert (refused.value.wire_code, refused.value.field) == ("INVALID_ARGUMENT", field)
        assert msgspec.json.encode(state) == before

    def test_of_the_body_may_be_inferred_with_consent(self):
        told = {"body_signals": {"category": "pain", "source": "inferred", "confidence": 0.4}}
        state = after(told, rules=PersonalRules(infer_body_signals=True))
        assert state.signals["body_signals"].confidence == 0.4


class TestAPin:
    def test_holds_a_signal_as_it_is(self):
        state = personal.pin(
            after({"energy_level": {"category": "depleted", "intensity": 5}}), "energy_level", True
        )
        told = shown(state, 1e6)["energy_level"]
        assert (told.effective_intensity, told.lifecycle_state, told.source) == (5, "active", "declared")
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
        told = personal.report(personal.engage(state, RULES, NOW + 1800), RULES, NOW + 1800)
        assert told["cognitive_state"].lifecycle_state == "set"
        assert told["emotional_tone"].effective_intensity == 3

    def test_leaves_a_pinned_signal_alone(self):
        state = personal.pin(
            after({"cognitive_state": {"category": "foggy"}}), "cognitive_state", pinned=True
        )
        assert personal.engage(state, RULES, NOW + 1800) == state


class TestAPreset:
    def test_overwrites_the_dimensions_it_lists_and_no_other(self):
        state = after({"cognitive_state": {"category": "foggy"}, "energy_level": {"category": "wired"}})
        told = shown(personal.apply_preset(state, "deep-work", RULES, NOW))
        assert (told["cognitive_state"].category, told["cognitive_state"].source) == ("focused", "preset")
        assert told["energy_level"].category == "wired"

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
    def test_never_raises_the_protection_a_person_needs(self, told, one, other):
        state = personal.declare(PersonalState(), told, RULES, NOW)
        earlier, later = (
            score(personal.effective_signals(state, RULES, NOW + seconds)) for seconds in sorted((one, other))
        )
        assert later <= earlier

    @given(signals, st.sampled_from(sorted(CATEGORIES)), st.floats(0, 1e5))
    def test_keeps_more_intensity_from_ever_meaning_less_protection(self, told, dimension, seconds):
        if dimension not in told or told[dimension].intensity == 5:
            return
        more = told | {
            dimension: msgspec.structs.replace(told[dimension], intensity=told[dimension].intensity + 1)
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
            for said in (told, more)
        )
        assert low <= high


def test_every_dimension_of_a_signal_has_a_decay():
    assert DECAY_CONFIGS.keys() == CATEGORIES.keys()
