"""Real nodes for tests, each on a free port of this machine, gone at the end with all that they made.

A node keeps its state in memory unless it is given a folder or other `store` settings. Either way its keys
are files: in the folder given, or in a temporary one.
"""

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from comity.identity.tokens import TOKEN_FILE, read_token
from comity.node.node import Node
from comity.runtime.settings import Settings, StoreSettings
from comity.wire.clock import Clock


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
    """The header that opens every door of a node."""
    return {"Authorization": f"Bearer {read_token(node.settings.data / TOKEN_FILE)}"}
