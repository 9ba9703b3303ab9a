"""A room for requests that only the owner of the node may make, and that have no body, or one flag in it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from comity.core.errors import ForbiddenError, InvalidError, UnauthenticatedError
from comity.pipeline.room import Admission, Arrival, Call, Identified, PlainRoom


class OwnersRoom(PlainRoom):
    def __init__(
        self,
        name: str,
        work: Callable[..., Awaitable[dict[str, Any]]],
        deadline: float = 10.0,
        *,
        flag: str = "",
        needs_token: bool = False,
    ) -> None:
        """`work` gives the answer. It is done for one caller at a time. The body may say `flag`, which `work` then gets by
        name. With `needs_token`, the cookie of a browser is not enough.
        """
        self.name = name
        self._flag = flag
        self.deadline = deadline
        self._needs_token = needs_token
        self._work = work
        self._one_at_a_time = asyncio.Lock()

    def identify(self, arrival: Arrival) -> Identified:
        if not arrival.caller.is_local:
            raise UnauthenticatedError("only the owner of this node may ask for this")
        if self._needs_token and arrival.caller.proof == "cookie":
            raise ForbiddenError("a browser may not ask for this; send the token in the file `token`")
        return Identified(arrival.caller)

    async def admit(self, call: Call) -> Admission:
        body = call.arrival.body
        if not isinstance(body, dict) or any(
            name != self._flag or type(value) is not bool for name, value in body.items()
        ):
            allowed = f'a JSON object with "{self._flag}": true or false' if self._flag else "{}"
            raise InvalidError(f"the body must be empty or {allowed}; nothing else can be said here")
        return Admission(checks=("schema",))

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        async with self._one_at_a_time:
            yield

    async def handle(self, call: Call) -> dict[str, Any]:
        return await self._work(**call.arrival.body)
