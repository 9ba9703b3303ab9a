"""The agent that says what it was told: for trying things out."""

from comity.agents.behaviour import saying, text_of
from comity.core.envelope.envelope import VacantEnvelope
from comity.core.envelope.message import A2AMessage


async def echo(envelope: VacantEnvelope) -> A2AMessage:
    return saying(f"echo from {envelope.to_vacant_id.short()}: {text_of(envelope)}")
