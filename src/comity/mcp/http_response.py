"""How an exchange over HTTP is answered: with one JSON body, or with a stream of events."""

import asyncio
import logging
from contextlib import aclosing
from typing import Any, Final

from comity.http.asgi import Headers, Receive, Scope, Send, answer, answer_at_once
from comity.mcp.calls import Outcome
from comity.mcp.protocol.answers import around, refused
from comity.mcp.protocol.refusals import status_of
from comity.mcp.streams import EventStream, Following
from comity.wire import sse
from comity.wire.jsonrpc import Id, Request, RpcError

log = logging.getLogger("comity.mcp")

RETRY_MS: Final = 1000
SILENCE: Final = 5.0
"""Seconds without a word after which an answer becomes a stream, so that signs of life can be given."""


class HttpResponder:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send

    async def with_body(self, status: int, body: bytes, headers: Headers = ()) -> None:
        if status == 200 and not headers:
            await answer_at_once(self._scope, self._send, body)
        else:
            await answer(self._send, status, body, headers=headers)

    async def refuse(self, id_: Id | None, error: RpcError, status: int, headers: Headers = ()) -> None:
        await refuse(self._send, id_, error, status, headers)

    async def say(self, request: Request, outcome: Outcome, *, legacy: bool = False) -> None:
        status = 200 if legacy or isinstance(outcome, bytes) else status_of(outcome.code)
        await self.with_body(status, spoken(request, outcome))

    async def until_done(
        self,
        request: Request,
        stream: EventStream,
        work: "asyncio.Task[Outcome | None]",
        *,
        with_ids: bool,
        primed: bool = False,
    ) -> None:
        """Answer with what comes of the work: as JSON if that is all, else as the stream it has become."""
        gone = asyncio.ensure_future(self._gone())
        first = asyncio.ensure_future(stream.wait())
        try:
            await asyncio.wait((first, gone), timeout=SILENCE, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return
            if work.done() and stream.last <= 1:
                outcome = None if work.cancelled() else work.result()
                if outcome is None:  # cancelled by the client: there is nothing to say
                    await answer(self._send, 202, b"")
                else:
                    await self.say(request, outcome, legacy=with_ids)
                return
            events = stream.follow(with_ids=with_ids)
            await self._until_gone(events, _primed(stream, 0) if primed else b"", gone)
        finally:
            first.cancel()
            gone.cancel()

    async def follow(self, stream: EventStream, after: int, *, primed: bool, take_over: bool) -> None:
        """Answer with a stream from a place on, until it ends or its reader goes away. Who comes back may take over from
        its former connection.
        """
        events = stream.follow(after, take_over=take_over)  # a refusal comes before anything is written
        gone = asyncio.ensure_future(self._gone())
        try:
            await self._until_gone(events, _primed(stream, after) if primed else b"", gone)
        finally:
            gone.cancel()

    async def _until_gone(self, events: Following, start: bytes, gone: "asyncio.Task[None]") -> None:
        async with aclosing(events):
            writing = asyncio.ensure_future(self._write(start, events))
            try:
                await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancelled(writing)

    async def _write(self, start: bytes, events: Following) -> None:
        await self._send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", sse.CONTENT_TYPE),
                    (b"cache-control", b"no-cache, no-transform"),
                    (b"x-accel-buffering", b"no"),
                    (b"x-content-type-options", b"nosniff"),
                ],
            }
        )
        await self._part(start)  # also when it is empty: the head leaves at once
        async for event in events:
            await self._part(event)
        await self._send({"type": "http.response.body", "body": b""})

    async def _part(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _primed(stream: EventStream, after: int) -> bytes:
    """An id to come back with, before there is any message."""
    return sse.priming(sse.event_id(stream.name, after), RETRY_MS)


def spoken(request: Request, outcome: Outcome) -> bytes:
    return around(request.id, outcome) if isinstance(outcome, bytes) else refused(request.id, outcome)


async def cancelled(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.debug("a response ended early: %s", fault)


async def refuse(send: Send, id_: Id | None, error: RpcError, status: int, headers: Headers = ()) -> None:
    await answer(send, status, refused(id_, error), headers=headers)
