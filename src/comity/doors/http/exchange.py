"""One request and its answer: uvicorn's, made lighter for the many small ones that a node answers.

An exchange does not hold the scope it is answered in, because the scope names its `read_whole` and `answer_whole`: two
that held each other would be left to the garbage collector, request after request.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from comity.doors.http.asgi import App, Scope

if TYPE_CHECKING:
    from comity.doors.http.connection import HttpConnection

log = logging.getLogger("comity.http")


class Exchange(RequestResponseCycle):
    access_log = False
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0
    body: Any  # bytes while it is one piece, as most are, and then not copied; a bytearray when more has come

    def __init__(self, connection: "HttpConnection", method: str, *, keep_alive: bool) -> None:
        self.scope = {"method": method}  # type: ignore[typeddict-item] # uvicorn answers a HEAD without a body
        self.wire = self.transport = connection.wire
        self.flow = connection.flow
        self.default_headers = connection.server_state.default_headers
        self.message_event = asyncio.Event()
        self.on_response = connection.on_response_complete
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = connection.expect_100_continue
        self.body = b""

    def take(self, part: bytes) -> int:
        """More of the body. How much of it waits to be read."""
        if not self.body:
            self.body = part
        elif isinstance(self.body, bytes):
            self.body = bytearray(self.body) + part
        else:
            self.body += part
        self.message_event.set()
        return len(self.body)

    def take_last(self, part: bytes = b"") -> None:
        """The end of the body."""
        if part:
            self.take(part)
        self.more_body = False
        self.message_event.set()

    async def run(self, app: App, scope: Scope, running: set[asyncio.Task[None]]) -> None:
        """Until the application has answered; a fault of its own is for the log, the peer hears 500."""
        try:
            await app(scope, self.receive, self.send)  # type: ignore[arg-type] # uvicorn names each event, we do not
        except BaseException as fault:
            log.exception("the application failed", exc_info=fault)
            await self._give_up()
        else:
            if not self.response_complete and not self.disconnected:
                log.error("the application returned without a complete answer")
                await self._give_up()
        finally:
            self.on_response = _nobody
            running.discard(asyncio.current_task())

    def read_whole(self, limit: int) -> bytes | None:
        """The rest of the body, if all of it is here. None where it has to be received as any other."""
        body = self.body
        if self.more_body or self.disconnected or self.waiting_for_100_continue:
            return None
        if not isinstance(body, bytes) or len(body) > limit:
            return None
        self.body = bytearray()
        self.message_event.clear()
        self.flow.resume_reading()
        return body

    def answer_whole(self, status: int, content_type: bytes, body: bytes) -> bool:
        """An answer that is complete, written at once. False where it has to be sent as any other."""
        if self.flow.write_paused or self.response_started or self.disconnected:
            return False
        if self.scope["method"] == "HEAD":
            return False
        lines = [STATUS_LINE[status]]
        for name, value in self.default_headers:
            lines += (name, b": ", value, b"\r\n")
        lines.append(
            b"content-type: %b\r\ncontent-length: %d\r\nx-content-type-options: nosniff\r\n%b\r\n"
            % (content_type, len(body), b"" if self.keep_alive else b"connection: close\r\n")
        )
        lines.append(body)
        self.wire.write_whole(b"".join(lines))
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.message_event.set()
        if not self.keep_alive:
            self.wire.close()
        self.on_response()
        return True

    async def _give_up(self) -> None:
        if self.response_started:
            self.transport.close()
        else:
            await self.send_500_response()


def _nobody() -> None:
    """Is told of an answer that came after its application had returned."""
