"""Legacy sessions over HTTP: what `initialize` agreed on, kept in the store so that any process can go on.

- An id has 192 random bits. It belongs to the caller that opened the session, and proves nothing by itself.
- A session ends when its client ends it, when it was idle too long, or after a day. It is not idle while a call of its
  client runs or a stream is read. If it is idle here but not expired in the store, another process uses it: then this
  process only forgets it.
- At the limit, a new session replaces the oldest idle session of the same caller, never one of another caller. The user of
  this node is an exception and always gets a session. All visitors together have three quarters of the sessions, and one
  visitor has at most an eighth.
- Running calls, open questions and streams belong to this process. A session that continues in another process starts
  without them. Streams are named after the process, so a client that comes back learns what it missed: a call that ended
  with its process is gone, and a listener gets the message that everything may have changed.
- A stored session says who a client is, so it is encrypted. Without a key, a session exists only in this process.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from comity.mcp.calls import Questions
from comity.mcp.protocol.catalog import ListName
from comity.mcp.protocol.context import Handshake
from comity.mcp.protocol.methods import RunningRequest
from comity.mcp.protocol.results import Json, StreamGoneError
from comity.mcp.protocol.session import McpSession, Remembered, notification
from comity.mcp.streams import Changes, EventStream
from comity.requests.record import Act, Recorder
from comity.store.audit_chain import privacy_hash
from comity.store.interface import Delete, Put, Store
from comity.store.vault import Vault
from comity.wire.errors import KeyRefusedError, NotFoundError, OverloadedError
from comity.wire.jsonrpc import Id
from comity.wire.machine import Clock

log = logging.getLogger("comity.mcp")

SPACE: Final = "mcp:session"
MAX_SESSIONS: Final = 10_000
LOCAL: Final = "local"
"""The owner of the sessions of this node's own user."""
MAX_STREAMS: Final = 64
MAX_OPEN_STREAMS: Final = 1024
MAX_AGE: Final = 86_400.0
GENERAL: Final = "0"
"""The stream of messages that belong to no request."""


_LIFE_DIGITS: Final = 9
_LISTS: Final = get_args(ListName)


class StoredSession(Struct, frozen=True, kw_only=True):
    session: Remembered
    began: float


class HttpSession:
    def __init__(
        self, id_: str, session: McpSession, began: float, changes: Changes, *, recalled: bool = False
    ) -> None:
        self.id = id_
        self.session = session
        self.began = began
        self.last_seen = 0.0
        self.written_at = 0.0
        self.questions = Questions(f"comity-{id_[:8]}")
        self._recalled = recalled
        self._life = str(10 ** (_LIFE_DIGITS - 1) + secrets.randbelow(9 * 10 ** (_LIFE_DIGITS - 1)))
        self.general = EventStream(self._life + GENERAL)
        self.running: dict[Id, tuple[RunningRequest, asyncio.Task[Any]]] = {}
        self._streams: dict[str, EventStream] = {}
        self._numbers = 0
        self._subscription = changes.subscribe(self._wants, self._notify)
        self._subscription.__enter__()

    @property
    def busy(self) -> bool:
        streams = (self.general, *self._streams.values())
        return bool(self.running) or any(stream.followed for stream in streams)

    def new_stream(self) -> EventStream:
        """Open a stream for one request. Remove old ones that have ended."""
        if len(self._streams) >= MAX_STREAMS:
            over = [name for name, one in self._streams.items() if one.ended]
            for name in over[: len(self._streams) + 1 - MAX_STREAMS]:
                del self._streams[name]
        if len(self._streams) >= MAX_OPEN_STREAMS:
            raise OverloadedError(f"more than {MAX_OPEN_STREAMS} calls in one session; wait for answers")
        self._numbers += 1
        name = f"{self._life}{self._numbers}"
        stream = self._streams[name] = EventStream(name)
        return stream

    def forget_stream(self, stream: EventStream) -> None:
        """Remove a stream that was never written as one."""
        self._streams.pop(stream.name, None)

    def resume(self, name: str, number: int) -> tuple[EventStream, int]:
        """Return the stream of an event, and the place in it from where to go on."""
        found = self.general if name == self.general.name else self._streams.get(name)
        if found is not None:
            return found, number
        if name.startswith(self._life):
            raise StreamGoneError(
                "the messages of this stream are no longer stored; the session goes on, repeat the call"
            )
        if not self._recalled:
            raise NotFoundError("there is no such stream in this session; leave Last-Event-ID out")
        if (name[_LIFE_DIGITS:] or name) != GENERAL:
            raise StreamGoneError(
                "the node was restarted since, and the call of this stream ended with it; the session goes on, "
                "repeat the call"
            )
        self._notify_everything_changed()
        return self.general, 0

    def _notify_everything_changed(self) -> None:
        """Report every change to a listener of an earlier process, whose missed messages are not stored."""
        for name in _LISTS:
            self._notify(f"notifications/{name}/list_changed", {})
        for uri in self.session.subscribed:
            self._notify("notifications/resources/updated", {"uri": uri})

    def cancel(self, request_id: Any) -> None:
        if not isinstance(request_id, str | int | float) or isinstance(request_id, bool):
            return
        running = self.running.pop(request_id, None)
        if running is not None:
            asyncio.get_running_loop().call_soon(running[1].cancel)  # after it has begun, to clean up

    def end(self) -> None:
        self._subscription.__exit__(None, None, None)
        self.questions.abandon()
        for _, task in self.running.values():
            task.cancel()
        for stream in (self.general, *self._streams.values()):
            stream.end()

    def _wants(self, kind: str, name: str) -> bool:
        return kind == "list" or (kind == "resource" and name in self.session.subscribed)

    def _notify(self, method: str, params: Json) -> None:
        self.general.add(notification(method, params or None))


class Sessions:
    def __init__(
        self,
        store: Store,
        record: Recorder,
        clock: Clock,
        changes: Changes,
        *,
        vault: Callable[[], Vault],
        idle: float,
        most: int = MAX_SESSIONS,
        ended: Callable[[HttpSession], None] = lambda _session: None,
        handshake: Handshake | None = None,
    ) -> None:
        """`ended` is called with each session that is over. `handshake` reads what it has attached to stored sessions."""
        self._store = store
        self._record = record
        self._clock = clock
        self._changes = changes
        self._vault = vault
        self._idle = idle
        self._most = most
        self._ended = ended
        self._handshake = handshake
        self._live: dict[str, HttpSession] = {}
        self._owned: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._live)

    async def begin(self, session: McpSession) -> HttpSession:
        """Store a new session and return it. If it cannot begin, end what was agreed on for it."""
        owner = session.client.owner
        now = self._clock.now()
        held = HttpSession(secrets.token_urlsafe(24), session, now, self._changes)
        held.last_seen = now
        try:
            while self._is_full(owner):
                await self._make_room(owner)
            self._add(held)
            await self._record.commit(self._written(held), _act("MCP_SESSION_BEGUN", held))
        except BaseException:
            if not self._forget(held):
                self._finish(held)
            raise
        return held

    async def get(self, id_: str, owner: str) -> HttpSession:
        """Return the session. Raise NotFoundError, also for a session of another owner."""
        now = self._clock.now()
        held = self._live.get(id_)
        if held is not None and self._is_over(held, now):
            await self._run_out(held)
            held = None
        if held is None:
            held = await self._recall(id_)
        if held is None or held.session.client.owner != owner:
            raise NotFoundError("there is no such session, or it has ended; send initialize again")
        held.last_seen = now
        if id_ in self._live:
            self._live[id_] = self._live.pop(id_)  # the longest unused come first
        if now - held.written_at > self._idle / 4:
            await self.keep(held)
        return held

    async def keep(self, held: HttpSession) -> None:
        """Store the session as it is now."""
        await self._store.commit(*self._written(held))

    def _written(self, held: HttpSession) -> list[Put]:
        held.written_at = self._clock.now()
        kept = StoredSession(session=held.session.remembered(), began=held.began)
        until = min(held.written_at + self._idle, held.began + MAX_AGE)
        try:
            value = self._vault().seal(_encode(kept))
        except KeyRefusedError:
            return []
        return [Put(space=SPACE, key=held.id, value=value, expires_at=until)]

    async def end(self, id_: str, owner: str) -> HttpSession:
        held = await self.get(id_, owner)
        await self._drop(held)
        return held

    async def expire(self) -> None:
        """End sessions that were idle for too long; keep those with a reader."""
        now = self._clock.now()
        for one in tuple(self._live.values()):
            if self._is_over(one, now):
                await self._run_out(one)
            elif one.busy:
                one.last_seen = now
                if now - one.written_at > self._idle / 4:
                    await self.keep(one)

    def close(self) -> None:
        """End all sessions of this process; they stay in the store."""
        for held in self._live.values():
            held.end()
        self._live.clear()
        self._owned.clear()

    def _is_full(self, owner: str) -> bool:
        if owner == LOCAL:
            return len(self._live) >= self._most
        of_visitors = len(self._live) - self._owned[LOCAL]
        share, of_all = max(1, self._most // 8), max(1, self._most * 3 // 4)
        return len(self._live) >= self._most or self._owned[owner] >= share or of_visitors >= of_all

    async def _make_room(self, owner: str) -> None:
        found = next((one for one in self._live.values() if _is_idle(one, owner)), None)
        if found is None and owner == LOCAL:
            found = next((one for one in self._live.values() if not one.busy), None)
        if found is not None:
            await self._drop(found)
            return
        await self.expire()
        if self._is_full(owner):
            raise OverloadedError(
                f"no more than {self._most:,} sessions may be open, and none of yours is idle; end some with DELETE, "
                "or come back later",
                30.0,
            )

    def _add(self, held: HttpSession) -> None:
        self._live[held.id] = held
        self._owned[held.session.client.owner] += 1

    def _is_over(self, held: HttpSession, now: float) -> bool:
        idle = now - held.last_seen > self._idle and not held.busy
        return idle or now - held.began > MAX_AGE

    def _forget(self, held: HttpSession) -> bool:
        if self._live.pop(held.id, None) is None:
            return False
        self._owned[held.session.client.owner] -= 1
        self._finish(held)
        return True

    def _finish(self, held: HttpSession) -> None:
        held.end()
        self._ended(held)

    async def _drop(self, held: HttpSession) -> None:
        if self._forget(held):
            gone = Delete(space=SPACE, key=held.id)
            await self._record.commit([gone], _act("MCP_SESSION_ENDED", held))

    async def _run_out(self, held: HttpSession) -> None:
        """End an expired session, unless another process has stored it since."""
        if self._forget(held) and await self._store.get(SPACE, held.id) is None:
            await self._record.commit((), _act("MCP_SESSION_ENDED", held))

    async def _recall(self, id_: str) -> HttpSession | None:
        found = await self._store.get(SPACE, id_)
        if found is None:
            return None
        value = self._vault().open(found.value)
        try:
            kept = _decoder.decode(value or b"")
            session = McpSession.recalled(kept.session, self._handshake)
        except msgspec.MsgspecError:  # under another key, or of another release
            log.warning("a stored session cannot be read; its client has to begin a new one")
            return None
        if id_ not in self._live:  # a concurrent request may have recalled it
            held = HttpSession(id_, session, kept.began, self._changes, recalled=True)
            held.last_seen = self._clock.now()
            self._add(held)
        return self._live[id_]


def _is_idle(held: HttpSession, owner: str) -> bool:
    return held.session.client.owner == owner and not held.busy


def _act(result: str, held: HttpSession) -> Act:
    """Return an act that names the session by a hash: with the id and the token one could use it."""
    return Act(
        feature="mcp",
        result=result,
        caller=held.session.client.caller,
        hashes={"session_id_hash": privacy_hash(held.id)},
    )


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(StoredSession)
