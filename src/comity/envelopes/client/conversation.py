"""One call on one pair, from the first attempt to its reply, or to an error that says what happened to it.

An envelope is stored before it is sent. While its outcome is unknown, the same bytes are sent again: a target that stores
its replies answers all of them with the same reply (ruling 9).

| the target says                    | so the envelope was  | and we                                    |
|------------------------------------|----------------------|-------------------------------------------|
| a verified reply                   | accepted             | are done                                  |
| nothing, or 502                    | maybe accepted       | send it again                             |
| 503, 429, or cannot be reached     | not accepted by this | send it again                             |
| 409, signed: this is the tip       | accepted             | send it again, for the stored reply       |
| 409, signed: the tip is elsewhere  | not accepted         | go there (never back) and write a new one |
| 409 without a statement we believe | not accepted by this | try the next place where it may stand     |
| 500, 504                           | maybe accepted       | report to the caller                           |
| any other refusal                  | not accepted by this | report to the caller                           |

"By this" holds only if no earlier attempt may have been accepted.

A call whose number another one has been proven to have is written anew under a new number. One behind the last accepted call,
whose reply is missing, is sent again as it was, and its reply is taken if it names the call: the chains have gone on.

Peers of the reference release sign no statement and store no replies. With them a lost reply stays lost, and the next call finds the position where the chain continues. The
signature on its reply proves that position.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from comity.envelopes.client.calls import (
    AwaitsConsentError,
    BusyTargetError,
    CallRefusedError,
    DispatchResult,
    IgnoredOutcomes,
    Outcomes,
    ReplyLostError,
    TargetLimitError,
    advanced_by_reply,
    dialect_of,
    read_refusal,
    read_result,
    refusal_of,
    retry_after,
    verified_reply,
)
from comity.envelopes.client.keys import KEY_SPACE, KeyedCall
from comity.envelopes.client.pair import Pair, positions_of, state_after, state_before
from comity.envelopes.features import NO_FEATURES, Features
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.chain import ReplayState, TipStatement, check_stamped_after, resynchronised
from comity.envelopes.protocol.envelope import (
    Dialect,
    VacantEnvelope,
    reply_is_bound,
    signed_envelope,
    to_a2a_jsonrpc,
)
from comity.envelopes.protocol.errors import (
    EnvelopeFormatError,
    EnvelopeSignatureError,
    TargetUnavailableError,
)
from comity.envelopes.protocol.message import A2AMessage
from comity.envelopes.protocol.metadata import NO_MEMBERS, members_of_reply, with_members
from comity.http.client import HttpCarrier, HttpResponse
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import OWN_PROCESS, Caller
from comity.store.interface import Put, StoreConflict
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    NoAnswerError,
    OverloadedError,
    TargetRefusedError,
    UnreachableError,
)
from comity.wire.machine import Clock

_ENVELOPES: Final = 16
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 1.0
_LATER: Final = {429: TargetLimitError, 502: BusyTargetError, 503: BusyTargetError}
_OTHER: Final[dict[Dialect, Dialect]] = {"seed": "selfeval", "selfeval": "seed"}


class Retries(Struct, frozen=True, kw_only=True):
    """How often one envelope is sent, and how long to wait in between: each time twice as long."""

    attempts: int = 6
    first_wait: float = 0.2
    longest_wait: float = 5.0

    def waits(self) -> Iterator[float]:
        wait = self.first_wait
        for _ in range(self.attempts - 1):
            yield wait
            wait = min(2 * wait, self.longest_wait)


class _Again(Struct, frozen=True):
    """Send the same bytes again. `maybe`: they may have been accepted; `accepted`: they were."""

    failure: ComityError
    wait: float = 0.0
    maybe: bool = False
    accepted: bool = False


class _Elsewhere(Struct, frozen=True):
    """The target expects another number; `at` is the position that it states."""

    refusal: ComityError
    at: ReplayState | None = None


class _NotUnderstood(Struct, frozen=True):
    """The signature did not verify over there, which is how a peer of the other dialect reads ours."""

    refusal: ComityError


_Verdict = DispatchResult | _Again | _Elsewhere | _NotUnderstood


class MovedKeyError(Exception):
    """Another process has called somebody else under the key meanwhile. No error of a call: it goes on there."""


class Conversation(Struct, frozen=True, kw_only=True):
    """`keyed` is the row of a call that may be made again. `until`: no attempt begins after that moment of the monotonic
    clock; the last answer is reported instead.
    """

    pair: Pair
    http: HttpCarrier
    clock: Clock
    key: SigningKey
    retries: Retries
    patience: float
    card: CapabilityCard
    endpoint: str
    payload: A2AMessage
    idempotency_key: str
    keyed: KeyedCall | None = None
    until: float | None = None
    features: Features = NO_FEATURES
    members: Mapping[str, Any] = NO_MEMBERS
    outcomes: Outcomes = IgnoredOutcomes()
    caller: Caller = OWN_PROCESS

    @property
    def _target(self) -> str:
        return self.card.vacant_id.short()

    async def hold(self) -> DispatchResult:
        """Return the reply, or raise the error that says what became of the call."""
        try:
            first = await self._begin()
            if isinstance(first, DispatchResult):
                return first
            with self.outcomes.watch(self.card.vacant_id, self.caller):
                return await self._go_on(*first)
        except StoreConflict:
            raise OverloadedError(
                f"another process has taken over the calls to {self._target}. {self._remedy()}"
            ) from None
        finally:
            await self.pair.leave()

    async def _begin(self) -> DispatchResult | tuple[VacantEnvelope, list[ReplayState], bool]:
        """Take the pair from whichever process has it, and write the first envelope down."""
        pause = _FIRST_PAUSE
        give_up = self.clock.monotonic() + self.patience
        while True:
            if not self.pair.known:
                await self.pair.read()
            if self.keyed is not None and not self.keyed.known:
                await self.keyed.read()
            try:
                return await self._first()
            except StoreConflict as conflict:
                if self.keyed is not None:
                    self.keyed.known = False
                if isinstance(conflict.operation, Put) and conflict.operation.space == KEY_SPACE:
                    continue  # it is the same call, and somebody else has made it meanwhile
                if self.clock.monotonic() >= give_up:
                    raise OverloadedError(
                        f"another process is in the middle of a call to {self._target}; try again later"
                    ) from None
                await self.clock.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    async def _first(self) -> DispatchResult | tuple[VacantEnvelope, list[ReplayState], bool]:
        positions, keyed = positions_of(self.pair), self.keyed
        envelope = None
        if keyed is not None and keyed.row is not None:
            if keyed.target != self.pair.key.to_vid:
                raise MovedKeyError("the key is that of a call to another target")
            if (result := keyed.result()) is not None:
                return result
            envelope = keyed.request()
            fate = await self.pair.fate_of(envelope)
            if fate in {"accepted", "unknown"}:
                await self.pair.keep_away_others()
                keyed.send(envelope, self._body(envelope), self.card)
                return envelope, [], True
            if fate == "displaced":
                envelope = None
        repeated = envelope is not None
        envelope = envelope or self._signed(positions.pop(0), self._dialect())
        await self._note_sent(envelope)
        return envelope, positions, repeated

    async def _note_sent(self, envelope: VacantEnvelope) -> None:
        if self.keyed is not None:
            self.keyed.send(envelope, self._body(envelope), self.card)
        await self.pair.note_sent(envelope)

    async def _go_on(
        self, envelope: VacantEnvelope, positions: list[ReplayState], repeated: bool
    ) -> DispatchResult:
        open_dialect = self._dialect_is_open()
        for _ in range(_ENVELOPES):
            verdict = await self._deliver(envelope, maybe=repeated)
            if isinstance(verdict, DispatchResult):
                return verdict
            repeated = False
            position, dialect, failure = state_before(envelope), envelope.dialect, verdict.refusal
            if isinstance(verdict, _NotUnderstood):
                if not open_dialect:
                    break
                open_dialect, dialect = False, _OTHER[dialect]
            elif verdict.at is not None:
                await self.pair.note_position(verdict.at)
                position, positions = verdict.at, []
            elif positions:
                position = positions.pop(0)
            else:
                break
            envelope = self._signed(position, dialect)
            await self._note_sent(envelope)
        raise failure

    async def _deliver(
        self, envelope: VacantEnvelope, *, maybe: bool
    ) -> DispatchResult | _Elsewhere | _NotUnderstood:
        body = self._body(envelope)
        waits = self.retries.waits()
        tries = 0
        while True:
            verdict = await self._attempt(envelope, body, maybe=maybe)
            if not isinstance(verdict, _Again):
                return verdict
            maybe = maybe or verdict.maybe
            tries += 1
            wait = next(waits, None)
            if wait is None or not self._has_time_for(wait := max(wait, verdict.wait)):
                break
            await self.clock.sleep(wait)
            await self.pair.keep_away_others()
        if verdict.accepted:
            await self.pair.note_position(state_after(envelope))
            raise self._reply_lost("accepted the call, and its reply is lost")
        if maybe:
            last = verdict.failure
            said = (
                f"; at last status {last.status} ({last.detail})"
                if isinstance(last, CallRefusedError)
                else ""
            )
            raise NoAnswerError(
                f"{self._target} gave no answer to {tries} {'attempt' if tries == 1 else 'attempts'}{said}; the call may have been "
                f"carried out. {self._remedy()}"
            )
        self.pair.note_refused(envelope)
        raise verdict.failure

    async def _attempt(self, envelope: VacantEnvelope, body: bytes, *, maybe: bool) -> _Verdict:
        try:
            answer = await self.http.request("POST", self.endpoint, body=body)
        except UnreachableError as failure:
            return _Again(failure)
        except NoAnswerError as failure:
            return _Again(failure, maybe=True)
        except TargetRefusedError:
            if not maybe:
                self.pair.note_refused(envelope)
            raise
        if 200 <= answer.status < 300:
            return await self._answered(answer, envelope)
        refusal = refusal_of(answer)
        if answer.status == 409:
            return await self._conflict(answer, envelope, refusal, maybe=maybe)
        if (again := _worth_another_try(refusal, retry_after(answer))) is not None:
            return again
        # With 500 and 504 a peer of the reference release has used the number up, and ours has not. A call that waits for
        # consent is sent again as it was, so what is stored of it stays.
        waits = isinstance(refusal, AwaitsConsentError) and self.keyed is not None
        if maybe or waits or answer.status >= 500:
            raise refusal
        self.pair.note_refused(envelope)
        if answer.status == 401:
            return _NotUnderstood(refusal)
        raise refusal

    async def _answered(self, answer: HttpResponse, envelope: VacantEnvelope) -> DispatchResult:
        result = read_result(answer)
        reply = verified_reply(result, request=envelope, card=self.card)
        pair = self.pair
        if self.keyed is not None:
            self.keyed.answer(answer.body)
        if self._is_behind(envelope):
            if not reply_is_bound(reply, envelope):
                raise EnvelopeFormatError(
                    f"the response of {self._target} to call {envelope.sequence_no} does not say which request it answers; "
                    "later calls were made since, so it is not accepted"
                )
            await pair.note_fetched()
            return await self._taken(result, envelope, reply)
        if pair.restored is not None and not reply_is_bound(reply, envelope):
            # our chain of its replies went back in time: an old one would fit, and nothing else says which call it answers
            check_stamped_after(reply, datetime.fromtimestamp(pair.restored.at, UTC))
        # built on a request whose reply never came: then that reply is missing from the chain of replies
        lost = pair.record.replies_lost or state_before(envelope) != pair.accepted
        replied = advanced_by_reply(pair.replied, reply, replies_lost=lost)
        try:
            await pair.note_answered(envelope, replied)
        except StoreConflict:
            # Our lease ran out and another process took the pair over. It knows of this request, and the
            # reply is proven.
            pair.known = False
        return await self._taken(result, envelope, reply)

    async def _taken(
        self, result: dict[str, Any], envelope: VacantEnvelope, reply: VacantEnvelope
    ) -> DispatchResult:
        if self.features:
            await self.features.take_reply(self.card, members_of_reply(result))
        return DispatchResult(envelope, reply, self.card)

    def _is_behind(self, envelope: VacantEnvelope) -> bool:
        """Return whether the target is known to have accepted this number, in whatever envelope; or whether it was sent under
        a key that was replaced since, so that it is of another chain.
        """
        if envelope.from_vacant_id != self.pair.key.from_vid:
            return True
        return envelope.sequence_no <= self.pair.accepted.last_sequence_no

    async def _conflict(
        self, answer: HttpResponse, envelope: VacantEnvelope, refusal: ComityError, *, maybe: bool
    ) -> _Again | _Elsewhere:
        behind = self._is_behind(envelope)
        stated = None if behind else self._stated_position(answer)
        if stated is None:
            if maybe or behind:
                raise self._reply_lost(
                    "may have carried out the call before and does not repeat its reply"
                    if behind
                    else "has seen the call before and does not repeat its reply"
                )
            self.pair.note_refused(envelope)
            return _Elsewhere(refusal)
        if stated == state_after(envelope):
            return _Again(refusal, maybe=True, accepted=True)
        if stated == state_before(envelope):
            return _Again(refusal)  # it contradicts itself; perhaps another worker of it just moved
        if maybe and stated.last_sequence_no > envelope.sequence_no:
            await self.pair.note_position(stated)
            raise self._reply_lost("has gone on since the call, which may have been carried out")
        return _Elsewhere(refusal, stated)

    def _has_time_for(self, wait: float) -> bool:
        return self.until is None or self.clock.monotonic() + wait < self.until

    def _stated_position(self, answer: HttpResponse) -> ReplayState | None:
        """Return where the target stands by its own signature. Raise for a statement that goes back."""
        try:
            statement = TipStatement.from_json(read_refusal(answer).get("statement"))
            return resynchronised(self.pair.key, self.pair.accepted, statement)
        except (EnvelopeFormatError, EnvelopeSignatureError):
            return None

    def _signed(self, position: ReplayState, dialect: Dialect) -> VacantEnvelope:
        return signed_envelope(
            from_vid=self.pair.key.from_vid,
            to_vid=self.pair.key.to_vid,
            payload=self.payload,
            sequence_no=position.last_sequence_no + 1,
            prev_envelope_hash=position.chain_tip,
            idempotency_key=self.idempotency_key if self.keyed is None else self.keyed.text,
            timestamp=datetime.fromtimestamp(self.clock.now(), UTC),
            signing_key=self.key,
            dialect=dialect,
        )

    def _body(self, envelope: VacantEnvelope) -> bytes:
        """Return the very bytes that were sent for this envelope, or write them for a new one."""
        if self.keyed is not None and (sent := self.keyed.body_of(envelope)) is not None:
            return sent
        body = to_a2a_jsonrpc(envelope)
        body["params"] = {"message": with_members(body["params"]["message"], self.members)}
        return strict_json.dumps(body)

    def _dialect(self) -> Dialect:
        if (asked := dialect_of(self.card)) is not None:
            return asked
        if self.payload.self_eval is not None:
            return "selfeval"
        return self.pair.record.dialect or "seed"

    def _dialect_is_open(self) -> bool:
        known = dialect_of(self.card) or self.pair.record.dialect
        return known is None and self.payload.self_eval is None

    def _reply_lost(self, what: str) -> ReplyLostError:
        return ReplyLostError(f"{self._target} {what}; the next call to it will go through")

    def _remedy(self) -> str:
        if self.keyed is not None and self.keyed.key:
            return f"Call again under the key {self.keyed.key} to get its reply"
        return "Give the call an idempotency key to be able to repeat it safely"


def _worth_another_try(refusal: CallRefusedError | TargetUnavailableError, wait: float) -> _Again | None:
    if not isinstance(refusal, CallRefusedError) or refusal.status not in _LATER:
        return None
    later = _LATER[refusal.status](refusal.status, refusal.detail, wait)
    return _Again(later, wait, maybe=refusal.status == 502)
