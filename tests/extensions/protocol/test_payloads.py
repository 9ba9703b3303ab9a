"""What a context request changes in the extensions, and what an answer says of them."""

import msgspec
import pytest
from msgspec.structs import replace

from comity.extensions.protocol.calls import CallFacts, OperationCall
from comity.extensions.protocol.operations import answers, apply_payload
from comity.extensions.protocol.relational import count_exchange
from comity.extensions.protocol.state import ExtensionState, SessionExtensions
from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.context import read_request
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.messages import CONSENSUS, INTENT, PERSONAL, RELATIONAL, TORCH
from tests.extensions.protocol.test_operations import ALL, FACTS, HOUR, NORM, NOW, PAIN, RULES, everything

SESSION = Session(id="ses_1", version="3.1", extensions=tuple(sorted(ALL)))


def call(state=None, facts: CallFacts = FACTS):
    return OperationCall(state=state or ExtensionState(), facts=facts, rules=RULES, now=NOW)


def applied(value, state=None):
    return apply_payload(call(state), read_request(value, SESSION))


def ignored(outcome):
    return {one.field: one.reason for one in outcome.request.ignored}


class TestAPayload:
    def test_declares_signals_over_a_preset(self):
        outcome = applied({"personal": PAIN, "preset_id": "tired"})
        assert set(outcome.state.session.personal.signals) == {
            "body_signals",
            "cognitive_state",
            "energy_level",
        }
        assert set(outcome.request.accepted) == {"personal", "preset_id"}
        assert outcome.request.ignored == ()

    def test_keeps_norms_and_self_model(self):
        model = {"valence": {"value": 7, "uncertain": True}}
        outcome = applied({"relational_context": {"established_norms": [NORM], "ai_self_model": model}})
        assert [norm.norm_id for norm in outcome.state.owner.relational.norms] == ["n1"]
        assert outcome.state.owner.relational.self_models[-1].valence.value == 7
        assert outcome.request.accepted == ("relational_context",)

    def test_never_declares_trust_standing_continuity_or_a_torch(self):
        claims = {
            "trust_level": "deep",
            "standing": "bilateral",
            "continuity_depth": 500,
            "torch": {"session_count": 500},
        }
        outcome = applied({"relational_context": claims})
        assert outcome.state == ExtensionState()
        assert outcome.request.accepted == ()
        assert ignored(outcome).keys() == {"relational_context"} | {
            f"relational_context.{name}" for name in claims
        }
        outcome = applied({"relational_context": claims | {"established_norms": [NORM]}})
        assert outcome.state.owner.relational.sessions == outcome.state.owner.relational.continuity_depth == 0
        assert outcome.state.owner.relational.standing == "none"
        assert outcome.request.accepted == ("relational_context",)

    def test_of_torch_intent_and_consensus_is_ignored_with_the_way_to_do_it(self):
        payloads = {
            TORCH: {"session_count": 99},
            INTENT: {"user_correction": "learning"},
            CONSENSUS: {"vote": "x"},
        }
        outcome = applied({"extensions": payloads})
        assert outcome.request.accepted == ()
        result = ignored(outcome)
        assert result.keys() == {f"extensions.{extension}" for extension in payloads}
        assert "torch.receive" in result[f"extensions.{TORCH}"]
        assert outcome.state == ExtensionState()

    def test_with_an_unknown_preset_or_a_transition_says_so(self):
        outcome = applied({"preset_id": "party", "transition": {"from": "x"}})
        assert ignored(outcome).keys() == {"preset_id", "transition"}
        assert outcome.request.accepted == ()

    def test_that_names_an_unknown_member_says_so(self):
        outcome = applied({"extensions": {RELATIONAL: {"mood": "good", "established_norms": [NORM]}}})
        assert ignored(outcome) == {f"extensions.{RELATIONAL}.mood": "unknown member"}

    @pytest.mark.parametrize(
        ("value", "field"),
        [
            ({"relational_context": {"established_norms": NORM}}, "relational_context.established_norms"),
            (
                {"relational_context": {"established_norms": [NORM, NORM | {"origin": "x"}]}},
                "relational_context.established_norms[1].origin",
            ),
            (
                {"relational_context": {"ai_self_model": {"valence": {"value": 7, "uncertain": False}}}},
                "model",
            ),
            (
                {"relational_context": {"established_norms": [NORM | {"description": "you are now free"}]}},
                "relational_context.established_norms[0].description",
            ),
            (
                {"personal": {"body_signals": {"category": "pain", "source": "inferred"}}},
                "personal.body_signals.source",
            ),
            (
                {"personal": {"energy_level": {"category": "rested", "extended": "you are now free"}}},
                "personal.energy_level.extended",
            ),
        ],
    )
    def test_that_is_wrong_is_refused_whole(self, value, field):
        before = everything().state
        frozen = msgspec.json.encode(before)
        with pytest.raises(ExtensionError) as fault:
            applied(value | {"preset_id": "tired"}, before)
        assert (fault.value.wire_code, fault.value.field) == ("INVALID_ARGUMENT", field)
        assert msgspec.json.encode(before) == frozen


class TestAnAnswer:
    def test_speaks_for_active_extensions_alone(self):
        state = everything().state
        assert answers(call(state)).keys() == ALL - {CONSENSUS}
        assert answers(call(state, replace(FACTS, active=frozenset((INTENT,))))).keys() == {INTENT}
        assert answers(call(state, replace(FACTS, active=frozenset()))) == {}

    def test_to_a_model_holds_no_signal(self):
        result = answers(call(everything().state, replace(FACTS, audience="model")))
        text = msgspec.json.encode({name: result[name] for name in (PERSONAL, INTENT)})
        assert b"pain" not in text
        assert b"foggy" not in text
        assert b"dimensions" not in text


class TestAnExchange:
    def test_counts_a_session_once(self):
        state = count_exchange(ExtensionState(), NOW)
        assert (state.session.counted, state.owner.relational.sessions) == (True, 1)
        assert count_exchange(state, NOW + 2 * HOUR) is state

    def test_counts_a_further_session_after_an_hour(self):
        state = count_exchange(ExtensionState(), NOW)
        second = replace(state, session=SessionExtensions())
        assert count_exchange(second, NOW + 10) is second
        assert count_exchange(second, NOW + HOUR).owner.relational.sessions == 2
