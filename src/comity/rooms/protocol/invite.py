"""The one line that connects two people: `comity:2:` and base64url of a small deflated JSON object.

It says where the host of a room is found and under which pin, and holds a secret that opens the host alone: the host admits who
shows it, as often as the invite says, and hands out the room's own secret then. The secret is made for one invite and one
moment of expiry, so that the node's own secret never leaves. Lines of version 1 are still read.
An invite does not show its secrets when it is printed: only `line()` spells them.
"""

import base64
import binascii
import hmac
import re
import zlib
from typing import Any, Final

from msgspec import Struct

from comity.rooms.protocol.loose_values import sanitize_id
from comity.wire import strict_json
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.machine import clock_words

PREFIX: Final = "comity:2:"
OLD_PREFIX: Final = "comity:1:"
RIGHTS: Final = ("room", "file", "wake")
MAX_LENGTH: Final = 8192
MAX_INFLATED: Final = 16_384
MAX_USES: Final = 256
_MAX_TEXT_LENGTH: Final = 1024
_MAX_SERVERS: Final = 16
_MAX_ADDRESSES: Final = 16
_MAX_RELAYS: Final = 8
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_ADDRESS: Final = re.compile(r"(?:\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9.-]{1,253}):([0-9]{1,5})")
_URL: Final = re.compile(r"wss?://[^\x00-\x20@#]{1,1016}")
_MEMBERS: Final = frozenset(
    ("v", "room", "n", "id", "addrs", "pin", "relays", "password", "secret", "exp", "uses", "rights")
)
_SERVER_MEMBERS: Final = frozenset(("urls", "username", "credential"))


class InviteExpiredError(InvalidError):
    """The invite was good once; a new one is needed."""

    code = "invite_expired"


class InviteRelay(Struct, frozen=True, kw_only=True):
    """A signalling relay, its pin where no authority vouches for it, and the STUN and TURN servers that belong to it."""

    url: str
    pin: str | None = None
    turn: tuple[dict[str, Any], ...] = ()


class Invite(Struct, frozen=True, kw_only=True):
    """`exp` is in milliseconds since 1970. `password` False: the signalling is not encrypted. `id` None: version 1, whose secret
    opens every peer of the room. `addrs` are those of the host's outside door, `host:port`; `pin` is that of its key.
    """

    room: str
    password: str | bool
    secret: str
    exp: int
    relays: tuple[InviteRelay, ...] = ()
    addrs: tuple[str, ...] = ()
    pin: str | None = None
    id: str | None = None
    n: int = 0
    uses: int = 1
    rights: tuple[str, ...] = RIGHTS

    def line(self) -> str:
        members = {
            "v": 2,
            "room": self.room,
            "n": self.n,
            "id": self.id,
            "addrs": list(self.addrs),
            "pin": self.pin,
            "relays": [{"url": one.url, "pin": one.pin, "turn": list(one.turn)} for one in self.relays],
            "password": self.password,
            "secret": self.secret,
            "exp": self.exp,
            "uses": self.uses,
            "rights": list(self.rights),
        }
        deflated = zlib.compress(strict_json.dumps(members), 9)
        return PREFIX + base64.urlsafe_b64encode(deflated).rstrip(b"=").decode()

    def meeting_places(self) -> tuple[InviteRelay, ...]:
        """Return the relays at which the host is found: those that are named, else its own behind its outside door."""
        at_the_door = tuple(
            InviteRelay(url=f"wss://{address}/signal", pin=self.pin) for address in self.addrs
        )
        return self.relays or at_the_door

    def check(self, now_ms: float) -> None:
        if now_ms > self.exp:
            raise InviteExpiredError(
                f"the invite has expired: it lasted until {clock_words(self.exp // 1000)} by the clock of its host, and the "
                f"clock of this machine says {clock_words(now_ms // 1000)}; set the wrong one, or ask for a new invite"
            )

    def __repr__(self) -> str:
        return f"Invite(room={self.room!r}, n={self.n}, exp={self.exp})"


def invite_secret(node_secret: bytes, room: str, n: int, exp: int) -> str:
    """Return the secret of one invite; whoever knows the node's secret can make it again and needs to keep none."""
    return hmac.digest(node_secret, f"2\n{room}\n{n}\n{exp}".encode(), "sha256").hex()


def is_invite(text: Any) -> bool:
    return isinstance(text, str) and text.strip().startswith((PREFIX, OLD_PREFIX))


def read_invite(text: str) -> Invite:
    """Raise MalformedError for a line that was not copied whole, InvalidError for one that cannot be used."""
    line = text.strip()
    if not is_invite(line) or len(line) > MAX_LENGTH:
        raise MalformedError(f"an invite is one line that begins with {PREFIX}; copy all of it")
    is_old = line.startswith(OLD_PREFIX)
    body = line.removeprefix(OLD_PREFIX if is_old else PREFIX)
    try:
        data = base64.b64decode(_padded(body), altchars=b"-_", validate=True)
        members = strict_json.loads(data if is_old else _inflated(data))
    except (ValueError, binascii.Error, MalformedError):
        members = None
    if type(members) is not dict:
        raise MalformedError("the invite is damaged; copy the whole line again")
    return _read_first(members) if is_old else _read_second(members)


def _padded(body: str) -> bytes:
    return (body + "=" * (-len(body) % 4)).encode("utf-8", "surrogatepass")


def _inflated(data: bytes) -> bytes:
    """Never inflate more than an invite can hold."""
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, MAX_INFLATED)
    except zlib.error:
        raise MalformedError("not deflated") from None
    if not stream.eof or stream.unused_data:
        raise MalformedError("cut off, or longer than an invite")
    return inflated


def _read_second(members: dict[str, Any]) -> Invite:
    if members.get("v") != 2 or set(members) != _MEMBERS:
        raise InvalidError(
            "the invite's v or its members are of another release; update Comity on the older machine"
        )
    addrs, pin = _addresses(members), _pin(members)
    relays = tuple(map(_relay, _listed(members, "relays", _MAX_RELAYS)))
    if not addrs and not relays:
        raise InvalidError("the invite's addrs and relays are empty; ask for a new one")
    if addrs and pin is None:
        raise InvalidError("the invite's pin must be there where addrs are")
    rights = _listed(members, "rights", len(RIGHTS))
    if any(one not in RIGHTS for one in rights) or len(set(rights)) < len(rights):
        raise InvalidError(f"the invite's rights must be some of {', '.join(RIGHTS)}")
    return Invite(
        room=_room(members),
        n=_number(members, "n", 2**31),
        id=_hex(members, "id"),
        addrs=addrs,
        pin=pin,
        relays=relays,
        password=_password(members),
        secret=_hex(members, "secret"),
        exp=_exp(members),
        uses=_number(members, "uses", MAX_USES),
        rights=tuple(rights),
    )


def _read_first(members: dict[str, Any]) -> Invite:
    host = _text(members, "host")
    if not host.startswith(("ws://", "wss://")) or any(ord(letter) <= 32 for letter in host):
        raise InvalidError("the invite's host must be a ws:// or wss:// address")
    servers = members.get("ice")
    if servers is not None and (
        type(servers) is not list
        or len(servers) > _MAX_SERVERS
        or not all(type(one) is dict for one in servers)
    ):
        raise InvalidError(f"the invite's ice must be a list of at most {_MAX_SERVERS} servers")
    pin = members.get("tls_sha256")
    if pin is not None:
        pin = _text(members, "tls_sha256").lower().replace(":", "")
        if not _HEX.fullmatch(pin):
            raise InvalidError("the invite's tls_sha256 must be 64 hexadecimal digits")
    return Invite(
        room=_room(members),
        relays=(InviteRelay(url=host, pin=pin, turn=tuple(servers or ())),),
        password=_password(members),
        secret=_text(members, "secret"),
        exp=_exp(members),
    )


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT_LENGTH:
        raise InvalidError(f"the invite's {name} must be a text of 1 to {_MAX_TEXT_LENGTH} characters")
    return value


def _hex(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise InvalidError(f"the invite's {name} must be 64 hexadecimal digits")
    return value


def _number(members: dict[str, Any], name: str, most: int) -> int:
    value = members.get(name)
    if type(value) is not int or not 1 <= value <= most:
        raise InvalidError(f"the invite's {name} must be a whole number from 1 to {most}")
    return value


def _listed(members: dict[str, Any], name: str, most: int) -> list[Any]:
    value = members.get(name)
    if type(value) is not list or len(value) > most:
        raise InvalidError(f"the invite's {name} must be a list of at most {most}")
    return value


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


def _pin(members: dict[str, Any]) -> str | None:
    return None if members.get("pin") is None else _hex(members, "pin")


def _addresses(members: dict[str, Any]) -> tuple[str, ...]:
    addresses = _listed(members, "addrs", _MAX_ADDRESSES)
    for one in addresses:
        found = _ADDRESS.fullmatch(one) if isinstance(one, str) else None
        if found is None or not 0 < int(found[1]) < 65_536:
            raise InvalidError("the invite's addrs must be addresses with a port")
    return tuple(addresses)


def _relay(value: Any) -> InviteRelay:
    if type(value) is not dict or set(value) != {"url", "pin", "turn"}:
        raise InvalidError("the invite's relays must be objects with url, pin and turn")
    url = value["url"]
    if not isinstance(url, str) or not _URL.fullmatch(url):
        raise InvalidError("the invite's relays must have a ws:// or wss:// address as url")
    servers = _listed(value, "turn", _MAX_SERVERS)
    if not all(map(_is_server, servers)):
        raise InvalidError("the invite's relays must have STUN and TURN servers as turn")
    return InviteRelay(url=url, pin=_pin(value), turn=tuple(servers))


def _is_server(value: Any) -> bool:
    if type(value) is not dict or not {"urls"} <= set(value) <= _SERVER_MEMBERS:
        return False
    named = value["urls"] if type(value["urls"]) is list else [value["urls"]]
    return 0 < len(named) <= _MAX_SERVERS and all(
        isinstance(text, str) and 0 < len(text) <= _MAX_TEXT_LENGTH
        for text in (*named, *(value[name] for name in value if name != "urls"))
    )
