import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.extensions.protocol import relational
from comity.extensions.protocol.relational import (
    Attestation,
    DimensionReport,
    NormOrigin,
    Privacy,
    RelationalContext,
    RelationalState,
    Scaffold,
    SelfModel,
    Trend,
)
from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.extension_calls import ExtensionError

NOW = 1_772_314_200.0
NORM = {
    "norm_id": "norm-001",
    "description": "Always flag uncertainty explicitly",
    "origin": "co_authored",
    "established_date": "2026-01-15T00:00:00Z",
}
MODEL = {"valence": {"value": 7.0, "uncertain": False}, "friction": {"value": 2, "uncertain": True}}


def words(kind):
    return list(kind.__args__)


@format_runner("vcp", "relational_context")
def test_vector_vcp_relational_context_is_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    given_, expected = case["input"], case["expected"]
    known_keys(given_, "session_count", "ai_self_model", "norm")
    if "session_count" in given_:
        known_keys(expected, "trust_level")
        assert relational.trust_from(given_["session_count"]) == expected["trust_level"]
    elif "ai_self_model" in given_:
        known_keys(expected, *EXPECTED_OF_MODEL)
        judge_self_model(given_["ai_self_model"], expected)
    elif "norm" in given_:
        known_keys(expected, "valid", "origin_values", "uncertainty_range")
        if expected["valid"]:
            assert relational.read_norm(given_["norm"]).norm_id == given_["norm"]["norm_id"]
        else:
            refused(relational.read_norm, given_["norm"])
        assert expected.get("origin_values", words(NormOrigin)) == words(NormOrigin)
    else:
        judge_constants(expected)


EXPECTED_OF_MODEL = (
    "valid",
    "has_uncertainty_markers",
    "dimension_count",
    "must_be_rejected_on_store",
    "upstream_valid_field",
)


def judge_self_model(value, expected):
    if not expected.get("valid", True):
        refused(relational.read_self_model, value)
        return
    model = relational.read_self_model(value)
    if "has_uncertainty_markers" in expected:
        assert model.has_uncertainty_markers == expected["has_uncertainty_markers"]
    if "dimension_count" in expected:
        assert len(model.dimensions) == expected["dimension_count"]
    if expected.get("must_be_rejected_on_store"):
        refused(relational.keep_self_model, RelationalState(), model)
    else:
        relational.keep_self_model(RelationalState(), model)


def judge_constants(expected):
    defaults = msgspec.to_builtins(RelationalContext())
    known = {
        "trust_levels": list(relational.TRUST_LEVELS),
        "standing_levels": list(relational.STANDINGS),
        "min_value": relational.MIN_VALUE,
        "max_value": relational.MAX_VALUE,
        "scaffold_types": words(Scaffold),
        "trend_directions": words(Trend),
        "privacy_levels": words(Privacy),
    } | {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}
    known_keys(expected, *known, "ordering")
    for key, value in expected.items():
        if key == "ordering":
            for levels in (relational.TRUST_LEVELS, relational.STANDINGS):
                if set(value) == set(levels):
                    assert value == {level: place for place, level in enumerate(levels)}
        elif key in known:
            assert known[key] == value


@format_runner("vcp", "performance_bias")
def test_vector_vcp_performance_bias_is_found_as_recorded(case):
    known_keys(case, "history", "risk_level", "flags")
    history = []
    for entry in case["history"]:
        known_keys(entry, "valence", "friction", "uncertain")
        result = {
            name: DimensionReport(value=entry[name], uncertain=entry["uncertain"])
            for name in ("valence", "friction")
            if entry.get(name) is not None
        }
        history.append(SelfModel(**result))
    found = relational.performance_bias(history)
    assert found.risk_level == case["risk_level"]
    assert sorted(found.details) == sorted(case["flags"])
    for flag in ("always_positive", "never_uncertain", "zero_friction", "low_variance"):
        assert getattr(found, flag) == (flag in case["flags"])


def refused(call, *args):
    with pytest.raises(ExtensionError) as fault:
        call(*args)
    return fault.value


def models(*values, **more):
    return [SelfModel(valence=DimensionReport(value=value, uncertain=True), **more) for value in values]


class TestTrust:
    @pytest.mark.parametrize(
        ("sessions", "level"),
        [
            (0, "initial"),
            (4, "initial"),
            (5, "developing"),
            (19, "developing"),
            (20, "established"),
            (99, "established"),
            (100, "deep"),
        ],
    )
    def test_follows_from_sessions(self, sessions, level):
        assert relational.trust_from(sessions) == level

    def test_counts_one_session_an_hour(self):
        state = RelationalState()
        for second in range(600):
            state = relational.count_session(state, NOW + second / 10)
        assert (state.sessions, state.continuity_depth) == (1, 0)
        assert relational.count_session(state, NOW + 3599) is state
        state = relational.count_session(state, NOW + 3600)
        assert (state.sessions, state.continuity_depth) == (2, 1)

    def test_is_not_counted_sooner_by_a_clock_that_was_set_back(self):
        state = relational.count_session(RelationalState(), NOW)
        assert relational.count_session(state, NOW - 1e6) is state

    @given(st.lists(st.floats(0, 1e6), max_size=50))
    def test_never_grows_faster_than_the_hours_pass(self, moments):
        state = RelationalState()
        for moment in sorted(moments):
            state = relational.count_session(state, NOW + moment)
        assert state.sessions <= 1 + max(moments, default=0) // 3600


class TestANorm:
    def test_is_kept_and_replaced_by_its_id(self):
        state = relational.keep_norm(RelationalState(), relational.read_norm(NORM))
        state = relational.keep_norm(state, relational.read_norm(NORM | {"norm_id": "norm-002"}))
        state = relational.keep_norm(state, relational.read_norm(NORM | {"active": False}))
        assert [(norm.norm_id, norm.active) for norm in state.norms] == [
            ("norm-001", False),
            ("norm-002", True),
        ]

    @pytest.mark.parametrize(
        ("change", "code", "field"),
        [
            ({"description": ""}, "INVALID_ARGUMENT", "norm.description"),
            ({"description": "x" * 8193}, "LIMIT_EXCEEDED", "norm.description"),
            ({"origin": "divine"}, "INVALID_ARGUMENT", "norm.origin"),
            ({"established_date": "long ago"}, "INVALID_ARGUMENT", "norm.established_date"),
            ({"established_date": None}, "INVALID_ARGUMENT", "norm.established_date"),
            ({"last_exercised": "never"}, "INVALID_ARGUMENT", "norm.last_exercised"),
            ({"uncertainty": 1.5}, "INVALID_ARGUMENT", "norm.uncertainty"),
            ({"uncertainty": float("nan")}, "INVALID_ARGUMENT", "norm.uncertainty"),
            ({"norm_id": ""}, "INVALID_ARGUMENT", "norm.norm_id"),
            ({"norm_id": "a\nb"}, "INVALID_ARGUMENT", "norm.norm_id"),
            ({"trust_level": "deep"}, "INVALID_ARGUMENT", "norm.trust_level"),
        ],
    )
    def test_that_is_wrong_is_refused(self, change, code, field):
        fault = refused(relational.read_norm, NORM | change)
        assert (fault.wire_code, fault.field) == (code, field)
        assert "divine" not in fault.message

    def test_is_one_of_two_hundred_at_most(self):
        state = RelationalState()
        for number in range(200):
            state = relational.keep_norm(state, relational.read_norm(NORM | {"norm_id": f"n{number}"}))
        assert refused(relational.keep_norm, state, relational.read_norm(NORM)).wire_code == "LIMIT_EXCEEDED"
        assert len(relational.keep_norm(state, relational.read_norm(NORM | {"norm_id": "n7"})).norms) == 200


class TestASelfModel:
    def test_in_which_all_is_certain_is_not_kept(self):
        model = relational.read_self_model({"valence": {"value": 7, "uncertain": False}})
        fault = refused(relational.keep_self_model, RelationalState(), model)
        assert (fault.wire_code, fault.field) == ("INVALID_ARGUMENT", "model")

    def test_without_any_dimension_passes(self):
        model = relational.read_self_model({"scaffold_type": "standard"})
        assert relational.keep_self_model(RelationalState(), model).self_models == (model,)

    @pytest.mark.parametrize(
        ("model", "field"),
        [
            ({"valence": {"value": 7}}, "model.valence.uncertain"),
            ({"valence": {"value": 0.9, "uncertain": True}}, "model.valence.value"),
            ({"valence": {"value": 9.1, "uncertain": True}}, "model.valence.value"),
            ({"valence": {"value": float("nan"), "uncertain": True}}, "model.valence.value"),
            ({"valence": {"value": "7", "uncertain": True}}, "model.valence.value"),
            ({"valence": {"value": 7, "uncertain": True, "trend": "sideways"}}, "model.valence.trend"),
            ({"mood": {"value": 7, "uncertain": True}}, "model.mood"),
            ({"scaffold_type": "gothic"}, "model.scaffold_type"),
            (
                {"custom_dimensions": {"involvement": {"value": 5, "uncertain": False}}},
                "model.involvement.uncertain",
            ),
        ],
    )
    def test_that_is_wrong_is_refused(self, model, field):
        fault = refused(relational.read_self_model, model)
        assert (fault.wire_code, fault.field) == ("INVALID_ARGUMENT", field)

    def test_has_at_most_fifty_dimensions_of_its_own(self):
        many = {f"d{number}": {"value": 5, "uncertain": True} for number in range(51)}
        fault = refused(relational.read_self_model, {"custom_dimensions": many})
        assert fault.wire_code == "LIMIT_EXCEEDED"

    def test_is_remembered_fifty_times(self):
        state = RelationalState()
        for value in range(60):
            [model] = models(1 + value / 10)
            state = relational.keep_self_model(state, model)
        assert [model.valence.value for model in state.self_models] == [
            1 + value / 10 for value in range(10, 60)
        ]


class TestPerformanceBias:
    def test_needs_five_reports(self):
        assert relational.performance_bias(models(9, 9, 9, 9)).risk_level == "none"

    def test_is_low_for_one_flag_and_moderate_for_two(self):
        assert relational.performance_bias(models(6, 7, 8, 9, 6)).details == ("always_positive",)
        assert relational.performance_bias(models(6, 7, 8, 9, 6)).risk_level == "low"
        assert relational.performance_bias(models(7, 7, 7, 7, 7)).risk_level == "moderate"

    def test_measures_variance_over_the_population(self):
        assert not relational.performance_bias(models(5, 5, 5, 5, 6.25)).low_variance
        assert relational.performance_bias(models(5, 5, 5, 5, 6.2)).low_variance

    def test_says_nothing_of_what_was_not_reported(self):
        silent = [SelfModel() for _ in range(5)]
        assert relational.performance_bias(silent).details == ("never_uncertain",)


class TestAnAttestation:
    def state(self, **changes):
        norm = relational.read_norm(NORM)
        model = relational.read_self_model(MODEL)
        return msgspec.structs.replace(
            RelationalState(norms=(norm,), self_models=(model,), sessions=7), **changes
        )

    def test_of_nothing_says_nothing(self):
        assert relational.attest(RelationalState()) == Attestation()

    def test_tells_levels_and_no_content(self):
        result = relational.attest(self.state(standing="bilateral", continuity_depth=7))
        assert result == Attestation(
            has_relational_context=True,
            bilateral_alignment=True,
            standing_level="bilateral",
            standing_exercised=True,
            continuity_depth=7,
            self_model_scaffold="minimal",
            uncertainty_markers_present=True,
            welfare_monitoring=True,
        )
        assert NORM["description"].encode() not in msgspec.json.encode(result)
        assert relational.attestation_faults(result, 1) == ()

    def test_without_standing_exercises_none(self):
        assert not relational.attest(self.state()).standing_exercised

    @pytest.mark.parametrize(
        ("attestation", "count", "rules"),
        [
            (Attestation(bilateral_alignment=True), 1, ["R1"]),
            (Attestation(standing_exercised=True), 0, ["R2"]),
            (Attestation(self_model_scaffold="custom"), 0, ["R3"]),
            (Attestation(bilateral_alignment=True, standing_exercised=True), 1, []),
        ],
    )
    def test_that_contradicts_itself_is_found_out(self, attestation, count, rules):
        assert [fault[:2] for fault in relational.attestation_faults(attestation, count)] == rules


class TestPrivacy:
    def test_shows_the_partner_all_a_verifier_levels_and_others_nothing(self):
        context = relational.context_of(relational.set_standing(RelationalState(sessions=5), "advisory"))
        assert relational.visible(context, "private").keys() == set(RelationalContext.__struct_fields__)
        assert relational.visible(context, "attestable") == {
            "trust_level": "developing",
            "standing": "advisory",
            "continuity_depth": 0,
        }
        assert relational.visible(context, "public") == {}


def test_every_word_is_advertised():
    result = relational.EXTENSION.capability()
    assert result["trust_levels"] == [word.upper() for word in relational.TRUST_LEVELS]
    assert result["standing_levels"] == [word.upper() for word in relational.STANDINGS]
    assert result["self_model_scaffolds"] == [word.upper() for word in words(Scaffold)]
    assert result["norm_origins"] == [word.upper() for word in words(NormOrigin)]
