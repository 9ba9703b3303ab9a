"""The server's algorithm and its settings."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from comity.vcp.protocol.agreement import V1_0, V3_1, Version, offered
from comity.vcp.protocol.messages import (
    CONSENSUS,
    INTENT,
    PERSONAL,
    RELATIONAL,
    TORCH,
    Ack,
    HandshakeError,
    VcpError,
    encode,
    is_extension_id,
)
from comity.vcp.protocol.negotiation import implicit_session, refusal, screen, session_from
from comity.vcp.protocol.registry import Extension, ExtensionRegistry
from comity.wire.errors import ConfigError, StoreError
from tests.vcp.protocol.negotiation_samples import (
    ALICE,
    ALL_FEATURES,
    EVERY_EXTENSION,
    NO_FEATURES,
    SOMEBODY,
    TOKEN,
    hello,
    negotiate,
    policy,
    registry,
)
from tests.vcp.protocol.test_agreement import MATRIX

names = st.sampled_from([*EVERY_EXTENSION, "VCP-X-New", "VCP-X-z9", "personal", "VCP-X-", "VCP-X-é"])
hellos = st.builds(
    lambda extensions, version, lowest: hello(*extensions, version=version, min_version=lowest),
    st.lists(names, max_size=8),
    st.sampled_from(["1.0", "2.0", "3.0", "3.1", "3.1.4", "3.9", "0.1", "nonsense"]),
    st.sampled_from(["1.0", "2.0", "3.1", "3.2"]),
)
registries = st.lists(st.sampled_from(EVERY_EXTENSION), unique=True, min_size=1).map(
    lambda ids: registry(*ids)
)


class TestTheVersion:
    @pytest.mark.parametrize(("highest", "lowest", "server", "agreed"), MATRIX)
    def test_is_agreed_on_by_the_matrix(self, highest, lowest, server, agreed):
        answer = negotiate(hello(version=highest, min_version=lowest), policy(versions=offered(server)))
        if agreed is None:
            assert answer.code == "VERSION_UNSUPPORTED"
            assert answer.supported_versions == tuple(server)
            assert answer.retry_after is None
        else:
            assert answer.version == agreed

    @pytest.mark.parametrize(
        ("version", "lowest"),
        [
            ("3.01", "1.0"),
            ("3", "1.0"),
            ("", "1.0"),
            (" 3.1", "1.0"),
            ("3.1", "01.0"),
            ("3.1", "x"),
            ("3.0", "3.1"),
        ],
    )
    def test_that_is_malformed_or_upside_down_is_unsupported(self, version, lowest):
        unordered = (Version(3, 1), Version(1, 0), Version(3, 1))
        answer = negotiate(hello(version=version, min_version=lowest), policy(versions=unordered))
        assert answer.code == "VERSION_UNSUPPORTED"
        assert answer.supported_versions == ("1.0", "3.1")

    def test_that_is_upside_down_is_told_so(self):
        answer = negotiate(hello(version="3.0", min_version="3.1"), policy())
        assert "min_version 3.1 is above version 3.0" in answer.message

    def test_with_a_patch_is_agreed_on_without_it(self):
        assert negotiate(hello(version="3.1.7", min_version="3.1.9"), policy()).version == "3.1"


class TestProduction:
    @pytest.mark.parametrize("environment", ["production", "prod", "staging"])
    def test_without_encryption_serves_nobody(self, environment):
        settings = policy(environment=environment, core_features=ALL_FEATURES | {"encryption": False})
        for version in ("1.0", "2.0", "3.0", "3.1"):
            assert negotiate(hello(version=version), settings).code == "INTERNAL_ERROR"

    def test_comes_after_the_version_and_before_the_identity(self):
        settings = policy(environment="production", core_features=NO_FEATURES, identity="required")
        assert negotiate(hello(version="9.9", min_version="9.9"), settings).code == "VERSION_UNSUPPORTED"
        assert negotiate(hello(PERSONAL), settings).code == "INTERNAL_ERROR"
        assert negotiate(hello(identity="?"), settings).code == "INTERNAL_ERROR"

    def test_elsewhere_it_is_only_told(self):
        answer = negotiate(hello(), policy(core_features=NO_FEATURES))
        assert answer.core_features == NO_FEATURES


class TestTheIdentity:
    @pytest.mark.parametrize("required", ["required", "verified"])
    @pytest.mark.parametrize("extension", [PERSONAL, RELATIONAL, TORCH])
    def test_is_required_for_extensions_with_a_state(self, required, extension):
        answer = negotiate(hello(CONSENSUS, extension), policy(identity=required))
        assert (answer.code, answer.retry_after) == ("IDENTITY_REQUIRED", None)
        assert extension in answer.message

    def test_is_asked_for_in_the_name_of_the_first_such_extension(self):
        answer = negotiate(hello(INTENT, TORCH, PERSONAL), policy(identity="required"))
        assert TORCH in answer.message
        assert PERSONAL not in answer.message

    def test_is_required_for_what_is_requested_whether_it_is_supported_or_not(self):
        settings = policy(identity="required", registry=registry(CONSENSUS))
        assert negotiate(hello(PERSONAL), settings).code == "IDENTITY_REQUIRED"

    @pytest.mark.parametrize("required", ["required", "verified"])
    def test_is_not_required_without_them(self, required):
        answer = negotiate(hello(CONSENSUS, INTENT), policy(identity=required))
        assert answer.supported == (CONSENSUS, INTENT)

    def test_is_not_required_unless_the_server_says_so(self):
        assert negotiate(hello(PERSONAL), policy()).supported == (PERSONAL,)

    @pytest.mark.parametrize("asked", ["optional", "required", "verified"])
    def test_that_is_not_accepted_is_invalid_before_extensions_are_looked_at(self, asked):
        one = Extension(id="VCP-X-A", capability=dict, conflicts=("VCP-X-B",))
        other = Extension(id="VCP-X-B", capability=dict)
        settings = policy(identity=asked, registry=ExtensionRegistry([one, other]))
        answer = negotiate(hello("VCP-X-A", "VCP-X-B", identity=TOKEN), settings, None)
        assert answer.code == "IDENTITY_INVALID"
        assert TOKEN not in answer.message

    def test_for_which_nobody_vouches_is_enough_unless_it_must_be_verified(self):
        said = hello(PERSONAL, identity=TOKEN)
        assert isinstance(negotiate(said, policy(identity="optional"), SOMEBODY), Ack)
        assert isinstance(negotiate(said, policy(identity="required"), SOMEBODY), Ack)
        assert negotiate(said, policy(identity="verified"), SOMEBODY).code == "IDENTITY_INVALID"
        assert isinstance(negotiate(said, policy(identity="verified"), ALICE), Ack)


class TestExtensions:
    def test_are_split_in_the_clients_order(self):
        answer = negotiate(
            hello(RELATIONAL, PERSONAL, "VCP-X-New", CONSENSUS, "no id"),
            policy(registry=registry(PERSONAL, CONSENSUS)),
        )
        assert answer.supported == (PERSONAL, CONSENSUS)
        assert answer.unsupported == (RELATIONAL, "VCP-X-New")
        assert list(answer.capabilities) == [PERSONAL, CONSENSUS]

    @pytest.mark.parametrize("version", ["1.0", "2.0", "3.0"])
    def test_do_not_exist_before_3_1(self, version):
        answer = negotiate(hello(PERSONAL, "x", CONSENSUS, version=version), policy())
        assert answer.supported == ()
        assert answer.unsupported == (PERSONAL, CONSENSUS)
        assert answer.capabilities == {}

    def test_are_never_active_unless_requested(self):
        assert negotiate(hello(), policy()).supported == ()

    def test_depend_on_what_is_active_in_this_session_alone(self):
        everything = policy()
        assert negotiate(hello(TORCH), everything).capabilities[TORCH]["degraded"] is True
        assert negotiate(hello(TORCH, RELATIONAL), everything).capabilities[TORCH]["degraded"] is False
        without = policy(registry=registry(TORCH, INTENT))
        answer = negotiate(hello(TORCH, RELATIONAL, INTENT, PERSONAL), without)
        assert answer.capabilities[TORCH]["degraded"] is True
        assert answer.capabilities[INTENT]["personal_signals"] is False

    def exclusive(self):
        one = Extension(id="VCP-X-Alpha", capability=dict, conflicts=("VCP-X-Beta",))
        return policy(registry=ExtensionRegistry([one, Extension(id="VCP-X-Beta", capability=dict)]))

    def test_that_exclude_each_other_are_named(self):
        answer = negotiate(hello("VCP-X-Beta", "VCP-X-Alpha"), self.exclusive())
        assert answer.code == "EXTENSION_CONFLICT"
        assert "VCP-X-Alpha" in answer.message
        assert "VCP-X-Beta" in answer.message

    def test_that_exclude_each_other_do_not_while_none_is_active(self):
        answer = negotiate(hello("VCP-X-Beta", "VCP-X-Alpha", version="3.0"), self.exclusive())
        assert answer.unsupported == ("VCP-X-Beta", "VCP-X-Alpha")
        assert negotiate(hello("VCP-X-Beta"), self.exclusive()).supported == ("VCP-X-Beta",)

    def test_that_cannot_be_described_now_are_an_internal_error(self):
        def fails():
            raise StoreError("secret detail")

        settings = policy(registry=ExtensionRegistry([Extension(id="VCP-X-A", capability=fails)]))
        answer = negotiate(hello("VCP-X-A"), settings)
        assert answer.code == "INTERNAL_ERROR"
        assert "secret" not in answer.message


class TestCoreFeatures:
    @pytest.mark.parametrize(
        ("version", "result"),
        [
            ("1.0", []),
            ("2.0", ["encryption", "injection_scanning"]),
            ("3.0", list(ALL_FEATURES)),
            ("3.1", list(ALL_FEATURES)),
        ],
    )
    def test_are_told_as_far_as_the_version_knows_them(self, version, result):
        answer = negotiate(hello(version=version), policy())
        assert answer.core_features == NO_FEATURES | dict.fromkeys(result, True)

    def test_at_1_0_in_production_name_encryption(self):
        answer = negotiate(hello(version="1.0"), policy(environment="production"))
        assert answer.core_features == NO_FEATURES | {"encryption": True}

    def test_may_be_more_than_five(self):
        answer = negotiate(hello(), policy(core_features=ALL_FEATURES | {"attestation": True}))
        assert answer.core_features == ALL_FEATURES | {"attestation": True}

    def test_that_are_not_boolean_never_reach_a_client(self):
        with pytest.raises(ConfigError):
            policy(core_features=ALL_FEATURES | {"attestation": 1})


class TestEveryAnswer:
    @given(hellos, registries)
    def test_divides_the_valid_requested_ids_in_two(self, said, known):
        answer = negotiate(said, policy(registry=known))
        if isinstance(answer, VcpError):
            assert answer.code == "VERSION_UNSUPPORTED"
            return
        supported, unsupported = set(answer.supported), set(answer.unsupported)
        assert not supported & unsupported
        assert supported | unsupported == set(filter(is_extension_id, said.extensions))
        assert answer.capabilities.keys() <= supported
        assert all(known.supports(name) for name in supported)
        in_order = [name for name in said.extensions if is_extension_id(name)]
        assert [name for name in in_order if name in supported] == [*answer.supported]
        assert [name for name in in_order if name in unsupported] == [*answer.unsupported]
        assert said.min_version <= answer.version <= said.version

    @given(hellos, registries, st.sampled_from(["optional", "required"]))
    def test_is_the_same_every_time(self, said, known, identity):
        settings = policy(registry=known, identity=identity)
        first, second = (negotiate(said, settings, session_id="ses_1") for _ in range(2))
        assert encode(first) == encode(second)

    @given(hellos, st.permutations([*offered(["1.0", "2.0", "3.0", "3.1"])]), st.integers(0, 4))
    def test_does_not_depend_on_the_order_of_the_servers_versions(self, said, order, repeats):
        ordered = negotiate(said, policy())
        assert negotiate(said, policy(versions=(*order, *order[:repeats]))) == ordered

    def test_carries_the_names_of_server_and_session_where_there_are_any(self):
        named = negotiate(hello(), policy(server_id="comity/1"), session_id="ses_9")
        assert (named.server_id, named.session_id) == ("comity/1", "ses_9")
        nameless = negotiate(hello(), policy())
        assert (nameless.server_id, nameless.session_id) == (UNSET, UNSET)


class TestTheSession:
    def test_holds_what_was_agreed_on(self):
        ack = negotiate(hello(PERSONAL, "VCP-X-New", identity=TOKEN), policy(), ALICE)
        session = session_from(ack, "ses_1", ALICE)
        assert (session.id, session.version, session.mode) == ("ses_1", "3.1", "negotiated")
        assert session.extensions == (PERSONAL,)
        assert session.capabilities == ack.capabilities
        assert session.core_features == ALL_FEATURES
        assert session.identity == ALICE

    def test_without_a_hello_is_1_0_with_nothing(self):
        session = implicit_session(policy(versions=(V3_1,)), "ses_1")
        assert (session.version, session.mode, session.extensions) == ("1.0", "implicit", ())
        assert session.core_features == NO_FEATURES
        assert implicit_session(policy(environment="prod"), "s").core_features["encryption"]


def test_screening_is_the_part_before_the_identity():
    assert screen(hello(identity="whatever"), policy(identity="verified")) == V3_1
    assert screen(hello(version="1.0"), policy()) == V1_0


def test_a_hello_that_cannot_be_read_is_told_which_versions_there_are_if_that_is_the_matter():
    result = refusal(HandshakeError("VERSION_UNSUPPORTED", "version must be a text"), policy())
    assert result.supported_versions == ("1.0", "2.0", "3.0", "3.1")
    other = refusal(HandshakeError("IDENTITY_INVALID", "identity must be a text"), policy())
    assert (other.code, other.message, other.supported_versions) == (
        "IDENTITY_INVALID",
        "identity must be a text",
        UNSET,
    )


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
