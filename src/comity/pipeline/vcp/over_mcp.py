"""A handshake inside an MCP message: one hello, one answer, by the same machine as on a link of its own.

There is no timer: an MCP message without a hello is the decision for VCP 1.0 (mcp 2.3). A hello that cannot be
accepted is answered with a vcp-error in the place of the ack, and the MCP request succeeds all the same.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from comity.core.clock import Clock
from comity.core.errors import ComityError
from comity.core.identity.signed_token import log_prefix
from comity.core.machine import (
    Answered,
    Ask,
    Effect,
    Event,
    Received,
    Refused,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from comity.core.mcp.context import Asker
from comity.core.mcp.vcp_places import Negotiated
from comity.core.negotiation.messages import HANDSHAKE_LIMIT, VcpError, says_hello, to_value
from comity.core.negotiation.questions import CheckIdentity, Happened
from comity.core.negotiation.server import ServerMachine
from comity.core.negotiation.session import Session
from comity.core.wire import strict_json
from comity.pipeline.vcp.service import VcpServer

_NO_HELLO: Final = VcpError(
    code="INTERNAL_ERROR", message='What stands in the place of a hello is none; send type "vcp-hello"'
)
_TOO_LARGE: Final = VcpError(
    code="INTERNAL_ERROR", message=f"The hello exceeds the limit of {HANDSHAKE_LIMIT:,} bytes; send less"
)


class VcpOverMcp:
    def __init__(self, service: VcpServer, clock: Clock) -> None:
        self._service = service
        self._clock = clock

    async def negotiate(self, hello: Any, asker: Asker) -> Negotiated:
        """A legacy client's session lasts until `end` is called; a modern request's ends with it."""
        data = strict_json.dumps(hello)
        if len(data) > HANDSHAKE_LIMIT:
            return Negotiated(reply=to_value(_TOO_LARGE))
        if not says_hello(hello):
            return Negotiated(reply=to_value(_NO_HELLO))
        machine = self._service.machine(asker.peer)
        reply = await _Handshake(machine, self._service, self._clock, asker.peer).run(data)
        session = machine.session
        if session is None:
            return Negotiated(reply=reply)
        if not asker.modern:
            self._service.sessions.began(session)
        token = hello.get("identity")
        prefix = log_prefix(token) if isinstance(token, str) else None
        return Negotiated(reply=reply, session=session, token_prefix=prefix)

    def end(self, session: Session | None) -> None:
        """The MCP session that said the hello is over."""
        if session is not None:
            self._service.sessions.ended(session)
            self._service.forget(session)


class _Handshake:
    def __init__(self, machine: ServerMachine, service: VcpServer, clock: Clock, peer: str) -> None:
        self._machine = machine
        self._service = service
        self._clock = clock
        self._peer = peer
        self._reply: Any = None
        self._question: Ask | None = None
        self._patience = 0.0

    async def run(self, hello: bytes) -> Any:
        self._take(Started())
        self._take(Received(hello))
        question = self._question
        if self._reply is None and question is not None:
            await self._check(question)
        assert self._reply is not None
        return self._reply

    async def _check(self, question: Ask) -> None:
        assert isinstance(question.request, CheckIdentity)
        try:
            async with asyncio.timeout(max(0.0, self._patience - self._clock.monotonic())):
                identity = await self._service.check_identity(question.request.token)
        except TimeoutError:
            self._take(TimerFired("identity"))
        except ComityError as refusal:
            self._take(Refused(question.tag, refusal))
        else:
            self._take(Answered(question.tag, identity))

    def _take(self, event: Event) -> None:
        effects: Sequence[Effect] = self._machine.receive(event, self._clock.monotonic())
        for effect in effects:
            match effect:
                case Send(message) if self._reply is None:
                    self._reply = strict_json.loads(message)
                case SetTimer("identity", at):
                    self._patience = at
                case Ask(_, Happened() as happened):
                    self._service.happened(happened, self._peer)
                case Ask(_, CheckIdentity()):
                    self._question = effect
                case _:
                    pass
