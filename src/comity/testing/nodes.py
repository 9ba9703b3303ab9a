"""Real nodes for tests, each on a free port of this machine, gone at the end with all that they made.

A node keeps its state in memory unless it is given a folder or other `store` settings. Either way its keys
are files: in the folder given, or in a temporary one.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from comity.agents.substrate import SubstrateRequest, SubstrateResponse
from comity.identity.secrets import TOKEN_FILE, read_token
from comity.node.node import Node
from comity.runtime.settings import Settings, StoreSettings
from comity.wire.machine import Clock


@contextlib.asynccontextmanager
async def running_node(
    data: Path | None = None, *, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Node]:
    """A node that answers until the block ends. `settings` are fields of `Settings`."""
    with contextlib.ExitStack() as temporary:
        if data is None:
            data = Path(temporary.enter_context(tempfile.TemporaryDirectory(prefix="comity-"))) / "data"
            settings.setdefault("store", StoreSettings(engine="memory"))
        node = Node(Settings(data=data, **{"port": 0, "environment": "test", **settings}), clock=clock)
        await node.start()
        try:
            yield node
        finally:
            await node.stop()


@contextlib.asynccontextmanager
async def node_pair(*, clock: Clock | None = None, **settings: Any) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes with the same settings, each with a folder and an identity of its own."""
    async with running_node(clock=clock, **settings) as left, running_node(clock=clock, **settings) as right:
        yield left, right


def bearer(node: Node) -> dict[str, str]:
    """Return the header with the token of a node."""
    return {"Authorization": f"Bearer {read_token(node.settings.data / TOKEN_FILE)}"}


# Substrates for tests: their answers follow from the prompt.


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
