"""What a vacant thinks with: a substrate answers a prompt with text (envelope 5).

What it says is untrusted text, whoever runs it.
"""

from typing import Any, Protocol

from msgspec import Struct, field, to_builtins

from comity.agents.behaviour import close_behaviour, saying, text_of
from comity.envelopes.client.refusals import CallRefusedError
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.errors import CoreError
from comity.envelopes.protocol.message import A2AMessage
from comity.vcp.protocol.response import CallerContext, context_block
from comity.wire.errors import ComityError, NoAnswerError, UnreachableError


class SubstrateError(CoreError):
    code = "substrate"


class SubstrateUnavailableError(SubstrateError):
    """It cannot be reached, or is in trouble itself."""

    code = "substrate_unavailable"


class SubstrateRateLimitError(SubstrateError):
    code = "substrate_rate_limit"


class SubstrateRequest(Struct, frozen=True, kw_only=True):
    system_prompt: str
    user_prompt: str
    tools: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class SubstrateResponse(Struct, frozen=True, kw_only=True):
    text: str
    model_id: str
    usage: dict[str, int] = field(default_factory=dict)
    proof: dict[str, Any] = field(default_factory=dict)


class SubstrateBackend(Protocol):
    @property
    def name(self) -> str: ...

    async def infer(self, request: SubstrateRequest, /) -> SubstrateResponse: ...


class SubstrateAgent:
    """A behaviour that answers with what its substrate says to the text of the envelope. With `takes_context` the
    substrate is told of a caller who has a VCP session: before the system prompt, and in the metadata.
    """

    def __init__(
        self, backend: SubstrateBackend, system_prompt: str = "", *, takes_context: bool = False
    ) -> None:
        self.takes_context = takes_context
        self._backend = backend
        self._system_prompt = system_prompt

    async def __call__(self, envelope: VacantEnvelope, context: CallerContext | None = None) -> A2AMessage:
        prompt, metadata = self._system_prompt, {}
        if self.takes_context and context is not None:
            prompt = f"{context_block(context)}\n\n{prompt}".rstrip()
            metadata = to_builtins(context)
        request = SubstrateRequest(system_prompt=prompt, user_prompt=text_of(envelope), metadata=metadata)
        return saying((await self._backend.infer(request)).text)

    async def aclose(self) -> None:
        await close_behaviour(self._backend)


def substrate_failure(name: str, failure: ComityError) -> SubstrateError:
    """How a failure on the way to a substrate is told."""
    if isinstance(failure, UnreachableError | NoAnswerError):
        return SubstrateUnavailableError(f"{name} is not there: {failure.message}")
    if isinstance(failure, CallRefusedError):
        if failure.status == 429:
            return SubstrateRateLimitError(f"{name} has had enough of us for now; try again later")
        if failure.status >= 500:
            return SubstrateUnavailableError(f"{name} is in trouble (status {failure.status})")
    return SubstrateError(f"{name} gave no answer: {failure.message}")
