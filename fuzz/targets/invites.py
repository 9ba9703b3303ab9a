"""Invites: any text is read or refused with a sentence, and what is read says the same when it is written again."""

import base64
import zlib

from comity.rooms.protocol.invite import Invite, InviteRelay, read_invite
from comity.wire.errors import ComityError

LONGEST = 4096

_INVITE = Invite(
    room="lab",
    n=1,
    id="1d" * 32,
    addrs=("192.0.2.7:8421", "[2001:db8::1]:8421"),
    pin="f0" * 32,
    relays=(
        InviteRelay(url="wss://a/signal", turn=({"urls": ["turn:a:1"], "username": "u", "credential": "c"},)),
    ),
    password="pw",
    secret="5e" * 32,
    exp=1_794_722_172_217,
)
_BODY = _INVITE.line().removeprefix("comity:2:")

EXAMPLES = [
    _INVITE.line().encode(),
    b"{" + zlib.decompress(base64.urlsafe_b64decode(_BODY + "=" * (-len(_BODY) % 4))),
    b"comity:1:eyJob3N0Ijoid3M6Ly9oIiwicm9vbSI6InIiLCJwYXNzd29yZCI6InAiLCJzZWNyZXQiOiJzIiwiZXhwIjo1fQ",
]


def check(data: bytes) -> None:
    """A text that begins with `{` stands for the line with these members, so that the members are reached too."""
    if data.startswith(b"{"):
        line = "comity:2:" + base64.urlsafe_b64encode(zlib.compress(data[1:])).rstrip(b"=").decode()
    else:
        line = data.decode("utf-8", "surrogateescape")
    try:
        invite = read_invite(line)
    except ComityError:
        return
    if invite.id is not None:
        assert read_invite(invite.line()) == invite
