"""The addresses of this machine by which others may reach it, the most useful first.

Public addresses come first, then private ones; among equals that of the default route. Loopback and link-local addresses are of
no use to another machine.
"""

import contextlib
import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from comity.http.addresses import PRIVATE, Address, kind_of, literal

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MAX_ADDRESSES: Final = 8
_SIOCGIFADDR: Final = 0x8915  # of Linux
_IF_INET6: Final = Path("/proc/net/if_inet6")
_OUTSIDE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def own_addresses() -> list[str]:
    found = dict.fromkeys((*_of_routes(), *_of_interfaces()))
    addresses = [each for text in found if (each := literal(text)) is not None and _is_of_use(each)]
    return [str(each) for each in sorted(addresses, key=_rank)][:MAX_ADDRESSES]


def _is_of_use(address: Address) -> bool:
    return not (
        address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    )


def _rank(address: Address) -> int:
    kind = kind_of(address)
    return 0 if kind is None else 1 if kind == PRIVATE else 2


def _of_routes() -> Iterator[str]:
    """Yield the address that each family uses towards the rest of the world. Nothing is sent."""
    for family, outside in _OUTSIDE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 9))
            yield str(probe.getsockname()[0])


def _of_interfaces() -> Iterator[str]:
    if fcntl is None or not _IF_INET6.parent.is_dir():
        with contextlib.suppress(OSError):
            yield from socket.gethostbyname_ex(socket.gethostname())[2]
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _index, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                yield socket.inet_ntoa(answer[20:24])
    with contextlib.suppress(OSError):
        for line in _IF_INET6.read_text("ascii").splitlines():
            yield str(ipaddress.IPv6Address(int(line.split()[0], 16)))
