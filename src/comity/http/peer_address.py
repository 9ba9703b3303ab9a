"""The address that a request is counted under.

- IPv6 callers are counted by their network of 64 bits: each has a whole one.
- `http.trusted_proxies` may name their client in X-Forwarded-For or Forwarded. The rightmost address that is not itself a
  trusted proxy counts; what stands left of it was written by the client. Headers of others are ignored.
- What comes through the outside door from a loopback address, by a tunnel for example, is not this machine's own user: it
  gets a name that no list of local addresses knows.
- If a trusted proxy names no client, no valid address, or two different ones, its own address counts. Such a request, and
  one for a loopback address, has the limits of an unknown caller even if the proxy runs on this machine.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

from comity.http.asgi import Scope
from comity.system import is_loopback

PEER: Final = "comity.peer"
"""The key of the address in the ASGI scope, set by the guard."""

_MAX_HOPS: Final = 16
_FOR: Final = re.compile(r'for="?([^"]*)"?', re.IGNORECASE)
_PORT: Final = re.compile(r":[0-9]{1,5}")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def peer_of(scope: Scope) -> str:
    """Return the address that limits are counted by."""
    found: str | None = scope.get(PEER)
    return found if found is not None else counted_as(_connected(scope))


@lru_cache(4096)  # asked for every message
def counted_as(address: str) -> str:
    try:
        ip = _plain(ipaddress.ip_address(address))
    except ValueError:
        return address
    if ip.version == 6 and not ip.is_loopback:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)


def as_outside(address: str) -> str:
    """Return the name of an address that came through the outside door."""
    return f"outside {address}" if is_loopback(address) else address


class Proxies:
    def __init__(self, trusted: Collection[str] = ()) -> None:
        """Addresses and networks."""
        self._trusted = tuple(ipaddress.ip_network(one) for one in trusted)

    def find_peer(self, scope: Scope) -> None:
        """Note in the scope the address that counts, if it is not the one that connected."""
        if not self._trusted:
            return
        connected = _connected(scope)
        if self.trusts(connected):
            client = self._client(scope["headers"])
            scope[PEER] = f"proxy {connected}" if client is None else counted_as(client)

    def _client(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return the address that a trusted proxy names, or None if it names no usable one."""
        named = set()
        for name, read in ((b"x-forwarded-for", str.strip), (b"forwarded", _forwarded_hop)):
            values = [value.decode("latin-1") for key, value in headers if key == name]
            if values:
                hops = ",".join(values).rsplit(",", _MAX_HOPS)
                named.add(self._nearest_untrusted(read(hop) for hop in reversed(hops[-_MAX_HOPS:])))
        return named.pop() if len(named) == 1 else None

    def _nearest_untrusted(self, hops: Iterable[str]) -> str | None:
        for hop in hops:
            address = _address(hop)
            if address is None or (address.is_loopback and not self.trusts(str(address))):
                return None
            if not self.trusts(str(address)):
                return str(address)
        return None

    @lru_cache(4096)  # noqa: B019 - there is one of it in a node
    def trusts(self, address: str) -> bool:
        try:
            ip = _plain(ipaddress.ip_address(address))
        except ValueError:
            return False
        return any(ip.version == network.version and ip in network for network in self._trusted)


def _connected(scope: Scope) -> str:
    return str((scope.get("client") or ("unknown",))[0])


def _plain(ip: IpAddress) -> IpAddress:
    return (ip.ipv4_mapped or ip) if isinstance(ip, ipaddress.IPv6Address) else ip


def _forwarded_hop(element: str) -> str:
    """Return the `for` of one element of Forwarded (RFC 7239); empty if it has none, or two."""
    found = [_FOR.fullmatch(pair.strip()) for pair in element.split(";")]
    named = [match[1] for match in found if match is not None]
    return named[0] if len(named) == 1 else ""


def _address(text: str) -> IpAddress | None:
    """Read an address with or without a port."""
    host = text
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not _PORT.fullmatch(port)):
            return None
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        if not _PORT.fullmatch(f":{port}"):
            return None
    try:
        return _plain(ipaddress.ip_address(host))
    except ValueError:
        return None
