import json

import msgspec
from hypothesis import given

from comity.vcp.protocol.context import (
    GenerationPreferences,
    SessionContext,
    after,
    encode_response,
    read_request,
    respond,
)
from comity.vcp.protocol.messages import CONSENSUS, PERSONAL, TORCH
from comity.vcp.protocol.signals import CATEGORIES, Categorical, Signal
from tests.vcp.protocol.samples import PERSONAL_SESSION, REQUEST, WIRE, session
from tests.vcp.protocol.test_opacity import signals


def exchange(value, current=PERSONAL_SESSION, context=None, extensions=None):
    request = read_request(value, current)
    context = after(context or SessionContext(), request)
    return context, json.loads(encode_response(respond(request, context, current, extensions or {})))


class TestTheAnswer:
    def test_to_the_request_of_the_document(self):
        _, answer = exchange(REQUEST)
        assert answer == {
            "version": "3.1",
            "session_id": "ses_1",
            "accepted": ["categorical", "generation_preferences", "personal"],
            "ignored": [],
            "model_safe_context": {
                "protection_level": "elevated",
                "formality_level": None,
                "domain": "medical",
                "session_active": True,
            },
            "generation_preferences": {"depth": 4, "formality": 2, "directness": 3, "technical_level": 2},
            "extensions": {},
        }

    def test_names_what_was_ignored_and_why(self):
        _, answer = exchange(REQUEST, session())
        assert answer["ignored"] == [
            {"field": "personal", "reason": "VCP-X-Personal is not active in this session"}
        ]
        assert answer["model_safe_context"]["protection_level"] == "standard"

    @given(signals)
    def test_never_shows_a_category_a_score_or_a_constitution(self, told):
        personal = {dimension: msgspec.to_builtins(signal) for dimension, signal in told.items()}
        _, answer = exchange({"personal": personal, "constitution": "Honour the zebra."})
        shown = json.dumps(answer)
        words = {category for categories in CATEGORIES.values() for category in categories} - {"critical"}
        assert not any(word in shown for word in words)
        assert "score" not in shown
        assert "zebra" not in shown

    def test_holds_what_active_extensions_say_and_no_others(self):
        said = {TORCH: {"degraded": True}, CONSENSUS: {"winner": None}}
        _, answer = exchange({"categorical": WIRE}, session(TORCH), extensions=said)
        assert answer["extensions"] == {TORCH: {"degraded": True}}


class TestTheMemoryOfASession:
    def test_keeps_signals_that_a_later_request_does_not_name(self):
        context, _ = exchange({"personal": {"body_signals": {"category": "pain", "intensity": 5}}})
        context, answer = exchange({"categorical": WIRE}, context=context)
        assert answer["model_safe_context"]["protection_level"] == "high"
        assert context.signals == {"body_signals": Signal(category="pain", intensity=5)}

    def test_forgets_a_signal_that_is_null_and_replaces_one_that_is_told_anew(self):
        context, _ = exchange(
            {"personal": {"body_signals": {"category": "pain"}, "energy_level": {"category": "wired"}}}
        )
        context, _ = exchange(
            {"personal": {"body_signals": None, "energy_level": {"category": "rested"}}}, context=context
        )
        assert context.signals == {"energy_level": Signal(category="rested")}

    def test_keeps_wire_preferences_and_constitution_until_they_are_told_anew(self):
        first = {"categorical": WIRE, "generation_preferences": {"depth": 5}, "constitution": "Be kind."}
        context, _ = exchange(first)
        later, _ = exchange({"personal": {}}, context=context)
        assert later == context
        absent = ":".join(["\u2796"] * 9)
        changed, _ = exchange(
            {"categorical": absent, "generation_preferences": {"formality": 1}, "constitution": ""},
            context=context,
        )
        assert changed == SessionContext(
            categorical=Categorical(), preferences=GenerationPreferences(formality=1), constitution=""
        )

    @given(signals)
    def test_can_be_stored_and_read_back(self, told):
        context = SessionContext(categorical=Categorical(mode="💬"), signals=told, constitution="c")
        assert msgspec.json.decode(msgspec.json.encode(context), type=SessionContext) == context

    def test_does_not_take_what_the_session_does_not(self):
        context, _ = exchange(
            REQUEST | {"extensions": {CONSENSUS: {"x": 1}}}, session(PERSONAL, version="2.0")
        )
        assert context.signals == {}
        assert PERSONAL in PERSONAL_SESSION.extensions
