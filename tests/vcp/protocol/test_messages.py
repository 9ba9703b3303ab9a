import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from comity.vcp.protocol.messages import (
    HANDSHAKE_LIMIT,
    Ack,
    HandshakeError,
    Hello,
    VcpError,
    encode,
    is_extension_id,
    is_hello,
    is_meant_as_hello,
    read_ack,
    read_error,
    read_hello,
    to_value,
)
from comity.wire.errors import InvalidError
from tests.vcp.protocol.negotiation_samples import ALL_FEATURES, NO_FEATURES, hello_object
from tests.wire.json_values import values

PERSONAL, TORCH, RELATIONAL = "VCP-X-Personal", "VCP-X-Torch", "VCP-X-Relational"

ids = st.from_regex(r"VCP-X-[A-Za-z][A-Za-z0-9-]{0,121}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
version_texts = st.builds("{}.{}".format, st.integers(0, 999_999_999), st.integers(0, 999_999_999))
hellos = st.builds(
    Hello,
    version=version_texts,
    min_version=version_texts,
    extensions=st.lists(ids | texts, unique=True, max_size=6).map(tuple),
    identity=st.none() | texts,
    client_id=st.just(UNSET) | texts,
)


@st.composite
def acks(draw):
    names = draw(st.lists(ids, unique=True, max_size=6))
    cut = draw(st.integers(0, len(names)))
    described = draw(st.lists(st.sampled_from(names[:cut]), unique=True)) if cut else []
    return Ack(
        version=draw(version_texts),
        supported=tuple(names[:cut]),
        unsupported=tuple(names[cut:]),
        capabilities={name: draw(st.dictionaries(texts, st.booleans())) for name in described},
        core_features=ALL_FEATURES | draw(st.dictionaries(texts, st.booleans(), max_size=2)),
        server_id=draw(st.just(UNSET) | texts),
        session_id=draw(st.just(UNSET) | texts),
    )


errors = st.builds(
    VcpError,
    code=texts,
    message=texts,
    supported_versions=st.just(UNSET) | st.lists(version_texts, min_size=1).map(tuple),
    retry_after=st.none() | st.integers(0, 10**6),
)


class TestAHello:
    @given(hellos)
    def test_is_read_as_it_was_written(self, hello):
        assert read_hello(json.loads(encode(hello))) == hello
        assert json.loads(encode(hello)) == to_value(hello) | {"extensions": list(hello.extensions)}

    def test_needs_a_version_and_nothing_else(self):
        hello = read_hello({"type": "vcp-hello", "version": "3.1"})
        assert hello == Hello(version="3.1", min_version="1.0", extensions=(), identity=None, client_id=UNSET)

    def test_may_have_members_that_nobody_has_defined(self):
        assert read_hello(hello_object(hint={"mode": "safe"}, x=None)) == Hello(version="3.1")

    def test_without_a_lowest_version_starts_at_1_0_also_when_it_says_null(self):
        assert read_hello(hello_object(min_version=None)).min_version == "1.0"

    def test_keeps_the_order_of_its_extensions_and_names_that_are_none(self):
        names = [TORCH, "personal_state", "VCP-X-", PERSONAL]
        assert read_hello(hello_object(*names)).extensions == tuple(names)

    def test_that_names_an_extension_twice_counts_it_once(self):
        assert read_hello(hello_object(TORCH, PERSONAL, TORCH)).extensions == (TORCH, PERSONAL)

    def test_that_names_an_extension_twice_is_refused_in_strict_mode(self):
        assert read_hello(hello_object(TORCH, PERSONAL), strict=True).extensions == (TORCH, PERSONAL)
        for entries in ([TORCH, TORCH], [TORCH, 5], [None]):
            with pytest.raises(HandshakeError, match="extensions must list texts, and each only once"):
                read_hello(hello_object(*entries), strict=True)

    @pytest.mark.parametrize(
        ("members", "code"),
        [
            ({"version": 3.1}, "VERSION_UNSUPPORTED"),
            ({"version": None}, "VERSION_UNSUPPORTED"),
            ({"version": ["3.1"]}, "VERSION_UNSUPPORTED"),
            ({"min_version": 1}, "VERSION_UNSUPPORTED"),
            ({"identity": 5}, "IDENTITY_INVALID"),
            ({"identity": {}}, "IDENTITY_INVALID"),
            ({"identity": "x" * 2049}, "IDENTITY_INVALID"),
            ({"client_id": ""}, "INTERNAL_ERROR"),
            ({"client_id": None}, "INTERNAL_ERROR"),
            ({"client_id": 5}, "INTERNAL_ERROR"),
            ({"client_id": "x" * 257}, "INTERNAL_ERROR"),
            ({"extensions": None}, "INTERNAL_ERROR"),
            ({"extensions": PERSONAL}, "INTERNAL_ERROR"),
            ({"extensions": {PERSONAL: True}}, "INTERNAL_ERROR"),
        ],
    )
    def test_with_a_member_out_of_bounds_is_refused(self, members, code):
        with pytest.raises(HandshakeError) as refusal:
            read_hello(hello_object(**members))
        assert refusal.value.vcp_code == code
        assert next(iter(members)) in refusal.value.message

    def test_may_go_up_to_every_bound(self):
        names = [f"VCP-X-{number:0>122}".replace("-0", "-a", 1) for number in range(256)]
        full = hello_object(*names, identity="i" * 2048, client_id="c" * 256)
        hello = read_hello(full)
        assert len(hello.extensions) == 256
        assert all(map(is_extension_id, hello.extensions))
        assert len(hello.identity) == 2048

    @pytest.mark.parametrize(
        "value", [{}, [], None, "vcp-hello", 5, {"type": "vcp-ack"}, {"type": ["vcp-hello"]}]
    )
    def test_is_an_object_that_says_so(self, value):
        assert not is_hello(value)
        with pytest.raises(HandshakeError):
            read_hello(value)

    @given(values())
    def test_of_any_content_is_read_or_refused(self, value):
        for member in ("version", "min_version", "extensions", "identity", "client_id"):
            with suppress(HandshakeError):
                read_hello(hello_object(**{member: value}))


class TestBytesThatAreNoStrictJson:
    @pytest.mark.parametrize(
        "data",
        [
            b'{"type":"vcp-hello","version":"3.1","version":"2.0"}',
            b'{"type":"x","type":"vcp-hello"}',
            b'{"type":"vcp-hello","a":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
            b'{"type":"vcp-hello","a":' + b"[" * 1_500 + b"]" * 1_500 + b"}",
            b'{"type":"vcp-hello","client_id":"\\ud800"}',
            b' {"client_id":"' + b"\\ud800" * 9_000 + b'", "type" : "vcp-hello"} ',
        ],
    )
    def test_may_still_mean_a_hello(self, data):
        assert len(data) <= HANDSHAKE_LIMIT
        assert is_meant_as_hello(data)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"hello",
            b'{"type":"vcp-hello"',
            b'{"type":"vcp-hello","x":NaN}',
            b'["vcp-hello"]',
            b'{"type":"vcp-hello","x":"\xff"}',
            b"\xef\xbb\xbf" + b'{"type":"vcp-hello"}',
            b"[" * 60_000,
            b'{"type":"hello","a":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
            b'[{"type":"vcp-hello"},' + b"[" * 30_000 + b"]" * 30_000 + b"]",
            b'{"type":"vcp-hello","a":' + b"[" * 30_000,
        ],
    )
    def test_or_they_do_not(self, data):
        assert not is_meant_as_hello(data)

    def test_are_looked_at_in_little_time(self, cpu_seconds):
        deep = b'{"type":"vcp-hello","a":' + b"[" * 32_000 + b"]" * 32_000 + b"}"
        half_pairs = b'{"type":"vcp-hello","a":[' + b'"\\ud800",' * 7_000 + b"1]}"
        short = b'{"type":"vcp-hello","a":[' + b'"\\ud800",' * 440 + b"1]}"
        for data in (deep, half_pairs, short, b"[" * 65_536, b'"type":"vcp-hello"' * 3_600):
            with cpu_seconds(0.03):
                is_meant_as_hello(data)


class TestAnAck:
    @given(acks())
    def test_is_read_as_it_was_written(self, ack):
        read = read_ack(json.loads(encode(ack)), (*ack.supported, *ack.unsupported))
        assert read == ack

    def test_leaves_out_the_names_that_it_does_not_have(self):
        ack = Ack(version="3.1", supported=(), unsupported=(), capabilities={}, core_features=NO_FEATURES)
        assert list(json.loads(encode(ack))) == [
            "type",
            "version",
            "supported",
            "unsupported",
            "capabilities",
            "core_features",
        ]

    def answer(self, **members):
        given = {
            "type": "vcp-ack",
            "version": "3.1",
            "supported": [PERSONAL],
            "unsupported": [TORCH],
            "capabilities": {PERSONAL: {"decay": True}},
            "core_features": ALL_FEATURES,
        } | members
        return {name: member for name, member in given.items() if member is not UNSET}

    def test_without_unsupported_means_the_rest_of_what_was_requested(self):
        for missing in (UNSET, None):
            ack = read_ack(self.answer(unsupported=missing), [TORCH, PERSONAL, RELATIONAL])
            assert ack.unsupported == (TORCH, RELATIONAL)

    def test_without_core_features_means_that_there_are_none(self):
        for missing in (UNSET, None, {}):
            ack = read_ack(self.answer(core_features=missing), [TORCH, PERSONAL])
            assert ack.core_features == NO_FEATURES

    def test_that_names_two_features_has_these_two(self):
        features = {"encryption": True, "injection_scanning": True}
        assert read_ack(self.answer(core_features=features), [TORCH, PERSONAL]).core_features == (
            NO_FEATURES | features
        )

    @pytest.mark.parametrize("result", ["yes", 3, None, ["a"], {"since": "2027"}])
    def test_may_name_features_that_we_do_not_know_in_any_way(self, result):
        features = {"encryption": True, "quantum": result}
        ack = read_ack(self.answer(core_features=features), [TORCH, PERSONAL])
        assert ack.core_features == NO_FEATURES | {"encryption": True}

    def test_of_torch_without_relational_must_not_deny_that_it_is_degraded(self):
        def answer(capability, *supported):
            others = {"supported": list(supported), "unsupported": [], "capabilities": {TORCH: capability}}
            return read_ack(self.answer(**others), supported)

        with pytest.raises(InvalidError, match="not degraded although VCP-X-Relational is not supported"):
            answer({"degraded": False}, TORCH)
        for capability in ({"degraded": True}, {}, {"lineage_depth": 100}):
            assert answer(capability, TORCH).supported == (TORCH,)
        assert answer({"degraded": False}, TORCH, RELATIONAL).supported == (TORCH, RELATIONAL)

    def test_may_have_members_that_we_do_not_know(self):
        ack = read_ack(self.answer(future=1, capabilities={PERSONAL: {"new": [1]}}), [PERSONAL, TORCH])
        assert ack.capabilities == {PERSONAL: {"new": [1]}}

    @pytest.mark.parametrize(
        ("members", "fault"),
        [
            ({"unsupported": [TORCH, PERSONAL]}, "as supported and as unsupported"),
            ({"unsupported": []}, "not the extensions that were requested"),
            ({"unsupported": [TORCH, RELATIONAL]}, "not the extensions that were requested"),
            ({"supported": []}, "not the extensions that were requested"),
            ({"capabilities": {TORCH: {}}}, "does not support"),
            ({"capabilities": {"x" * 9999: {}}}, "does not support"),
            ({"capabilities": {PERSONAL: True}}, "capabilities must be an object"),
            ({"capabilities": UNSET}, "capabilities must be an object"),
            ({"capabilities": []}, "capabilities must be an object"),
            ({"supported": UNSET}, "supported must be a list"),
            ({"supported": [PERSONAL, PERSONAL]}, "supported must be a list"),
            ({"supported": [5]}, "supported must be a list"),
            ({"unsupported": [[TORCH]]}, "unsupported must be a list"),
            ({"unsupported": ["torch"]}, "unsupported must be a list"),
            ({"version": UNSET}, "version"),
            ({"version": 3.1}, "version"),
            ({"version": "03.1"}, "version"),
            ({"core_features": []}, "core_features must be"),
            ({"core_features": {"encryption": "yes"}}, "core_features must be"),
            ({"server_id": ""}, "server_id"),
            ({"session_id": "x" * 129}, "session_id"),
            ({"session_id": 5}, "session_id"),
        ],
    )
    def test_that_breaks_a_rule_is_refused(self, members, fault):
        with pytest.raises(InvalidError, match=fault) as refusal:
            read_ack(self.answer(**members), [PERSONAL, TORCH])
        assert len(refusal.value.message) < 400

    @given(
        values(), st.sampled_from(["version", "supported", "unsupported", "capabilities", "core_features"])
    )
    def test_of_any_content_is_read_or_refused(self, value, member):
        with suppress(InvalidError):
            read_ack(self.answer(**{member: value}), [PERSONAL, TORCH])


class TestAnError:
    @given(errors)
    def test_is_read_as_it_was_written(self, error):
        assert read_error(json.loads(encode(error))) == error

    def test_says_null_where_waiting_does_not_help(self):
        assert json.loads(encode(VcpError(code="IDENTITY_INVALID", message="no"))) == {
            "type": "vcp-error",
            "code": "IDENTITY_INVALID",
            "message": "no",
            "retry_after": None,
        }

    def test_with_a_long_message_keeps_its_code(self):
        result = {"type": "vcp-error", "code": "RATE_LIMITED", "message": "m" * 5000, "retry_after": 7}
        error = read_error(result)
        assert (error.code, error.message, error.retry_after) == ("RATE_LIMITED", "m" * 1024, 7)

    def test_of_an_older_server_has_a_code_and_a_message(self):
        old = {"type": "vcp-error", "code": "IDENTITY_REQUIRED", "message": "m", "supported_versions": None}
        assert read_error(old) == VcpError(code="IDENTITY_REQUIRED", message="m")

    @pytest.mark.parametrize(
        "members",
        [
            {"code": None},
            {"code": ""},
            {"code": 5},
            {"message": None},
            {"message": ""},
            {"supported_versions": "3.1"},
            {"supported_versions": [3.1]},
            {"retry_after": -1},
            {"retry_after": 1.5},
            {"retry_after": True},
            {"retry_after": "5"},
        ],
    )
    def test_with_a_member_out_of_bounds_is_invalid(self, members):
        with pytest.raises(InvalidError, match=next(iter(members))):
            read_error({"type": "vcp-error", "code": "X", "message": "m"} | members)


@pytest.mark.parametrize("name", ["VCP-X-a", "VCP-X-Personal", "VCP-X-A-1-", "VCP-X-" + "z" * 122])
def test_an_extension_id_has_its_prefix_and_a_name(name):
    assert is_extension_id(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "VCP-X-",
        "VCP-X-1",
        "VCP-X--a",
        "vcp-x-a",
        "VCP-X-ä",
        "VCP-X-a_b",
        "VCP-X-a\n",
        "VCP-X-" + "z" * 123,
    ],
)
def test_other_names_are_no_extension_ids(name):
    assert not is_extension_id(name)
