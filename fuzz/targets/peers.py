"""What a peer says in a room: nothing is raised, nothing grows, and a room that demands a token lets nothing in.

The input is split at newlines; each piece is one text message, one file frame, one invite and one join token.
"""

import contextlib
from collections.abc import Sequence

from comity.rooms.protocol import hello
from comity.rooms.protocol.channel import FILE_CHANNEL, MESSAGE_LIMIT, RAW_CHANNEL
from comity.rooms.protocol.effects import BytesArrived, ChannelOpened, SendText, SessionOptions, TextArrived
from comity.rooms.protocol.files import (
    ChunkStored,
    FileAnswer,
    FinishIncoming,
    IncomingFinished,
    IncomingOpened,
    OpenIncoming,
    StoreChunk,
)
from comity.rooms.protocol.hello import SessionKeys
from comity.rooms.protocol.invite import read_invite
from comity.rooms.protocol.session import RoomSession
from comity.rooms.protocol.tool_table import Demands
from comity.wire import strict_json
from comity.wire.errors import ComityError
from comity.wire.machine import Effect

LONGEST = 4096

_OPEN = Demands()
_SECURE = Demands(join_token_secret="s", enforce_join_token=True, require_session_mac=True)
_BRIDGE = (
    b'{"pipe":{"__vdo_mcp":"vdo_mcp_bridge_v1","kind":"%s","ts":1,"nonce":"n","room":"r","from_stream_id":"p",'
    b'"payload":%s}}'
)

EXAMPLES = [
    _BRIDGE % (b"sync.hello", b'{"capabilities":{"comity_v1":{"id":"00","sig":"00"}},"join_token":"a.b"}'),
    _BRIDGE % (b"state.patch", b'{"key":"k","value":{"2":1e-7},"actor":"p","clock":1}'),
    _BRIDGE % (b"state.snapshot", b'{"entries":[{"key":"k","clock":2}],"actor_clock":{"p":1}}'),
    _BRIDGE
    % (
        b"file.offer",
        b'{"transfer_id":"t","total_bytes":4,"total_chunks":1,"chunk_bytes":1024,"file_hash":"%s"}'
        % (b"0" * 64),
    ),
    _BRIDGE % (b"file.chunk", b'{"transfer_id":"t","seq":0,"data_base64":"QUJDRA=="}'),
    _BRIDGE % (b"file.complete", b'{"transfer_id":"t"}'),
    _BRIDGE % (b"msg.data", b'{"id":"m","data":null}'),
    b'{"pipe":{"type":"bridge.keepalive","ts":1,"streamID":"p"}}\n{"ping":1}\n{"bye":true}',
    b'{"candidates":[],"pipe":0}\n{"pipe":"\\ud800"}',
    b"comity:1:eyJob3N0Ijoid3M6Ly9oIn0",
]


def check(data: bytes) -> None:
    pieces = data.split(b"\n")
    _tell(pieces, _OPEN)
    session = _tell(pieces, _SECURE)
    assert session.state.values() == {}
    assert not session.files.incoming
    assert not any(event["type"] == "data_received" for event in session.read_events("fuzz", 2000)[0])
    for piece in pieces:
        text = piece.decode("utf-8", "surrogateescape")
        with contextlib.suppress(ComityError):
            read_invite(text)
        with contextlib.suppress(ComityError):
            hello.admit(text, "s", room="r", stream_id="p", now_ms=0)


def _tell(pieces: list[bytes], demands: Demands) -> RoomSession:
    session = RoomSession(
        SessionOptions(room="r", stream_id="me", host="ws://h", demands=demands),
        session_id="s",
        keys=SessionKeys(bytes(range(32))),
        node_key=None,
        wall=lambda: 1.0,
        draw=bytes,
    )
    session.start(0.0)
    session.receive(ChannelOpened("u", "viewer", MESSAGE_LIMIT, ("a", "b"), "p"), 0.0)
    for at, piece in enumerate(pieces):
        now = float(at)
        _answer(session, session.receive(TextArrived("u", piece), now), now)
        for channel in (FILE_CHANNEL, RAW_CHANNEL):
            _answer(session, session.receive(BytesArrived("u", channel, piece), now), now)
    assert len(session.events) <= 2000
    return session


def _answer(session: RoomSession, effects: Sequence[Effect], now: float) -> None:
    """As a disk would that takes everything."""
    for effect in effects:
        if isinstance(effect, SendText):
            assert type(strict_json.loads(effect.data, lone_surrogates=True)) is dict
            assert len(effect.data) <= MESSAGE_LIMIT
        answer: FileAnswer | None = None
        if isinstance(effect, OpenIncoming):
            answer = IncomingOpened(effect.transfer_id)
        elif isinstance(effect, StoreChunk):
            answer = ChunkStored(effect.transfer_id, effect.sequence, effect.digest or bytes(32))
        elif isinstance(effect, FinishIncoming):
            answer = IncomingFinished(effect.transfer_id, "0" * 64)
        if answer is not None:
            _answer(session, session.receive(answer, now), now)
