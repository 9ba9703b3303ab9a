"""What answers a call: a behaviour is given the envelope of a request and returns the message of its reply.

It runs at least once for each accepted request: again when the node died before the reply was stored.
One that must not do a thing twice looks at the envelope's idempotency key.

One with the attribute `takes_context` is also given what its caller told in a VCP session, or None.
"""

from collections.abc import Awaitable, Callable

from comity.core.envelope.envelope import VacantEnvelope
from comity.core.envelope.message import A2AMessage, A2APart

Behaviour = Callable[[VacantEnvelope], Awaitable[A2AMessage]]


def text_of(envelope: VacantEnvelope) -> str:
    """The text of all parts."""
    return " ".join(part.text for part in envelope.payload.parts)


def saying(text: str) -> A2AMessage:
    return A2AMessage(role="ROLE_AGENT", parts=(A2APart(text=text),))


async def echo(envelope: VacantEnvelope) -> A2AMessage:
    """The agent that says what it was told: for trying things out."""
    return saying(f"echo from {envelope.to_vacant_id.short()}: {text_of(envelope)}")


async def close_behaviour(behaviour: Behaviour) -> None:
    """Let go of what a behaviour holds: threads, connections, a process of its own."""
    close = getattr(behaviour, "aclose", None)
    if close is not None:
        await close()
