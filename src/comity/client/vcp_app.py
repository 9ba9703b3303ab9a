"""A VCP server inside another ASGI application:

    vcp = VcpApp("vcp-data")
    app = Starlette(routes=[WebSocketRoute("/vcp", vcp)], lifespan=vcp.lifespan)

- It is the session service of a node, with its store, vault, record and extensions in the data folder, and without the
  node's own HTTP server. Several processes may share a folder.
- It opens with the lifespan of the application, or with the first connection where that is not passed on.
- Pages of other origins are refused, unless they are named: a browser sends whatever a page tells it to send.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from comity.http.asgi import Receive, Scope, Send, answer, header
from comity.node.node import Node
from comity.runtime.settings import Settings, VcpSettings
from comity.runtime.settings_file import load_settings
from comity.vcp.doors import VcpOverWebSocket
from comity.vcp.part import Vcp
from comity.wire.errors import ComityError

if TYPE_CHECKING:
    from comity.vcp.service import VcpServer

_POLICY_VIOLATION: Final = 1008
_UPGRADE: Final = b"this is a WebSocket; connect with a VCP client\n"


class VcpApp:
    def __init__(
        self,
        data: str | Path | None = None,
        *,
        vcp: VcpSettings | None = None,
        origins: Iterable[str] = (),
        passphrase: str | None = None,
    ) -> None:
        """`data` is the folder of the identity and of what sessions keep; it is made when it is missing. `vcp` replaces
        that section of the settings. `origins` are those of pages that may connect, besides the application's own.
        """
        settings = load_settings({"data": None if data is None else str(data)}).settings
        self.settings: Settings = settings if vcp is None else replace(settings, vcp=vcp)
        self._origins = frozenset(origins)
        self._passphrase = passphrase
        self._node: Node | None = None
        self._app: VcpOverWebSocket | None = None
        self._opening = asyncio.Lock()

    @property
    def server(self) -> "VcpServer":
        """Return the session service, once it is open."""
        if self._node is None:
            raise ComityError("the VCP server is not open yet; use it within the lifespan of the application")
        return self._node.runtime.find(Vcp).service

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        await self.open()
        try:
            yield
        finally:
            await self.close()

    async def open(self) -> None:
        async with self._opening:
            if self._node is None:
                node = Node(self.settings, passphrase=self._passphrase, guest=True)
                await node.start()
                self._node = node
                self._app = VcpOverWebSocket(self.server)

    async def close(self) -> None:
        async with self._opening:
            node, self._node, self._app = self._node, None, None
            if node is not None:
                await node.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await answer(send, 426, _UPGRADE, b"text/plain", [(b"upgrade", b"websocket")])
        elif not self._is_welcome(scope):
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await self.open()
            assert self._app is not None
            await self._app(scope, receive, send)

    def _is_welcome(self, scope: Scope) -> bool:
        origin = header(scope, b"origin")
        if origin is None or origin in self._origins:
            return True
        return urlsplit(origin).netloc == (header(scope, b"host") or "")

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            event = (await receive())["type"]
            try:
                await (self.open() if event == "lifespan.startup" else self.close())
            except ComityError as refusal:
                await send({"type": f"{event}.failed", "message": refusal.message})
                return
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
