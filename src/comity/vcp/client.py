"""The VCP client: connect, negotiate, and open a session, or raise the reason why not (vcp 1.9).

    async with VcpClient.connect("wss://host/vcp", extensions=["VCP-X-Personal"]) as session:
        answer = await session.send_context({"personal": {...}})

- A server that cannot be reached, goes away or does not answer the hello within 10 s is connected to again. A busy one
  is asked again on the same connection, after the time that it named. The waits grow from 1 s to 30 s. There are
  `attempts` in total, and they take `connect_seconds` at most.
- If a server asks for a longer wait, that is raised at once, and a later `connect` sends no hello before that time.
- An answer that breaks the protocol, and an error that waiting cannot solve, end it at once.
- The promises of a server are remembered, in the data folder or in a store of the program. Alerts list those that it
  no longer makes.
"""

import asyncio
import contextlib
import logging
import math
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection

from comity.http.dialling import CLOSE_SECONDS, ClientWebSocket, cause_of, dialling, open_websocket
from comity.identity.private_files import alone, replace_whole
from comity.requests.handler import within_request
from comity.requests.record import REQUEST_IDS, Recorder, own_act
from comity.runtime.settings_file import data_folder
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import privacy_hash
from comity.store.interface import Put, Store
from comity.vcp.client_over_mcp import dial_mcp
from comity.vcp.client_session import VcpConversation, VcpRefusedError, VcpSession, clean
from comity.vcp.client_targets import McpTarget, VcpTarget, read_target
from comity.vcp.conductor import Conductor
from comity.vcp.protocol import agreement
from comity.vcp.protocol.client import ATTEMPTS, ClientMachine, Established, retry_delay
from comity.vcp.protocol.messages import Ack, Hello, VcpError, encode
from comity.wire.errors import ComityError, InvalidError, NoAnswerError, TooLargeError, UnreachableError
from comity.wire.link import LinkClosed, PeerLink
from comity.wire.machine import Clock

# The links of a VCP client: a WebSocket with a message per text frame, or TCP with a message per line.


MESSAGE_LIMIT: Final = 1_048_576
_REASON_BYTES: Final = 123
_BY_THE_SERVER: Final = "the server closed the connection"


async def dial(target: VcpTarget | McpTarget, tls: ssl.SSLContext | None = None) -> PeerLink:
    """Connect. `tls` replaces the certificates that the system trusts."""
    if isinstance(target, McpTarget):
        return await dial_mcp(target, tls)
    tls = (tls or ssl.create_default_context()) if target.secure else None
    where = f"{target.host} port {target.port}"
    async with dialling(where, target.url, lambda status: _no_door(target, status)):
        if target.is_websocket:
            return VcpWebSocket(target.url, await open_websocket(target.url, tls, MESSAGE_LIMIT))
        reader, writer = await asyncio.open_connection(target.host, target.port, ssl=tls, limit=MESSAGE_LIMIT)
        return TcpClientLink(target.url, reader, writer)


class VcpWebSocket(ClientWebSocket):
    max_message_bytes = MESSAGE_LIMIT

    def __init__(self, peer: str, connection: ClientConnection) -> None:
        super().__init__("the server", connection)
        self.peer = peer

    async def send(self, message: bytes) -> None:
        _refuse_too_large(message)
        await super().send(message)

    async def close(self, reason: str = "") -> None:
        await super().close(reason.encode()[:_REASON_BYTES].decode(errors="ignore"))


class TcpClientLink:
    """TCP with one message per line. The last line needs no end (ruling 1)."""

    max_message_bytes = MESSAGE_LIMIT

    def __init__(self, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self._reader = reader
        self._writer = writer

    async def send(self, message: bytes) -> None:
        _refuse_too_large(message)
        try:
            self._writer.write(message + b"\n")
            await self._writer.drain()
        except OSError as fault:
            raise LinkClosed(cause_of(fault)) from None

    async def receive(self) -> bytes:
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                line = end.partial
                if not line.strip():
                    raise LinkClosed(_BY_THE_SERVER) from None
            except asyncio.LimitOverrunError:
                raise LinkClosed(f"the server sent a line of more than {MESSAGE_LIMIT:,} bytes") from None
            except OSError as fault:
                raise LinkClosed(cause_of(fault)) from None
            if message := line.strip():
                return message

    async def close(self, reason: str = "") -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()
        self._writer.transport.abort()  # for a peer that does not close; a closed transport ignores it


def _refuse_too_large(message: bytes) -> None:
    if len(message) > MESSAGE_LIMIT:
        raise TooLargeError("the message", MESSAGE_LIMIT)


def _no_door(target: VcpTarget, status: int) -> str:
    return (
        f"no VCP door is open at {target.url} (status {status}); the door of a node is at /vcp, unless its owner has "
        "switched VCP off"
    )


# The last ack of each server, stored so that a downgrade is noticed (vcp 1.9).


log = logging.getLogger("comity.vcp")

NOT_REMEMBERED: Final = (
    "what %s promises is not remembered, so a downgrade will go unnoticed: %s cannot be written (%s)"
)
"""What the log says, with the server, the file and why."""

ACKS_FILE: Final = "vcp-acks.json"
FILE_LIMIT: Final = 16 * 1024 * 1024
MAX_SERVERS: Final = 1000
SPACE: Final = "vcp:acks"
REMEMBERED: Final = "VCP_ACK_REMEMBERED"


class FileAcks:
    """The last acks in a file of the folder; None: the folder of the user's node. It is small and rarely written."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._path = (data_folder() if folder is None else Path(folder).expanduser()) / ACKS_FILE

    async def recall(self, server: str, version: str) -> Ack | None:
        kept = self._read().get(_key(server, version))
        return None if kept is None else _read_ack(msgspec.json.encode(kept), server)

    async def remember(self, server: str, version: str, ack: Ack, before: Ack | None) -> None:
        """Store an ack; `before` is the one that was recalled. Nothing is written if nothing changed."""
        kept = merged(before, ack)
        if kept == before:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with alone(self._path.with_name(f".{ACKS_FILE}.lock")):  # on Windows one of two may be forgotten
                known = self._read()
                known.pop(_key(server, version), None)
                known[_key(server, version)] = msgspec.to_builtins(kept)
                for oldest in tuple(known)[:-MAX_SERVERS]:
                    del known[oldest]
                replace_whole(self._path, msgspec.json.encode(known))
        except OSError as reason:
            log.warning(NOT_REMEMBERED, server, self._path, reason.strerror)

    def _read(self) -> dict[str, Any]:
        try:
            with self._path.open("rb") as file:
                data = file.read(FILE_LIMIT + 1)
            return msgspec.json.decode(data, type=dict[str, Any]) if len(data) <= FILE_LIMIT else {}
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("%s cannot be read; no last answers are compared", self._path)
            return {}


class LastAcks:
    """The last acks in a store."""

    def __init__(self, store: Store, record: Recorder) -> None:
        self._store = store
        self._record = record

    async def recall(self, server: str, version: str) -> Ack | None:
        kept = await self._store.get(SPACE, _key(server, version))
        return None if kept is None else _read_ack(kept.value, server)

    async def remember(self, server: str, version: str, ack: Ack, before: Ack | None) -> None:
        kept = merged(before, ack)
        if kept == before:
            return
        put = Put(space=SPACE, key=_key(server, version), value=encode(kept))
        with within_request(REQUEST_IDS.new):
            await self._record.commit_counted(
                (put,), own_act(REMEMBERED, privacy_hash(server), feature="vcp")
            )


def _read_ack(data: bytes, server: str) -> Ack | None:
    try:
        ack = msgspec.json.decode(data, type=Ack)
        agreement.parse(ack.version)
    except (msgspec.MsgspecError, UnicodeDecodeError, ComityError):
        log.warning("what is stored of the last answer of %s cannot be read and is not compared", server)
        return None
    return ack


def merged(before: Ack | None, now: Ack) -> Ack:
    """Return the ack to remember after `now`, whose hello may have requested less than an earlier one."""
    kept = replace(now, session_id=UNSET)
    if before is None:
        return kept
    answered = {*now.supported, *now.unsupported}
    silent = tuple(name for name in before.supported if name not in answered)
    described = {name: before.capabilities[name] for name in silent if name in before.capabilities}
    return replace(kept, supported=(*now.supported, *silent), capabilities={**now.capabilities, **described})


def _key(server: str, version: str) -> str:
    return f"{version} {server}"


VERSION: Final = "3.1"
MIN_VERSION: Final = "1.0"
ANSWER_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 180.0

_Done = TypeVar("_Done")

Target = VcpTarget | McpTarget
Dial = Callable[[Target, ssl.SSLContext | None], Awaitable[PeerLink]]

_CLOCK: Final = SystemClock()
_not_before: WeakKeyDictionary[Clock, dict[str, float]] = WeakKeyDictionary()
"""By the address of a server: the moment before which it does not want to be asked again."""

# spreads clients in time; it need not be hard to guess
_draw = random.random


class VcpClient:
    def __init__(
        self,
        target: Target,
        hello: Hello,
        *,
        attempts: int,
        seconds: float,
        memory: FileAcks | LastAcks | None,
        clock: Clock,
    ) -> None:
        self._target = target
        self._hello = hello
        self._attempts = attempts
        self._memory = memory
        self._clock = clock
        self._seconds = seconds
        self._until = clock.monotonic() + seconds
        self._failures = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls,
        url: str,
        *,
        extensions: Iterable[str] = (),
        identity: str | None = None,
        version: str = VERSION,
        min_version: str = MIN_VERSION,
        client_id: str | None = None,
        data: str | Path | None = None,
        remember: bool = True,
        store: Store | None = None,
        record: Recorder | None = None,
        attempts: int = ATTEMPTS,
        connect_seconds: float = CONNECT_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        allow_plain: bool = False,
        bearer: str | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        draw: Callable[[], float] = _draw,
        dial: Dial = dial,
    ) -> AsyncIterator[VcpSession]:
        """Open a session for the time of the block.

        `url` is ws://, wss://, tcp://, tcps:// or the http(s):// of a node; `allow_plain` permits an unencrypted connection to
        other machines. For an MCP server give its URL, which ends in /mcp or follows `mcp:`, with a `bearer` token if it wants
        one, or `mcp:` and the command that starts it. The promises of the server are remembered in the folder `data` (default:
        that of the user's node) or in `store`, through its `record`; without `remember` nowhere. `connect_seconds` is for all
        attempts together, `answer_seconds` for the answer to a context request.
        """
        if attempts < 1:
            raise InvalidError("attempts must be 1 or more")
        clock = clock or _CLOCK
        hello = Hello(
            version=version,
            min_version=min_version,
            extensions=tuple(extensions),
            identity=identity,
            client_id=UNSET if client_id is None else client_id,
        )
        memory: FileAcks | LastAcks | None = None
        if remember and store is not None:
            memory = LastAcks(store, record or Recorder(store, clock))
        elif remember:
            memory = FileAcks(data)
        client = cls(
            read_target(url, allow_plain=allow_plain, bearer=bearer),
            hello,
            attempts=attempts,
            seconds=connect_seconds,
            memory=memory,
            clock=clock,
        )
        async with client._session(lambda target: dial(target, tls), draw, answer_seconds) as session:
            yield session

    @contextlib.asynccontextmanager
    async def _session(
        self, reach: Callable[[Target], Awaitable[PeerLink]], draw: Callable[[], float], answer_seconds: float
    ) -> AsyncIterator[VcpSession]:
        memory, server, version = self._memory, self._target.url, self._hello.version
        before = None if memory is None else await memory.recall(server, version)
        await self._wait_as_asked()
        while True:
            machine = ClientMachine(self._hello, random=draw, last_ack=before)
            try:
                link = await self._in_time(reach(self._target))
            except UnreachableError as fault:
                await self._wait_after(fault, draw)
                continue
            async with _conversing(machine, link, self._clock) as conversation:
                try:
                    established = await self._in_time(self._negotiate(conversation))
                except (UnreachableError, NoAnswerError) as fault:
                    failure = fault
                else:
                    self._log_remarks(established)
                    if memory is not None:
                        await memory.remember(server, version, established.ack, before)
                    yield VcpSession(established, conversation, link.max_message_bytes, answer_seconds)
                    return
            await self._wait_after(failure, draw)

    async def _negotiate(self, conversation: VcpConversation) -> Established:
        """Finish the handshake on one connection. Raises the reason of a failure."""
        while True:
            report = await conversation.reports.get()
            if isinstance(report, Established):
                return report
            if isinstance(report, ComityError):
                raise report
            self._failures += 1
            asked_for = report.error.retry_after or 0
            if asked_for:
                held_off = _not_before.setdefault(self._clock, {})
                held_off[self._target.url] = self._clock.monotonic() + asked_for
            too_long = report.retry_in is not None and not self._has_time_for(report.retry_in)
            if report.retry_in is None or too_long or self._failures >= self._attempts:
                raise VcpRefusedError(report.error)
            log.info(
                "%s is busy (%s); asking again in %.1f s",
                self._target.url,
                report.error.code,
                report.retry_in,
            )

    async def _wait_after(self, failure: ComityError, draw: Callable[[], float]) -> None:
        self._failures += 1
        if self._failures >= self._attempts:
            raise failure
        wait = retry_delay(self._failures, draw())
        if not self._has_time_for(wait):
            raise failure
        log.info("%s; connecting again in %.1f s", failure.message, wait)
        await self._clock.sleep(wait)

    async def _wait_as_asked(self) -> None:
        """Wait until the time that the server named to an earlier `connect`."""
        moment = _not_before.get(self._clock, {}).get(self._target.url, 0.0)
        wait = moment - self._clock.monotonic()
        if wait <= 0:
            return
        if not self._has_time_for(wait):
            raise VcpRefusedError(
                VcpError(
                    code="RATE_LIMITED",
                    message=f"{self._target.url} asked not to be asked again before that",
                    retry_after=math.ceil(wait),
                )
            )
        await self._clock.sleep(wait)

    def _has_time_for(self, wait: float) -> bool:
        return self._clock.monotonic() + wait < self._until

    async def _in_time(self, work: Awaitable[_Done]) -> _Done:
        try:
            async with asyncio.timeout(max(0.0, self._until - self._clock.monotonic())):
                return await work
        except TimeoutError:
            raise NoAnswerError(
                f"{self._target.url} gave no session within {self._seconds:g} seconds"
            ) from None

    def _log_remarks(self, established: Established) -> None:
        for warning in established.warnings:
            log.warning("%s: %s", self._target.url, warning)
        for alert in established.alerts:
            log.warning("downgrade of %s: %s", self._target.url, clean(alert.message))


@contextlib.asynccontextmanager
async def _conversing(machine: ClientMachine, link: PeerLink, clock: Clock) -> AsyncIterator[VcpConversation]:
    """Run the machine on its link until the block ends; then close the link."""
    conversation = VcpConversation(machine)
    conductor = Conductor(conversation, link, clock, conversation.next_message)

    async def run() -> None:
        try:
            why: ComityError = NoAnswerError(f"the connection ended: {await conductor.run()}")
        except asyncio.CancelledError:
            conversation.end(NoAnswerError("this side has closed the connection"))
            raise
        except Exception:
            log.exception("the conversation with %s failed", link.peer)
            why = ComityError("something failed on our side; the log says what")
        conversation.end(why)

    running = asyncio.create_task(run())
    try:
        yield conversation
    finally:
        running.cancel()
        await asyncio.wait([running])
