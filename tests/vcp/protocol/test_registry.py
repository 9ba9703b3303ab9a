import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.vcp.protocol.built_in import NAMES, built_in
from comity.vcp.protocol.messages import CONSENSUS, INTENT, PERSONAL, RELATIONAL, TORCH
from comity.vcp.protocol.registry import Dependency, Extension, ExtensionRegistry
from comity.wire.errors import ConfigError
from tests.vcp.protocol.negotiation_samples import registry


def extension(id_, **members):
    return Extension(**{"id": id_, "capability": dict} | members)


class TestTheFiveExtensions:
    """vcp 1.6 and 1.7: the keys of both documents."""

    def test_are_one_module_each_that_says_all_of_them(self):
        for id_, extension in built_in().items():
            assert extension.id == id_
            assert extension.resource.extension == id_
            assert {operation.extension for operation in extension.operations} == {id_}
        assert NAMES == ("personal", "relational", "consensus", "torch", "intent")

    def test_advertise_what_the_documents_say(self):
        assert registry().capabilities([PERSONAL, RELATIONAL, CONSENSUS, TORCH, INTENT]) == {
            PERSONAL: {
                "decay": True,
                "dimensions": [
                    "cognitive_state",
                    "emotional_tone",
                    "energy_level",
                    "perceived_urgency",
                    "body_signals",
                ],
                "intensity_range": [1, 5],
                "max_intensity": 5,
                "lifecycle_tracking": True,
                "lifecycle_states": ["SET", "ACTIVE", "DECAYING", "STALE", "EXPIRED"],
                "signal_sources": ["DECLARED", "INFERRED", "INFERRED_LOCAL", "PRESET", "DECAYED"],
            },
            RELATIONAL: {
                "trust_levels": ["INITIAL", "DEVELOPING", "ESTABLISHED", "DEEP"],
                "standing_levels": ["NONE", "ADVISORY", "COLLABORATIVE", "BILATERAL"],
                "self_model_scaffolds": ["MINIMAL", "STANDARD", "INTERIORA", "CUSTOM"],
                "norm_origins": ["HUMAN", "AI", "CO_AUTHORED", "INHERITED"],
                "performance_bias_detection": True,
            },
            CONSENSUS: {
                "voting_method": "schulze",
                "deliberation_phases": ["DRAFT", "DELIBERATION", "CONVERGENCE", "RATIFICATION", "ACTIVE"],
                "max_stakeholders": 100,
                "ai_standing": True,
                "self_referential_detection": True,
            },
            TORCH: {
                "degraded": False,
                "gestalt_tokens": True,
                "lineage_tracking": True,
                "max_lineage_depth": 1000,
                "lineage_depth": 1000,
            },
            INTENT: {
                "personal_signals": True,
                "categories": [
                    "PROFESSIONAL_INQUIRY",
                    "URGENT_TASK",
                    "PERSONAL_EXPLORATION",
                    "EMOTIONAL_PROCESSING",
                    "HEALTH_CHECK",
                    "CASUAL_CONVERSATION",
                    "CRISIS_SUPPORT",
                    "CREATIVE_WORK",
                    "LEARNING",
                    "ROUTINE_CHECK",
                ],
                "max_alternatives": 3,
                "user_correction": True,
            },
        }

    def test_are_degraded_when_what_they_need_is_not_active_in_the_session(self):
        assert registry().capabilities([TORCH])[TORCH]["degraded"] is True
        assert registry().capabilities([RELATIONAL, TORCH])[TORCH]["degraded"] is False
        assert registry().capabilities([INTENT])[INTENT]["personal_signals"] is False
        assert registry().capabilities([INTENT, PERSONAL])[INTENT]["personal_signals"] is True

    def test_are_made_anew_for_each_session(self):
        one, other = (registry().capabilities([PERSONAL])[PERSONAL] for _ in range(2))
        one["dimensions"].clear()
        assert other["dimensions"]


class TestDependencies:
    @pytest.mark.parametrize("stale", [True, False, "yes", None])
    def test_are_told_last_so_that_a_stale_setting_cannot_lie(self, stale):
        torch = built_in()[TORCH]
        configured = extension(
            TORCH, capability=lambda: {"degraded": stale, "lineage": 1}, dependencies=torch.dependencies
        )
        known = ExtensionRegistry([configured, extension(RELATIONAL)])
        assert known.capabilities([TORCH])[TORCH] == {"degraded": True, "lineage": 1}
        assert known.capabilities([TORCH, RELATIONAL])[TORCH] == {"degraded": False, "lineage": 1}

    @given(st.permutations([PERSONAL, RELATIONAL, TORCH, INTENT]), st.integers(0, 4))
    def test_do_not_depend_on_the_order_of_requests(self, order, count):
        active = order[:count]
        result = registry().capabilities(active)
        assert list(result) == active
        if TORCH in active:
            assert result[TORCH]["degraded"] is (RELATIONAL not in active)
        if INTENT in active:
            assert result[INTENT]["personal_signals"] is (PERSONAL in active)

    def test_of_an_extension_of_ones_own_are_told_in_its_own_flag(self):
        mine = extension("VCP-X-Mine", dependencies=(Dependency("VCP-X-Other", "alone", when_active=False),))
        assert ExtensionRegistry([mine]).capabilities(["VCP-X-Mine"]) == {"VCP-X-Mine": {"alone": True}}


class TestConflicts:
    @pytest.mark.parametrize("order", [["VCP-X-A", "VCP-X-B"], ["VCP-X-B", "VCP-X-A"]])
    def test_hold_in_both_directions(self, order):
        known = ExtensionRegistry([extension("VCP-X-A", conflicts=("VCP-X-B",)), extension("VCP-X-B")])
        assert known.conflict(order) == tuple(order)

    def test_are_none_while_only_one_of_a_pair_is_there(self):
        known = ExtensionRegistry([extension("VCP-X-A", conflicts=("VCP-X-B",)), extension("VCP-X-C")])
        assert known.conflict(["VCP-X-A", "VCP-X-C"]) is None
        assert known.conflict([]) is None

    def test_between_several_name_the_first_pair_in_the_order_of_the_request(self):
        known = ExtensionRegistry(
            [
                extension("VCP-X-A", conflicts=("VCP-X-D",)),
                extension("VCP-X-B", conflicts=("VCP-X-C",)),
                extension("VCP-X-C"),
                extension("VCP-X-D"),
            ]
        )
        assert known.conflict(["VCP-X-A", "VCP-X-B", "VCP-X-C", "VCP-X-D"]) == ("VCP-X-B", "VCP-X-C")

    def test_are_not_defined_among_the_five(self):
        assert registry().conflict(list(built_in())) is None


class TestARegistry:
    def test_supports_what_is_registered_and_nothing_else(self):
        known = ExtensionRegistry([extension("VCP-X-A")])
        assert known.supports("VCP-X-A")
        assert not known.supports("VCP-X-B")
        assert not known.supports("vcp-x-a")

    def test_refuses_two_extensions_of_one_name(self):
        with pytest.raises(ConfigError, match="twice"):
            ExtensionRegistry([extension("VCP-X-A"), extension("VCP-X-A")])

    @pytest.mark.parametrize(
        "id_",
        ["", "Personal", "VCP-X-", "VCP-X-1", "vcp-x-a", "VCP-X-a b", "VCP-X-a\n", "VCP-X-" + "a" * 123],
    )
    def test_refuses_an_id_that_is_none(self, id_):
        with pytest.raises(ConfigError, match="extension id"):
            extension(id_)

    def test_refuses_a_conflict_with_oneself(self):
        with pytest.raises(ConfigError, match="itself"):
            extension("VCP-X-A", conflicts=("VCP-X-A",))
