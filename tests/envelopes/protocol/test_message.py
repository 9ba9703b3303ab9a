import math

import pytest

from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.envelopes.protocol.message import A2AMessage, A2APart, SelfEval


class TestAMessage:
    def test_is_an_empty_one_of_a_user_unless_told_otherwise(self):
        message = A2AMessage()
        assert message.role == "ROLE_USER"
        assert message.parts == ()
        assert (message.context_id, message.message_id, message.self_eval) == (None, None, None)

    def test_keeps_a_list_of_parts_as_a_tuple_and_can_be_a_key(self):
        message = A2AMessage(parts=[A2APart(text="a"), A2APart()])
        assert message.parts == (A2APart(text="a"), A2APart(text=""))
        assert {message: 1}[A2AMessage(parts=(A2APart(text="a"), A2APart()))] == 1

    @pytest.mark.parametrize(
        "wrong",
        [
            {"role": "user"},
            {"role": None},
            {"role": []},
            {"parts": ["text"]},
            {"parts": [{"type": "text", "text": "a"}]},
            {"context_id": 1},
            {"message_id": b"x"},
            {"self_eval": {"factual": 1}},
        ],
    )
    def test_refuses_by_name_what_it_cannot_carry(self, wrong):
        with pytest.raises(EnvelopeFormatError, match=next(iter(wrong))):
            A2AMessage(**wrong)


class TestAPart:
    @pytest.mark.parametrize("kind", ["file", "data", "", None, 1])
    def test_is_of_text_only(self, kind):
        with pytest.raises(EnvelopeFormatError, match="'text'"):
            A2APart(type=kind)

    @pytest.mark.parametrize("text", [None, 1, b"bytes", ["a"]])
    def test_holds_a_string_only(self, text):
        with pytest.raises(EnvelopeFormatError, match="string"):
            A2APart(text=text)


class TestASelfEvaluation:
    def test_is_undecided_by_default(self):
        assert set(SelfEval().dims().values()) == {0.5}
        assert SelfEval().confidence == 0.5

    @pytest.mark.parametrize("share", [-0.0001, 1.0001, math.nan, math.inf, 2, -1, True, "0.5", None])
    @pytest.mark.parametrize("name", SelfEval.__struct_fields__)
    def test_stays_between_nought_and_one(self, name, share):
        with pytest.raises(EnvelopeFormatError, match=f"self_eval.{name}"):
            SelfEval(**{name: share})

    def test_turns_whole_numbers_into_floats(self):
        judged = SelfEval(factual=1, logical=0)
        assert [type(judged.factual), type(judged.logical)] == [float, float]

    def test_shows_five_dimensions_without_the_confidence(self):
        judged = SelfEval(0.1, 0.2, 0.3, 0.4, 0.5, 0.9)
        assert judged.dims() == {
            "factual": 0.1,
            "logical": 0.2,
            "relevance": 0.3,
            "honesty": 0.4,
            "adoption": 0.5,
        }
