"""JSON-RPC on a byte stream: what every stream door (stdio, TCP, a Unix socket) does with bytes.

Bytes that came in become messages; what the decoder or the parser refuses becomes an `Invalid`, in
its place among the messages, ready to be answered. A message is parsed when it is asked for, so that
one message can change how the next is read. Answers leave in the framing that the peer has shown by
the time they are written.
"""

from collections.abc import Iterator

from comity.core.wire import frames, jsonrpc
from comity.core.wire.frames import BadHeader, FrameDecoder, Message, Oversize


class RpcStream:
    """`batches` may be turned on later, when the revision that has them has been agreed on."""

    def __init__(self, limit: int, *, batches: bool = False) -> None:
        self._decoder = FrameDecoder(limit)
        self.batches = batches

    def receive(self, data: bytes) -> Iterator[jsonrpc.Incoming]:
        return map(self._incoming, self._decoder.feed(data))

    def end(self) -> Iterator[jsonrpc.Incoming]:
        """The stream is over: what was still on its way."""
        return map(self._incoming, self._decoder.end())

    def encode(self, body: bytes) -> bytes:
        """An answer or a request of ours, as it is written now."""
        return frames.encode(body, self._decoder.framed)

    def _incoming(self, event: frames.Event) -> jsonrpc.Incoming:
        match event:
            case Message(body):
                return jsonrpc.parse(body, batches=self.batches)
            case Oversize(limit, framed):
                what = "message" if framed else "line"
                return jsonrpc.invalid_request(f"{what} exceeds max size {limit}", code="message_too_large")
            case BadHeader(reason):
                return jsonrpc.invalid_request(reason, code="invalid_header")
            case _:
                return jsonrpc.malformed(event.reason)
