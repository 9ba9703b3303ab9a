import copy

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from comity.envelopes.protocol.envelope import (
    A2A_VACANT_METADATA_KEY,
    from_a2a_jsonrpc,
    from_a2a_message,
    from_a2a_result,
    recognise,
    to_a2a_jsonrpc,
    to_a2a_message,
    to_a2a_result,
)
from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.envelopes.protocol.message import SelfEval
from comity.wire.strict_json import dumps, loads
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, envelopes, said, sent
from tests.wire.json_values import values

MISSING = object()


def body_with(place, value, envelope=None):
    """The body of a request in which one member, named by its path, is another value or missing."""
    body = copy.deepcopy(to_a2a_jsonrpc(envelope or sent()))
    *path, last = place
    holder = body
    for step in path:
        holder = holder[step]
    if value is MISSING:
        del holder[last]
    else:
        holder[last] = value
    return body


def message(*place):
    return ("params", "message", *place)


def metadata(*place):
    return message("metadata", A2A_VACANT_METADATA_KEY, *place)


class TestARequest:
    def test_is_a_json_rpc_call_with_the_envelope_in_the_metadata(self):
        envelope = sent(payload=said("a", "b", role="ROLE_AGENT", context_id="c", message_id=""))
        assert to_a2a_jsonrpc(envelope) == {
            "jsonrpc": "2.0",
            "id": "key",
            "method": "message/send",
            "params": {
                "message": {
                    "role": "ROLE_AGENT",
                    "parts": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                    "contextId": "c",
                    "messageId": "",
                    "metadata": {
                        "urn:vacant:v1": {
                            "from_vacant_id": ALICE.vacant_id.hex(),
                            "to_vacant_id": BOB.vacant_id.hex(),
                            "sequence_no": 1,
                            "timestamp": "2026-05-06T12:00:00.000007+00:00",
                            "prev_envelope_hash": "0" * 64,
                            "idempotency_key": "key",
                            "caller_signature": envelope.signature.hex(),
                        }
                    },
                }
            },
        }

    def test_is_named_by_the_hash_where_there_is_no_key(self):
        envelope = sent(idempotency_key="")
        assert to_a2a_jsonrpc(envelope)["id"] == envelope.compute_hash().hex()

    def test_shows_a_self_evaluation_only_where_there_is_one(self):
        assert "selfEval" not in to_a2a_message(sent(dialect="selfeval"))
        judged = sent(payload=said("x", self_eval=SelfEval(factual=1)), dialect="selfeval")
        assert to_a2a_message(judged)["selfEval"] == {
            "factual": 1.0,
            "logical": 0.5,
            "relevance": 0.5,
            "honesty": 0.5,
            "adoption": 0.5,
            "confidence": 0.5,
        }

    def test_of_an_unsigned_envelope_is_read_and_does_not_verify(self):
        body = body_with(metadata("caller_signature"), "")
        assert from_a2a_jsonrpc(body).signature == b""
        assert recognise(from_a2a_jsonrpc(body)) is None


class TestTheWayThere:
    @given(envelopes())
    def test_and_back_gives_the_same_envelope(self, envelope):
        for read, written in (
            (from_a2a_jsonrpc, to_a2a_jsonrpc(envelope)),
            (from_a2a_result, to_a2a_result(envelope, "id")),
            (from_a2a_message, to_a2a_message(envelope)),
        ):
            received = loads(dumps(written), unique_keys=True)
            found = recognise(read(received))
            assert found == envelope
            assert found.signing_payload() == envelope.signing_payload()
            assert found.signature == envelope.signature

    @pytest.mark.parametrize("request_id", [None, "id", 7, "", {"any": ["json"]}])
    def test_back_echoes_the_id_of_the_request(self, request_id):
        reply = to_a2a_result(sent(), request_id)
        assert list(reply) == ["jsonrpc", "id", "result"]
        assert reply["id"] == request_id
        assert reply["result"] == {"message": to_a2a_message(sent())}


class TestWhatIsAcceptedBesideOurOwnForm:
    @pytest.mark.parametrize(
        ("place", "value"),
        [
            (metadata("from_vacant_id"), ALICE.vacant_id.hex().upper()),
            (metadata("to_vacant_id"), BOB.vacant_id.hex().upper()),
            (metadata("caller_signature"), sent().signature.hex().upper()),
            (metadata("timestamp"), "2026-05-06T12:00:00.000007Z"),
            (metadata("timestamp"), "2026-05-06T12:00:00.000007"),
            (metadata("timestamp"), "2026-05-06T14:00:00.000007+02:00"),
            (metadata("unknown"), {"any": "thing"}),
            (message("role"), MISSING),
            (message("contextId"), MISSING),
            (message("messageId"), MISSING),
            (message("kind"), "message"),
            (message("parts"), [{"text": "hello"}]),
            (message("parts"), [{"kind": "text", "text": "hello"}]),
            (message("parts"), [{"type": "text", "text": "hello", "metadata": {"x": 1}}]),
            (message("metadata", "urn:other"), 1),
            (("params", "configuration"), {"blocking": True}),
            (("jsonrpc",), MISSING),
            (("method",), "another/method"),
            (("id",), None),
        ],
    )
    def test_means_the_same_and_verifies(self, place, value):
        assert recognise(from_a2a_jsonrpc(body_with(place, value))) == sent()

    def test_is_a_message_without_parts_key_or_text(self):
        bare = sent(payload=said(), idempotency_key="")
        assert recognise(from_a2a_jsonrpc(body_with(message("parts"), MISSING, bare))) == bare
        assert recognise(from_a2a_jsonrpc(body_with(metadata("idempotency_key"), MISSING, bare))) == bare
        empty = sent(payload=said(""))
        assert recognise(from_a2a_jsonrpc(body_with(message("parts"), [{}], empty))) == empty

    @pytest.mark.parametrize(
        ("text", "signed_as"),
        [
            ("2026-05-06", "2026-05-06T00:00:00+00:00"),
            ("2026-05-06T00:00:00.000000+00:00", "2026-05-06T00:00:00+00:00"),
        ],
    )
    def test_is_a_timestamp_in_any_iso_form(self, text, signed_as):
        envelope = from_a2a_jsonrpc(body_with(metadata("timestamp"), text))
        assert envelope.signing_dict()["ts"] == signed_as

    def test_are_whole_shares_of_a_self_evaluation_and_missing_ones(self):
        judged = sent(payload=said("x", self_eval=SelfEval(factual=1, logical=0)), dialect="selfeval")
        body = body_with(message("selfEval"), {"factual": 1, "logical": 0, "mood": "good"}, judged)
        assert recognise(from_a2a_jsonrpc(body)) == judged


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("place", "name"),
        [
            (("params",), "params"),
            (message(), "message"),
            (message("metadata"), "metadata"),
            (metadata(), "urn:vacant:v1"),
            *(
                (metadata(name), name)
                for name in (
                    "from_vacant_id",
                    "to_vacant_id",
                    "sequence_no",
                    "timestamp",
                    "prev_envelope_hash",
                    "caller_signature",
                )
            ),
        ],
    )
    def test_is_called_missing_where_it_is(self, place, name):
        with pytest.raises(EnvelopeFormatError) as refusal:
            from_a2a_jsonrpc(body_with(place, MISSING))
        assert refusal.value.message == f"missing field: '{name}'"

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            *(
                ("sequence_no", value)
                for value in (0, -1, 2**63, 2**64, 10**100, "1", 1.0, 1.7, True, None, [])
            ),
            *(
                (name, value)
                for name in ("from_vacant_id", "to_vacant_id", "prev_envelope_hash")
                for value in ("", "00", "0" * 63, "0" * 62 + "zz", "0" * 66, " " + "0" * 63, None, 7, [], {})
            ),
            *(("caller_signature", value) for value in ("0", "zz", "00 00", "\ud800", None, 7)),
            *(("timestamp", value) for value in ("", "now", None, 1746489600, "0001-01-01T00:00:00+01:00")),
            *(("idempotency_key", value) for value in (None, 7, [], "\ud800")),
        ],
    )
    def test_is_named_where_the_metadata_is_wrong(self, name, wrong):
        with pytest.raises(EnvelopeFormatError) as refusal:
            from_a2a_jsonrpc(body_with(metadata(name), wrong))
        if wrong != "\ud800" or name != "idempotency_key":
            assert refusal.value.message.startswith("invalid metadata: ")
            assert name in refusal.value.message

    @pytest.mark.parametrize(
        ("place", "wrong"),
        [
            (("params",), []),
            (("params",), None),
            (message(), None),
            (message(), "hello"),
            (message("metadata"), None),
            (message("metadata"), []),
            (metadata(), None),
            (metadata(), []),
            (message("parts"), None),
            (message("parts"), {}),
            (message("parts"), "hello"),
            (message("parts"), ["hello"]),
            (message("parts"), [None]),
            (message("parts"), [{"type": "file", "text": ""}]),
            (message("parts"), [{"type": None, "text": ""}]),
            (message("parts"), [{"type": "text", "text": None}]),
            (message("parts"), [{"type": "text", "text": 7}]),
            (message("parts"), [{"type": "text", "text": "\ud800"}]),
            (message("role"), "user"),
            (message("role"), "role_user"),
            (message("role"), None),
            (message("role"), 1),
            (message("role"), []),
            (message("contextId"), 7),
            (message("contextId"), {}),
            (message("contextId"), "\udc00"),
            (message("messageId"), False),
            (message("selfEval"), []),
            (message("selfEval"), "good"),
            *(
                (message("selfEval"), {"factual": share})
                for share in (-0.1, 1.1, 2, True, None, "0.5", 10**400)
            ),
        ],
    )
    def test_is_whatever_has_another_shape(self, place, wrong):
        with pytest.raises(EnvelopeFormatError, match=r"invalid (message|metadata)|surrogate|self_eval"):
            from_a2a_jsonrpc(body_with(place, wrong))

    @pytest.mark.parametrize("body", [None, [], "text", 1, True, {}, {"params": {"message": {}}}])
    def test_is_a_body_that_is_none(self, body):
        for read in (from_a2a_jsonrpc, from_a2a_result, from_a2a_message):
            with pytest.raises(EnvelopeFormatError):
                read(body)

    @pytest.mark.parametrize("body", [{}, {"result": None}, {"result": {}}, {"error": {"code": 1}}, []])
    def test_is_a_reply_without_a_message(self, body):
        with pytest.raises(EnvelopeFormatError, match="transport response is not a valid A2A result: "):
            from_a2a_result(body)

    @pytest.mark.parametrize("role", ["x" * 1_000_000, "x - at `$.metadata" + "x" * 1_000_000, "` - at `"])
    def test_is_told_without_all_that_was_sent_and_where_it_is(self, role):
        with pytest.raises(EnvelopeFormatError) as refusal:
            from_a2a_jsonrpc(body_with(message("role"), role))
        assert len(refusal.value.message) < 400
        assert refusal.value.message.startswith("invalid message: Invalid enum value")
        assert refusal.value.message.endswith(" - at `$.params.message.role`")


def nodes(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from nodes(inner, (*path, key))


PLACES = [path for path in nodes(to_a2a_jsonrpc(sent())) if path]


class TestNoInput:
    @given(values())
    @example({"params": {"message": {"metadata": {A2A_VACANT_METADATA_KEY: {}}}}})
    def test_raises_anything_but_a_format_error(self, value):
        for read in (from_a2a_jsonrpc, from_a2a_result, from_a2a_message):
            with pytest.raises(EnvelopeFormatError):
                read(value)

    @given(st.sampled_from(PLACES), values() | st.just(MISSING))
    def test_that_is_almost_an_envelope_passes_for_what_was_signed(self, place, value):
        """One member is another: that is refused, does not verify, or makes no difference."""
        try:
            received = from_a2a_jsonrpc(body_with(place, value))
        except EnvelopeFormatError:
            return
        found = recognise(received)
        assert found is None or found == sent()


def test_the_body_of_a_request_is_taken_under_both_names():
    """The text of the contract calls it `payload`, the reference `body`."""
    body = to_a2a_jsonrpc(sent())
    assert from_a2a_jsonrpc(body) == from_a2a_jsonrpc(body=body) == from_a2a_jsonrpc(payload=body)
    for given_ in ({}, {"payload": body, "body": body}):
        with pytest.raises(TypeError, match="payload or body"):
            from_a2a_jsonrpc(**given_)
