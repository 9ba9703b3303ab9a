"""The transport of a connection as the rest of the server sees it.

- The connection decides how it is closed.
- The head of an answer waits for its body until the end of this turn of the loop: one call to the system for both is a
  tenth of what a small answer costs.
- Once it was left, it knows its connection no longer, and whatever is still said on it is said to nobody. Two that
  knew each other for ever would be left to the garbage collector.
"""

import asyncio
from typing import Any, Protocol

_HEAD_BEGINS = b"HTTP/1.1 "


class Owner(Protocol):
    @property
    def lingers(self) -> bool:
        """Whether our side has said its last word."""
        ...

    def close(self, transport: asyncio.Transport) -> None: ...


class _Nobody:
    lingers = True

    def close(self, transport: asyncio.Transport) -> None:
        pass


class Wire(asyncio.Transport):
    def __init__(self, inner: asyncio.Transport, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.inner = inner
        self._owner = owner
        self._loop = loop
        self._head = b""
        self._at_the_latest: asyncio.Handle | None = None

    def leave(self) -> None:
        self._take_head()
        self._owner = _Nobody()

    def close(self) -> None:
        self._send_head()
        self._owner.close(self.inner)

    def is_closing(self) -> bool:
        return self._owner.lingers or self.inner.is_closing()

    def write_whole(self, answer: bytes) -> None:
        """Nothing of it follows."""
        if not self._owner.lingers:
            self.inner.write(self._take_head() + answer if self._head else answer)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._owner.lingers:
            return
        if self._head:
            self.inner.writelines((self._take_head(), data))
        elif isinstance(data, bytes) and data.startswith(_HEAD_BEGINS):
            self._head = data
            self._at_the_latest = self._loop.call_soon(self._send_head)
        else:
            self.inner.write(data)

    def abort(self) -> None:
        self.inner.abort()

    def can_write_eof(self) -> bool:
        return self.inner.can_write_eof()

    def write_eof(self) -> None:
        self._send_head()
        self.inner.write_eof()

    def pause_reading(self) -> None:
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self.inner.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.inner.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.inner.set_protocol(protocol)

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        if self._at_the_latest is not None:
            self._at_the_latest.cancel()
            self._at_the_latest = None
        return head

    def _send_head(self) -> None:
        if self._head and not self.inner.is_closing():
            self.inner.write(self._take_head())
