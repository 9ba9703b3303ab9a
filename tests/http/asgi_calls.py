"""Asking an ASGI application without a server in between."""

import json
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def scope_of(method="GET", path="/", headers=(), **more):
    given = [(b"host", b"localhost:8420"), *((k.encode(), v.encode("latin-1")) for k, v in headers)]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": given,
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8420),
        **more,
    }


async def ask(app, scope, parts=(b"",)) -> Answer:
    """`parts` are the pieces of the body; None instead of a piece is a client that went away."""
    waiting = list(parts)
    sent = []

    async def receive():
        part = waiting.pop(0) if waiting else None
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    if not sent:
        return Answer(0, {}, b"")
    start, *body = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(message.get("body", b"") for message in body))
