import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.vcp.protocol.agreement import CORE_FEATURES, claimed, configured, is_production, lost, parse
from comity.wire.errors import ConfigError
from tests.vcp.protocol.negotiation_samples import ALL_FEATURES, NO_FEATURES

flags = st.fixed_dictionaries(dict.fromkeys(CORE_FEATURES, st.booleans()), optional={"extra": st.booleans()})


class TestConfiguredFeatures:
    def test_are_always_all_five(self):
        assert configured({}) == NO_FEATURES
        assert configured({"encryption": True}) == NO_FEATURES | {"encryption": True}
        assert list(configured({"revocation": True, "encryption": True})) == list(CORE_FEATURES)

    def test_may_have_more_flags_beside_them(self):
        assert configured({"quantum": True, "encryption": False}) == NO_FEATURES | {"quantum": True}

    @pytest.mark.parametrize("value", [1, 0, None, "true", "false", [], {}, 1.0])
    @pytest.mark.parametrize("name", ["encryption", "quantum"])
    def test_that_are_not_boolean_are_refused(self, name, value):
        with pytest.raises(ConfigError, match=name):
            configured({name: value})


class TestTheClaim:
    @pytest.mark.parametrize("version", ["1.0", "1.1", "0.9", "1.99"])
    def test_before_2_0_is_that_there_is_none(self, version):
        assert claimed(ALL_FEATURES, parse(version), production=False) == NO_FEATURES

    def test_at_1_0_in_production_is_encryption_alone(self):
        at_1_0 = claimed(ALL_FEATURES, parse("1.0"), production=True)
        assert at_1_0 == NO_FEATURES | {"encryption": True}

    @pytest.mark.parametrize("version", ["2.0", "2.7"])
    @pytest.mark.parametrize("production", [True, False])
    def test_at_2_0_is_what_2_0_knew(self, version, production):
        at_2_0 = claimed(ALL_FEATURES, parse(version), production=production)
        assert at_2_0 == NO_FEATURES | {"encryption": True, "injection_scanning": True}
        assert claimed(NO_FEATURES, parse(version), production=production) == NO_FEATURES

    @given(flags, st.sampled_from(["3.0", "3.1", "4.2"]), st.booleans())
    def test_from_3_0_on_is_the_truth(self, features, version, production):
        assert claimed(features, parse(version), production=production) == features

    @given(flags, st.sampled_from(["1.0", "2.0", "3.0", "3.1"]), st.booleans())
    def test_is_never_more_than_there_is(self, features, version, production):
        told = claimed(features, parse(version), production=production)
        assert told.keys() == features.keys()
        assert not lost(told, features)
        assert told.get("extra") == features.get("extra")


class TestLostFeatures:
    def test_are_those_that_were_true(self):
        assert lost(ALL_FEATURES, ALL_FEATURES | {"encryption": False}) == ["encryption"]
        assert lost(ALL_FEATURES, {}) == list(CORE_FEATURES)
        assert lost(NO_FEATURES, {}) == []
        assert lost(NO_FEATURES, ALL_FEATURES) == []


@pytest.mark.parametrize("name", ["production", "prod", "staging", "PRODUCTION", " Staging "])
def test_production_and_staging_are_recognised(name):
    assert is_production(name)


@pytest.mark.parametrize("name", ["development", "test", "", "pro", "product"])
def test_anything_else_is_not_production(name):
    assert not is_production(name)
