"""What the target answered, and whether it is its reply to us and to this request (envelope 4).

The signature is judged under the key of the *card*, never under the sender that the reply claims.
"""

from typing import Any

from comity.envelopes.client.refusals import CallRefusedError
from comity.envelopes.client.targets import binds_replies
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.carrier import from_a2a_result
from comity.envelopes.protocol.chain import ReplayState, check_chain
from comity.envelopes.protocol.envelope import VacantEnvelope, recognise, reply_is_bound
from comity.envelopes.protocol.errors import (
    EnvelopeFormatError,
    EnvelopeSignatureError,
    TargetUnavailableError,
)
from comity.http.client import HttpResponse
from comity.wire import strict_json
from comity.wire.errors import MalformedError

GONE = 410
ASLEEP = 423


def read_result(answer: HttpResponse) -> dict[str, Any]:
    """The JSON object of a successful answer; the refusal that any other one is."""
    if not 200 <= answer.status < 300:
        raise refusal_of(answer)
    try:
        body = strict_json.loads(answer.body, unique_keys=True)
    except MalformedError as reason:
        raise EnvelopeFormatError(f"transport response is not a valid A2A result: {reason.message}") from None
    if not isinstance(body, dict):
        raise EnvelopeFormatError("transport response is not a valid A2A result: not a JSON object")
    return body


def refusal_of(answer: HttpResponse) -> CallRefusedError | TargetUnavailableError:
    detail = read_refusal(answer).get("detail", "")
    refused = CallRefusedError(answer.status, detail if isinstance(detail, str) else str(detail))
    if answer.status in {GONE, ASLEEP}:
        return TargetUnavailableError(refused.detail or f"the target takes no calls ({answer.status})")
    return refused


def read_refusal(answer: HttpResponse) -> dict[str, Any]:
    """The members of a refusal's body; none when it is no JSON object."""
    try:
        body = strict_json.loads(answer.body, unique_keys=True)
    except MalformedError:
        return {}
    return body if isinstance(body, dict) else {}


def verified_reply(body: Any, *, request: VacantEnvelope, card: CapabilityCard) -> VacantEnvelope:
    """The envelope in `body`, once it is proven to be the target's reply to `request`."""
    received = from_a2a_result(body)
    target, requester = card.vacant_id, request.from_vacant_id
    reply = recognise(received, target)
    if reply is None:
        raise EnvelopeSignatureError(
            f"response envelope signature did not verify for target {target.short()}"
        )
    if reply.from_vacant_id != target:
        raise EnvelopeFormatError(
            f"response envelope from_vacant_id {reply.from_vacant_id.short()} != target {target.short()}"
        )
    if reply.to_vacant_id != requester:
        raise EnvelopeFormatError(
            f"response envelope to_vacant_id {reply.to_vacant_id.short()} != requester {requester.short()}"
        )
    _refuse_unbound(reply, request, card)
    return reply


def advanced_by_reply(known: ReplayState, reply: VacantEnvelope, *, replies_lost: bool) -> ReplayState:
    """Where the chain of replies stands after `reply`.

    When replies are known to be lost, their numbers are missing to us for good: then a reply may be
    ahead of the next number, and is never behind it.
    """
    if replies_lost and reply.sequence_no > known.last_sequence_no + 1:
        return ReplayState(reply.sequence_no, reply.compute_hash())
    return check_chain(known, reply)


def _refuse_unbound(reply: VacantEnvelope, request: VacantEnvelope, card: CapabilityCard) -> None:
    bound = reply_is_bound(reply, request)
    target = card.vacant_id.short()
    if bound is False:
        raise EnvelopeFormatError(f"the response of {target} answers another request; it is not accepted")
    if bound is None and binds_replies(card):
        raise EnvelopeFormatError(
            f"the response of {target} does not say which request it answers, although its card promises that"
        )
