"""What a handler sees of its call: the Context of the core, on asyncio."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from comity.mcp.protocol.context import LEVELS, Asker, LogLevel
from comity.mcp.protocol.results import InputRequest
from comity.mcp.protocol.session import McpSession, demand, notification
from comity.mcp.protocol.work import RunningRequest
from comity.wire.errors import PeerError

_LONGEST_NAME: Final = 64


class Outlet(Protocol):
    """Where messages about one request go while it is worked on. `session` is that of a legacy client, `client`
    the name of the connection or session, empty where a request stands alone.
    """

    @property
    def client(self) -> str: ...

    @property
    def session(self) -> McpSession | None: ...

    def send(self, message: bytes) -> None: ...

    async def ask(self, request: InputRequest) -> Any: ...

    async def release(self) -> None: ...


class InputNeededError(Exception):
    """Raised through a handler that asked in the modern era: it is run again with the answers."""

    def __init__(self, requests: Mapping[str, InputRequest]) -> None:
        super().__init__("the client has to be asked first")
        self.requests = requests


class Cancellation:
    def __init__(self) -> None:
        self._set = False
        self._callbacks: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        return self._set

    def on_set(self, callback: Callable[[], object]) -> None:
        if self._set:
            callback()
        else:
            self._callbacks.append(callback)

    def set(self) -> None:
        self._set = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class CallContext:
    __slots__ = ("_outlet", "_state", "_work", "asker", "cancelled", "input_state", "inputs")

    def __init__(
        self,
        work: RunningRequest,
        outlet: Outlet,
        *,
        inputs: Mapping[str, Any] | None = None,
        input_state: Any = None,
    ) -> None:
        self._work = work
        self._outlet = outlet
        self._state: dict[str, Any] | None = None
        self.asker: Asker = work.asker
        self.inputs: Mapping[str, Any] = work.inputs if inputs is None else inputs
        self.input_state = input_state
        self.cancelled = Cancellation()

    @property
    def client(self) -> str:
        asker = self.asker
        return f"{asker.owner} {self._outlet.client or alone(asker)}"

    @property
    def demands(self) -> Any:
        return self._work.selection.demands

    @property
    def profile(self) -> str:
        return self._work.selection.profile

    @property
    def folder(self) -> str | None:
        return self._work.selection.folder

    @property
    def meta(self) -> Mapping[str, Any]:
        return self._work.meta

    @property
    def state(self) -> dict[str, Any]:
        session = self._outlet.session
        if session is not None:
            return session.state
        if self._state is None:
            self._state = {}
        return self._state

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        token = self._work.progress_token
        if token is None or self.cancelled.is_set():
            return
        params: dict[str, Any] = {"progressToken": token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._outlet.send(notification("notifications/progress", params))

    def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None:
        if self.cancelled.is_set() or not self._logs(level):
            return
        params = {"level": level, **({"logger": logger} if logger else {}), "data": data}
        self._outlet.send(notification("notifications/message", params))

    @property
    def waits(self) -> bool:
        """Whether questions travel while the handler waits; else it is run again with the answers."""
        return not self.asker.modern

    def again(self, inputs: Mapping[str, Any], input_state: Any) -> "CallContext":
        """For the next round of the same call; who cancels it cancels all of its rounds."""
        context = CallContext(self._work, self._outlet, inputs=inputs, input_state=input_state)
        context.cancelled = self.cancelled
        return context

    async def ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, Any]:
        for request in requests.values():
            demand(self.asker, request)
        if not self.waits:
            missing = {key: one for key, one in requests.items() if not _is_answer(self.inputs.get(key))}
            if missing:
                raise InputNeededError(missing)
            return {key: self.inputs[key] for key in requests}
        asking = [asyncio.ensure_future(self._outlet.ask(request)) for request in requests.values()]
        try:
            answers = await asyncio.gather(*asking)
        finally:
            for one in asking:  # when one is refused, the others are of no use any more
                one.cancel()
        if not all(map(_is_answer, answers)):
            raise PeerError("the client answered with something that is no object")
        return dict(zip(requests, answers, strict=True))

    async def release_stream(self) -> None:
        await self._outlet.release()

    def _logs(self, level: LogLevel) -> bool:
        session = self._outlet.session
        if session is not None:
            return session.logs(level)
        wanted = self._work.log_level
        return wanted in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted)


def alone(asker: Asker) -> str:
    """What tells a client apart that has neither a connection nor a session of its own."""
    return f"{asker.caller.address} {str(asker.info.get('name'))[:_LONGEST_NAME]}"


def _is_answer(value: Any) -> bool:
    """Whatever a client is asked for, it answers with an object."""
    return isinstance(value, dict)
