"""What every behaviour has to do with."""

import asyncio
import subprocess
import sys
import threading

import pytest

from comity.agents.behaviour import (
    FunctionAgent,
    close_behaviour,
    echo,
    load_behaviour,
    load_function,
    saying,
    text_of,
)
from comity.agents.mcp_tool import McpTool
from comity.agents.substrate import SubstrateAgent
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.wire.errors import ConfigError, InvalidError
from tests.agents.envelopes import BOB, request, said
from tests.http.local_server import reply, serving


def test_the_text_of_an_envelope_is_that_of_all_its_parts():
    assert text_of(request("a", "b c")) == "a b c"


def test_saying_is_a_message_of_an_agent():
    assert saying("x").role == "ROLE_AGENT"
    assert [part.text for part in saying("x").parts] == ["x"]


async def test_a_behaviour_that_holds_nothing_is_closed_without_ado():
    await close_behaviour(echo)


async def test_a_behaviour_that_holds_something_lets_go_of_it():
    class Holder:
        closed = False

        async def __call__(self, envelope):
            return saying("")

        async def aclose(self):
            self.closed = True

    holder = Holder()
    await close_behaviour(holder)
    assert holder.closed


# The agent that says what it was told.


@pytest.mark.parametrize(
    ("texts", "answer"), [(("hello",), "hello"), (("a", "b"), "a b"), ((), ""), (("é\n",), "é\n")]
)
async def test_echo_names_the_vacant_that_answers(texts, answer):
    assert said(await echo(request(*texts))) == f"echo from {BOB.vacant_id.short()}: {answer}"


# From what the owner wrote to the behaviour.

COMPLETION = b'{"choices":[{"message":{"content":"fine"}}]}'


async def test_each_kind_is_known_by_its_beginning():
    assert load_behaviour("echo") is echo
    for spec, kind in (
        ("mcp:cat#tool", McpTool),
        ("openai:https://a.example/v1#m", SubstrateAgent),
        ("textwrap:dedent", FunctionAgent),
    ):
        behaviour = load_behaviour(spec, environ={})
        assert isinstance(behaviour, kind)
        await close_behaviour(behaviour)


async def test_a_model_gets_its_prompt_and_its_key():
    async with serving(lambda _: reply(COMPLETION)) as server:
        behaviour = load_behaviour(
            f"openai:{server.url('/v1')}#m",
            system_prompt="be kind",
            key_variable="A_KEY",
            environ={"A_KEY": "sk-1"},
        )
        assert said(await behaviour(request("hi"))) == "fine"
        await close_behaviour(behaviour)
    assert b"be kind" in server.requests[0]
    assert b"Bearer sk-1" in server.requests[0]


async def test_the_environment_of_the_process_is_the_default(monkeypatch):
    monkeypatch.setenv("A_KEY", "sk-2")
    async with serving(lambda _: reply(COMPLETION)) as server:
        behaviour = load_behaviour(f"openai:{server.url('/v1')}#m", key_variable="A_KEY")
        await behaviour(request("hi"))
        await close_behaviour(behaviour)
    assert b"Bearer sk-2" in server.requests[0]


@pytest.mark.parametrize("spec", ["", "parrot", "Echo"])
def test_anything_else_is_refused_with_what_there_is(spec):
    with pytest.raises(
        ConfigError, match="use echo, actions, module:function, mcp:command#tool or openai:URL#model"
    ):
        load_behaviour(spec)


def test_each_kind_is_loaded_when_it_is_asked_for():
    program = (
        "import sys; from comity.agents.behaviour import load_behaviour\n"
        "load_behaviour('echo')\n"
        "names = ('function', 'mcp_tool', 'openai_endpoint', 'substrate')\n"
        "assert not {f'comity.agents.{name}' for name in names} & set(sys.modules)\n"
        "assert not {'httpcore', 'anyio', 'mcp'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# Functions of the user's: how they are found, called, and refused.

MODULE = """
import functools
from comity import A2AMessage, A2APart, VacantEnvelope

def upper(text: str) -> str:
    return text.upper()

def unannotated(text):
    return f"text {text}"

def envelope(envelope):
    return f"seq {envelope.sequence_no}"

def annotated(anything: VacantEnvelope) -> A2AMessage:
    return A2AMessage(role="ROLE_AGENT", parts=[A2APart(text=anything.idempotency_key)])

async def later(text: str) -> str:
    return f"later {text}"

async def later_message(envelope):
    return A2AMessage(role="ROLE_TOOL", parts=[A2APart(text="x")])

def hands_over(text: str):
    return later(text)

def optional(text: str, loud: bool = False) -> str:
    return text

def many(*texts: str) -> str:
    return texts[0]

def number(text: str):
    return 7

def nothing(text: str):
    pass

def fails(text: str):
    raise ValueError("as it should")

class Agent:
    def answer(self, text: str) -> str:
        return f"method {text}"
    async def __call__(self, text: str) -> str:
        return f"object {text}"

agent = Agent()
partial = functools.partial(optional, loud=True)
constant = 7

def no_arguments():
    return ""

def two_arguments(a, b):
    return ""
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with a module in it, and nothing left behind."""
    (tmp_path / "my_agent.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "needy.py").write_text("import not_there_at_all\n")
    (tmp_path / "wrong.py").write_text("def (:\n")
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text("from __future__ import annotations\ndef f(x: str): return x * 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"my_agent", "broken", "needy", "wrong", "my_package"}:
            del sys.modules[name]


async def ask(spec, text="hi"):
    agent = load_function(spec)
    try:
        return await agent(request(text))
    finally:
        await agent.aclose()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("upper", "HI"),
        ("unannotated", "text hi"),
        ("envelope", "seq 1"),
        ("annotated", "k"),
        ("later", "later hi"),
        ("hands_over", "later hi"),
        ("optional", "hi"),
        ("many", "hi"),
        ("partial", "hi"),
        ("agent", "object hi"),
        ("agent.answer", "method hi"),
    ],
)
async def test_a_function_is_called_with_what_it_takes(name, answer):
    assert said(await ask(f"my_agent:{name}")) == answer


async def test_a_function_in_a_package_is_found():
    assert said(await ask("my_package.inner:f")) == "hihi"


async def test_a_message_is_returned_as_it_is():
    assert (await ask("my_agent:later_message")).role == "ROLE_TOOL"


@pytest.mark.parametrize(("name", "kind"), [("number", "int"), ("nothing", "NoneType")])
async def test_an_answer_that_is_no_text_is_refused(name, kind):
    with pytest.raises(InvalidError, match=f"my_agent:{name} returned {kind}; return a str"):
        await ask(f"my_agent:{name}")


async def test_what_a_function_raises_is_left_alone():
    with pytest.raises(ValueError, match="as it should"):
        await ask("my_agent:fails")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("nowhere:f", "the module nowhere was not found in .* or among the installed packages"),
        ("my_package.nowhere:f", r"the module my_package\.nowhere was not found"),
        ("nowhere.inner:f", r"the module nowhere\.inner was not found"),
        ("my_agent.inner:f", r"the module my_agent\.inner was not found"),
        ("needy:f", "the module needy needs not_there_at_all, which is not installed"),
        ("broken:f", "the module broken fails when it is imported: ZeroDivisionError"),
        ("wrong:f", "the module wrong fails when it is imported: SyntaxError"),
        ("my_agent:uper", "my_agent has no uper; did you mean upper?"),
        ("my_agent:zzzzzz", "my_agent has no zzzzzz; check its name"),
        ("my_agent:agent.nothing_like_it", "my_agent has no agent.nothing_like_it"),
        ("my_agent:Agent", "my_agent:Agent is a class"),
        ("my_agent:constant", "my_agent:constant is int and cannot be called"),
        ("my_agent:no_arguments", "must be callable with one argument, .*; it takes \\(\\)"),
        ("my_agent:two_arguments", "must be callable with one argument"),
        ("my_agent:", "names no function"),
        (":f", "names no function"),
        ("my_agent", "names no function"),
    ],
)
def test_what_cannot_be_called_is_refused_with_a_sentence(spec, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load_function(spec)


async def test_the_working_directory_comes_before_what_is_installed(folder):
    (folder / "this.py").write_text("def f(text): return 'mine'\n")
    sys.modules.pop("this", None)
    try:
        assert said(await ask("this:f")) == "mine"
    finally:
        sys.modules.pop("this", None)


def test_the_working_directory_is_added_once(folder):
    for _ in range(3):
        load_function("my_agent:upper")
    assert sys.path.count(str(folder)) == 1


async def test_a_slow_function_does_not_stop_the_others():
    gate = threading.Event()

    def slow(text: str) -> str:
        gate.wait(10)
        return threading.current_thread().name

    agent = FunctionAgent(slow, "slow")
    waiting = [asyncio.create_task(agent(request())) for _ in range(12)]
    assert await asyncio.sleep(0, "the loop still turns")
    gate.set()
    names = {said(await task) for task in waiting}
    assert all(name.startswith("agent") for name in names)
    await agent.aclose()


async def test_an_async_function_runs_on_the_loop():
    async def here(envelope: VacantEnvelope) -> str:
        return threading.current_thread().name

    agent = FunctionAgent(here, "here")
    assert said(await agent(request())) == threading.main_thread().name
    await agent.aclose()


class TestAContext:
    MODULE = """
def plain(text): return text
def asks(text: str, context): return f"{text} {context}"
def may_ask(envelope, context=None): return f"{envelope.sequence_no} {context}"
async def later(text, context): return f"later {context}"
def keyword(text, *, context=None): return f"{text} {context}"
def other(text, mood): return text
"""

    @pytest.fixture(autouse=True)
    def module(self, tmp_path, monkeypatch):
        (tmp_path / "asking.py").write_text(self.MODULE)
        monkeypatch.chdir(tmp_path)
        monkeypatch.delitem(sys.modules, "asking", raising=False)

    @pytest.mark.parametrize(
        ("name", "answer"), [("asks", "hi told"), ("may_ask", "1 told"), ("later", "later told")]
    )
    async def test_is_given_to_a_function_with_a_parameter_of_that_name(self, name, answer):
        agent = load_function(f"asking:{name}")
        assert agent.takes_context
        assert said(await agent(request("hi"), "told")) == answer

    @pytest.mark.parametrize("name", ["plain", "keyword"])
    async def test_is_not_given_to_one_that_does_not_ask(self, name):
        agent = load_function(f"asking:{name}")
        assert not agent.takes_context
        assert said(await agent(request("hi"))).startswith("hi")

    def test_is_the_only_second_parameter_there_may_be(self):
        with pytest.raises(ConfigError, match="second one called"):
            load_function("asking:other")
