"""ASGI in small: reading a body under a limit, answering in JSON. No framework in between."""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from comity.requests.record import Recorder
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    InvalidError,
    MalformedError,
    RetryLaterError,
    TooLargeError,
    UnauthenticatedError,
    http_status,
    public_message,
)
from comity.wire.jsonrpc import CONTENT_TYPE

_Result = TypeVar("_Result")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]
HeadersByName = dict[bytes, bytes | int]
"""Each header's value, or how often it comes when that is more than once."""

JSON = b"application/json"
CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="comity"')
WHOLE = "comity.http.whole"
"""An ASGI extension of our own server, for paths that answer all the time: `read_whole` gives a body that has come
completely, `answer_whole` writes an answer that is complete. None and False say that it has to be done as ASGI has it.
"""
HEADERS_BY_NAME = "comity.headers"
SPEND_BYTES = "comity.spend_bytes"
"""Under this key of the scope stands what charges the bytes of a body that does not announce them."""
SPEND_FAULT = "comity.spend_fault"
"""Under this key of the scope stands what charges a refusal to the address, where the caller has proven nothing."""
LENGTH_DIGITS = 18  # more are a number that no limit allows

_POLICY: Final = 1008
_TRY_LATER: Final = 1013
_MAX_REASON_BYTES: Final = 123


class Disconnected(Exception):  # noqa: N818 - an end, not a failure
    """The client went away before it had said everything."""


def header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header, or None. Raise MalformedError if it comes twice."""
    return single(headers_by_name(scope), name)


def single(headers: HeadersByName, name: bytes) -> str | None:
    found = headers.get(name)
    if isinstance(found, int):
        raise MalformedError(f"the header {name.decode()} comes {found} times; send it once")
    return None if found is None else found.decode("latin-1")


def content_type(scope: Scope) -> str:
    """Return the media type of the body without parameters; empty if there is none."""
    return _media_type(header(scope, b"content-type") or "")


@lru_cache(256)  # most send the same few
def _media_type(given: str) -> str:
    return given.partition(";")[0].strip().lower()


def headers_by_name(scope: Scope) -> HeadersByName:
    headers: HeadersByName | None = scope.get(HEADERS_BY_NAME)
    if headers is None:  # several are looked up for every request
        headers = scope[HEADERS_BY_NAME] = by_name(scope["headers"])
    return headers


def by_name(headers: Headers) -> HeadersByName:
    found: HeadersByName = {}
    for name, value in headers:
        before = found.get(name)
        found[name] = value if before is None else before + 1 if isinstance(before, int) else 2
    return found


def announced_length(headers: HeadersByName) -> int | None:
    """Return the announced length of the body: 0 for no body, None if it is not announced."""
    announced = headers.get(b"content-length")
    if announced is None:
        return None if b"transfer-encoding" in headers else 0
    if isinstance(announced, int) or not announced.isdigit():
        return None
    return int(announced) if len(announced) <= LENGTH_DIGITS else 10**LENGTH_DIGITS


def refuse_announced(headers: HeadersByName, limit: int) -> None:
    """Raise TooLargeError if the announced length exceeds the limit."""
    if (announced_length(headers) or 0) > limit:
        raise TooLargeError("the body", limit)


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the whole body. Raise TooLargeError as soon as it is known to be too large."""
    offered = scope.get("extensions", {}).get(WHOLE)
    whole: bytes | None = None if offered is None else offered.read_whole(limit)
    spend_bytes: Callable[[int], None] | None = scope.get(SPEND_BYTES)
    if whole is None:
        refuse_announced(headers_by_name(scope), limit)
        return await _read_parts(receive, limit, spend_bytes)
    if spend_bytes is not None:
        spend_bytes(len(whole))
    return whole


async def _read_parts(receive: Receive, limit: int, spend_bytes: Callable[[int], None] | None) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise TooLargeError("the body", limit)
        if spend_bytes is not None:
            spend_bytes(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def while_connected(receive: Receive, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return what `work` returns. Cancel it and raise Disconnected if the client goes away first. The body was read."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(disconnected(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Disconnected
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def disconnected(receive: Receive) -> None:
    """Wait until the client has disconnected. The body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def start_event_stream(send: Send) -> None:
    """Begin an answer of server-sent events, whose parts are sent with `send_part`."""
    headers = [
        (b"content-type", CONTENT_TYPE),
        (b"cache-control", b"no-cache, no-transform"),
        (b"x-accel-buffering", b"no"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_part(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def answer(
    send: Send, status: int, body: bytes, content_type: bytes = JSON, headers: Headers = ()
) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", str(len(body)).encode()),
                (b"x-content-type-options", b"nosniff"),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def answer_at_once(scope: Scope, send: Send, body: bytes) -> None:
    """Send a complete answer in JSON by the shortest way that the server offers."""
    offered = scope.get("extensions", {}).get(WHOLE)
    if offered is None or not offered.answer_whole(200, JSON, body):
        await answer(send, 200, body)


async def answer_json(send: Send, value: Any, status: int = 200, headers: Headers = ()) -> None:
    await answer(send, status, strict_json.dumps(value), JSON, headers)


async def answer_error(send: Send, error: ComityError, headers: Headers = ()) -> None:
    refusal = {"detail": public_message(error), "code": error.code}
    await answer_json(send, refusal, http_status(error), [*headers, *when_to_retry(error)])


def when_to_retry(error: ComityError) -> Headers:
    if isinstance(error, RetryLaterError):
        return [(b"retry-after", str(max(1, math.ceil(error.retry_after))).encode())]
    return []


async def refuse_websocket(scope: Scope, send: Send, error: ComityError) -> None:
    """Refuse a WebSocket before it is accepted: in HTTP, or with a close code where the server can do no more."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        code = _TRY_LATER if isinstance(error, RetryLaterError) else _POLICY
        reason = public_message(error).encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        await send({"type": "websocket.close", "code": code, "reason": reason})
        return
    headers = [(b"content-type", JSON), *when_to_retry(error)]
    if isinstance(error, UnauthenticatedError):
        headers.append(CHALLENGE)
    start = {"type": "websocket.http.response.start", "status": http_status(error), "headers": headers}
    refusal = {"detail": public_message(error), "code": error.code}
    with contextlib.suppress(OSError):  # the peer is gone
        await send(start)
        await send({"type": "websocket.http.response.body", "body": strict_json.dumps(refusal)})


# One method at one path, answered in JSON: plain ASGI without a framework. Where GET is answered, HEAD is too.


Take = Callable[[Scope, Receive], Awaitable[Any]]
"""From a request to its answer. Raises the ComityError that is answered instead."""


class Endpoint:
    def __init__(self, method: str, take: Take, *, feature: str, record: Recorder) -> None:
        """A refusal is counted under the name of the feature, unless it got as far as the pipeline, which does that."""
        self._method = method
        self._methods = ("GET", "HEAD") if method == "GET" else (method,)
        self._take = take
        self._feature = feature
        self._record = record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in self._methods:
            refusal = {"detail": f"use {self._method}", "code": "method_not_allowed"}
            await answer_json(send, refusal, 405, [(b"allow", ", ".join(self._methods).encode())])
            return
        try:
            reply = await self._take(scope, receive)
        except ComityError as refused:
            self._record.refuse_once(self._feature, refused)
            await answer_error(send, refused)
        except Disconnected:
            return
        else:
            await answer_at_once(scope, send, strict_json.dumps(reply))


async def read_json_body(
    scope: Scope, receive: Receive, limit: int, what: str, *, may_be_empty: bool = False
) -> bytes:
    """Return the body of a request that has to be JSON. `what` names it in the refusal."""
    body = await read_body(scope, receive, limit)
    if may_be_empty and not body:
        return body
    kind = content_type(scope)
    if kind != "application/json" and not kind.endswith("+json"):
        raise InvalidError(f"{what} must be JSON; send it with Content-Type: application/json")
    return body
