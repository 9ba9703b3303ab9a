"""The client of the hosts of votes: signed envelopes to `/v1/deliberations` of a node (ruling 50a).

A node without an agent has no card. So the node itself says its id, and all its replies must be signed with that key. The
chain with a host is separate from the chain of calls to the agent of the same node.

| the host | error |
|---|---|
| cannot be reached, does not reply, is busy or full | RetryLaterError: the same may be sent again later |
| refuses with a status | ExtensionError, with the code that the status stands for |
| has lost what it accepted before | ExtensionError CONFLICT |
| replies with something else | PeerError |
"""

from functools import partial
from typing import Final, cast, get_args

from msgspec import Struct

from comity.envelopes.client.calls import CallRefusedError, ReplyLostError, read_refusal
from comity.envelopes.client.conversation import Retries
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.features import NO_FEATURES, Features
from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec
from comity.envelopes.protocol.errors import ReplayDetectedError
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.http.client import TIMEOUT, HttpCarrier
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.requests.record import Recorder
from comity.store.interface import Store
from comity.vcp.protocol.extension_calls import Code, ExtensionError
from comity.votes.logs import StoredVote
from comity.votes.protocol.log import VOTES_PATH, HostReply, VoteEntry
from comity.wire.errors import MalformedError, NoAnswerError, PeerError, RetryLaterError, UnusableAnswerError
from comity.wire.machine import Clock

POST_BOOK: Final = "post"
"""Chains of the envelopes that this node sent to hosts, and of their replies."""

_RETRIES: Final = Retries(attempts=3, first_wait=0.2)
_WIRE_CODES: Final = frozenset(get_args(Code))
_MAX_SENTENCE_LENGTH: Final = 500
_STORAGE_FULL: Final = 507
_CODES: Final[dict[int, Code]] = {
    400: "INVALID_ARGUMENT",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    413: "LIMIT_EXCEEDED",
}


class LogAddress(Struct, frozen=True):
    """A node that has a log, and its URL. `public_only`: somebody else than the owner named the URL."""

    url: str
    node: str
    public_only: bool


def address_of_host(stored: StoredVote) -> LogAddress:
    return LogAddress(stored.url, stored.vote.host, stored.public_only)


class VoteHostClient:
    def __init__(
        self,
        store: Store,
        key: SigningKey,
        clock: Clock,
        http: HttpCarrier,
        *,
        public_http: HttpCarrier,
        holder: str,
        timeout: float = TIMEOUT,
        record: Recorder | None = None,
        features: Features = NO_FEATURES,
    ) -> None:
        """`features` add to the requests what is not of the envelope. `public_http` refuses private addresses and those of this machine: it is for addresses that somebody else than
        the owner named. After `timeout` seconds a message is not tried again.
        """
        self._clock = clock
        self._timeout = timeout
        self._http = {False: http, True: public_http}
        self._dispatchers = {
            public_only: Dispatcher(
                store,
                key,
                clock,
                way,
                retries=_RETRIES,
                holder=f"{holder}.public" if public_only else holder,
                record=record,
                book=POST_BOOK,
                features=features,
            )
            for public_only, way in self._http.items()
        }

    async def identify(self, url: str, *, public_only: bool) -> str:
        """Return the id of the node that answers at this address."""
        response = await self._http[public_only].request("GET", url + VOTES_PATH)
        id_ = read_refusal(response).get("vacant_id")
        if response.status != 200 or not isinstance(id_, str):
            raise UnusableAnswerError(
                f"no node that hosts votes answers at {url} (status {response.status}); check the address"
            )
        try:
            return VacantId.from_hex(id_).hex()
        except MalformedError:
            raise UnusableAnswerError(f"the node at {url} does not say who it is") from None

    async def post(self, url: str, node: str, text: bytes, *, public_only: bool) -> bytes:
        """Return the text of the reply that this node signed."""
        message = A2AMessage(role="ROLE_USER", parts=(A2APart(text=text.decode()),))
        card = CapabilityCard(
            vacant_id=VacantId.from_hex(node),
            capability_text="deliberations",
            substrate_spec=SubstrateSpec(policy={"bind_replies": True, "dialect": "seed", "witness": 1}),
            endpoint=url + VOTES_PATH,
        )
        until = self._clock.monotonic() + self._timeout
        send = partial(
            self._dispatchers[public_only].call, card, message, endpoint=card.endpoint or "", until=until
        )
        try:
            try:
                reply = await send()
            except ReplyLostError:  # a host recognises an entry that it has, so it may be sent again
                reply = await send()
        except NoAnswerError:
            raise NoAnswerError(f"the node at {url} gave no answer") from None
        except RetryLaterError:
            raise
        except CallRefusedError as refusal:
            raise _error_of(refusal, url) from None
        except ReplayDetectedError:
            raise ExtensionError(
                "CONFLICT",
                f"the node at {url} answers as if it had not accepted what it has signed before; its database may be "
                "an older copy, and its operator has to restore the newer one",
            ) from None
        return "".join(part.text for part in reply.response_envelope.payload.parts).encode()


def _error_of(refusal: CallRefusedError, url: str) -> Exception:
    if refusal.status in _CODES:
        return ExtensionError(_CODES[refusal.status], refusal.detail or f"status {refusal.status}")
    if refusal.status == _STORAGE_FULL:
        return RetryLaterError(refusal.detail or "the host has no room now; try again later")
    return PeerError(f"the node at {url} refused with status {refusal.status}: {refusal.detail}")


def refusal_in(reply: HostReply) -> ExtensionError:
    """Return why the host refused."""
    error = reply.error
    if error is None:
        return ExtensionError("BAD_SIGNATURE", "the host replied with another entry than was sent")
    code = cast("Code", error.code if error.code in _WIRE_CODES else "INVALID_ARGUMENT")
    return ExtensionError(code, _one_line(error.message), error.field and _one_line(error.field))


def _one_line(foreign: str) -> str:
    """Return what another node wrote as one line."""
    return "".join(c if c.isprintable() else " " for c in foreign[:_MAX_SENTENCE_LENGTH])


def entries_in(reply: HostReply) -> list[VoteEntry]:
    """Return the entries of a page. Raise the refusal of the host."""
    if reply.entries is None:
        raise refusal_in(reply)
    return list(reply.entries)
