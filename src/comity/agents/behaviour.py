"""What answers a call: a behaviour is given the envelope of a request and returns the message of its reply.

It runs at least once for each accepted request: again when the node died before the reply was stored.
One that must not do a thing twice looks at the envelope's idempotency key.

One with the attribute `takes_context` is also given what its caller told in a VCP session, or None.

`load_behaviour` reads what the owner wrote: `echo`, `actions`, `module:function`, `mcp:…` or `openai:…`. Each kind is
loaded only when it is asked for. What cannot work is refused here, with a sentence, and not with the first call.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.http.client import TIMEOUT
from comity.wire.errors import ConfigError

if TYPE_CHECKING:
    from comity.actions.runner import ActionLimits

Behaviour = Callable[[VacantEnvelope], Awaitable[A2AMessage]]


def text_of(envelope: VacantEnvelope) -> str:
    """The text of all parts."""
    return " ".join(part.text for part in envelope.payload.parts)


def saying(text: str) -> A2AMessage:
    return A2AMessage(role="ROLE_AGENT", parts=(A2APart(text=text),))


async def echo(envelope: VacantEnvelope) -> A2AMessage:
    """An agent that repeats each message, for tests."""
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
        from comity.agents.actions import load_actions

        return load_actions(limits)
    if kind == "mcp":
        from comity.agents.mcp_tool import load_mcp_tool

        return load_mcp_tool(spec, timeout=timeout)
    if kind == "openai":
        from comity.agents.openai_endpoint import load_openai
        from comity.agents.substrate import SubstrateAgent

        variables = os.environ if environ is None else environ
        backend = load_openai(spec, environ=variables, key_variable=key_variable, timeout=timeout)
        return SubstrateAgent(backend, system_prompt, takes_context=tell_context)
    if separator:
        from comity.agents.function import load_function

        return load_function(spec)
    raise ConfigError(
        f"there is no agent {spec!r}; use echo, actions, module:function, mcp:command#tool or openai:URL#model"
    )
