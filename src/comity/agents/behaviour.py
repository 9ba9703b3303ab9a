"""What answers a call: a behaviour is given the envelope of a request and returns the message of its reply.

It runs at least once for each accepted request: again when the node died before the reply was stored.
One that must not do a thing twice looks at the envelope's idempotency key.

One with the attribute `takes_context` also gets the context that its caller sent in a VCP session, or None.

`load_behaviour` reads what the owner wrote: `echo`, `actions`, `module:function`, `mcp:…` or `openai:…`. Each kind is
loaded only when it is asked for. What cannot work is refused here, with a sentence, and not with the first call.
"""

import asyncio
import difflib
import inspect
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from comity.envelopes.protocol.envelope import Behaviour, VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.http.client import TIMEOUT
from comity.runtime.lazy import late
from comity.system import import_user_module, is_missing
from comity.vcp.protocol.context import CallerContext
from comity.wire.errors import ConfigError, InvalidError

if TYPE_CHECKING:
    from comity.actions.runner import ActionLimits
    from comity.agents import actions_agent, mcp_tool, substrate
else:
    actions_agent = late("comity.agents.actions_agent")
    mcp_tool = late("comity.agents.mcp_tool")
    substrate = late("comity.agents.substrate")


def text_of(envelope: VacantEnvelope) -> str:
    """Return the text of all parts."""
    return " ".join(part.text for part in envelope.payload.parts)


def saying(text: str) -> A2AMessage:
    return A2AMessage(role="ROLE_AGENT", parts=(A2APart(text=text),))


async def echo(envelope: VacantEnvelope) -> A2AMessage:
    """Repeat the message: an agent for tests."""
    return saying(f"echo from {envelope.to_vacant_id.short()}: {text_of(envelope)}")


async def close_behaviour(behaviour: object) -> None:
    """Close what a behaviour, or a substrate, uses: threads, connections, a process."""
    close = getattr(behaviour, "aclose", None)
    if close is not None:
        await close()


def load_behaviour(
    spec: str,
    *,
    system_prompt: str = "",
    tell_context: bool = False,
    key_variable: str = "OPENAI_API_KEY",
    timeout: float = TIMEOUT,
    environ: Mapping[str, str] | None = None,
    limits: "ActionLimits | None" = None,
) -> Behaviour:
    """`system_prompt`, `tell_context` and `key_variable`, the name of the environment variable that holds the key, are
    for models; `limits` are for the actions. Hand the behaviour to `close_behaviour` when it is not needed any more.
    """
    kind, separator, _ = spec.partition(":")
    if spec == "echo":
        return echo
    if spec == "actions":
        return actions_agent.load_actions(limits)
    if kind == "mcp":
        return mcp_tool.load_mcp_tool(spec, timeout=timeout)
    if kind == "openai":
        variables = os.environ if environ is None else environ
        backend = substrate.load_openai(spec, environ=variables, key_variable=key_variable, timeout=timeout)
        return substrate.SubstrateAgent(backend, system_prompt, takes_context=tell_context)
    if separator:
        return load_function(spec)
    raise ConfigError(
        f"there is no agent {spec!r}; use echo, actions, module:function, mcp:command#tool or openai:URL#model"
    )


# A function of the user's as a behaviour: `module:name`, sync or async.

_THREADS: Final = 32
_CONTEXT: Final = "context"


class FunctionAgent:
    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        self._takes_text, self.takes_context = _what_it_takes(function, name)
        self._threads = None if _is_async(function) else ThreadPoolExecutor(_THREADS, "agent")

    async def __call__(self, envelope: VacantEnvelope, context: CallerContext | None = None) -> A2AMessage:
        given: list[Any] = [text_of(envelope) if self._takes_text else envelope]
        if self.takes_context:
            given.append(context)
        if self._threads is None:
            answer = self._function(*given)
        else:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._function, *given)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            return saying(answer)
        if isinstance(answer, A2AMessage):
            return answer
        raise InvalidError(f"{self._name} returned {type(answer).__name__}; return a str or an A2AMessage")

    async def aclose(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def load_function(spec: str) -> FunctionAgent:
    module_name, _, path = spec.partition(":")
    if not module_name or not path:
        raise ConfigError(f"{spec!r} names no function; write it as module:function")
    found = _import(module_name)
    for step in path.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            near = difflib.get_close_matches(step, dir(found), n=1)
            remedy = f"did you mean {near[0]}?" if near else "check its name"
            raise ConfigError(f"{spec}: {module_name} has no {path}; {remedy}") from None
    if inspect.isclass(found):
        raise ConfigError(f"{spec} is a class; name a function or an object that can be called")
    if not callable(found):
        raise ConfigError(f"{spec} is {type(found).__name__} and cannot be called; name a function")
    return FunctionAgent(found, spec)


def _import(name: str) -> Any:
    try:
        return import_user_module(name)
    except ModuleNotFoundError as missing:
        if is_missing(name, missing):
            raise ConfigError(
                f"the module {name} was not found in {Path.cwd()} or among the installed packages; "
                "check its name, or start where it is"
            ) from None
        raise ConfigError(f"the module {name} needs {missing.name}, which is not installed") from missing
    except Exception as failure:
        raise ConfigError(
            f"the module {name} fails when it is imported: {type(failure).__name__}: {failure}"
        ) from failure


def _what_it_takes(function: Callable[..., Any], name: str) -> tuple[bool, bool]:
    """Return whether it is given the text instead of the envelope, and whether also the context of the caller."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C, and silent about what it takes
        return False, False
    parameters = [*signature.parameters.values()]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_context = any(each.name == _CONTEXT and each.kind in positional for each in parameters[1:2])
    try:
        signature.bind(*(None, None) if takes_context else (None,))
    except TypeError:
        raise ConfigError(
            f"{name} must be callable with one argument, the envelope or its text, and may have a second one called "
            f"context; it takes {signature}"
        ) from None
    first = parameters[0]
    if first.annotation is inspect.Parameter.empty:
        return first.name == "text", takes_context
    return first.annotation in (str, "str"), takes_context


def _is_async(function: Callable[[Any], Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - is it a coroutine function, not: is it there
    )
