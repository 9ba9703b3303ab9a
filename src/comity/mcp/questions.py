"""Questions of ours to a legacy client, and the answers that come back for them."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final

from comity.mcp.protocol.results import InputRequest
from comity.mcp.protocol.session import notification, question
from comity.wire.errors import OverloadedError, PeerError
from comity.wire.jsonrpc import Response

MOST_OPEN: Final = 256


class ClientRefusedError(PeerError):
    """The client answered a question of ours with an error, or went away."""

    code = "client_refused"


class Questions:
    def __init__(self, prefix: str = "comity") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._open: dict[str, asyncio.Future[Any]] = {}
        self._abandoned = False

    async def ask(self, request: InputRequest, send: Callable[[bytes], None]) -> Any:
        """The client's result. Whoever stops waiting tells the client so."""
        if self._abandoned:
            raise _client_gone()
        if len(self._open) >= MOST_OPEN:
            raise OverloadedError(f"{MOST_OPEN} questions to this client are open; let it answer first")
        id_ = f"{self._prefix}-{next(self._numbers)}"
        answer = self._open[id_] = asyncio.get_running_loop().create_future()
        try:
            send(question(id_, request))
            return await answer
        except asyncio.CancelledError:
            if not answer.done() or answer.cancelled():
                send(
                    notification("notifications/cancelled", {"requestId": id_, "reason": "no longer needed"})
                )
            raise
        finally:
            self._open.pop(id_, None)

    def answered(self, response: Response) -> bool:
        """Whether anybody waited for it."""
        waiting = self._open.get(response.id) if isinstance(response.id, str) else None
        if waiting is None or waiting.done():
            return False
        if response.error is None:
            waiting.set_result(response.result)
        else:
            waiting.set_exception(ClientRefusedError(f"the client refused: {response.error.message[:200]}"))
        return True

    def abandon(self) -> None:
        """Refuse open questions and all later ones: the client is gone."""
        self._abandoned = True
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(_client_gone())


def _client_gone() -> ClientRefusedError:
    return ClientRefusedError("the client went away without an answer")
