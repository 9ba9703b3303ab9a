"""The least that answers HTTP in the usual way: uvicorn with uvloop and httptools, no framework.

A request is answered with its own body. Says where it listens in one line, as `comity up --json` does.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bench.baselines.serve import serve

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


if __name__ == "__main__":
    serve(echo)
