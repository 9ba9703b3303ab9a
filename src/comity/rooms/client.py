"""In a room of a relay, with the links to its peers: the `Meeting` machine under asyncio.

Its user reads `next_event`: what happens at the relay, and every link that opens (`LinkOpened`). A link is the
reader's from then on; the room only watches for its end, to ask for another one. `close` leaves the room and ends
every link that was made here.
"""

import asyncio
import contextlib
import re
import secrets
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from comity.http.dialling import ClientWebSocket, dialling, open_websocket
from comity.http.pins import pinned_context
from comity.rooms.links.joining import Joining, LinkMaker
from comity.rooms.protocol.effects import (
    AddCandidates,
    Dial,
    GiveUp,
    HangUp,
    MakeAnswer,
    MakeOffer,
    MeetingEffect,
    Notice,
    Notify,
    PeerSeen,
    SendToRelay,
    SignallingFault,
    TakeAnswer,
)
from comity.rooms.protocol.meeting import Attending, Meeting
from comity.rooms.protocol.relay import MESSAGE_LIMIT
from comity.rooms.protocol.signalling import IceCandidate, Listed
from comity.system import is_loopback
from comity.wire.errors import ComityError, ConfigError
from comity.wire.link import LinkClosed, LinkOpened
from comity.wire.machine import Clock

# The way to a signalling relay: one WebSocket, one message per text frame.


_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class RelayTarget(Struct, frozen=True):
    """`tls_sha256` is the hash, in hex, of the certificate or of its public key; None: it must be one that the system trusts."""

    url: str
    token: str | None = None
    tls_sha256: str | None = None

    @property
    def where(self) -> str:
        """For people: the address without its query, which may hold a token."""
        return self.url.partition("?")[0]


def read_relay(url: str, token: str | None = None, tls_sha256: str | None = None) -> RelayTarget:
    """Raise ConfigError with what is wrong."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("the relay's address cannot be read; it looks like wss://host/signal") from None
    if parts.scheme not in ("ws", "wss") or not host or parts.username is not None or parts.fragment:
        raise ConfigError("the relay's address must look like wss://host/signal")
    if parts.scheme == "ws" and not is_loopback(host):
        raise ConfigError(f"the relay on {host} is on another machine; its address must start with wss://")
    if tls_sha256 is not None:
        tls_sha256 = tls_sha256.replace(":", "").lower()
        if not _SHA256.fullmatch(tls_sha256) or parts.scheme != "wss":
            raise ConfigError("a certificate's SHA-256 has 64 hex digits, and belongs to a wss:// address")
    return RelayTarget(url, token, tls_sha256)


async def dial_relay(target: RelayTarget, tls: ssl.SSLContext | None = None) -> ClientWebSocket:
    """`tls` replaces the certificates that the system trusts. Raise UnreachableError and UnusableAnswerError."""
    context = None
    if target.url.startswith("wss"):
        pinned = None if target.tls_sha256 is None else pinned_context(target.tls_sha256)
        context = pinned or tls or ssl.create_default_context()
    headers = {} if target.token is None else {"Authorization": f"Bearer {target.token}"}
    async with dialling(target.where, target.where, lambda status: _no_relay(target, status)):
        connection = await open_websocket(target.url, context, MESSAGE_LIMIT, headers)
        return ClientWebSocket("the relay", connection)


async def dial_first(targets: Sequence[RelayTarget]) -> ClientWebSocket:
    """Return the connection that opens first. Raise the fault of the first target if none does."""
    dialling_all = [asyncio.create_task(dial_relay(target)) for target in targets]
    waiting = set(dialling_all)
    opened: ClientWebSocket | None = None
    try:
        while waiting and opened is None:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            opened = next((one.result() for one in done if one.exception() is None), None)
    finally:
        for one in dialling_all:
            one.cancel()
        for late in await asyncio.gather(*dialling_all, return_exceptions=True):
            if isinstance(late, ClientWebSocket) and late is not opened:
                await late.close()
    return opened or dialling_all[0].result()


def _no_relay(target: RelayTarget, status: int) -> str:
    if status in (401, 403):
        return f"{target.where} refused the token or the caller (status {status})"
    return f"no relay is at {target.where} (status {status}); a node has its own at /signal"


MAX_NOTICES: Final = 500
UNSENT_MESSAGES: Final = 500
FAREWELL_SECONDS: Final = 1.0


class RoomMeeting:
    def __init__(
        self, attending: Attending, relays: Sequence[RelayTarget], links: LinkMaker, clock: Clock
    ) -> None:
        """`relays` are ways to one relay, all tried at once. `links` may serve many rooms, and is closed by its owner."""
        self._machine = Meeting(attending, secrets.token_bytes)
        self._relays = relays
        self._links = links
        self._clock = clock
        self._notices: deque[Notice | LinkOpened] = deque()
        self._notice_added = asyncio.Event()
        self._joinings: dict[int, Joining] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._socket: ClientWebSocket | None = None
        self._unsent: deque[bytes] = deque()
        self._to_send = asyncio.Event()
        self._hung_up = ""
        self._closed = False

    @property
    def joined(self) -> bool:
        """Whether the relay is there and the room is joined. Links do not depend on it."""
        return self._machine.joined

    @property
    def peers(self) -> tuple[Listed, ...]:
        return self._machine.peers

    def start(self) -> None:
        self._start_task(self._watch_time())
        self._perform(self._machine.dial())

    def view(self, stream: str) -> None:
        """Have a link to the peer with this stream, now or when it comes, and again when it was lost."""
        self._perform(self._machine.view(stream, self._clock.monotonic()))

    def unview(self, stream: str) -> None:
        self._perform(self._machine.unview(stream))

    def handle_channel_signal(self, attempt: int, message: dict[str, Any]) -> None:
        """What a peer says about the connection itself on its open channel."""
        self._perform(self._machine.receive_on_channel(attempt, message))

    async def next_event(self) -> Notice | LinkOpened:
        """Raise LinkClosed after `close`."""
        while not self._notices:
            if self._closed:
                raise LinkClosed("the room was left")
            self._notice_added.clear()
            await self._notice_added.wait()
        return self._notices.popleft()

    async def close(self, reason: str = "this side left the room") -> None:
        if self._closed:
            return
        self._closed = True
        self._notice_added.set()
        farewell = [effect.text for effect in self._machine.stop(reason) if isinstance(effect, SendToRelay)]
        if self._socket is not None:
            with contextlib.suppress(LinkClosed, TimeoutError):
                async with asyncio.timeout(FAREWELL_SECONDS):
                    for text in farewell:
                        await self._socket.send(text)
        work = [task for task in self._work if task is not asyncio.current_task()]
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        for joining in self._joinings.values():
            await joining.close(reason)

    def _perform(self, effects: Sequence[MeetingEffect]) -> None:
        for effect in effects:
            self._perform_one(effect)
        self._changed.set()

    def _perform_one(self, effect: MeetingEffect) -> None:
        match effect:
            case Dial():
                self._start_task(self._run_connection())
            case SendToRelay(text):
                if len(self._unsent) < UNSENT_MESSAGES:
                    self._unsent.append(text)
                    self._to_send.set()
            case HangUp(reason):
                self._hung_up = reason
                self._to_send.set()
            case Notify(notice):
                self._add_notice(notice)
            case _:
                self._perform_for_link(effect)

    def _perform_for_link(self, effect: MakeOffer | MakeAnswer | TakeAnswer | AddCandidates | GiveUp) -> None:
        match effect:
            case MakeOffer(number):
                joining = self._new_joining(number, is_offerer=True)
                self._start_task(self._run_or_fail(number, lambda: self._offer(number, joining)))
            case MakeAnswer():
                joining = self._new_joining(effect.attempt, is_offerer=False)
                self._start_task(self._run_or_fail(effect.attempt, lambda: self._answer(effect, joining)))
            case TakeAnswer():
                self._start_task(self._run_or_fail(effect.attempt, lambda: self._accept(effect)))
            case AddCandidates(number, candidates):
                self._start_task(self._add(number, candidates))
            case GiveUp(number, reason):
                left = self._joinings.pop(number, None)
                if left is not None:
                    self._start_task(left.close(reason))

    def _add_notice(self, notice: Notice | LinkOpened) -> None:
        if len(self._notices) < MAX_NOTICES or not isinstance(notice, SignallingFault | PeerSeen):
            self._notices.append(notice)
            self._notice_added.set()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _watch_time(self) -> None:
        """Let the machine act when its time comes, which may change with all that happens."""
        while True:
            self._changed.clear()
            at = self._machine.next_at
            changed = asyncio.ensure_future(self._changed.wait())
            waits: set[asyncio.Future[Any]] = {changed}
            if at is not None:
                pause = max(0.0, at - self._clock.monotonic())
                waits.add(asyncio.ensure_future(self._clock.sleep(pause)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            now = self._clock.monotonic()
            if at is not None and at <= now:
                self._perform(self._machine.tick(now))

    async def _run_connection(self) -> None:
        """One connection to the relay, from dialling to its end."""
        reason = ""
        try:
            socket = await dial_first(self._relays)
            self._socket = socket
            self._unsent.clear()
            self._hung_up = ""
            self._perform(self._machine.connected(self._clock.monotonic()))
            reading = asyncio.create_task(self._read(socket))
            try:
                reason = await self._write(socket, reading)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                await socket.close()
        except ComityError as fault:
            reason = fault.message
        self._socket = None
        self._perform(self._machine.disconnected(reason, self._clock.monotonic()))

    async def _read(self, socket: ClientWebSocket) -> None:
        try:
            while True:
                text = await socket.receive()
                self._perform(self._machine.receive(text, self._clock.monotonic()))
        except LinkClosed as closed:
            self._hung_up = self._hung_up or closed.reason
            self._to_send.set()

    async def _write(self, socket: ClientWebSocket, reading: asyncio.Task[None]) -> str:
        """Send the queued messages until the connection ends. Returns the reason."""
        try:
            while not self._hung_up:
                while self._unsent:
                    await socket.send(self._unsent.popleft())
                self._to_send.clear()
                if not self._hung_up:
                    await self._to_send.wait()
        except LinkClosed as closed:
            await reading  # the reader saw the same end, and knows the reason
            return self._hung_up or closed.reason
        return self._hung_up

    def _new_joining(self, number: int, *, is_offerer: bool) -> Joining:
        def found(candidate: IceCandidate) -> None:
            self._machine.found(number, candidate, self._clock.monotonic())
            self._changed.set()

        joining = self._joinings[number] = self._links.join(is_offerer=is_offerer, candidate=found)
        return joining

    async def _offer(self, number: int, joining: Joining) -> None:
        sdp, ticket = await joining.offer()
        now = self._clock.monotonic()
        self._perform(self._machine.described(number, sdp, ticket, now, joining.door))
        await self._wait_link(number, joining)

    async def _answer(self, offer: MakeAnswer, joining: Joining) -> None:
        number = offer.attempt
        answer = await joining.answer(offer.sdp, offer.ticket, offer.door)
        if answer is not None:
            now = self._clock.monotonic()
            self._perform(self._machine.described(number, answer, None, now, joining.door))
        await self._wait_link(number, joining)

    async def _accept(self, answer: TakeAnswer) -> None:
        joining = self._joinings.get(answer.attempt)
        if joining is not None:
            await joining.accept(answer.sdp, answer.door)

    async def _run_or_fail(self, number: int, step: Callable[[], Awaitable[None]]) -> None:
        """Do a step towards a link; where it goes wrong, the attempt has failed."""
        try:
            await step()
        except (ComityError, LinkClosed) as fault:
            await self._fail(number, str(fault))

    async def _add(self, number: int, candidates: Sequence[IceCandidate]) -> None:
        joining = self._joinings.get(number)
        if joining is not None:
            await joining.add_candidates(candidates)

    async def _wait_link(self, number: int, joining: Joining) -> None:
        link = await joining.wait_link()
        attempt = self._machine.attempt(number)
        if attempt is None:  # given up meanwhile
            await joining.close("no longer wanted")
            return
        self._perform(self._machine.link_opened(number, self._clock.monotonic()))
        stream = self._machine.stream_behind(attempt)
        self._add_notice(LinkOpened(attempt=number, uuid=attempt.uuid, stream=stream, link=link))
        end = await link.wait_closed()
        await self._fail(number, end.reason)

    async def _fail(self, number: int, reason: str) -> None:
        joining = self._joinings.pop(number, None)
        if joining is not None:
            await joining.close(reason)
        self._perform(self._machine.failed(number, reason, self._clock.monotonic()))
