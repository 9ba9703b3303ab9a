"""Extension calls on a connection, and how they are refused: which argument is wrong, under its known name."""

import json

import pytest
from hypothesis import given

from comity.extensions.protocol.operations import perform
from comity.vcp.protocol import extension_calls as messages
from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.extension_calls import ExtensionError, in_words_of, refused, shaped
from tests.extensions.protocol.test_operations import NOW, PAIN, RULES, Conversation
from tests.wire.json_values import values

OPTIONS = {"level": "--level", "concern": "--concern", "clause_id": "--clause"}


@pytest.mark.parametrize(
    ("refusal", "message", "field"),
    [
        (refused("clause_id", "is needed"), "--clause is needed", "clause_id"),
        (refused(("level", "concern"), "are needed", field="concern"), "--level and --concern are needed", "concern"),
        (refused(("level", "mood"), "are needed"), "--level and mood are needed", "level"),
        (refused("level", "must be no clause_id", code="STALE"), "--level must be no clause_id", "level"),
    ],
)  # fmt: skip
def test_each_argument_is_called_by_its_option(refusal, message, field):
    result = in_words_of(OPTIONS, refusal)
    assert (result.message, result.field, result.wire_code) == (message, field, refusal.wire_code)


@pytest.mark.parametrize(
    "refusal",
    [
        refused("signal", "must not be empty"),
        refused("clauses[0]", "must not be empty"),
        ExtensionError("CONFLICT", "level is what somebody else began a sentence with", "level"),
        ExtensionError("NOT_FOUND", "there is no such clause in this deliberation", "clause_id"),
    ],
)
def test_any_other_refusal_stays_as_it_is(refusal):
    assert in_words_of(OPTIONS, refusal) is refusal


def answered(talk, text):
    """What a server does with a call."""
    value = json.loads(text)
    try:
        call = messages.read_call(value)
        talk.state, result = perform(call.op, talk.state, call.args, talk.facts, RULES, NOW)
    except ExtensionError as refusal:
        return messages.write_refusal(messages.call_id(value), refusal)
    return messages.write_result(call.id, result)


class TestACall:
    def test_is_answered_with_its_result(self):
        talk = Conversation()
        result = messages.read_result(
            json.loads(answered(talk, messages.write_call("1", "personal.set", {"signals": PAIN})))
        )
        assert (result.id, result.ok, result.error) == ("1", True, None)
        assert result.result["signals"]["body_signals"]["category"] == "pain"

    def test_is_answered_with_a_refusal_that_names_the_argument(self):
        answer = json.loads(
            answered(
                Conversation(),
                messages.write_call("7", "personal.pin", {"dimension": "mood", "pinned": True}),
            )
        )
        assert answer["type"] == "vcp-result"
        assert (answer["id"], answer["ok"], answer["error"]["code"], answer["error"]["field"]) == (
            "7",
            False,
            "INVALID_ARGUMENT",
            "dimension",
        )
        result = messages.read_result(answer)
        assert result.error.field == "dimension"

    def test_leaves_the_field_out_where_no_argument_is_at_fault(self):
        answer = json.loads(messages.write_refusal("1", ExtensionError("FORBIDDEN", "no")))
        assert answer["error"] == {"code": "FORBIDDEN", "message": "no"}

    @pytest.mark.parametrize(
        ("change", "id_", "field"),
        [
            ({"id": 5}, None, "id"),
            ({"id": ""}, None, "id"),
            ({"id": "x" * 129}, None, "id"),
            ({"id": None}, None, "id"),
            ({"op": 5}, "1", "op"),
            ({"args": []}, "1", "args"),
            ({"colour": "red"}, "1", "colour"),
        ],
    )
    def test_that_is_wrong_is_refused(self, change, id_, field):
        value = {"type": "vcp-call", "id": "1", "op": "personal.get", "args": {}} | change
        answer = json.loads(answered(Conversation(), json.dumps(value)))
        assert (answer["id"], answer["error"]["code"], answer["error"]["field"]) == (
            id_,
            "INVALID_ARGUMENT",
            field,
        )

    def test_may_leave_out_arguments_that_are_none(self):
        assert messages.read_call({"type": "vcp-call", "id": "x" * 128, "op": "personal.get"}).args == {}

    @given(values())
    def test_of_any_shape_has_an_answer(self, value):
        answer = json.loads(answered(Conversation(), json.dumps(value)))
        assert answer["ok"] is False
        assert not messages.is_call(value)


class TestAnAnswer:
    @pytest.mark.parametrize(
        "value",
        [
            None,
            {},
            {"type": "vcp-ack"},
            {"type": "vcp-result", "id": "1"},
            {"type": "vcp-result", "id": "1", "ok": False},
            {"type": "vcp-result", "id": "1", "ok": True, "error": {"code": "CONFLICT", "message": "x"}},
            {"type": "vcp-result", "id": "1", "ok": False, "error": {"code": "NONSENSE", "message": "x"}},
        ],
    )
    def test_that_is_none_is_refused(self, value):
        with pytest.raises(ExtensionError):
            messages.read_result(value)

    def test_may_hold_members_of_a_later_version(self):
        value = {"type": "vcp-result", "id": "1", "ok": True, "result": {}, "took": 5}
        assert messages.read_result(value).result == {}


NORM = {"norm_id": "n1", "description": "Be brief", "origin": "human", "established_date": "2026-01-15"}
CERTAIN = {"value": 7, "uncertain": False}
OPENING = {"title": "Rules", "clauses": ["A."], "stakeholders": []}


@pytest.mark.parametrize(
    ("op", "args", "said"),
    [
        ("personal.pin", {"dimension": "x", "pinned": "sent"}, "pinned must be true or false"),
        ("personal.preset", {}, "id is missing"),
        ("personal.get", {"sent": 1}, "sent is no argument; leave it out"),
        ("personal.get", ["sent"], "the object of arguments must be an object"),
        ("personal.set", {"signals": {"x": "sent"}}, "signals[...] must be an object or null"),
        (
            "relational.norm",
            {"norm": NORM | {"origin": "sent"}},
            "norm.origin must be one of ai, co_authored, human, inherited",
        ),
        ("relational.norm", {"norm": NORM | {"norm_id": 7}}, "norm.norm_id must be a text"),
        ("relational.selfmodel", {"model": {"depth": {"value": 1}}}, "model.depth.uncertain is missing"),
        (
            "relational.selfmodel",
            {"model": {"custom_dimensions": {"a": CERTAIN | {"trend": "sent"}}}},
            "model.custom_dimensions[...].trend must be one of falling, rising, stable, unknown",
        ),
        ("consensus.open", OPENING | {"clauses": [7]}, "clauses[0] must be a text or an object"),
        ("consensus.open", OPENING | {"quorum": []}, "quorum must be a number or a text"),
        (
            "consensus.open",
            OPENING | {"stakeholders": [{"id": "a"}, {"id": "b", "role": "sent"}]},
            "stakeholders[1].role must be one of ai_party, ai_representative, author, observer, participant",
        ),
        ("consensus.vote", {"delib_id": "d", "vote": "sent"}, "vote must be one of abstain, accept, reject"),
    ],
)
def test_an_argument_that_is_wrong_is_told_by_its_name_and_what_it_must_be(op, args, said):
    with pytest.raises(ExtensionError) as refusal:
        shaped(args, operations()[op].arguments)
    assert refusal.value.message == said
    assert refusal.value.wire_code == "INVALID_ARGUMENT"
