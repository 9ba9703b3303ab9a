"""The least that answers HTTP on our own server: uvicorn with uvloop and httptools, no framework.

A request is answered with its own body. Says where it listens in one line, as `comity up --json` does.
"""

import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

Message = MutableMapping[str, Any]


async def echo(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    length = (b"content-length", b"%d" % len(body))
    headers = [(b"content-type", b"application/json"), length]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    # The protocol is named so that uvicorn turns Nagle's delay off, as it does on sockets it makes itself.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    config = uvicorn.Config(
        echo,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    print(json.dumps({"ready": True, "url": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
