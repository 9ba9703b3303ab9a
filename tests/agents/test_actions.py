"""The agent that calls actions."""

import json

import pytest

from comity.actions.library import Library, load_plugins
from comity.actions.runner import ActionLimits, Allowance, Runner
from comity.agents.actions_agent import ActionsAgent, load_actions
from comity.agents.behaviour import load_behaviour
from tests.agents.envelopes import request, said


@pytest.fixture
async def agent():
    plugins = load_plugins(["tests.actions.sample_plugin"])
    agent = ActionsAgent(Runner(Library("enhanced", plugins)))
    yield agent
    await agent.aclose()


async def answer(agent, *texts):
    return json.loads(said(await agent(request(*texts))))


async def test_a_text_part_of_json_calls_an_action(agent):
    asked = '{"action":"greet","input":{"name":"Ada"}}'
    for texts in ((asked,), ("please", asked), ("5", asked, "thanks")):
        reply = await answer(agent, *texts)
        assert reply["ok"] is True
        assert reply["data"]["output"] == {"greeting": "Hello, Ada", "mode": "enhanced"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("hello", "Malformed JSON request"),
        ("[]", "Malformed JSON request"),
        ("{}", "Invalid invoke payload"),
        ('{"action":"x","input":{}}', "Unknown action: 'x'. Call list_actions to see available actions."),
        ('{"action":"greet","input":{}}', "Input validation failed for action 'greet'"),
        ('{"action":"work_hard","input":{"do":"refuse"}}', "There is nothing to work on."),
        ('{"action":"work_hard","input":{"do":"raise"}}', "this node cannot serve the request"),
    ],
)
async def test_what_cannot_be_called_is_refused_in_the_reply(agent, text, error):
    reply = await answer(agent, text)
    assert reply["ok"] is False
    assert reply["error"].startswith(error)
    assert "secret" not in json.dumps(reply)


async def test_it_is_loaded_by_its_name():
    agent = load_behaviour("actions")
    assert isinstance(agent, type(load_actions()))
    await agent.aclose()


async def test_a_text_that_no_stranger_may_send_is_refused_before_it_is_read(agent):
    for texts in (("x" * 65_537,), ("[" * 40_000, "[" * 40_000)):
        reply = await answer(agent, *texts)
        assert reply["ok"] is False
        assert "longer than the 65,536 characters" in reply["error"]


async def test_its_limits_are_those_of_the_node():
    limits = ActionLimits(others=Allowance(characters=10))
    agent = load_behaviour("actions", limits=limits)
    reply = await answer(agent, "x" * 11)
    assert "longer than the 10 characters" in reply["error"]
    await agent.aclose()
