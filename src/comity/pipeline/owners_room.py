"""A room for what only the owner of the node may ask, and which needs no more than to be asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from comity.core.errors import ForbiddenError, UnauthenticatedError
from comity.pipeline.room import Arrival, Call, Identified, PlainRoom


class OwnersRoom(PlainRoom):
    def __init__(
        self,
        name: str,
        work: Callable[[Any], Awaitable[dict[str, Any]]],
        deadline: float = 10.0,
        *,
        needs_token: bool = False,
    ) -> None:
        """`work` gives the answer to a body. It is done for one caller at a time. With `needs_token`, the cookie of a
        browser is not enough.
        """
        self.name = name
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

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        async with self._one_at_a_time:
            yield

    async def handle(self, call: Call) -> dict[str, Any]:
        return await self._work(call.arrival.body)
