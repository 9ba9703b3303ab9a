"""Tables that are read where they lie: of a file no more comes into memory than what somebody asks for.

- `table_of` and `records_of` lay them out, once, when the package is built; `Table` and `Records` read them.
- A `Table` has values of one size by keys that are UTF-8. The keys are in order, in blocks; the first key of each block and where
  the blocks begin are read at the start, then a block for each question. Keys in order also pack well.
- `Records` are things by numbers from 0 on, each as MessagePack.
- `Weights` keeps the weights of features that are asked for again and again.
"""

import itertools
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct as Layout
from typing import Any, Generic, Protocol, TypeVar

import msgspec


class Section(Protocol):
    """A stretch of a file that stays there."""

    def read(self, start: int, end: int) -> bytes: ...

    def __bytes__(self) -> bytes: ...


Content = bytes | Section

_COUNT = Layout("<I")
_HEAD = Layout(
    "<III"
)  # the size of a value, how many keys there are, how long the first ones of the blocks are together
_PLACES = Layout("<II")
_BLOCK = 32  # keys
_EDGE = b"\xff"  # around each key; no UTF-8 has it
_MOST_KEPT = 8192  # entries of a table that are kept as objects

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """`make` says what belongs to a key that is not there. When there are too many all are forgotten: no input fills the
    memory.
    """

    def __init__(self, make: Callable[[K], V], most: int = _MOST_KEPT) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, key: K) -> V:
        if len(self) >= self._most:
            self.clear()
        value = self[key] = self._make(key)
        return value


def _reader(content: Content) -> Callable[[int, int], bytes]:
    return (lambda start, end: content[start:end]) if isinstance(content, bytes) else content.read


def table_of(entries: Mapping[bytes, bytes]) -> bytes:
    keys = sorted(entries)
    width = len(entries[keys[0]]) if keys else 0
    blocks = [keys[at : at + _BLOCK] for at in range(0, len(keys), _BLOCK)]
    rows = [_EDGE + _EDGE.join(block) + _EDGE + b"".join(entries[key] for key in block) for block in blocks]
    firsts = _EDGE.join(block[0] for block in blocks)
    places = list(itertools.accumulate(map(len, rows), initial=0))
    head = _HEAD.pack(width, len(keys), len(firsts)) + firsts
    return head + Layout(f"<{len(places)}I").pack(*places) + b"".join(rows)


class Table:
    def __init__(self, content: Content) -> None:
        self._read = _reader(content)
        self._width, self._count, size = _HEAD.unpack(self._read(0, _HEAD.size))
        start = _HEAD.size + size
        self._firsts = self._read(_HEAD.size, start).split(_EDGE) if self._count else []
        places = Layout(f"<{len(self._firsts) + 1}I")
        self._rows = start + places.size
        self._places = array("I", places.unpack(self._read(start, self._rows)))

    def get(self, key: bytes) -> bytes | None:
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return None
        block = self._read(self._rows + self._places[at], self._rows + self._places[at + 1])
        values = len(block) - self._width * min(_BLOCK, self._count - at * _BLOCK)
        place = block.find(_EDGE + key + _EDGE, 0, values)
        if place < 0:
            return None
        first = values + self._width * block.count(_EDGE, 0, place)
        return block[first : first + self._width]

    def beginning_with(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The keys with this beginning, each with its value, in order."""
        first = max(bisect_right(self._firsts, start) - 1, 0)
        for at in range(first, len(self._firsts)):
            if at > first and not self._firsts[at].startswith(start):
                return
            block = self._read(self._rows + self._places[at], self._rows + self._places[at + 1])
            values = len(block) - self._width * min(_BLOCK, self._count - at * _BLOCK)
            for number, key in enumerate(block[1 : values - 1].split(_EDGE)):
                if key.startswith(start):
                    place = values + self._width * number
                    yield key, block[place : place + self._width]


def records_of(things: Sequence[object]) -> bytes:
    rows = [msgspec.msgpack.encode(one) for one in things]
    places = list(itertools.accumulate(map(len, rows), initial=0))
    return Layout(f"<{len(places) + 1}I").pack(len(rows), *places) + b"".join(rows)


class Records(Generic[V]):
    def __init__(self, content: Content, kind: Any) -> None:
        self._read = _reader(content)
        self._decode: Callable[[bytes], V] = msgspec.msgpack.Decoder(kind).decode
        (count,) = _COUNT.unpack(self._read(0, _COUNT.size))
        self._rows = _COUNT.size * (count + 2)

    def __getitem__(self, number: int) -> V:
        start = _COUNT.size * (number + 1)
        first, last = _PLACES.unpack(self._read(start, start + _PLACES.size))
        return self._decode(self._read(self._rows + first, self._rows + last))


def weights_of(weights: Mapping[str, int | Sequence[int]]) -> bytes:
    rows = {
        feature.encode(): Layout(f"<{1 if isinstance(row, int) else len(row)}h").pack(
            *((row,) if isinstance(row, int) else row)
        )
        for feature, row in weights.items()
    }
    return table_of(rows)


class Weights:
    """The weights of each feature, as many of each as there are lines that were fitted."""

    def __init__(self, content: Content) -> None:
        table = Table(content)

        def read(feature: str) -> tuple[int, ...] | None:
            row = table.get(feature.encode())
            return None if row is None else Layout(f"<{len(row) // 2}h").unpack(row)

        self.get = Memo(read).__getitem__
