"""Substrates for tests: their answers follow from the prompt."""

from collections.abc import Mapping
from hashlib import blake2b

from comity.agents.substrate import SubstrateRequest, SubstrateResponse

_SEPARATOR = "\x1f"
_MOCK_SHOWN = 120
_DETERMINISTIC_SHOWN = 200


def prompt_key(*texts: str) -> str:
    """Eight bytes of a hash over the texts, in hex."""
    return blake2b(_SEPARATOR.join(texts).encode(), digest_size=8).hexdigest()


class MockSubstrate:
    """Says again what it was asked, under a hash: equal prompts get equal answers, other seeds other ones."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed

    @property
    def name(self) -> str:
        return "mock"

    async def infer(self, request: SubstrateRequest) -> SubstrateResponse:
        key = prompt_key(self._seed, request.system_prompt, request.user_prompt)
        return SubstrateResponse(
            text=f"[mock-1#{key}] {request.user_prompt[:_MOCK_SHOWN]}", model_id="mock-1"
        )


class DeterministicSubstrate:
    """Answers from a table whose keys are `prompt_key(system_prompt, user_prompt)`."""

    def __init__(self, canned: Mapping[str, str] | None = None) -> None:
        self._canned = dict(canned or {})

    @property
    def name(self) -> str:
        return "deterministic"

    async def infer(self, request: SubstrateRequest) -> SubstrateResponse:
        key = prompt_key(request.system_prompt, request.user_prompt)
        missed = f"[det-1#{key}] {request.user_prompt[:_DETERMINISTIC_SHOWN]}"
        return SubstrateResponse(text=self._canned.get(key, missed), model_id="det-1")
