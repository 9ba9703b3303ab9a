"""Which addresses may be called: public ones, and others only if the owner allows them.

The tables follow the special-purpose registries of IANA and are written out here, because what the
interpreter's own `is_global` says has changed between releases. In IPv6 only 2000::/3 is handed out for
public use, so whatever lies outside it is refused without being listed.

An IPv6 address that contains an IPv4 address (mapped, compatible, translated, 6to4, Teredo) is always refused. It is only
another way to write the IPv4 address, and a public host can be called by that one.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from msgspec import Struct

from comity.identity.protocol.pins import PIN
from comity.wire.errors import ConfigError, TargetRefusedError

Address = IPv4Address | IPv6Address

LOOPBACK: Final = "a loopback"
PRIVATE: Final = "a private"

_V4: Final = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "an unspecified"),
        ("10.0.0.0/8", PRIVATE),
        ("100.64.0.0/10", PRIVATE),  # shared by the customers of a carrier
        ("127.0.0.0/8", LOOPBACK),
        ("169.254.0.0/16", "a link-local"),
        ("172.16.0.0/12", PRIVATE),
        ("192.0.0.0/24", "a reserved"),
        ("192.0.2.0/24", "a documentation"),
        ("192.88.99.0/24", "a reserved"),
        ("192.168.0.0/16", PRIVATE),
        ("198.18.0.0/15", "a reserved"),
        ("198.51.100.0/24", "a documentation"),
        ("203.0.113.0/24", "a documentation"),
        ("224.0.0.0/4", "a multicast"),
        ("240.0.0.0/4", "a reserved"),
    )
)
_V6: Final = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "an unspecified"),
        ("::1/128", LOOPBACK),
        ("::/96", "an embedded IPv4"),
        ("::ffff:0:0/96", "an embedded IPv4"),
        ("64:ff9b::/96", "an embedded IPv4"),
        ("64:ff9b:1::/48", "an embedded IPv4"),
        ("2001::/32", "an embedded IPv4"),
        ("2001::/23", "a reserved"),
        ("2001:db8::/32", "a documentation"),
        ("2002::/16", "an embedded IPv4"),
        ("3fff::/20", "a documentation"),
        ("fc00::/7", PRIVATE),
        ("fe80::/10", "a link-local"),
        ("fec0::/10", PRIVATE),
        ("ff00::/8", "a multicast"),
    )
)
_V6_PUBLIC: Final = IPv6Network("2000::/3")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NAME_LIMIT: Final = 253


def kind_of(address: Address) -> str | None:
    """Return what is special about an address, with its article; None for a public one."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _V4 if address in network), None)
    plain = IPv6Address(int(address))  # a scope belongs to a machine, not to the address
    kind = next((kind for network, kind in _V6 if plain in network), None)
    return kind or (None if plain in _V6_PUBLIC else "a reserved")


class AllowList:
    """The exceptions that the owner made: networks, addresses, and host names.

    A name lifts the refusal of private and loopback addresses, for that name; never of the others, which
    no host of the owner's has. A network lifts it for whatever lies in it.
    """

    def __init__(
        self, entries: Iterable[str] = (), *, loopback: bool = False, pinned_private: bool = False
    ) -> None:
        """`loopback` and `pinned_private` lift it for all addresses of this machine, and for private ones whose key is known."""
        self._loopback = loopback
        self._pinned_private = pinned_private
        self._networks: list[IPv4Network | IPv6Network] = []
        self._names: set[str] = set()
        for entry in entries:
            self._add(entry)

    def refusal(self, host: str, address: Address, *, pinned: bool = False) -> str | None:
        """Return why `host` at `address` may not be called, or None. `pinned`: its key is known."""
        kind = kind_of(address)
        if pinned and self._pinned_private and kind == PRIVATE:
            return None
        if kind is None or any(address in network for network in self._networks):
            return None
        if kind == LOOPBACK and self._loopback:
            return None
        if kind in {LOOPBACK, PRIVATE} and _plain(host) in self._names:
            return None
        return f"{kind} address"

    def _add(self, entry: str) -> None:
        try:
            self._networks.append(ip_network(entry))
        except ValueError:
            if not is_name(entry):
                raise ConfigError(
                    f"{entry!r} cannot be allowed as a target; name a host, an address "
                    "or a network such as 10.1.0.0/16"
                ) from None
            self._names.add(_plain(entry))


def literal(host: str) -> Address | None:
    """Return the address that `host` spells out, None when it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_name(host: str) -> bool:
    """Return whether a host can have this name."""
    name = _plain(host)
    return len(name) <= _NAME_LIMIT and all(_LABEL.fullmatch(label) for label in name.split("."))


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")


# URLs of targets, read once and strictly, so that nothing behind us can read them differently.


URL_LIMIT: Final = 2048

_PARTS: Final = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]*))?")
_VISIBLE: Final = re.compile(r"[!-\[\]-~]+")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SERVICES_BELOW: Final = 1024


class HttpUrl(Struct, frozen=True):
    """`host` has no brackets; `target` is what stands in the request line. `pin` is the hash of the key that the host must
    show; empty: an authority vouches for its name.
    """

    scheme: str
    host: str
    port: int
    target: str
    pin: str = ""

    @property
    def authority(self) -> str:
        """Return host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def read_url(url: str) -> HttpUrl:
    """Return the URL in its parts. Raise TargetRefusedError for one that is not called."""
    if len(url) > URL_LIMIT:
        raise TargetRefusedError(f"the URL of a target is limited to {URL_LIMIT:,} characters")
    if not _VISIBLE.fullmatch(url):
        raise TargetRefusedError(
            r"a URL is written in visible ASCII without spaces and backslashes; write other characters as %XX "
            "and other names as xn--"
        )
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise TargetRefusedError("only http:// and https:// URLs are called")
    scheme, authority, target = parts[1].lower(), parts[2], parts[3]
    pin, at, rest = authority.partition("@")
    if at and scheme == "https" and PIN.fullmatch(pin):
        authority = rest
    else:
        pin = ""
    if "@" in authority:
        raise TargetRefusedError("a URL with a user or a password in it is not called; leave them out")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise TargetRefusedError("the URL names no host, or none that can be read")
    host = _host(found[1].lower())
    path = target if target.startswith("/") else f"/{target}"
    return HttpUrl(scheme, host, _port(found[2], scheme), path, pin)


def with_pin(url: str, pin: str) -> str:
    """Return an https URL with the pin of the key that its host must show."""
    return url.replace("https://", f"https://{pin}@", 1)


def _host(written: str) -> str:
    if written.startswith("["):
        address = literal(written[1:-1])
        if address is None or address.version != 6:
            raise TargetRefusedError("the URL has brackets around something that is no IPv6 address")
        return str(address)
    if _NUMBER.fullmatch(written.removesuffix(".").rpartition(".")[2]):
        address = literal(written)
        if address is None:
            raise TargetRefusedError(
                "an IPv4 address is written as four decimal numbers without leading zeros, like 192.0.2.1"
            )
        return str(address)
    if not is_name(written):
        raise TargetRefusedError("the URL names a host that cannot exist; check its spelling")
    return written


def _port(written: str | None, scheme: str) -> int:
    if not written:
        return _DEFAULT_PORTS[scheme]
    port = int(written[:6])
    if not 0 < port < 65536:
        raise TargetRefusedError("a port is a number from 1 to 65535")
    if port < _SERVICES_BELOW and port not in _DEFAULT_PORTS.values():
        raise TargetRefusedError(
            f"port {port} is not allowed; use 80, 443 or a port from {_SERVICES_BELOW} up"
        )
    return port
