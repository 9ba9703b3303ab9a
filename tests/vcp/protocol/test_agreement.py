"""Versions, core features and sessions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.vcp.protocol.agreement import (
    CORE_FEATURES,
    DEFAULT_VERSIONS,
    V1_0,
    V3_1,
    Identity,
    Session,
    Version,
    claimed,
    configured,
    is_production,
    lost,
    negotiated,
    offered,
    parse,
)
from comity.wire.errors import ConfigError, MalformedError
from tests.vcp.protocol.negotiation_samples import ALICE, ALL_FEATURES, NO_FEATURES, SOMEBODY

versions = st.builds(Version, st.integers(0, 12), st.integers(0, 12))
numbers = st.integers(0, 999_999_999)


class TestAVersion:
    @pytest.mark.parametrize(
        ("text", "version"),
        [
            ("3.1", (3, 1)),
            ("1.0", (1, 0)),
            ("0.0", (0, 0)),
            ("3.10", (3, 10)),
            ("3.1.7", (3, 1)),
            ("3.1.0", (3, 1)),
            ("999999999.999999999", (999_999_999, 999_999_999)),
        ],
    )
    def test_is_two_numbers_and_perhaps_a_patch_that_does_not_count(self, text, version):
        assert parse(text) == version

    @pytest.mark.parametrize(
        "text",
        [
            "", "3", "3.", ".1", "3.1.", "3.1.2.3", "03.1", "3.01", "3.1.01", "00.0", "+3.1", "3.-1", "-3.1",
            " 3.1", "3.1 ", "3 .1", "3.1\n", "v3.1", "3.1a", "3,1", "3.x", "latest", "3.1-rc1", "1e1.0",
            "1000000000.0", "3.1234567890", "\u0663.\u0661", "3.¹", "0x3.1",
        ],
    )  # fmt: skip
    def test_of_another_form_is_malformed(self, text):
        with pytest.raises(MalformedError, match="without leading zeros"):
            parse(text)

    @given(numbers, numbers)
    def test_is_read_as_it_is_written(self, major, minor):
        version = Version(major, minor)
        assert parse(str(version)) == parse(f"{version}.4") == version

    def test_is_compared_by_its_numbers(self):
        assert parse("3.10") > parse("3.9")
        assert parse("10.0") > parse("9.9")


class TestAServersList:
    def test_may_be_unordered_and_repeat_itself(self):
        assert offered(["3.1", "1.0", "3.0", "2.0", "3.1", "1.0.4"]) == DEFAULT_VERSIONS

    @pytest.mark.parametrize("texts", [[], ["3.1", "x"], ["03.1"], [3.1], [None], [["3.1"]]])
    def test_that_cannot_be_used_is_refused(self, texts):
        with pytest.raises(ConfigError):
            offered(texts)

    def test_has_a_limit(self):
        assert len(offered(f"3.{minor}" for minor in range(64))) == 64
        with pytest.raises(ConfigError, match="1 to 64"):
            offered(f"3.{minor}" for minor in range(65))


MATRIX = [
    ("3.1", "1.0", ["1.0", "2.0", "3.0", "3.1"], "3.1"),
    ("3.1", "3.0", ["1.0", "2.0", "3.0", "3.1"], "3.1"),
    ("3.1", "3.0", ["1.0", "2.0", "3.0"], "3.0"),
    ("2.0", "2.0", ["1.0", "2.0", "3.0", "3.1"], "2.0"),
    ("3.5", "3.5", ["1.0", "2.0", "3.0", "3.1"], None),
    ("1.0", "1.0", ["2.0", "3.0", "3.1"], None),
    ("3.10", "3.9", ["3.9", "3.10", "3.11"], "3.10"),
    ("2.9", "1.1", ["1.0", "3.0"], None),
]


class TestTheNegotiatedVersion:
    @pytest.mark.parametrize(("highest", "lowest", "server", "agreed"), MATRIX)
    def test_is_the_highest_that_both_speak(self, highest, lowest, server, agreed):
        found = negotiated(parse(lowest), parse(highest), offered(server))
        assert found == (parse(agreed) if agreed else None)

    @given(versions, versions, st.lists(versions), st.randoms())
    def test_does_not_depend_on_the_order_or_the_repeats_of_the_servers_list(
        self, low, high, server, shuffle
    ):
        mixed = server + server[: len(server) // 2]
        shuffle.shuffle(mixed)
        assert negotiated(low, high, server) == negotiated(low, high, mixed)

    @given(versions, versions, st.lists(versions))
    def test_is_one_of_the_candidates_and_no_candidate_is_higher(self, low, high, server):
        found = negotiated(low, high, server)
        within = [version for version in server if low <= version <= high]
        assert found in within if within else found is None
        assert all(version <= found for version in within)

    def test_at_the_ends_of_the_range_counts(self):
        assert negotiated(V1_0, V3_1, [V1_0]) == V1_0
        assert negotiated(V1_0, V3_1, [V3_1]) == V3_1


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
        result = claimed(features, parse(version), production=production)
        assert result.keys() == features.keys()
        assert not lost(result, features)
        assert result.get("extra") == features.get("extra")


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


def test_an_extension_is_active_or_not_there():
    session = Session(id="s", version="3.1", extensions=("VCP-X-Torch",))
    assert session.active("VCP-X-Torch")
    assert not session.active("VCP-X-Personal")
    assert session.speaks == V3_1


def test_somebody_for_whom_nobody_vouches_owns_nothing():
    assert ALICE.verified
    assert not SOMEBODY.verified
    assert not Identity().verified


def test_sessions_do_not_share_what_they_hold():
    one, other = Session(id="1", version="1.0"), Session(id="2", version="1.0")
    one.capabilities["x"] = {}
    assert other.capabilities == {}
    with pytest.raises(AttributeError):
        one.version = "3.1"
