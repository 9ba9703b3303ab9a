"""The least that carries messages between two processes: a WebSocket and a data channel of each library, bare.

Each is a pair of functions, one for the process that measures and one for the other; what they have to tell each
other first goes over `tell` and `hear`, one JSON value at a time. A link is anything with `send` and `receive`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import serve

BUFFER = 4 * 1024 * 1024

Tell = Callable[[Any], None]
Hear = Callable[[], Awaitable[Any]]


class RawLink(Protocol):
    async def send(self, message: str | bytes) -> None: ...

    async def receive(self) -> str | bytes: ...


class WebSocket:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(self, message: str | bytes) -> None:
        await self._connection.send(message)

    async def receive(self) -> str | bytes:
        message: str | bytes = await self._connection.recv()
        return message


async def websocket_here(_tell: Tell, hear: Hear) -> RawLink:
    port = await hear()
    return WebSocket(
        await connect(
            f"ws://127.0.0.1:{port}", compression=None, max_size=None, proxy=None, ping_interval=None
        )
    )


async def websocket_there(tell: Tell, _hear: Hear) -> RawLink:
    came: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    async def keep(connection: Connection) -> None:
        came.set_result(connection)
        await connection.wait_closed()

    server = await serve(keep, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None)
    tell(next(iter(server.sockets)).getsockname()[1])
    return WebSocket(await came)


class Wrtc:
    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._inbox: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._low = asyncio.Event()
        channel.buffered_amount_low_threshold = BUFFER // 4
        channel.on("message", lambda event: self._inbox.put_nowait(event.data))
        channel.on("bufferedamountlow", lambda _event: self._low.set())

    async def send(self, message: str | bytes) -> None:
        while self._channel.buffered_amount > BUFFER:
            self._low.clear()
            if self._channel.buffered_amount > BUFFER:
                await self._low.wait()
        self._channel.send(message)

    async def receive(self) -> str | bytes:
        return await self._inbox.get()


async def wrtc_here(tell: Tell, hear: Hear) -> RawLink:
    import webrtc

    connection = webrtc.RTCPeerConnection(webrtc.RTCConfiguration(ice_servers=[]))
    channel = connection.create_data_channel("sendChannel")
    opened = asyncio.Event()
    channel.on("open", lambda _event: opened.set())
    tell(await _gathered(connection, await connection.create_offer()))
    answer = await hear()
    await connection.set_remote_description(webrtc.RTCSessionDescriptionInit(type="answer", sdp=answer))
    await opened.wait()
    return Wrtc(channel)


async def wrtc_there(tell: Tell, hear: Hear) -> RawLink:
    import webrtc

    connection = webrtc.RTCPeerConnection(webrtc.RTCConfiguration(ice_servers=[]))
    came: asyncio.Future[Wrtc] = asyncio.get_running_loop().create_future()
    connection.on("datachannel", lambda event: came.set_result(Wrtc(event.channel)))
    offer = await hear()
    await connection.set_remote_description(webrtc.RTCSessionDescriptionInit(type="offer", sdp=offer))
    tell(await _gathered(connection, await connection.create_answer()))
    link = await came
    link.connection = connection  # type: ignore[attr-defined] # it lives as long as its channel
    return link


async def _gathered(connection: Any, description: Any) -> str:
    """The description with all its candidates."""
    complete = asyncio.Event()

    def found(event: Any) -> None:
        if event.candidate is None:
            complete.set()

    connection.on("icecandidate", found)
    await connection.set_local_description(description)
    await complete.wait()
    return str(connection.local_description.sdp)


class Aiortc:
    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._inbox: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._low = asyncio.Event()
        channel.bufferedAmountLowThreshold = BUFFER // 4
        channel.on("message", self._inbox.put_nowait)
        channel.on("bufferedamountlow", self._low.set)

    async def send(self, message: str | bytes) -> None:
        while self._channel.bufferedAmount > BUFFER:
            self._low.clear()
            await self._low.wait()
        self._channel.send(message)

    async def receive(self) -> str | bytes:
        return await self._inbox.get()


async def aiortc_here(tell: Tell, hear: Hear) -> RawLink:
    import aiortc

    connection = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
    channel = connection.createDataChannel("sendChannel")
    opened = asyncio.Event()
    channel.on("open", opened.set)
    await connection.setLocalDescription(await connection.createOffer())
    tell(connection.localDescription.sdp)
    await connection.setRemoteDescription(aiortc.RTCSessionDescription(await hear(), "answer"))
    await opened.wait()
    return Aiortc(channel)


async def aiortc_there(tell: Tell, hear: Hear) -> RawLink:
    import aiortc

    connection = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
    came: asyncio.Future[Aiortc] = asyncio.get_running_loop().create_future()
    connection.on("datachannel", lambda channel: came.set_result(Aiortc(channel)))
    await connection.setRemoteDescription(aiortc.RTCSessionDescription(await hear(), "offer"))
    await connection.setLocalDescription(await connection.createAnswer())
    tell(connection.localDescription.sdp)
    return await came


HERE = {"websocket": websocket_here, "wrtc": wrtc_here, "aiortc": aiortc_here}
THERE = {"websocket": websocket_there, "wrtc": wrtc_there, "aiortc": aiortc_there}
