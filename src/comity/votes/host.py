"""The handler at `/v1/deliberations`: parties on other nodes read a log and act in it, by signed envelopes (ruling 50a).

- The signature of the envelope is checked before its text is read. A sender that takes no part in the vote gets a status,
  and nothing is stored; a party always gets a signed reply: the entry, entries, or a refusal with the tip.
- The new entry, the state after it, the reply and the position of the envelope in its chain are one commit. The reply to
  an act that is in the log already is its entry, however often it is sent.
- Only the host accepts acts. Every node that has the log lets its parties read it.
- The tip of the sender is compared with our log. Two entries with one number and valid signatures are stored as
  conflicting records, and no act is accepted after that. A host whose log is shorter than what it has signed accepts no
  acts either: it would give a number out twice.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Unpack

from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.server import MessageSend, SignedHandler, SignedHandlerOptions, VerifiedCall
from comity.http.asgi import Receive, Scope, Send, answer_json
from comity.identity.protocol.keys import VacantId
from comity.requests.handler import Admission, Call, Handler, HandlerResult, Identified, Request
from comity.requests.pipeline import Pipeline
from comity.store.interface import Operation, Put, StoreConflict
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.logs import (
    FEATURE,
    SCAN_THRESHOLD,
    Ledger,
    StoredVote,
    VersionedVote,
    conflict_error,
    find_conflict,
    same_entry,
)
from comity.votes.protocol import log
from comity.wire.errors import ForbiddenError, NotFoundError, OverloadedError

HOST_BOOK: Final = "deliberations"
"""Chains of the envelopes that this node accepted as a host, and of its replies."""


class VotesDoor:
    """The id of this node (GET), and signed envelopes about votes (POST)."""

    def __init__(self, handler: Handler, pipeline: Pipeline, body_limit: int, identity: VacantId) -> None:
        self._send = MessageSend(handler, pipeline, body_limit)
        self._identity = identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in {"GET", "HEAD"}:
            await answer_json(send, {"vacant_id": self._identity.hex()})
            return
        await self._send(scope, receive, send)


class _VoteCall(VerifiedCall):
    """An envelope with a message about a vote. `vote` is set once it is known that the sender may read it."""

    __slots__ = ("message", "vote")

    vote: VersionedVote

    def __init__(self, verified: VerifiedCall, message: log.ActRequest | log.ReadRequest) -> None:
        super().__init__(verified.envelope, verified.members)
        self.message = message


class _Reply(Struct, frozen=True):
    text: bytes
    about: str
    operations: tuple[Operation, ...] = ()


class VoteHostHandler(SignedHandler):
    name = FEATURE

    def __init__(self, *, ledger: Ledger, **options: Unpack[SignedHandlerOptions]) -> None:
        super().__init__(**options)
        self._ledger = ledger

    def identify(self, request: Request) -> Identified:
        caller, verified = super().identify(request)
        text = "".join(part.text for part in verified.envelope.payload.parts)
        message = log.read_request(text.encode("utf-8", "surrogatepass"))
        return Identified(caller, _VoteCall(verified, message))

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        async with super().hold(call), self._ledger.locks.of(call.evidence.message.delib_id):
            yield

    async def admit(self, call: Call) -> Admission:
        found = await self._ledger.find(call.evidence.message.delib_id)
        if found is None:
            raise NotFoundError("there is no such vote here; check the address and the id")
        try:
            log.refuse_reader(found.stored.vote, call.caller.id)
        except ExtensionError as refusal:
            raise ForbiddenError(refusal.message) from None
        call.evidence.vote = found
        return await super().admit(call)

    async def handle(self, call: Call) -> _Reply:
        message: log.ActRequest | log.ReadRequest = call.evidence.message
        version: VersionedVote = call.evidence.vote
        tip = version.stored.head.tip
        about = "read" if isinstance(message, log.ReadRequest) else message.entry.action.op
        try:
            if message.tip is not None:
                await self._check_tip(version.stored, message.tip)
            if isinstance(message, log.ReadRequest):
                following = await self._ledger.entries(
                    message.delib_id, message.after, log.MAX_PAGE_ENTRIES + 1
                )
                return _Reply(log.reply_with_page(following, tip), about)
            return await self._act(version, message, call, about)
        except _ConflictFoundError as found:
            change = self._ledger.changing(version, found.stored)
            return _Reply(log.reply_with_refusal(found.refusal, tip), "fraud", (change,))
        except ExtensionError as refusal:
            return _Reply(log.reply_with_refusal(refusal, tip), f"{about} refused")

    async def _check_tip(self, stored: StoredVote, tip: log.SignedTip) -> None:
        if tip.delib_id != stored.id or not tip.is_signed_by(stored.vote.host):
            raise ExtensionError(
                "BAD_SIGNATURE", "tip is no entry of this vote with a signature of its host", "tip"
            )
        if stored.conflict is None and (conflict := await find_conflict(self._ledger, stored, tip)):
            raise _ConflictFoundError(replace(stored, conflict=conflict))
        own = stored.head.tip.number
        if tip.number > own and stored.vote.host == self._self.hex():
            raise ExtensionError(
                "PRECONDITION_FAILED",
                f"the log of this host ends at entry {own}, and it has signed entry {tip.number}: its database is an older "
                "copy. It accepts no acts until its operator has restored the newer one",
                "tip",
            )

    async def _act(self, version: VersionedVote, message: log.ActRequest, call: Call, about: str) -> _Reply:
        stored, entry = version.stored, message.entry
        about = f"{about} #{entry.number}"
        if entry.number <= stored.head.tip.number:
            known = await self._ledger.entry(stored.id, entry.number)
            if known is not None and same_entry(entry, known):
                return _Reply(log.reply_with_entry(known, stored.head.tip), about)
        if stored.conflict is not None:
            raise conflict_error(stored.conflict)
        head, entry = log.admit_request(
            stored.head, message, call.caller.id, self._key, call.at, SCAN_THRESHOLD
        )
        self._ledger.refuse_full(stored, entry)
        operations = self._ledger.adding(version, replace(stored, head=head), [entry])
        return _Reply(log.reply_with_entry(entry, head.tip), about, operations)

    async def seal(self, call: Call, result: _Reply) -> HandlerResult:
        message = A2AMessage(role="ROLE_AGENT", parts=(A2APart(text=result.text.decode()),))
        sealed = await super().seal(call, message)
        return replace(sealed, operations=(*sealed.operations, *result.operations), about=result.about)

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        if isinstance(conflict.operation, Put):
            raise OverloadedError("another process has changed this vote; send the same again")
        return await super().answer_conflict(call, conflict)


class _ConflictFoundError(Exception):
    def __init__(self, stored: StoredVote) -> None:
        assert stored.conflict is not None
        self.refusal = conflict_error(stored.conflict)
        super().__init__(self.refusal.message)
        self.stored = stored
