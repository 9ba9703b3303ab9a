import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.vcp.protocol.agreement import DEFAULT_VERSIONS, V1_0, V3_1, Version, negotiated, offered, parse
from comity.wire.errors import ConfigError, MalformedError

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
