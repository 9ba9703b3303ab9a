"""The least that answers a WebSocket on our own server stack: accepts, echoes one text, waits for the end."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bench.baselines.serve import serve

Message = MutableMapping[str, Any]


async def echo(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


if __name__ == "__main__":
    serve(echo, ws="websockets-sansio")
