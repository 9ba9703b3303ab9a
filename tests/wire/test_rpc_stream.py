import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import format_runner, known_keys
from comity.wire import jsonrpc
from comity.wire.frames import FrameDecoder, encode
from comity.wire.jsonrpc import Batch, Invalid, Notification, RpcError, RpcRequest, RpcStream

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
LIMIT = 1 << 20


def serve(data, *, limit=LIMIT, chunk=None):
    """A server that knows `ping`: what it writes, as (framing, id, code) of each answer."""
    stream = RpcStream(limit)
    size = chunk or max(len(data), 1)
    output = b""
    for at in range(0, len(data), size):
        for message in stream.receive(data[at : at + size]):
            output += answer(stream, message)
    for message in stream.end():
        output += answer(stream, message)
    decoder = FrameDecoder(LIMIT)
    events = decoder.feed(output)
    assert decoder.end() == []
    answers = [(event.framed, json.loads(event.body)) for event in events]
    return [
        ("framed" if framed else "line", sent["id"], sent.get("error", {"code": 0})["code"])
        for framed, sent in answers
    ]


def answer(stream, message):
    match message:
        case RpcRequest(id, "ping"):
            return stream.encode(jsonrpc.result_bytes(id, {}))
        case RpcRequest(id, method):
            error = RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method}")
            return stream.encode(jsonrpc.error_bytes(id, error))
        case Invalid(id):
            return stream.encode(jsonrpc.error_bytes(id, message.error))
    return b""


@format_runner("peers", "stdio_framing_cases", takes=lambda case: case["needs"] == "wire")
@pytest.mark.parametrize("chunk", [None, 1], ids=["at_once", "byte_by_byte"])
def test_vector_peers_stdio_framing_is_answered_as_recorded(case, chunk):
    known_keys(case, "args", "stdin", "stdout", "stderr", "rc", "judge", "expect", "needs")
    limit = LIMIT
    match case.get("args", []):
        case []:
            pass
        case ["--max-message-bytes", size]:
            limit = int(size)
        case args:
            pytest.fail(f"no wire setting is called {args}")
    expected = case["expect"]
    answers = serve(case["stdin"].encode(), limit=limit, chunk=chunk)
    assert len(answers) == len(expected)
    for (framing, *result), wanted in zip(answers, expected, strict=True):
        assert wanted["framing"] in {framing, "any"}
        assert result == [wanted["id"], wanted["code"]]


def test_what_is_too_large_or_has_a_bad_header_is_an_invalid_request():
    data = b"x" * 101 + b"\n" + encode(b"y" * 101, framed=True) + b"Content-Length: x\r\n\r\n" + PING
    stream = RpcStream(100)
    messages = [*stream.receive(data), *stream.end()]
    assert [(message.code, message.id) for message in messages[:3]] == [(-32600, None)] * 3
    assert [message.message for message in messages[:3]] == ["Invalid Request"] * 3
    assert messages[0].data == {"code": "message_too_large", "message": "line exceeds max size 100"}
    assert messages[1].data == {"code": "message_too_large", "message": "message exceeds max size 100"}
    assert messages[2].data["code"] == "invalid_header"
    assert messages[3] == RpcRequest(1, "ping")


def test_half_a_frame_at_the_end_is_a_parse_error():
    assert serve(b"Content-Length: 100\r\n\r\n{}") == [("line", None, -32700)]


def test_a_response_nobody_asked_for_is_not_answered():
    data = b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":null,"error":{"code":1}}\n' + PING
    assert serve(data) == [("line", 1, 0)]


def test_the_framing_at_the_moment_of_writing_counts():
    stream = RpcStream(100)
    (first,) = stream.receive(PING + b"\n")
    assert stream.encode(b"{}") == b"{}\n"
    (_second,) = stream.receive(encode(PING, framed=True))
    assert stream.encode(b"{}") == b"Content-Length: 2\r\n\r\n{}"
    assert first == RpcRequest(1, "ping")


def test_batches_can_be_agreed_on_by_a_message_that_came_in_the_same_bytes():
    stream = RpcStream(1000)
    received = stream.receive(
        b"[%b]\n" % PING * 2 + b'{"jsonrpc":"2.0","method":"agreed"}\n' + b"[%b]\n" % PING
    )
    kinds = []
    for message in received:
        kinds.append(type(message))
        stream.batches = stream.batches or isinstance(message, Notification)
    assert kinds == [Invalid, Invalid, Notification, Batch]


parts = st.sampled_from(
    [PING + b"\n", encode(PING, framed=True), b"\n", b"{oops\n", b"Content-Length: x\n\n"]
)


@given(st.lists(parts | st.binary(max_size=4), max_size=8), st.integers(1, 50))
def test_ids_and_codes_do_not_depend_on_the_chunks(pieces, chunk):
    data = b"".join(pieces)
    assert [result[1:] for result in serve(data)] == [result[1:] for result in serve(data, chunk=chunk)]
