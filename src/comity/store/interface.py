"""The Store: durable state.

All methods are called from one event loop. A write returns when it is durable, together with its audit entries. Reads see
every write that has returned. All engines give the same answers: one conformance suite runs on all of them.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from comity.store.audit_chain import AuditDraft
from comity.store.operations import (
    ChainKey,
    HeldItem,
    KeptReplies,
    Lease,
    LogRecord,
    Operation,
    SealedRow,
    StoredDocument,
    StoredReply,
    Tip,
    Versioned,
)
from comity.wire.errors import StoreError

_PAGE = 256


class Store(Protocol):
    @property
    def failure(self) -> StoreError | None:
        """Why the last commit could not be made; None when it was made."""
        ...

    def submit(
        self, operations: Sequence[Operation], audit: Sequence[AuditDraft] = ()
    ) -> asyncio.Future[tuple[Any, ...]]:
        """Hand over one transaction; the future holds one result per operation, or the refusal. It cannot be
        cancelled, for what was handed over is not called off: who is cancelled while waiting for it hears so
        when it is done.
        """
        ...

    async def commit(self, *operations: Operation, audit: Sequence[AuditDraft] = ()) -> tuple[Any, ...]:
        """`submit`, and wait until it is durable."""
        ...

    async def tip(self, chain: ChainKey) -> Tip: ...

    async def reply(self, chain: ChainKey, seq: int) -> StoredReply | None: ...

    async def kept(self, chain: ChainKey) -> KeptReplies: ...

    async def held(self, quota: str, holder: str | None = None) -> int:
        """How many bytes count on a quota: those of one holder, or of all."""
        ...

    async def held_item(self, quota: str, item: str) -> HeldItem | None: ...

    async def get(self, space: str, key: str) -> Versioned | None: ...

    async def scan(
        self, space: str, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[tuple[str, Versioned]]:
        """Keys in order, those that begin with `prefix` and come after `after`."""
        ...

    async def read(self, log: str, after: int = 0, limit: int = 1000) -> list[LogRecord]: ...

    async def end(self, log: str) -> int:
        """Position of the last record ever appended, 0 for a log that never was."""
        ...

    async def document(self, collection: str, id: str) -> StoredDocument | None: ...  # noqa: A002

    async def find(
        self,
        collection: str,
        *,
        words: str = "",
        keys: Sequence[tuple[str, str]] = (),
        limit: int = 20,
    ) -> list[StoredDocument]:
        """Documents that hold all `words` (best match first) and all `keys`; without words, oldest first."""
        ...

    async def blob(self, id: str, offset: int = 0, length: int | None = None) -> bytes | None: ...  # noqa: A002

    async def lease(self, name: str) -> Lease | None: ...

    async def logs(self, prefix: str = "") -> list[str]: ...

    async def sealed(
        self, table: str, after: tuple[str | int, ...] | None = None
    ) -> tuple[list[SealedRow], tuple[str | int, ...] | None]:
        """The rows of one of the `TABLES` that begin with `SEALED_PREFIX`, some at a time, and the place to go on
        after; None at the end.
        """
        ...

    async def close(self) -> None: ...


async def scan_all(store: Store, space: str, prefix: str = "") -> AsyncIterator[tuple[str, Versioned]]:
    """Every key that begins with `prefix`, in order, read page by page."""
    after = ""
    while page := await store.scan(space, prefix, after, _PAGE):
        for each in page:
            yield each
        after = page[-1][0]
