"""A function of the user's as a behaviour: `module:name`, sync or async.

- Modules are looked for in the working directory first, as `python -m` does.
- Its first parameter is the envelope, or the text of it when it is annotated as `str` or, without an
  annotation, called `text`. A second one that is called `context` is given the `CallerContext` of whoever calls, None
  where that caller has no VCP session. It returns a string or an A2AMessage.
- A sync function runs in a thread, so that a slow one does not stop the node. The threads are the
  agent's own: it cannot starve the rest of the node.
"""

import asyncio
import difflib
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from comity.agents.behaviour import saying, text_of
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage
from comity.system import import_user_module, is_missing
from comity.vcp.protocol.response import CallerContext
from comity.wire.errors import ConfigError, InvalidError

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
    """Whether it is given the text instead of the envelope, and whether also the context of the caller."""
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
