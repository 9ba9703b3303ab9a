"""Tools and a prompt that answer with a question, and are called again with what was said to it.

They use the plain form, without `ask`: what came is looked at, and what is missing is asked for once more.
"""

from typing import Any, Final

from comity.mcp.protocol.catalog import Prompt, Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import (
    InputRequest,
    InputRequired,
    Json,
    PromptResult,
    ToolResult,
    said,
    text,
)
from compliance.content import ROOM
from compliance.questions import form, sample, sampled

_NAME: Final[Json] = {"name": {"type": "string"}}
_OK: Final[Json] = {"ok": {"type": "boolean"}}
_ROOTS: Final = InputRequest("roots/list", {})
WHO: Final = form("What is your name?", _NAME, ("name",))
_CONFIRM: Final = form("Please confirm", _OK, ("ok",))

Answer = ToolResult | InputRequired


def accepted(context: Context, key: str) -> Json | None:
    """What the user filled in; None as long as there is nothing of use."""
    answer = context.inputs.get(key)
    content = answer.get("content") if isinstance(answer, dict) else None
    return content if isinstance(content, dict) else None


def elicitation(context: Context, _arguments: Json) -> Answer:
    given = accepted(context, "user_name")
    return InputRequired({"user_name": WHO}) if given is None else said(f"Hello, {given.get('name')}!")


def sampling(context: Context, _arguments: Json) -> Answer:
    answer = context.inputs.get("capital_question")
    if not isinstance(answer, dict):
        return InputRequired({"capital_question": sample("What is the capital of France?")})
    return said(sampled(answer))


def list_roots(context: Context, _arguments: Json) -> Answer:
    roots = _roots(context)
    return InputRequired({"client_roots": _ROOTS}) if roots is None else said(f"Roots: {', '.join(roots)}")


def request_state(context: Context, _arguments: Json) -> Answer:
    if context.input_state != "asked" or accepted(context, "confirm") is None:
        return InputRequired({"confirm": _CONFIRM}, "asked")
    return said("state-ok")


def multiple_inputs(context: Context, _arguments: Json) -> Answer:
    name, roots, greeting = accepted(context, "user_name"), _roots(context), context.inputs.get("greeting")
    asked = {
        "user_name": (name, WHO),
        "greeting": (greeting, sample("Generate a greeting", 50)),
        "client_roots": (roots, _ROOTS),
    }
    missing = {key: request for key, (answer, request) in asked.items() if answer is None}
    if missing or name is None or roots is None:
        return InputRequired(missing, "several")
    return said(f"{sampled(greeting)} {name.get('name')}: {', '.join(roots)}")


def multi_round(context: Context, _arguments: Json) -> Answer:
    if context.input_state is None:
        return InputRequired(
            {"step1": form("Step 1: What is your name?", _NAME, ("name",))}, {"waits_for": "step1"}
        )
    if context.input_state["waits_for"] == "step1":
        name = (accepted(context, "step1") or {}).get("name")
        fields = {"color": {"type": "string"}}
        question = form("Step 2: What is your favorite color?", fields, ("color",))
        return InputRequired({"step2": question}, {"waits_for": "step2", "name": name})
    color = (accepted(context, "step2") or {}).get("color")
    return said(f"{context.input_state['name']} likes {color}")


def capabilities(context: Context, _arguments: Json) -> Answer:
    """Asks in whatever way the client can answer."""
    if context.inputs:
        return said("Answered")
    ways = {"sampling": sample("Say hello"), "elicitation": WHO, "roots": _ROOTS}
    return InputRequired({f"by_{way}": one for way, one in ways.items() if context.client.can(way)})


def context_prompt(context: Context, _arguments: dict[str, str]) -> PromptResult | InputRequired:
    given = accepted(context, "user_context")
    if given is None:
        fields = {"context": {"type": "string"}}
        question = form("What context should the prompt use?", fields, ("context",))
        return InputRequired({"user_context": question})
    return PromptResult([{"role": "user", "content": text(f"Use this context: {given.get('context')}")}])


def _roots(context: Context) -> list[str] | None:
    answer = context.inputs.get("client_roots")
    roots = answer.get("roots") if isinstance(answer, dict) else None
    if not isinstance(roots, list):
        return None
    return [str(root.get("uri")) for root in roots if isinstance(root, dict)]


def input_required_tools() -> list[Tool]:
    handlers: dict[str, tuple[Any, str]] = {
        "elicitation": (elicitation, "Asks for a name"),
        "sampling": (sampling, "Asks the client's model"),
        "list_roots": (list_roots, "Asks for the client's roots"),
        "request_state": (request_state, "Hands out a state and wants it back"),
        "multiple_inputs": (multiple_inputs, "Asks in three ways at once"),
        "multi_round": (multi_round, "Asks twice, one after the other"),
        "tampered_state": (request_state, "Does not take a state that was altered"),
        "capabilities": (capabilities, "Asks for what the client can answer"),
    }
    return [
        Tool(name=f"test_input_required_result_{name}", handler=handler, description=what, group=ROOM)
        for name, (handler, what) in handlers.items()
    ]


def input_required_prompts() -> list[Prompt]:
    return [
        Prompt(
            name="test_input_required_result_prompt",
            handler=context_prompt,
            description="Asks for the context it is to use",
            group=ROOM,
        )
    ]
