"""The one line that connects two people (ruling 62): `comity:1:` and base64url of a small JSON object.

The secret in it is made for one room and one moment of expiry, so that the node's own secret never leaves.
An invite does not show its secrets when it is printed: only `line()` spells them.
"""

import base64
import binascii
import hmac
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from comity.rooms.protocol.loose_values import sanitize_id
from comity.wire import strict_json
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.machine import clock_words

PREFIX: Final = "comity:1:"
_MAX_LENGTH: Final = 8192
_MAX_TEXT_LENGTH: Final = 1024
_MAX_ICE: Final = 16
_HEX: Final = frozenset("0123456789abcdef")


class InviteExpiredError(InvalidError):
    """The invite was good once; a new one is needed."""

    code = "invite_expired"


class Invite(Struct, frozen=True, kw_only=True):
    """`exp` is in milliseconds since 1970. `password` False: the signalling is not encrypted."""

    host: str
    room: str
    password: str | bool
    secret: str
    exp: int
    tls_sha256: str | None = None
    ice: tuple[dict[str, Any], ...] | None = None

    def line(self) -> str:
        members = {name: value for name, value in asdict(self).items() if value is not None}
        return PREFIX + base64.urlsafe_b64encode(strict_json.dumps(members)).rstrip(b"=").decode()

    def check(self, now_ms: float) -> None:
        if now_ms > self.exp:
            raise InviteExpiredError(
                f"the invite has expired: it lasted until {clock_words(self.exp // 1000)} by the clock of its host, and the "
                f"clock of this machine says {clock_words(now_ms // 1000)}; set the wrong one, or ask for a new invite"
            )

    def __repr__(self) -> str:
        return f"Invite(room={self.room!r}, host={self.host!r}, exp={self.exp})"


def invite_secret(node_secret: bytes, room: str, exp: int) -> str:
    """Return the join secret of one invite."""
    return hmac.digest(node_secret, f"{room}\n{exp}".encode(), "sha256").hex()


def is_invite(text: Any) -> bool:
    return isinstance(text, str) and text.strip().startswith(PREFIX)


def read_invite(text: str) -> Invite:
    """Raise MalformedError for a line that was not copied whole, InvalidError for one that cannot be used."""
    line = text.strip()
    if not line.startswith(PREFIX) or len(line) > _MAX_LENGTH:
        raise MalformedError(f"an invite is one line that begins with {PREFIX}; copy all of it")
    body = line.removeprefix(PREFIX)
    try:
        members = strict_json.loads(base64.b64decode(_padded(body), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, MalformedError):
        raise MalformedError("the invite is damaged; copy the whole line again") from None
    if type(members) is not dict:
        raise MalformedError("the invite is damaged; copy the whole line again")
    return Invite(
        host=_host(members),
        room=_room(members),
        password=_password(members),
        secret=_text(members, "secret"),
        exp=_exp(members),
        tls_sha256=_fingerprint(members),
        ice=_ice(members),
    )


def _padded(body: str) -> bytes:
    return (body + "=" * (-len(body) % 4)).encode("utf-8", "surrogatepass")


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT_LENGTH:
        raise InvalidError(f"the invite's {name} must be a text of 1 to {_MAX_TEXT_LENGTH} characters")
    return value


def _host(members: dict[str, Any]) -> str:
    host = _text(members, "host")
    if not host.startswith(("ws://", "wss://")) or any(ord(letter) <= 32 for letter in host):
        raise InvalidError("the invite's host must be a ws:// or wss:// address")
    return host


def _room(members: dict[str, Any]) -> str:
    room = _text(members, "room")
    if sanitize_id(room) != room:
        raise InvalidError("the invite's room must be made of letters, digits and inner underscores")
    return room


def _password(members: dict[str, Any]) -> str | bool:
    return False if members.get("password") is False else _text(members, "password")


def _exp(members: dict[str, Any]) -> int:
    exp = members.get("exp")
    if type(exp) is not int or not 0 < exp < 2**53:
        raise InvalidError("the invite's exp must be a moment in milliseconds")
    return exp


def _fingerprint(members: dict[str, Any]) -> str | None:
    if members.get("tls_sha256") is None:
        return None
    text = _text(members, "tls_sha256").lower().replace(":", "")
    if len(text) != 64 or not _HEX.issuperset(text):
        raise InvalidError("the invite's tls_sha256 must be 64 hexadecimal digits")
    return text


def _ice(members: dict[str, Any]) -> tuple[dict[str, Any], ...] | None:
    servers = members.get("ice")
    if servers is None:
        return None
    if type(servers) is not list or len(servers) > _MAX_ICE or not all(type(one) is dict for one in servers):
        raise InvalidError(f"the invite's ice must be a list of at most {_MAX_ICE} servers")
    return tuple(servers)
