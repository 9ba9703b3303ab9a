"""The one line that opens a relay to a node: `comity-relay:1:` and base64url of a small JSON object.

It names the signalling relay with its pin, the TURN addresses, and a NAME with its secret. From these the node makes passwords
that end by themselves, for itself and for those it invites; the relay keeps nothing of them.
"""

import base64
import binascii
import re
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict

from comity.turn.protocol.access import MAX_NAME, password_of_user, user_of_name
from comity.wire import strict_json
from comity.wire.errors import ConfigError, InvalidError, MalformedError

RELAY_PREFIX: Final = "comity-relay:1:"
_MAX_LENGTH: Final = 4096
_MAX_TURN: Final = 8
_URL: Final = re.compile(r"wss?://[^\s@?#]{1,512}")
_TURN: Final = re.compile(r"turn:[^\s@]{1,512}")
_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_NAME}}}")
_HEX: Final = re.compile(r"[0-9a-f]{64}")


class RelayLine(Struct, frozen=True, kw_only=True):
    """`pin`: the SHA-256 of the relay's public key, where no authority vouches for it."""

    url: str
    name: str
    secret: str
    pin: str | None = None
    turn: tuple[str, ...] = ()

    def line(self) -> str:
        members = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return RELAY_PREFIX + base64.urlsafe_b64encode(strict_json.dumps(members)).rstrip(b"=").decode()

    def address(self, until: float) -> str:
        """Return the address of the relay with a token that is good until that moment."""
        user, password = self.login(until)
        return f"{self.url}?token={quote(relay_token(user, password), safe='')}"

    def ice(self, until: float) -> tuple[dict[str, Any], ...]:
        """Return the STUN and TURN servers with a login that is good until that moment."""
        if not self.turn:
            return ()
        user, password = self.login(until)
        stun = self.turn[0].replace("turn:", "stun:", 1).partition("?")[0]
        return {"urls": [stun]}, {"urls": list(self.turn), "username": user, "credential": password}

    def login(self, until: float) -> tuple[str, str]:
        user = user_of_name(self.name, until)
        return user, password_of_user(self.secret, user)

    def __repr__(self) -> str:
        return f"RelayLine(url={self.url!r}, name={self.name!r})"


def relay_token(user: str, password: str) -> str:
    """Return a TURN login as the token of the signalling relay."""
    return f"{user}:{password}"


def split_relay_token(token: str) -> tuple[str, str]:
    """Return the user and the password of a token; empty where it is none."""
    user, _, password = token.rpartition(":")
    return user, password


def is_relay_line(text: Any) -> bool:
    return isinstance(text, str) and text.strip().startswith(RELAY_PREFIX)


def read_relay_line(text: str) -> RelayLine:
    """Raise MalformedError for a line that was not copied whole, InvalidError for one that cannot be used."""
    line = text.strip()
    damaged = MalformedError(
        f"the relay's line begins with {RELAY_PREFIX} and is damaged; copy the whole line again"
    )
    if not line.startswith(RELAY_PREFIX) or len(line) > _MAX_LENGTH:
        raise damaged
    body = line.removeprefix(RELAY_PREFIX).encode("utf-8", "surrogatepass")
    try:
        members = strict_json.loads(
            base64.b64decode(body + b"=" * (-len(body) % 4), altchars=b"-_", validate=True)
        )
    except (ValueError, binascii.Error, MalformedError):
        raise damaged from None
    if type(members) is not dict:
        raise damaged
    turn = members.get("turn", [])
    pin = members.get("pin")
    if (
        type(turn) is not list
        or len(turn) > _MAX_TURN
        or not all(_matches(_TURN, one) for one in turn)
        or not all(
            _matches(form, members.get(name))
            for name, form in (("url", _URL), ("name", _NAME), ("secret", _HEX))
        )
        or (pin is not None and not _matches(_HEX, pin))
    ):
        raise InvalidError(
            "the relay's line names something that cannot be used; ask its owner for a new one"
        )
    return RelayLine(
        url=members["url"], name=members["name"], secret=members["secret"], pin=pin, turn=tuple(turn)
    )


def check_relay_name(name: str) -> str:
    """Return the name; raise ConfigError if no line can be made for it."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"a name has 1 to {MAX_NAME} letters, digits, dots, - or _")
    return name


def _matches(form: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None
