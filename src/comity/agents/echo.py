"""The agent that says what it was told: for trying things out."""

from comity.core.envelope.envelope import VacantEnvelope
from comity.core.envelope.message import A2AMessage, A2APart


async def echo(envelope: VacantEnvelope) -> A2AMessage:
    text = " ".join(part.text for part in envelope.payload.parts)
    said = f"echo from {envelope.to_vacant_id.short()}: {text}"
    return A2AMessage(role="ROLE_AGENT", parts=(A2APart(text=said),))
