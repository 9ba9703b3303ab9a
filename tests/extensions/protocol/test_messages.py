import json

import pytest
from hypothesis import given

from comity.extensions.protocol.operations import perform
from comity.vcp.protocol import extension_calls as messages
from comity.vcp.protocol.extension_calls import ExtensionError
from tests.extensions.protocol.test_operations import NOW, PAIN, RULES, Conversation
from tests.wire.json_values import values


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
        told = messages.read_result(
            json.loads(answered(talk, messages.write_call("1", "personal.set", {"signals": PAIN})))
        )
        assert (told.id, told.ok, told.error) == ("1", True, None)
        assert told.result["signals"]["body_signals"]["category"] == "pain"

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
        told = messages.read_result(answer)
        assert told.error.field == "dimension"

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
