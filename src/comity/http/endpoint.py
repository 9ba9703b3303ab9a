"""One method at one path, answered in JSON: plain ASGI without a framework. Where GET is answered, HEAD is too.

The function `take` turns a request into its answer; an error becomes a status and a sentence.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from comity.http.asgi import (
    Disconnected,
    Receive,
    Scope,
    Send,
    answer_at_once,
    answer_error,
    answer_json,
    content_type,
    read_body,
)
from comity.requests.record import Recorder
from comity.wire import strict_json
from comity.wire.errors import ComityError, InvalidError

Take = Callable[[Scope, Receive], Awaitable[Any]]
"""From a request to what is answered. Raises the ComityError that is told instead."""


class Endpoint:
    def __init__(self, method: str, take: Take, *, room: str, record: Recorder) -> None:
        """A refusal is counted under the name of the room, unless it got as far as the walk, which does that."""
        self._method = method
        self._methods = ("GET", "HEAD") if method == "GET" else (method,)
        self._take = take
        self._room = room
        self._record = record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in self._methods:
            refusal = {"detail": f"use {self._method}", "code": "method_not_allowed"}
            await answer_json(send, refusal, 405, [(b"allow", ", ".join(self._methods).encode())])
            return
        try:
            reply = await self._take(scope, receive)
        except ComityError as refused:
            self._record.refuse_once(self._room, refused)
            await answer_error(send, refused)
        except Disconnected:
            return
        else:
            await answer_at_once(scope, send, strict_json.dumps(reply))


async def read_json_body(
    scope: Scope, receive: Receive, limit: int, what: str, *, may_be_empty: bool = False
) -> bytes:
    """The body of a request that has to be JSON; `what` names it to who sent something else."""
    body = await read_body(scope, receive, limit)
    if may_be_empty and not body:
        return body
    kind = content_type(scope)
    if kind != "application/json" and not kind.endswith("+json"):
        raise InvalidError(f"{what} must be JSON; send it with Content-Type: application/json")
    return body
