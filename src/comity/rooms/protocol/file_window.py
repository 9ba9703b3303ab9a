"""Which chunks of an outgoing file are acknowledged, under way or being read, and how many may be.

- The window is in bytes: 2 MiB, growing with the time an acknowledgement takes, up to 16 (ruling 56). Nothing is
  read ahead of it, and nothing is read while the link is full. At most `READ_AHEAD` bytes are being read at a time:
  little waits in memory, however large the window is.
- A chunk is under way from the moment it is being read. It was sent when there is a time for it.
"""

from typing import Final

from comity.rooms.protocol.file_shape import FileOffer

FIRST_WINDOW: Final = 2 * 1024 * 1024
LAST_WINDOW: Final = 16 * 1024 * 1024
QUICK_ACK: Final = 0.002
"""An acknowledgement that takes longer lets the window grow: up to a thousand MiB a second fit into it."""

READ_AHEAD: Final = 1024 * 1024


class FileWindow:
    """`base` is the first chunk that is not acknowledged, `sent_end` follows the last one that was ever sent."""

    def __init__(self, offer: FileOffer) -> None:
        self.base = 0
        self.acked_count = 0
        self.sent_end = 0
        self.bytes_under_way = 0
        self.ack_time = 0.0
        self.link_is_full = False
        self._offer = offer
        self._acked = bytearray(offer.total_chunks)
        self._next = 0
        self._under_way: dict[int, float | None] = {}
        self._reading: set[int] = set()
        self._again: set[int] = set()

    @property
    def size(self) -> int:
        return int(min(LAST_WINDOW, max(FIRST_WINDOW, FIRST_WINDOW * self.ack_time / QUICK_ACK)))

    @property
    def is_all_acked(self) -> bool:
        return self.acked_count == self._offer.total_chunks

    @property
    def is_half_read(self) -> bool:
        """Whether half of what may be read at a time has come, or more."""
        return len(self._reading) * self._offer.chunk_bytes <= READ_AHEAD // 2

    def is_being_read(self, sequence: int) -> bool:
        """Under way, and not sent yet or to be sent again."""
        return self._under_way.get(sequence, 0.0) is None

    def can_be_acked(self, sequence: int, following: int) -> bool:
        """By an acknowledgement of this chunk that says that `following` is the next one in order."""
        if not (0 <= sequence < self.sent_end and 0 <= following <= self.sent_end):
            return False
        return bool(self._acked[sequence]) or sequence in self._under_way or sequence < following

    def sent_until(self, moment: float) -> list[int]:
        """Those under way that were sent at this time or before."""
        return sorted(sequence for sequence, at in self._under_way.items() if at is not None and at <= moment)

    def take_reads(self) -> list[int]:
        """As many as the window still takes, at least one chunk; they are being read from now on."""
        offer, size = self._offer, self.size
        taken: list[int] = []
        while self._next < offer.total_chunks and not self.link_is_full:
            length = offer.chunk_length(self._next)
            if self._under_way and self.bytes_under_way + length > size:
                break
            if len(self._reading) * offer.chunk_bytes >= READ_AHEAD:
                break
            if not self._acked[self._next]:
                self._under_way[self._next] = None
                self.bytes_under_way += length
                self._reading.add(self._next)
                taken.append(self._next)
            self._next += 1
        return taken

    def take_again(self, sequence: int) -> bool:
        """Read it again; False if it is being read already, was acknowledged, or was never sent."""
        if self._under_way.get(sequence) is None:
            return False
        self._under_way[sequence] = None
        self._reading.add(sequence)
        self._again.add(sequence)
        return True

    def mark_sent(self, sequence: int, now: float) -> None:
        self._under_way[sequence] = now
        self._reading.discard(sequence)
        self.sent_end = max(self.sent_end, sequence + 1)

    def acknowledge(self, sequence: int, now: float) -> None:
        """One chunk. The time it took counts, unless it was sent twice: nobody knows which one was meant."""
        sent_at = self._under_way.get(sequence)
        if sent_at is not None and sequence not in self._again:
            took = now - sent_at
            self.ack_time = took if not self.ack_time else 0.875 * self.ack_time + 0.125 * took
        self._take_ack(sequence)

    def acknowledge_up_to(self, following: int) -> None:
        while self.base < following:
            self._take_ack(self.base)

    def stand_at(self, start: int) -> None:
        """The receiver has everything before `start`, and perhaps nothing after it."""
        self.clear()
        self._acked = bytearray(b"\x01" * start + bytes(self._offer.total_chunks - start))
        self.acked_count = self.base = self._next = start
        self.sent_end = max(self.sent_end, start)

    def clear(self) -> None:
        """Nothing is under way any more."""
        self._under_way.clear()
        self.bytes_under_way = 0
        self._reading.clear()
        self._again.clear()

    def _take_ack(self, sequence: int) -> None:
        if sequence in self._under_way:
            del self._under_way[sequence]
            self.bytes_under_way -= self._offer.chunk_length(sequence)
            self._reading.discard(sequence)
            self._again.discard(sequence)
        if not self._acked[sequence]:
            self._acked[sequence] = 1
            self.acked_count += 1
        while self.base < self._offer.total_chunks and self._acked[self.base]:
            self.base += 1
