r"""URLs of targets, read once and strictly, so that nothing behind us can read them differently.

`http` and `https` only; no user or password; visible ASCII without `\`; a host that is a name, an IPv4
address of four plain decimals or an IPv6 address in brackets without a scope. Other spellings of an
IPv4 address (one number, hexadecimal, octal, shortened) are refused and not translated. Ports under
1024 are for other services, except 80 and 443. The fragment is not sent.
"""

import re
from typing import Final

from msgspec import Struct

from comity.http.addresses import is_name, literal
from comity.wire.errors import TargetRefusedError

URL_LIMIT: Final = 2048

_PARTS: Final = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]*))?")
_VISIBLE: Final = re.compile(r"[!-\[\]-~]+")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SERVICES_BELOW: Final = 1024


class HttpUrl(Struct, frozen=True):
    """`host` has no brackets; `target` is what stands in the request line."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def read_url(url: str) -> HttpUrl:
    """The URL in its parts; TargetRefusedError for one that we do not call."""
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
    if "@" in authority:
        raise TargetRefusedError("a URL with a user or a password in it is not called; leave them out")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise TargetRefusedError("the URL names no host, or none that can be read")
    host = _host(found[1].lower())
    return HttpUrl(scheme, host, _port(found[2], scheme), target if target.startswith("/") else f"/{target}")


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
