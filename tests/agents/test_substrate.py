"""Substrates, and the agent that thinks with one."""

import pytest
from msgspec import to_builtins

from comity.agents.substrate import (
    SubstrateAgent,
    SubstrateError,
    SubstrateRateLimitError,
    SubstrateRequest,
    SubstrateResponse,
    SubstrateUnavailableError,
    substrate_failure,
)
from comity.envelopes.client.calls import CallRefusedError
from comity.envelopes.protocol.errors import CoreError
from comity.vcp.protocol.context import CallerContext, GenerationPreferences
from comity.vcp.protocol.signals import model_safe
from comity.wire.errors import NoAnswerError, TargetRefusedError, UnreachableError
from tests.agents.envelopes import request, said


class Recorder:
    name = "recorder"
    closed = False

    async def infer(self, asked):
        self.asked = asked
        return SubstrateResponse(text=f"thought of {asked.user_prompt}", model_id="m")

    async def aclose(self):
        self.closed = True


async def test_an_agent_answers_with_what_its_substrate_says():
    substrate = Recorder()
    agent = SubstrateAgent(substrate, "be kind")
    assert said(await agent(request("a", "b"))) == "thought of a b"
    assert substrate.asked == SubstrateRequest(system_prompt="be kind", user_prompt="a b")
    await agent.aclose()
    assert substrate.closed


@pytest.mark.parametrize("asks", [True, False])
async def test_a_substrate_is_told_of_the_caller_where_the_agent_asks(asks):
    context = CallerContext(
        model_safe_context=model_safe({}, None, session_active=True),
        generation_preferences=GenerationPreferences(formality=5),
    )
    substrate = Recorder()
    agent = SubstrateAgent(substrate, "be kind", takes_context=asks)
    await agent(request("a"), context)
    assert substrate.asked.metadata == (to_builtins(context) if asks else {})
    assert ("Formality: 5/5" in substrate.asked.system_prompt) is asks
    await agent(request("a"), None)
    assert substrate.asked == SubstrateRequest(system_prompt="be kind", user_prompt="a")


async def test_a_substrate_that_holds_nothing_needs_no_closing():
    class Plain:
        name = "plain"

        async def infer(self, asked):
            return SubstrateResponse(text="", model_id="m")

    await SubstrateAgent(Plain()).aclose()


def test_requests_and_responses_have_their_defaults():
    asked = SubstrateRequest(system_prompt="s", user_prompt="u")
    assert (asked.tools, asked.metadata) == ([], {})
    answer = SubstrateResponse(text="t", model_id="m")
    assert (answer.usage, answer.proof) == ({}, {})
    assert asked.tools is not SubstrateRequest(system_prompt="s", user_prompt="u").tools


def test_the_errors_stand_in_the_contracts_line():
    assert issubclass(SubstrateError, CoreError)
    assert issubclass(SubstrateUnavailableError, SubstrateError)
    assert issubclass(SubstrateRateLimitError, SubstrateError)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (UnreachableError("x"), SubstrateUnavailableError),
        (NoAnswerError("x"), SubstrateUnavailableError),
        (CallRefusedError(500, "x"), SubstrateUnavailableError),
        (CallRefusedError(503, "x"), SubstrateUnavailableError),
        (CallRefusedError(429, "x"), SubstrateRateLimitError),
        (CallRefusedError(400, "x"), SubstrateError),
        (TargetRefusedError("x"), SubstrateError),
    ],
)
def test_a_failure_on_the_way_is_told_as_one_of_the_substrate(failure, kind):
    told = substrate_failure("the model", failure)
    assert type(told) is kind
    assert told.message.startswith("the model ")
