"""A handshake inside an MCP message: one hello and one answer, by the same machine as on a link.

There is no timer: an MCP message without a hello means VCP 1.0 (mcp 2.3). If a hello cannot be accepted, the answer has a
vcp-error in the place of the ack, and the MCP request succeeds.

A modern client repeats its hello with each request (ruling 30). Nothing is stored, so it is negotiated each time. For the
rate limit and the record, the same hello of the same caller within a minute is one handshake.

The VCP session of a legacy client ends when a core feature that it was promised is lost or its identity is revoked
(rulings 45, 46). MCP continues without it: the extensions are inactive, and the lists of the client change. A new MCP
session negotiates again.

Callers of MCP without a verified VCP identity are the node's own user or visitors with an access token. Their sessions
belong to them (ruling 48).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace

from comity.identity.protocol.tokens import log_prefix
from comity.mcp.protocol.context import HandshakeResult, McpClient
from comity.requests.budget import HANDSHAKE_PERIOD
from comity.requests.caller import Caller
from comity.vcp.contexts import owner_of
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.messages import HANDSHAKE_LIMIT, VcpError, is_hello, to_value
from comity.vcp.protocol.negotiation import CheckIdentity, Happened
from comity.vcp.protocol.server import ServerMachine
from comity.vcp.service import VcpServer
from comity.wire import strict_json
from comity.wire.errors import ComityError
from comity.wire.machine import (
    Answered,
    Ask,
    Clock,
    Effect,
    Event,
    Received,
    Refused,
    Send,
    SetTimer,
    Started,
    TimerFired,
)

log = logging.getLogger("comity.vcp")

_MAX_REPEATING: Final = 4096
_MAX_ENDED: Final = 4096
_NO_HELLO: Final = VcpError(
    code="INTERNAL_ERROR", message='What stands in the place of a hello is none; send type "vcp-hello"'
)
_TOO_LARGE: Final = VcpError(
    code="INTERNAL_ERROR", message=f"The hello exceeds the limit of {HANDSHAKE_LIMIT:,} bytes; send less"
)


class VcpOverMcp:
    """`on_end` is called after a session has ended by itself."""

    def __init__(self, service: VcpServer, clock: Clock, *, own_id: str) -> None:
        """`own_id` is the node's id, which owns the sessions of its own user."""
        self.on_end: Callable[[], None] = lambda: None
        self._service = service
        self._own_id = own_id
        self._clock = clock
        self._accepted: OrderedDict[bytes, float] = OrderedDict()
        self._open: dict[str, tuple[Session, str]] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()
        self._watching: asyncio.Task[None] | None = None

    async def negotiate(self, hello: Any, client: McpClient) -> HandshakeResult:
        """A legacy client's session lasts until `end` is called; a modern request's ends with it."""
        data = strict_json.dumps(hello)
        if len(data) > HANDSHAKE_LIMIT:
            return HandshakeResult(reply=to_value(_TOO_LARGE))
        if not is_hello(hello):
            return HandshakeResult(reply=to_value(_NO_HELLO))
        digest = sha256(b"\n".join((client.caller.address.encode(), client.owner.encode(), data))).digest()
        repeats = client.modern and self._repeats(digest)
        machine = self._service.machine(client.caller.address, repeats=repeats)
        shake = _Handshake(machine, self._service, self._clock, client.caller.address, recorded=not repeats)
        reply = await shake.run(data)
        if machine.session is None:
            return HandshakeResult(reply=reply)
        session = self._owned(machine.session, client.caller)
        if client.modern:
            self._accept(digest)
        else:
            self._service.sessions.began(session)
            self._open[session.id] = session, client.caller.address
            self._watch()
        token = hello.get("identity")
        prefix = log_prefix(token) if isinstance(token, str) else None
        return HandshakeResult(
            reply=reply, active=frozenset(session.extensions), attached=session, token_prefix=prefix
        )

    def end(self, session: Session | None) -> None:
        """End the session of a client whose MCP session is over."""
        if session is not None:
            self._open.pop(session.id, None)
            self._service.end(session)
        if not self._open and self._watching is not None:
            self._watching.cancel()

    def current(self, client: McpClient) -> McpClient:
        """Return the client without its VCP session if that has ended."""
        session: Session | None = client.attached
        if session is None:
            return client
        why = self._ended.get(session.id) or self._end_if_lost(session, client.caller.address)
        if why is None:
            return client
        return replace(client, active=frozenset(), attached=None, token_prefix=None, vcp_ended=why)

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._keep_watching())

    async def _keep_watching(self) -> None:
        """Check all sessions at every change of the features."""
        while self._open:
            running = self._service.features.running()
            for session, address in tuple(self._open.values()):
                self._end_if_lost(session, address)
            await self._service.features.wait_for_change(running)

    def _end_if_lost(self, session: Session, address: str) -> str | None:
        ended = self._service.ended(session)
        if ended is None:
            return None
        happened = Happened(what="SESSION_ENDED", session=session, code=ended.vcp_code, reason=ended.message)
        self._service.happened(happened, address)
        self._ended[session.id] = ended.message
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)
        self._open.pop(session.id, None)
        self._service.end(session)
        log.warning("a VCP session over MCP has ended: %s", ended.message)
        self.on_end()
        return ended.message

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call it with the address of each resource that has changed."""
        self._service.on_change = callback

    def _owned(self, session: Session, caller: Caller) -> Session:
        owner = owner_of_caller(caller, self._own_id)
        if owner_of(session) is not None or owner is None:
            return session
        return replace(session, identity=Identity(owner=owner))

    def _repeats(self, digest: bytes) -> bool:
        at = self._accepted.get(digest)
        return at is not None and self._clock.monotonic() - at < HANDSHAKE_PERIOD

    def _accept(self, digest: bytes) -> None:
        self._accepted[digest] = self._clock.monotonic()
        self._accepted.move_to_end(digest)
        if len(self._accepted) > _MAX_REPEATING:
            self._accepted.popitem(last=False)


def owner_of_caller(caller: Caller, own_id: str) -> str | None:
    """Return the owner of the sessions of a caller. No token names an owner with a slash before its first colon."""
    if caller.is_local:
        return own_id
    return f"oauth/{caller.id}" if caller.kind == "oauth" else None


class _Handshake:
    def __init__(
        self, machine: ServerMachine, service: VcpServer, clock: Clock, peer: str, *, recorded: bool
    ) -> None:
        self._machine = machine
        self._service = service
        self._clock = clock
        self._peer = peer
        self._recorded = recorded
        self._reply: Any = None
        self._asked: Ask | None = None
        self._deadline = 0.0

    async def run(self, hello: bytes) -> Any:
        self._feed(Started())
        self._feed(Received(hello))
        question = self._asked
        if self._reply is None and question is not None:
            await self._check(question)
        assert self._reply is not None
        return self._reply

    async def _check(self, question: Ask) -> None:
        assert isinstance(question.request, CheckIdentity)
        try:
            async with asyncio.timeout(max(0.0, self._deadline - self._clock.monotonic())):
                identity = await self._service.check_identity(question.request.token)
        except TimeoutError:
            self._feed(TimerFired("identity"))
        except ComityError as refusal:
            self._feed(Refused(question.tag, refusal))
        except Exception:
            log.exception("an identity could not be checked")
            self._feed(Refused(question.tag, ComityError("the identity could not be checked")))
        else:
            self._feed(Answered(question.tag, identity))

    def _feed(self, event: Event) -> None:
        effects: Sequence[Effect] = self._machine.receive(event, self._clock.monotonic())
        for effect in effects:
            match effect:
                case Send(message) if self._reply is None:
                    self._reply = strict_json.loads(message)
                case SetTimer("identity", at):
                    self._deadline = at
                case Ask(_, Happened() as happened):
                    if self._recorded or self._machine.session is None:
                        self._service.happened(happened, self._peer)
                case Ask(_, CheckIdentity()):
                    self._asked = effect
                case _:
                    pass
