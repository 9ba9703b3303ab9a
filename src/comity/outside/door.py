"""The listener of the outside door: a port, a certificate of the node's own, and the reasons for which it is open.

- The port is the one after the node's, unless a setting names another. The last one that was used is preferred, because
  invites name it; if it is taken, any free one is used.
- The certificate is made when the door is first opened, and kept with the keys.
- Opening and closing wait for each other. A reason counts once the door is open for it.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from comity.http.addresses import read_url
from comity.http.server import HttpServer, PortTakenError, room_for_connections
from comity.http.serving import OUTSIDE, ServerLimits
from comity.outside.addresses import own_addresses
from comity.requests.record import own_act
from comity.runtime.lazy import late
from comity.runtime.outside import SWITCH
from comity.store.interface import Operation, Put
from comity.wire.errors import ComityError

if TYPE_CHECKING:
    from comity.identity import certificates
    from comity.identity.certificates import OwnCertificate
    from comity.outside.part import OutsideSettings
    from comity.runtime.node_runtime import NodeRuntime
    from comity.runtime.outside import Serve
else:
    certificates = late("comity.identity.certificates")

SPACE: Final = "outside"
PORT_KEY: Final = "port"
SWITCH_KEY: Final = "switch"
OPENED: Final = "OUTSIDE_OPENED"
CLOSED: Final = "OUTSIDE_CLOSED"
CONNECTIONS_SHARE: Final = 0.25
"""Of the connections that the node has room for."""

_MEETING_PATHS: Final = ("/signal", "/link", "/card")
_MEETING_PREFIX: Final = "/a2a/"

log = logging.getLogger("comity.outside")


class Listener:
    def __init__(self, runtime: "NodeRuntime", settings: "OutsideSettings") -> None:
        self.reasons: dict[str, None] = {}
        self.certificate: OwnCertificate | None = None
        self._watchers: list[Callable[[], None]] = []
        self._runtime = runtime
        self._settings = settings
        self._lock = asyncio.Lock()
        self._server: HttpServer | None = None
        self._serve: Serve | None = None

    @property
    def is_open(self) -> bool:
        return self._server is not None

    @property
    def port(self) -> int:
        return 0 if self._server is None else self._server.port

    @property
    def pin(self) -> str:
        return "" if self.certificate is None else self.certificate.pin

    @property
    def serves_all(self) -> bool:
        return SWITCH in self.reasons

    def addresses(self) -> list[str]:
        if self._server is None:
            return []
        listen = self._settings.listen
        own = [listen] if listen else own_addresses()
        named = [_with_port(each, self.port) for each in self._settings.addresses]
        return [f"https://{each}" for each in (*named, *(f"{_in_url(host)}:{self.port}" for host in own))]

    def watch(self, changed: Callable[[], None]) -> None:
        self._watchers.append(changed)

    def is_wanted(self, path: str) -> bool:
        """Return whether a reason opens that path."""
        if self.serves_all:
            return True
        return bool(self.reasons) and (path in _MEETING_PATHS or path.startswith(_MEETING_PREFIX))

    async def open_for(self, reason: str) -> None:
        async with self._lock:
            if reason not in self.reasons:
                if self._runtime.url:  # else the node has no port yet, and listens when it has
                    await self._listen(reason)
                self.reasons[reason] = None
                self.notify()

    async def close_for(self, reason: str) -> None:
        async with self._lock:
            if reason in self.reasons:
                del self.reasons[reason]
                if not self.reasons:
                    await self._stop()
                    await self._record(CLOSED, reason)
                self.notify()

    async def switch(self, *, on: bool) -> None:
        """Open or close all open paths for the owner, also after a restart."""
        await (self.open_for(SWITCH) if on else self.close_for(SWITCH))
        await self._runtime.store.commit(Put(space=SPACE, key=SWITCH_KEY, value=b"on" if on else b"off"))

    async def open_again(self) -> None:
        """Open the door for the reasons that hold from the start. If it cannot be opened, say so and go on without it."""
        kept = await self._runtime.store.get(SPACE, SWITCH_KEY)
        reasons = [*self.reasons]
        if self._settings.on or (kept is not None and kept.value == b"on"):
            reasons.append(SWITCH)
        self.reasons.clear()
        for reason in reasons:
            try:
                await self.open_for(reason)
            except ComityError as why:
                log.warning("the outside door stays closed: %s", why)
                self._runtime.notices.append(f"the outside door stays closed: {why}")
                return

    async def begin(self, serve: "Serve") -> None:
        async with self._lock:
            self._serve = serve
            if self._server is not None:
                await serve(self._server, self.is_wanted)

    async def stop(self) -> None:
        async with self._lock:
            await self._stop()

    async def renew(self) -> "OwnCertificate":
        """Make a new certificate for the same key, and show it to new connections."""
        async with self._lock:
            folder, now = self._runtime.settings.data, _now(self._runtime)
            self.certificate = await asyncio.to_thread(certificates.renew_certificate, folder, now)
            if self._server is not None:
                self._server.read_certificate_again()
            return self.certificate

    async def _listen(self, reason: str) -> None:
        if self._server is not None:
            return
        folder, now = self._runtime.settings.data, _now(self._runtime)
        own = self.certificate = await asyncio.to_thread(certificates.load_or_make_certificate, folder, now)
        kept = await self._runtime.store.get(SPACE, PORT_KEY)
        server = self._bind(own, 0 if kept is None else int(kept.value))
        try:
            if self._serve is not None:
                await self._serve(server, self.is_wanted)
            changed = kept is None or int(kept.value) != server.port
            put = Put(space=SPACE, key=PORT_KEY, value=b"%d" % server.port)
            await self._record(OPENED, reason, (put,) if changed else ())
        except BaseException:
            await server.stop()
            raise
        self._server = server

    def _bind(self, own: "OwnCertificate", kept: int) -> HttpServer:
        def bound(port: int) -> HttpServer:
            limits = ServerLimits(connections=room_for_connections(CONNECTIONS_SHARE))
            return HttpServer(
                self._settings.listen, port, cert=own.cert, key=own.key, limits=limits, listener=OUTSIDE
            )

        if self._settings.port:
            return bound(self._settings.port)
        usual = read_url(self._runtime.url).port + 1
        for port in dict.fromkeys((kept or usual, usual if usual < 65_536 else 0)):
            try:
                return bound(port)
            except PortTakenError:
                continue
        return bound(0)

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def _record(self, result: str, reason: str, operations: tuple[Operation, ...] = ()) -> None:
        """Record what happened, and the kind of its reason: what an invite is called is nobody's business."""
        await self._runtime.record.commit_counted(operations, own_act(result, reason.partition(":")[0]))

    def notify(self) -> None:
        """Call those who watch."""
        for changed in self._watchers:
            changed()


def _now(runtime: "NodeRuntime") -> datetime:
    return datetime.fromtimestamp(runtime.clock.now(), UTC)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _with_port(address: str, port: int) -> str:
    name = address.rpartition("]")[2] if address.startswith("[") else address
    return address if ":" in name else f"{address}:{port}"
