"""One request and its answer, as ASGI has it.

- The head of an answer waits for its body until the end of this turn of the loop: one call to the system for both is a
  tenth of what a small answer costs.
- The application is asked in a scope that names this exchange (`read_whole`, `answer_whole`). The exchange does not hold
  that scope: two that held each other would be left to the garbage collector, request after request.
"""

import asyncio
import http
import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from comity.http.asgi import HEADERS_BY_NAME, App, Disconnected, Message, Scope
from comity.requests.handler import begin_request
from comity.requests.record import REQUEST_IDS
from comity.wire import strict_json

if TYPE_CHECKING:
    from comity.http.connection import HttpConnection

log = logging.getLogger("comity.http")

_PHRASES: Final = {status.value: status.phrase for status in http.HTTPStatus}
STATUS_LINE: Final = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)
}
_WITHOUT_BODY: Final = frozenset({204, 304})
_TOO_LARGE: Final = 413
_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_GONE: Final[Message] = {"type": "http.disconnect"}
_FAULT: Final = strict_json.dumps(
    {"detail": "something failed on our side; the log of this node says what", "code": "internal"}
)


def whole_answer(
    status: int, date: bytes, content_type: bytes, body: bytes, *, keep_alive: bool, request_id: str = ""
) -> bytes:
    return (
        b"%bdate: %b\r\n%bcontent-type: %b\r\ncontent-length: %d\r\nx-content-type-options: nosniff\r\n%b\r\n%b"
        % (
            STATUS_LINE[status],
            date,
            b"x-request-id: %b\r\n" % request_id.encode() if request_id else b"",
            content_type,
            len(body),
            b"" if keep_alive else b"connection: close\r\n",
            body,
        )
    )


class Exchange:
    task: "asyncio.Task[None]"
    _body: bytes | bytearray = b""  # bytes while it is one piece, as most are, and then not copied
    _more_body = True
    _handed_out = False
    _waits: "asyncio.Future[None] | None" = None
    _head = b""
    _head_at_the_latest: asyncio.Handle | None = None
    _left: int | None = None  # of the length that the answer states; None: it comes in chunks
    _without_body = False
    status = 0
    complete = False
    gone = False

    def __init__(
        self, connection: "HttpConnection", scope: Scope, *, keep_alive: bool, expects_continue: bool
    ) -> None:
        self._connection = connection
        self._id = REQUEST_IDS.new()
        self._method: str = scope["method"]
        self._old = scope["http_version"] == "1.0"
        self._expects_continue = expects_continue
        self.keep_alive = keep_alive

    @property
    def unread(self) -> int:
        """Return how many bytes of the body wait for the application."""
        return len(self._body)

    def take_whole(self, body: bytes) -> None:
        """Set the whole body, before the application waits for it."""
        self._body = body
        self._more_body = False

    def take(self, part: bytes) -> None:
        """Add a part of the body."""
        if not self._body:
            self._body = part
        elif isinstance(self._body, bytes):
            self._body = bytearray(self._body) + part
        else:
            self._body += part
        self._wake()

    def take_last(self) -> None:
        """Note that the body has ended."""
        self._more_body = False
        self._wake()

    def leave(self) -> None:
        """Note that the peer is gone, or is not read any more."""
        self.gone = True
        self._wake()

    async def run(self, app: App, scope: Scope, running: "set[asyncio.Task[None]]") -> None:
        """Run the application until it has answered; a fault of the application is logged, and the peer gets 500."""
        begin_request(self._id, _trace_of(scope))
        try:
            await app(scope, self.receive, self.send)
        except (Disconnected, ClientDisconnect):
            self._give_up()
        except BaseException as fault:
            log.exception("the application failed", exc_info=fault)
            self._give_up()
        else:
            if not self.complete and not self.gone:
                log.error("the application returned without a complete answer")
                self._give_up()
        finally:
            running.discard(self.task)

    async def receive(self) -> Message:
        if self._expects_continue and not self.gone:
            self._expects_continue = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self.gone or self.complete or self._has_part()):
            self._connection.read_on()
            self._waits = asyncio.get_running_loop().create_future()
            await self._waits
        if self.gone or self.complete:
            return _GONE
        body, self._body = bytes(self._body), b""
        self._handed_out = not self._more_body
        self._connection.read_on()
        return {"type": "http.request", "body": body, "more_body": self._more_body}

    def _has_part(self) -> bool:
        """Return whether a part of the body, or its end, can be handed out."""
        return not self._handed_out and (bool(self._body) or not self._more_body)

    def read_whole(self, limit: int) -> bytes | None:
        """Return the rest of the body if all of it is here, else None; then it is received as usual."""
        body = self._body
        if self._more_body or self.gone or self._expects_continue or self._handed_out:
            return None
        if not isinstance(body, bytes) or len(body) > limit:
            return None
        self._body = b""
        self._handed_out = True
        return body

    def answer_whole(self, status: int, content_type: bytes, body: bytes) -> bool:
        """Write a complete answer at once. Return False if it has to be sent as usual."""
        connection = self._connection
        if connection.stalled or self.status or self.gone or self._expects_continue or self._method == "HEAD":
            return False
        self.status = status
        connection.write(
            whole_answer(
                status, connection.date, content_type, body, keep_alive=self.keep_alive, request_id=self._id
            )
        )
        self._finish()
        return True

    async def send(self, message: Message) -> None:
        connection = self._connection
        if connection.stalled:
            await connection.drained()
        if self.gone:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self.status:
            self._start(message["status"], list(message.get("headers", ())))
        elif kind == "http.response.body" and self.status and not self.complete:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"{kind} is not what an answer goes on with here")

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self._without_body = self._method == "HEAD" or status in _WITHOUT_BODY
        if self._expects_continue or status == _TOO_LARGE:  # whether the body still comes is not certain
            self._expects_continue = False
            self.keep_alive = False
        stated = [value for name, value in headers if name.lower() == b"content-length"]
        if stated:
            self._left = 0 if self._without_body else int(stated[0])
        elif self._without_body:
            self._left = 0
        elif self._old:  # such a peer knows no chunks: the end of the connection ends the body
            self.keep_alive = False
        else:
            headers.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive and (b"connection", b"close") not in headers:
            headers.append((b"connection", b"close"))
        headers.append((b"x-request-id", self._id.encode()))
        self._head = _head_of(status, self._connection.date, headers)
        self._head_at_the_latest = asyncio.get_running_loop().call_soon(self._send_head)

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self._without_body:
            part = b""
        elif self._left is None and not self._old:
            part = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            part += b"" if more else b"0\r\n\r\n"
        else:
            part = body
            if self._left is not None:
                self._left -= len(body)
                if self._left < 0 or (self._left and not more):
                    raise RuntimeError("the body of the answer has another length than its head says")
        self._connection.write(self._take_head() + part if self._head else part)
        if not more:
            self._finish()

    def _finish(self) -> None:
        self.complete = True
        self._wake()
        self._connection.answered(self)

    def _give_up(self) -> None:
        """The application did not finish its answer."""
        if self.gone or self.complete:
            return
        self.keep_alive = False
        if self.status:
            self._send_head()
        else:
            self.status = 500
            self._connection.write(
                whole_answer(
                    500,
                    self._connection.date,
                    b"application/json",
                    _FAULT,
                    keep_alive=False,
                    request_id=self._id,
                )
            )
        self._finish()

    def _wake(self) -> None:
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        if self._head_at_the_latest is not None:
            self._head_at_the_latest.cancel()
            self._head_at_the_latest = None
        return head

    def _send_head(self) -> None:
        if self._head and not self.gone:
            self._connection.write(self._take_head())


def _trace_of(scope: Scope) -> str:
    """Return the trace of the request (W3C Trace Context), or an empty text."""
    said = scope[HEADERS_BY_NAME].get(b"traceparent")
    if said is None:
        return ""
    found = _TRACEPARENT.fullmatch(said) if isinstance(said, bytes) else None
    return found[0].decode() if found else ""


def _head_of(status: int, date: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [STATUS_LINE[status], b"date: ", date, b"\r\n"]
    count = 3
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
        count += 1
    lines.append(b"\r\n")
    head = b"".join(lines)
    if head.count(b"\n") != count or head.count(b"\r") != count or b"\0" in head:
        raise ValueError("a header of the answer holds a line break or a NUL")
    return head
