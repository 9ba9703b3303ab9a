"""The Bus: notifications between the parts of a node.

It carries hints ("pair X advanced"), never data: a receiver reads the store again. A hint may be
lost or come twice. A slow listener loses its oldest hints, never anybody else's.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Bus(Protocol):
    async def publish(self, subject: str, hint: bytes) -> None: ...

    def listen(self, subject: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Hints on `subject` from the moment the context is entered."""
        ...

    async def close(self) -> None: ...
