"""Who may use a TURN server, and where it sends: time-limited passwords, nonces without state, addresses and packets.

A user is `expiry:NAME`; its password is the base64 of HMAC-SHA1 of that under the secret of NAME, as most WebRTC services
make it. Whoever holds the secret of a NAME makes passwords; the relay derives all of these secrets from its own.
"""

import hmac
import ipaddress
from base64 import b64encode
from typing import Final

from comity.turn.protocol.stun import BINDING, Address, is_dtls, is_stun

NONCE_SECONDS: Final = 3600
MAX_NAME: Final = 64
_PURPOSE: Final = "comity-turn-v1\n"
_BROADCAST: Final = ipaddress.ip_address("255.255.255.255")
_PUBLIC_V6: Final = ipaddress.ip_network("2000::/3")
_PRIVATE_V6: Final = ipaddress.ip_network("fc00::/7")
_TUNNELS: Final = tuple(map(ipaddress.ip_network, ("2002::/16", "2001::/32")))
"""Each of these addresses names an IPv4 address inside it."""


def secret_of_name(relay_secret: bytes, name: str) -> str:
    """Return the secret of a NAME, which makes its passwords."""
    return hmac.digest(relay_secret, (_PURPOSE + name).encode(), "sha256").hex()


def user_of_name(name: str, expires: float) -> str:
    return f"{int(expires)}:{name}"


def password_of_user(secret: str, user: str) -> str:
    return b64encode(hmac.digest(secret.encode(), user.encode(), "sha1")).decode()


def name_of_user(user: bytes, now: float) -> str | None:
    """Return the NAME of a user that has not expired; None if there is none."""
    if not user.isascii():
        return None
    expiry, _, name = user.decode().partition(":")
    if not (expiry.isdigit() and len(expiry) < 12 and 0 < len(name) <= MAX_NAME):
        return None
    return name if int(expiry) > now and name.isprintable() else None


def new_nonce(secret: bytes, client: Address, now: float) -> str:
    """Return a nonce for a client at that address and port; nothing is kept of it. A copied request is of no use elsewhere."""
    until = f"{int(now) + NONCE_SECONDS:x}"
    return until + "-" + _nonce_check(secret, client, until)


def knows_nonce(secret: bytes, client: Address, nonce: bytes, now: float) -> bool:
    until, _, check = nonce.decode("latin-1").partition("-")
    if not hmac.compare_digest(_nonce_check(secret, client, until).encode(), check.encode()):
        return False
    return int(until, 16) > now


def _nonce_check(secret: bytes, client: Address, until: str) -> str:
    return hmac.digest(secret, f"{client.host}\n{client.port}\n{until}".encode(), "sha256").hex()[:32]


def names_one_machine(host: str) -> bool:
    """Return whether an address is none of those at which nobody or many listen."""
    address = ipaddress.ip_address(host)
    return not (address.is_unspecified or address.is_multicast or address == _BROADCAST)


def may_be_peer(host: str, *, lan: bool) -> bool:
    """Return whether packets may go to an address of another machine: to public ones, and with `lan` to private ones."""
    address = ipaddress.ip_address(host)
    if address.version == 6:  # what stands outside of these networks leads home, or names an IPv4 address
        public = address in _PUBLIC_V6 and not any(address in network for network in _TUNNELS)
        return (public and address.is_global) or (lan and address in _PRIVATE_V6)
    if address.is_loopback or address.is_link_local or not names_one_machine(host):
        return False
    return address.is_global or (lan and not address.is_reserved)


def may_carry(data: bytes) -> bool:
    """Return whether a packet is one of a WebRTC connection: a STUN binding or a DTLS record."""
    if is_stun(data):
        method = data[1] & 0x0F | (data[1] & 0xE0) >> 1 | (data[0] & 0x3E) << 6
        return method == BINDING
    return is_dtls(data)


def same_place(address: Address) -> str:
    """Return what a client is limited by: its IPv4 address, or its IPv6 network of 64 bits."""
    host = ipaddress.ip_address(address.host)
    if host.version == 4:
        return address.host
    return str(ipaddress.ip_network((int(host) >> 64 << 64, 64)))
