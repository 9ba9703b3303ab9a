"""The contract's calls: what is checked, in which order, and what is sent."""

import pytest

from comity.envelopes.client.calls import (
    CallRefusedError,
    DispatchResult,
    build_envelope,
    call_capability,
    call_local,
    make_httpx_transport,
)
from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec
from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.protocol.envelope import (
    A2A_VACANT_METADATA_KEY,
    EMPTY_PREV_HASH,
    from_a2a_jsonrpc,
    reply_key,
    to_a2a_result,
)
from comity.envelopes.protocol.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ReplayDetectedError,
    TargetNotFoundError,
    TargetUnavailableError,
)
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.protocol.resident import BehaviorBundle, Logbook, ResidentForm
from comity.envelopes.replay_stores import InMemoryReplayStore
from comity.identity.protocol.keys import SigningKey
from comity.wire import strict_json
from comity.wire.errors import NoAnswerError, TargetRefusedError, UnreachableError
from tests.http.local_server import reply as http_reply
from tests.http.local_server import serving

ALICE, BOB, EVE = (SigningKey.from_seed(bytes([n]) * 32) for n in (1, 2, 3))
URL = "https://bob.example/a2a/message/send"
HELLO = A2AMessage(parts=(A2APart(text="hello"),))


def card(key=BOB, endpoint=URL, text="translation", **policy):
    return CapabilityCard(
        vacant_id=key.vacant_id,
        capability_text=text,
        substrate_spec=SubstrateSpec(policy=policy),
        endpoint=endpoint,
    ).signed(key)


class Transport:
    """Answers as Bob would, except for what a test changes about the reply."""

    def __init__(self, body=None, **changes):
        self.calls = []
        self.body = body
        self.changes = changes

    async def __call__(self, url, body):
        self.calls.append((url, body))
        if self.body is not None:
            return self.body
        request = from_a2a_jsonrpc(body)
        members = {
            "from_vid": BOB.vacant_id,
            "to_vid": request.from_vacant_id,
            "payload": A2AMessage(role="ROLE_AGENT", parts=(A2APart(text="hi"),)),
            "signing_key": BOB,
        }
        changes = {
            name: change(request) if callable(change) else change for name, change in self.changes.items()
        }
        return to_a2a_result(build_envelope(**(members | changes)), body["id"])


async def call(transport, target=None, **more):
    return await call_local(
        target_card=target or card(),
        requester=ALICE.vacant_id,
        requester_signing_key=ALICE,
        payload=HELLO,
        transport=transport,
        **more,
    )


async def test_a_call_is_signed_sent_to_the_endpoint_and_answered():
    transport = Transport()
    result = await call(transport)
    assert isinstance(result, DispatchResult)
    assert result.target == card()
    assert result.request_envelope.payload == HELLO
    assert result.request_envelope.verify(ALICE.vacant_id)
    assert result.response_envelope.payload.parts[0].text == "hi"
    assert result.response_envelope.from_vacant_id == BOB.vacant_id
    ((url, body),) = transport.calls
    assert url == URL
    assert body["method"] == "message/send"
    metadata = body["params"]["message"]["metadata"][A2A_VACANT_METADATA_KEY]
    assert metadata["from_vacant_id"] == ALICE.vacant_id.hex()
    assert metadata["to_vacant_id"] == BOB.vacant_id.hex()
    assert metadata["sequence_no"] == 1
    assert metadata["prev_envelope_hash"] == "0" * 64


async def test_the_caller_says_where_the_pair_stands():
    transport = Transport()
    result = await call(transport, sequence_no=7, prev_envelope_hash=b"\x07" * 32)
    assert result.request_envelope.sequence_no == 7
    assert result.request_envelope.prev_envelope_hash == b"\x07" * 32


async def test_the_requester_may_be_a_resident_form():
    form = ResidentForm(
        identity=ALICE.vacant_id,
        logbook=Logbook(),
        behavior_bundle=BehaviorBundle(),
        substrate_spec=SubstrateSpec(),
    )
    result = await call_local(
        target_card=card(), requester=form, requester_signing_key=ALICE, payload=HELLO, transport=Transport()
    )
    assert result.request_envelope.from_vacant_id == ALICE.vacant_id


@pytest.mark.parametrize("endpoint", [None, ""])
async def test_a_card_without_an_endpoint_is_refused_first(endpoint):
    unsigned = CapabilityCard(vacant_id=BOB.vacant_id, capability_text="x", endpoint=endpoint)
    transport = Transport()
    with pytest.raises(TargetNotFoundError) as refusal:
        await call(transport, unsigned)
    assert refusal.value.message == f"target {BOB.vacant_id.short()} has no endpoint URL"
    assert transport.calls == []


@pytest.mark.parametrize(
    "bad",
    [
        CapabilityCard(vacant_id=BOB.vacant_id, capability_text="x", endpoint=URL),
        CapabilityCard(vacant_id=BOB.vacant_id, capability_text="x", endpoint=URL).signed(EVE),
    ],
    ids=["unsigned", "signed by another"],
)
async def test_a_card_that_does_not_verify_is_not_called(bad):
    transport = Transport()
    with pytest.raises(EnvelopeSignatureError) as refusal:
        await call(transport, bad)
    assert refusal.value.message == f"target capability card for {BOB.vacant_id.short()} does not verify"
    assert transport.calls == []


@pytest.mark.parametrize(
    "bad", [card(text="a\x1fb"), card(text="a\x00b"), card(endpoint=URL + "\x1f"), card(endpoint=URL + "\n")]
)
async def test_a_card_with_control_characters_is_not_called(bad):
    transport = Transport()
    with pytest.raises(EnvelopeFormatError, match="control character"):
        await call(transport, bad)
    assert transport.calls == []


async def test_line_feed_and_tab_are_legal_in_the_text_of_a_card():
    assert await call(Transport(), card(text="a\n\tb"))


@pytest.mark.parametrize(
    "body",
    [{}, {"result": None}, {"result": {}}, {"result": {"message": None}}, {"result": []}, {"error": {}}, []],
)
async def test_an_answer_without_a_message_is_refused(body):
    with pytest.raises(EnvelopeFormatError, match=r"^transport response is not a valid A2A result: "):
        await call(Transport(body))


async def test_an_answer_that_is_no_envelope_is_refused():
    with pytest.raises(EnvelopeFormatError, match="metadata"):
        await call(Transport({"result": {"message": {"role": "ROLE_AGENT"}}}))


async def test_a_reply_signed_by_an_attacker_is_refused():
    with pytest.raises(EnvelopeSignatureError):
        await call(Transport(signing_key=EVE))


async def test_a_reply_of_an_attacker_under_his_own_name_is_refused():
    """The key of the card counts, not the sender that the reply names."""
    with pytest.raises(EnvelopeSignatureError):
        await call(Transport(signing_key=EVE, from_vid=EVE.vacant_id))


async def test_a_reply_from_another_name_under_the_targets_signature_is_refused():
    with pytest.raises(EnvelopeFormatError) as refusal:
        await call(Transport(from_vid=EVE.vacant_id))
    assert refusal.value.message == (
        f"response envelope from_vacant_id {EVE.vacant_id.short()} != target {BOB.vacant_id.short()}"
    )


async def test_a_reply_to_a_third_party_is_refused():
    with pytest.raises(EnvelopeFormatError) as refusal:
        await call(Transport(to_vid=EVE.vacant_id))
    assert refusal.value.message == (
        f"response envelope to_vacant_id {EVE.vacant_id.short()} != requester {ALICE.vacant_id.short()}"
    )


async def test_a_duplicate_reply_is_refused_by_the_callers_store():
    store = InMemoryReplayStore()
    await call(Transport(), caller_response_replay_store=store)
    with pytest.raises(ReplayDetectedError):
        await call(Transport(), caller_response_replay_store=store)
    state = await store.get(PairKey(BOB.vacant_id, ALICE.vacant_id))
    assert state.last_sequence_no == 1


async def test_a_reply_that_follows_another_one_is_refused_by_the_callers_store():
    store = InMemoryReplayStore()
    await call(Transport(), caller_response_replay_store=store)
    with pytest.raises(ChainForkError):
        await call(
            Transport(sequence_no=2, prev_envelope_hash=b"\x01" * 32), caller_response_replay_store=store
        )


async def test_a_refused_reply_does_not_move_the_callers_store():
    store = InMemoryReplayStore()
    with pytest.raises(EnvelopeFormatError):
        await call(Transport(idempotency_key="re:" + "0" * 64), caller_response_replay_store=store)
    assert await store.get(PairKey(BOB.vacant_id, ALICE.vacant_id)) == ReplayState(0, EMPTY_PREV_HASH)


async def test_without_a_store_replies_are_not_chained():
    for _ in range(2):
        assert await call(Transport())


async def test_a_reply_bound_to_the_request_is_accepted():
    assert await call(Transport(idempotency_key=reply_key), card(bind_replies=True))


async def test_a_reply_bound_to_another_request_is_refused_whatever_the_card_says():
    for target in (card(), card(bind_replies=True), card(bind_replies=False)):
        with pytest.raises(EnvelopeFormatError, match="answers another request"):
            await call(Transport(idempotency_key="re:" + "ab" * 32), target)


async def test_an_unbound_reply_is_refused_where_the_card_promises_binding():
    with pytest.raises(EnvelopeFormatError, match="does not say which request"):
        await call(Transport(), card(bind_replies=True))


@pytest.mark.parametrize("promise", [False, "true", 1, None])
async def test_an_unbound_reply_is_accepted_where_the_card_promises_nothing(promise):
    assert await call(Transport(), card(bind_replies=promise))


async def test_the_card_says_in_which_dialect_to_call():
    transport = Transport(dialect="selfeval")
    result = await call(transport, card(dialect="selfeval"))
    assert result.request_envelope.dialect == "selfeval"
    assert result.response_envelope.dialect == "selfeval"
    assert (await call(Transport(), card(dialect="klingon"))).request_envelope.dialect == "seed"


async def discover(search, transport=None, oracle=None, query="translation"):
    return await call_capability(
        query,
        requester=ALICE.vacant_id,
        requester_signing_key=ALICE,
        payload=HELLO,
        transport=transport or Transport(),
        aggregation_search=search,
        reputation_oracle=oracle,
    )


def finding(*matches):
    async def search(**asked):
        search.asked.append(asked)
        return matches

    search.asked = []
    return search


class Match:
    def __init__(self, capability_card):
        self.capability_card = capability_card


class Oracle:
    def __init__(self, **scores):
        self.scores = {name.removeprefix("_"): score for name, score in scores.items()}
        self.asked = []

    async def score(self, vacant_id, dimensions):
        self.asked.append((vacant_id, dimensions))
        return self.scores.get(vacant_id, 0.0)


async def test_without_a_search_nothing_is_found():
    transport = Transport()
    with pytest.raises(TargetNotFoundError) as refusal:
        await discover(None, transport)
    assert refusal.value.message == "call_capability: aggregation_search is required for discovery"
    assert transport.calls == []


async def test_without_a_match_nothing_is_sent():
    transport = Transport()
    for matches in ((), (card(endpoint=None),), (card(endpoint=""), Match(card(endpoint=None)))):
        with pytest.raises(TargetNotFoundError) as refusal:
            await discover(finding(*matches), transport)
        assert refusal.value.message == "no public vacant offers capability 'translation'"
    assert transport.calls == []


async def test_the_search_is_asked_once_and_never_for_local_ones():
    search = finding(card())
    await discover(search)
    assert search.asked == [{"query": "translation", "include_local": False, "limit": 20}]


async def test_the_first_match_with_an_endpoint_is_called():
    transport = Transport()
    result = await discover(finding(card(EVE, endpoint=None), Match(card()), card(EVE)), transport)
    assert result.target == card()
    assert transport.calls[0][0] == URL


async def test_the_oracle_chooses_the_better_one():
    oracle = Oracle(**{f"_{EVE.vacant_id.hex()}": 0.4, f"_{BOB.vacant_id.hex()}": 0.9})
    result = await discover(finding(card(EVE), card()), oracle=oracle)
    assert result.target.vacant_id == BOB.vacant_id
    dimensions = ("factual", "logical", "relevance", "honesty", "adoption")
    assert oracle.asked == [(EVE.vacant_id.hex(), dimensions), (BOB.vacant_id.hex(), dimensions)]


async def test_equal_scores_keep_the_order_of_the_search():
    result = await discover(finding(card(), card(EVE)), oracle=Oracle())
    assert result.target.vacant_id == BOB.vacant_id


@pytest.mark.parametrize("match", ["a string", {"capability_card": 1}, Match(None), Match("x"), None])
async def test_a_match_without_a_card_is_refused(match):
    with pytest.raises(EnvelopeFormatError, match="CapabilityCard"):
        await discover(finding(match))


async def test_a_match_with_a_forged_card_is_not_called():
    transport = Transport()
    forged = CapabilityCard(vacant_id=BOB.vacant_id, capability_text="x", endpoint=URL).signed(EVE)
    with pytest.raises(EnvelopeSignatureError):
        await discover(finding(forged), transport)
    assert transport.calls == []


async def test_the_card_travels_end_to_end_through_a_match():
    published = card(text="translation", bind_replies=False)
    assert (await discover(finding(Match(published)))).target == published


@pytest.mark.usefixtures("patience")
class TestHttpTransport:
    async def test_the_body_arrives_and_the_result_comes_back(self):
        async with serving(lambda _: http_reply(b'{"result": 1}')) as server:
            assert await make_httpx_transport()(server.url("/a2a"), {"a": 1}) == {"result": 1}
        assert server.requests[0].startswith(b"POST /a2a ")
        assert server.requests[0].endswith(b'{"a":1}')

    async def test_one_connection_is_kept(self):
        transport = make_httpx_transport(timeout=5)
        async with serving(lambda _: http_reply(b"{}")) as server:
            for _ in range(3):
                await transport(server.url(), {})
            assert server.connections == 1

    @pytest.mark.parametrize("status", ["410 Gone", "423 Locked"])
    async def test_a_target_that_takes_no_calls_is_unavailable(self, status):
        body = b'{"detail": "vacant is SUNK; calls permanently rejected"}'
        async with serving(lambda _: http_reply(body, status)) as server:
            with pytest.raises(TargetUnavailableError, match="vacant is SUNK"):
                await make_httpx_transport()(server.url(), {})

    @pytest.mark.parametrize(
        ("status", "body", "detail"),
        [
            ("401 Unauthorized", b'{"detail": "no"}', "no"),
            (
                "409 Conflict",
                b'{"detail": "replay/out-of-order envelope: seq 1 <= last_seen 1"}',
                "replay/out",
            ),
            ("422 Unprocessable", b'{"detail": [{"msg": "x"}]}', "[{'msg': 'x'}]"),
            ("500 Oops", b"<html>", ""),
            ("500 Oops", b'["detail"]', ""),
            ("400 Bad", b'{"detail": "a\\u001b[31mb\\nc"}', "a [31mb c"),
            ("307 Moved", b"", ""),
        ],
    )
    async def test_a_refusal_carries_status_and_detail(self, status, body, detail):
        async with serving(lambda _: http_reply(body, status)) as server:
            with pytest.raises(CallRefusedError) as refusal:
                await make_httpx_transport()(server.url(), {})
        assert refusal.value.status == int(status[:3])
        assert refusal.value.detail.startswith(detail)
        assert (refusal.value.detail == "") == (detail == "")

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"a":1,"a":2}', b"1"])
    async def test_a_result_that_is_no_object_is_refused(self, body):
        async with serving(lambda _: http_reply(body)) as server:
            with pytest.raises(EnvelopeFormatError, match=r"^transport response is not a valid A2A result"):
                await make_httpx_transport()(server.url(), {})

    async def test_nobody_there_and_nobody_answering_are_told_apart(self):
        transport = make_httpx_transport(timeout=0.1)
        async with serving(lambda _: None) as server:
            with pytest.raises(NoAnswerError):
                await transport(server.url(), {})
        with pytest.raises(UnreachableError):
            await transport(server.url(), {})

    async def test_private_addresses_need_to_be_allowed(self):
        with pytest.raises(TargetRefusedError):
            await make_httpx_transport()("http://10.0.0.1:8420/", {})

    async def test_a_call_goes_over_http(self):
        async def answer(reader, writer):
            from tests.http.local_server import read_request

            request = await read_request(reader)
            body = strict_json.loads(request.partition(b"\r\n\r\n")[2])
            writer.write(http_reply(strict_json.dumps(await Transport()(URL, body))))
            await writer.drain()

        async with serving(answer) as server:
            result = await call(make_httpx_transport(), card(endpoint=server.url()))
        assert result.response_envelope.payload.parts[0].text == "hi"
