"""The conductor: runs one machine on one link under asyncio.

The machine gets its events one at a time, in order. The next message is read from the link only after the one before it
was handled, so a fast peer has to wait and does not fill the memory. If a peer does not read what is sent to it, the
link is closed after `send_seconds`; two machines that fill the link in both directions need flow control of their own. A
timer that was moved or cancelled does not fire, even if its time had already come. At the end of the run the link is
closed, and open timers and questions are dropped.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from comity.wire.errors import ComityError
from comity.wire.link import LinkClosed, PeerLink
from comity.wire.machine import (
    Answered,
    Ask,
    CancelTimer,
    Clock,
    Close,
    Effect,
    Event,
    LinkLost,
    Machine,
    Received,
    Refused,
    Send,
    SetTimer,
    Started,
    TimerFired,
)

log = logging.getLogger("comity.conductor")

SEND_SECONDS = 30.0

_FAULT = "something failed on our side"

Answer = Callable[[Any], Awaitable[Any]]


class Conductor:
    def __init__(
        self,
        machine: Machine,
        link: PeerLink,
        clock: Clock,
        answer: Answer,
        *,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        """`answer` answers the questions of the machine. It may raise a ComityError; any other error becomes a
        plain one.
        """
        self._machine = machine
        self._link = link
        self._clock = clock
        self._answer = answer
        self._send_seconds = send_seconds
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._handled = asyncio.Event()
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._fired: dict[str, TimerFired] = {}
        self._questions: set[asyncio.Task[None]] = set()

    async def run(self) -> str:
        """Run until the link is gone, and return the reason. Raises what the machine raises."""
        reader = asyncio.create_task(self._read())
        reason = _FAULT
        try:
            reason = await self._conduct()
        except asyncio.CancelledError:
            reason = "this side stops"
            raise
        finally:
            running = [reader, *self._timers.values(), *self._questions]
            for task in running:
                task.cancel()
            await self._close(reason)
            await asyncio.gather(*running, return_exceptions=True)
        return reason

    async def _conduct(self) -> str:
        self._events.put_nowait(Started())
        while True:
            event = await self._events.get()
            if isinstance(event, TimerFired) and self._fired.get(event.name) is not event:
                continue
            for effect in self._machine.receive(event, self._clock.monotonic()):
                if isinstance(effect, Close):
                    return effect.reason
                await self._perform(effect)
            if isinstance(event, Received):
                self._handled.set()
            if isinstance(event, LinkLost):
                return event.reason

    async def _read(self) -> None:
        try:
            while True:
                self._handled.clear()
                self._events.put_nowait(Received(await self._link.receive()))
                await self._handled.wait()
        except LinkClosed as closed:
            self._events.put_nowait(LinkLost(closed.reason))
        except ComityError as fault:
            self._events.put_nowait(LinkLost(fault.message))
        except Exception:
            log.exception("the link to %s failed", self._link.peer)
            self._events.put_nowait(LinkLost(_FAULT))

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(message):
                await self._send(message)
            case SetTimer(name, at):
                self._cancel_timer(name)
                self._timers[name] = asyncio.create_task(self._fire(name, at))
            case CancelTimer(name):
                self._cancel_timer(name)
            case Ask(tag, request):
                question = asyncio.create_task(self._answer_question(tag, request))
                self._questions.add(question)
                question.add_done_callback(self._questions.discard)
            case _:
                raise TypeError(f"no conductor knows how to {type(effect).__name__}")

    async def _send(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(self._send_seconds):
                await self._link.send(message)
        except TimeoutError:
            reason = f"the peer took nothing for {self._send_seconds:g} seconds"
            await self._close(reason)
            self._events.put_nowait(LinkLost(reason))
        except LinkClosed as closed:
            self._events.put_nowait(LinkLost(closed.reason))

    async def _close(self, reason: str) -> None:
        """Close the link; leave it if that takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._send_seconds):
                await self._link.close(reason)

    async def _fire(self, name: str, at: float) -> None:
        await self._clock.sleep(max(0.0, at - self._clock.monotonic()))
        del self._timers[name]
        self._fired[name] = event = TimerFired(name)
        self._events.put_nowait(event)

    def _cancel_timer(self, name: str) -> None:
        self._fired.pop(name, None)
        if timer := self._timers.pop(name, None):
            timer.cancel()

    async def _answer_question(self, tag: str, request: Any) -> None:
        try:
            event: Event = Answered(tag, await self._answer(request))
        except ComityError as error:
            event = Refused(tag, error)
        except Exception:
            log.exception("a question of the machine failed")
            event = Refused(tag, ComityError(_FAULT))
        self._events.put_nowait(event)
