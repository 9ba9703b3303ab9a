"""The handler at `/v1/deliberations`: parties on other nodes read a log and act in it, by signed envelopes (ruling 50a).

- Who signed the envelope is known before its text is read. Whoever takes no part in the deliberation gets a status
  and nothing is stored; a party always gets a signed answer: the entry, entries, or a refusal with the tip.
- The new entry, the state after it, the reply and the place of the envelope in its chain are one commit. An entry that
  is in the log already is answered with it again, however often it is sent.
- Only the keeper takes acts. Every node that has the log lets its parties read it.
- The tip of the sender is held against our own log. Two entries with one number under both signatures are kept as
  proof of fraud, and nothing more is taken. A keeper whose log is shorter than what it has signed takes nothing either:
  it would give a number out twice.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Unpack

from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.doors import MessageSend
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.server import SignedHandler, SignedHandlerOptions, VerifiedCall
from comity.http.asgi import Receive, Scope, Send, answer_json
from comity.identity.protocol.keys import VacantId
from comity.requests.handler import Admission, Call, Handler, HandlerResult, Identified, Request
from comity.requests.pipeline import Pipeline
from comity.store.interface import Operation, Put, StoreConflict
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.logs import (
    SCAN_THRESHOLD,
    KeptDeliberation,
    Ledger,
    Read,
    fraud_by,
    fraud_error,
    same_entry,
)
from comity.votes.protocol.log import (
    MAX_PAGE_ENTRIES,
    ActPost,
    KeptTip,
    ReadPost,
    answer_entry,
    answer_page,
    answer_refusal,
    keep,
    page_of,
    read_post,
    refuse_reader,
)
from comity.wire.errors import ForbiddenError, NotFoundError, OverloadedError

# `/v1/deliberations`: who this node is (GET), and signed envelopes about deliberations (POST).


DELIBERATIONS_PATH = "/v1/deliberations"


class DeliberationsDoor:
    def __init__(self, handler: Handler, pipeline: Pipeline, body_limit: int, identity: VacantId) -> None:
        self._send = MessageSend(handler, pipeline, body_limit)
        self._identity = identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in {"GET", "HEAD"}:
            await answer_json(send, {"vacant_id": self._identity.hex()})
            return
        await self._send(scope, receive, send)


FEATURE: Final = "deliberation"
KEEPER_BOOK: Final = "deliberations"
"""Chains of what this node accepted as a keeper, and of its replies."""


class _Posted(VerifiedCall):
    """An envelope with a message about a deliberation, and that deliberation, once the sender may know of it."""

    __slots__ = ("post", "read")

    read: Read

    def __init__(self, envelope: VacantEnvelope, post: ActPost | ReadPost) -> None:
        super().__init__(envelope)
        self.post = post

    @property
    def delib_id(self) -> str:
        return self.post.delib_id if isinstance(self.post, ReadPost) else self.post.entry.delib_id


class _Answered(Struct, frozen=True):
    text: bytes
    about: str
    operations: tuple[Operation, ...] = ()


class VoteHostHandler(SignedHandler):
    name = FEATURE

    def __init__(self, *, ledger: Ledger, **given: Unpack[SignedHandlerOptions]) -> None:
        super().__init__(**given)
        self._ledger = ledger

    def identify(self, request: Request) -> Identified:
        caller, visit = super().identify(request)
        text = "".join(part.text for part in visit.envelope.payload.parts)
        return Identified(caller, _Posted(visit.envelope, read_post(text.encode("utf-8", "surrogatepass"))))

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        async with super().hold(call), self._ledger.turns.of(call.evidence.delib_id):
            yield

    async def admit(self, call: Call) -> Admission:
        visit: _Posted = call.evidence
        found = await self._ledger.find(visit.delib_id)
        if found is None:
            raise NotFoundError("there is no such deliberation here; check the address and the id")
        try:
            refuse_reader(found.kept.deliberation, call.caller.id)
        except ExtensionError as refusal:
            raise ForbiddenError(refusal.message) from None
        visit.read = found
        return await super().admit(call)

    async def handle(self, call: Call) -> _Answered:
        visit: _Posted = call.evidence
        kept = visit.read.kept
        about = "read" if isinstance(visit.post, ReadPost) else visit.post.entry.action.op
        try:
            if visit.post.tip is not None:
                await self._hear(kept, visit.post.tip)
            if isinstance(visit.post, ReadPost):
                return _Answered(await self._page(kept, visit.post.after), about)
            return await self._take(visit.read, visit.post, call, about)
        except _FraudError as found:
            change = self._ledger.changing(visit.read, found.kept)
            return _Answered(answer_refusal(found.refusal, kept.head.tip), "fraud", (change,))
        except ExtensionError as refusal:
            return _Answered(answer_refusal(refusal, kept.head.tip), f"{about} refused")

    async def _hear(self, kept: KeptDeliberation, tip: KeptTip) -> None:
        if tip.delib_id != kept.id or not tip.is_signed_by(kept.deliberation.keeper):
            raise ExtensionError(
                "BAD_SIGNATURE",
                "tip is not an entry of this deliberation under its keeper's signature",
                "tip",
            )
        if kept.fraud is None and (fraud := await fraud_by(self._ledger, kept, tip)) is not None:
            raise _FraudError(replace(kept, fraud=fraud), fraud_error(fraud))
        if tip.number > kept.head.tip.number and kept.deliberation.keeper == self._self.hex():
            raise ExtensionError(
                "PRECONDITION_FAILED",
                f"the log of this keeper ends at entry {kept.head.tip.number}, and it has signed entry {tip.number}: its "
                "database is an older copy. It takes nothing until its operator has restored the newer one",
                "tip",
            )

    async def _page(self, kept: KeptDeliberation, after: int) -> bytes:
        following = await self._ledger.entries(kept.id, after, MAX_PAGE_ENTRIES + 1)
        return answer_page(page_of(following), kept.head.tip)

    async def _take(self, read: Read, post: ActPost, call: Call, about: str) -> _Answered:
        kept, entry = read.kept, post.entry
        about = f"{about} #{entry.number}"
        if entry.number <= kept.head.tip.number:
            known = await self._ledger.entry(kept.id, entry.number)
            if known is not None and same_entry(entry, known):
                return _Answered(answer_entry(known, kept.head.tip), about)
        if kept.fraud is not None:
            raise fraud_error(kept.fraud)
        head, taken = keep(kept.head, post, call.caller.id, self._key, call.at, SCAN_THRESHOLD)
        operations = self._ledger.adding(read, replace(kept, head=head), [taken])
        return _Answered(answer_entry(taken, head.tip), about, operations)

    async def seal(self, call: Call, result: _Answered) -> HandlerResult:
        message = A2AMessage(role="ROLE_AGENT", parts=(A2APart(text=result.text.decode()),))
        sealed = await super().seal(call, message)
        return replace(sealed, operations=(*sealed.operations, *result.operations), about=result.about)

    def encode_reply(self, reply: bytes) -> bytes:
        """Replies hold what parties said: they are sealed like the log."""
        return self._ledger.seal(reply)

    def decode_reply(self, stored: bytes) -> bytes:
        return self._ledger.unseal(stored)

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        if isinstance(conflict.operation, Put):
            raise OverloadedError("another process has changed this deliberation; send the same again")
        return await super().answer_conflict(call, conflict)


class _FraudError(Exception):
    def __init__(self, kept: KeptDeliberation, refusal: ExtensionError) -> None:
        super().__init__(refusal.message)
        self.kept = kept
        self.refusal = refusal
