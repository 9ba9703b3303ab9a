"""The heads of WebSocket frames: how long a frame says that it is, before any of it has come.

The parser of frames says something when a frame is complete. This one looks at the same bytes and knows the announced
length as soon as the head of the frame has come. A length that is not in its shortest form can be understood in two ways
by two readers, so it is reported.
"""

from typing import Final

_LENGTH_BITS: Final = 0x7F
_MASKED: Final = 0x80
_MASK_BYTES: Final = 4
_MORE_BYTES: Final = {126: 2, 127: 8}
_LEAST: Final = {126: 126, 127: 65_536}


class FrameHeads:
    def __init__(self) -> None:
        self.announced = 0
        """Bytes of payload that the frame has which is not complete; 0 while there is none."""
        self._head = b""
        self._left = 0  # of the mask and the payload

    def feed(self, data: bytes) -> bool:
        """Look at what comes next. False where a length is not in its shortest form."""
        at = 0
        while at < len(data):
            if self._left:
                used = min(self._left, len(data) - at)
                self._left -= used
                at += used
                if not self._left:
                    self.announced = 0
                continue
            self._head += data[at : at + 1]
            at += 1
            if not self._take_head():
                return False
        return True

    def _take_head(self) -> bool:
        head = self._head
        if len(head) == 1:
            return True
        length = head[1] & _LENGTH_BITS
        more = _MORE_BYTES.get(length, 0)
        if len(head) < 2 + more:
            return True
        if more:
            least, length = _LEAST[length], int.from_bytes(head[2:])
            if length < least:
                return False
        self._head = b""
        self._left = length + (_MASK_BYTES if head[1] & _MASKED else 0)
        self.announced = length if self._left else 0
        return True
