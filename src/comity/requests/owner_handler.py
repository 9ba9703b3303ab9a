"""A handler for the commands of the owner that take at most one flag."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from comity.identity.protocol.rights import RIGHT_WORDS, Right
from comity.requests.handler import Admission, Call, HandlerDefaults, Identified, Request
from comity.wire.errors import ForbiddenError, InvalidError, UnauthenticatedError


class OwnerHandler(HandlerDefaults):
    def __init__(
        self,
        name: str,
        work: Callable[..., Awaitable[dict[str, Any]]],
        deadline: float = 10.0,
        *,
        flag: str = "",
        right: Right = "manage",
    ) -> None:
        """`work` returns the answer, for one caller at a time that has the `right`. The body may contain `flag`, which `work`
        then gets by name.
        """
        self.name = name
        self._flag = flag
        self.deadline = deadline
        self._right: Right = right
        self._work = work
        self._one_at_a_time = asyncio.Lock()

    def identify(self, request: Request) -> Identified:
        if not request.caller.is_local:
            raise UnauthenticatedError("only the owner of this node may ask for this")
        if not request.caller.may(self._right):
            raise ForbiddenError(f"this needs the right to {RIGHT_WORDS[self._right]}")
        return Identified(request.caller)

    async def admit(self, call: Call) -> Admission:
        body = call.request.body
        if not isinstance(body, dict) or any(
            name != self._flag or type(value) is not bool for name, value in body.items()
        ):
            allowed = f'a JSON object with "{self._flag}": true or false' if self._flag else "{}"
            raise InvalidError(f"the body must be empty or {allowed}; nothing else can be said here")
        return Admission(checks=("schema",))

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        return self._one_at_a_time

    async def handle(self, call: Call) -> dict[str, Any]:
        return await self._work(**call.request.body)
