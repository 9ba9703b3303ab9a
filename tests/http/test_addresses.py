"""Public addresses are called; everything else needs the owner's word."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.http.addresses import AllowList, is_name, kind_of, literal
from comity.wire.errors import ConfigError

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:82a::200e",
    "2400::1",
]

SPECIAL = [
    ("0.0.0.0", "an unspecified"),
    ("0.1.2.3", "an unspecified"),
    ("10.0.0.1", "a private"),
    ("10.255.255.255", "a private"),
    ("100.64.0.1", "a private"),
    ("127.0.0.1", "a loopback"),
    ("127.255.255.254", "a loopback"),
    ("169.254.169.254", "a link-local"),
    ("172.16.0.1", "a private"),
    ("172.31.255.255", "a private"),
    ("192.0.0.8", "a reserved"),
    ("192.0.2.1", "a documentation"),
    ("192.88.99.1", "a reserved"),
    ("192.168.1.1", "a private"),
    ("198.18.0.1", "a reserved"),
    ("198.51.100.7", "a documentation"),
    ("203.0.113.9", "a documentation"),
    ("224.0.0.1", "a multicast"),
    ("239.255.255.255", "a multicast"),
    ("240.0.0.1", "a reserved"),
    ("255.255.255.255", "a reserved"),
    ("::", "an unspecified"),
    ("::1", "a loopback"),
    ("::1%lo", "a loopback"),
    ("::127.0.0.1", "an embedded IPv4"),
    ("::ffff:127.0.0.1", "an embedded IPv4"),
    ("::ffff:8.8.8.8", "an embedded IPv4"),
    ("64:ff9b::7f00:1", "an embedded IPv4"),
    ("64:ff9b:1::1", "an embedded IPv4"),
    ("100::1", "a reserved"),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "an embedded IPv4"),
    ("2001:10::1", "a reserved"),
    ("2001:db8::1", "a documentation"),
    ("2002:7f00:1::", "an embedded IPv4"),
    ("3fff::1", "a documentation"),
    ("4000::1", "a reserved"),
    ("5f00::1", "a reserved"),
    ("fc00::1", "a private"),
    ("fd12:3456:789a::1", "a private"),
    ("fe80::1", "a link-local"),
    ("fe80::1%eth0", "a link-local"),
    ("fec0::1", "a private"),
    ("ff02::1", "a multicast"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_nothing_special(address):
    assert kind_of(ip_address(address)) is None
    assert AllowList().refusal("a.example", ip_address(address)) is None


@pytest.mark.parametrize(("address", "kind"), SPECIAL)
def test_a_special_address_is_refused_by_its_kind(address, kind):
    assert kind_of(ip_address(address)) == kind
    assert AllowList().refusal("a.example", ip_address(address)) == f"{kind} address"


@given(st.ip_addresses())
def test_nothing_that_the_interpreter_knows_to_be_special_passes(address):
    if not address.is_global or address.is_multicast:
        assert kind_of(address) is not None


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1"])
def test_the_loopback_flag_lifts_loopback(address):
    assert AllowList(loopback=True).refusal("localhost", ip_address(address)) is None


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "::", "::ffff:127.0.0.1", "::127.0.0.1", "10.0.0.1", "169.254.169.254", "fe80::1"]
)
def test_the_loopback_flag_lifts_nothing_else(address):
    assert AllowList(loopback=True).refusal("localhost", ip_address(address)) is not None


def test_an_allowed_network_lifts_what_lies_in_it():
    allowed = AllowList(["10.1.0.0/16", "192.168.7.9", "fd00::/8", "169.254.7.0/24"])
    for address in ("10.1.2.3", "192.168.7.9", "fd00::5", "169.254.7.1"):
        assert allowed.refusal("x", ip_address(address)) is None
    for address in ("10.2.0.1", "192.168.7.10", "fc00::1", "169.254.169.254"):
        assert allowed.refusal("x", ip_address(address)) is not None


def test_an_allowed_name_lifts_private_and_loopback_for_that_name():
    allowed = AllowList(["Agent-B.lan"])
    assert allowed.refusal("agent-b.LAN.", ip_address("10.0.0.1")) is None
    assert allowed.refusal("agent-b.lan", ip_address("127.0.0.1")) is None
    assert allowed.refusal("agent-c.lan", ip_address("10.0.0.1")) is not None


@pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", "ff02::1", "::ffff:10.0.0.1", "fe80::1"])
def test_an_allowed_name_lifts_nothing_that_no_host_has(address):
    assert AllowList(["metadata.internal"]).refusal("metadata.internal", ip_address(address)) is not None


@pytest.mark.parametrize("entry", ["", "10.1.2.3/16", "*.corp", "http://a", "a b", "a..b", "[::1]", "a:80"])
def test_an_entry_that_means_nothing_is_refused(entry):
    with pytest.raises(ConfigError, match="cannot be allowed"):
        AllowList([entry])


def test_a_literal_is_told_from_a_name():
    assert literal("127.0.0.1") == ip_address("127.0.0.1")
    assert literal("::1") == ip_address("::1")
    assert literal("localhost") is None
    assert literal("0x7f.1") is None


@pytest.mark.parametrize("name", ["a", "a.example", "a.example.", "xn--bcher-kva.example", "_x.y", "a" * 63])
def test_a_name_can_exist(name):
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "a..b", "-a", "a-", "a b", "ä", "a" * 64, ".".join(["a" * 49] * 6)]
)
def test_a_name_cannot_exist(name):
    assert not is_name(name)
