import math

import pytest

from comity.vcp.protocol.agreement import Version
from comity.wire.errors import ConfigError
from tests.vcp.protocol.negotiation_samples import ALL_FEATURES, NO_FEATURES, policy


class TestTheHelloTimer:
    @pytest.mark.parametrize("seconds", [2.0, 2, 3.3, 5.0])
    def test_may_be_between_two_and_five_seconds(self, seconds):
        assert policy(hello_seconds=seconds).hello_seconds == seconds

    @pytest.mark.parametrize("seconds", [1.9, 1.999999, 0, -3, 5.001, math.inf, math.nan])
    def test_of_another_length_is_refused(self, seconds):
        with pytest.raises(ConfigError, match="hello_seconds must be from 2 to 5"):
            policy(hello_seconds=seconds)

    def test_is_five_seconds_unless_told_otherwise(self):
        assert policy().hello_seconds == 5.0


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("identity", "maybe"),
        ("identity_seconds", 5.0),
        ("identity_seconds", 0),
        ("identity_seconds", math.nan),
        ("idle_seconds", 0),
        ("idle_seconds", math.inf),
        ("message_limit", 65_535),
        ("scan_threshold", "low"),
        ("server_id", ""),
        ("server_id", "x" * 257),
        ("versions", ()),
        ("versions", tuple(Version(3, minor) for minor in range(65))),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(setting, value):
    with pytest.raises(ConfigError, match=setting):
        policy(**{setting: value})


def test_features_that_are_not_boolean_are_refused_at_the_start():
    with pytest.raises(ConfigError, match="audit_chain"):
        policy(core_features={"audit_chain": "yes"})


def test_features_are_completed_to_five():
    assert policy(core_features={"encryption": True}).core_features == NO_FEATURES | {"encryption": True}


@pytest.mark.parametrize(
    ("environment", "features", "lacks"),
    [
        ("production", NO_FEATURES, True),
        ("prod", NO_FEATURES, True),
        ("staging", ALL_FEATURES | {"encryption": False}, True),
        ("production", ALL_FEATURES, False),
        ("development", NO_FEATURES, False),
    ],
)
def test_only_production_without_encryption_serves_nobody(environment, features, lacks):
    assert policy(environment=environment, core_features=features).lacks_encryption is lacks
