"""One connection in simulated time: what a peer may send, and what becomes of it."""

import asyncio
import gc
import itertools
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.http.asgi import WHOLE
from comity.http.connection import DISCARD_LIMIT, HOLD_SECONDS, HttpConnection
from comity.http.serving import AHEAD_BYTES, LINGER_BYTES, LINGER_SECONDS, FaultPolicy, ServerLimits, Serving
from comity.testing import run_simulated
from tests.http.wires import GET, PATIENCE, POST, NodeRuntime, Wire, code_of
from tests.requests.pipelines import settle, simulated


@simulated
async def test_requests_on_one_connection_are_answered_in_turn():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    for _ in range(3):
        connection.data_received(GET)
        await settle()
        await asyncio.sleep(60)
    assert wire.answers == [(200, b"/hello ")] * 3
    assert not wire.gone
    await asyncio.sleep(76)
    assert wire.gone  # a connection that nobody uses any more
    assert runtime.refused == []
    assert not runtime.state.connections


@simulated
async def test_requests_sent_together_are_answered_in_order():
    async def odd_ones_are_slow(scope):
        await asyncio.sleep(int(scope["path"][1:]) % 2)

    runtime = NodeRuntime(odd_ones_are_slow)
    connection, wire = runtime.connect()
    connection.data_received(b"".join(GET.replace(b"hello", b"%d" % n) for n in range(10)))
    await asyncio.sleep(10)
    assert [body for _, body in wire.answers] == [b"/%d " % n for n in range(10)]


@simulated
async def test_the_head_and_the_body_of_an_answer_leave_together():
    connection, wire = NodeRuntime().connect()
    for count in (1, 2):
        connection.data_received(GET)
        await settle()
        assert len(wire.pieces) == count
    assert wire.answers == [(200, b"/hello ")] * 2


class Streaming(NodeRuntime):
    """Its answer comes bit by bit, a second apart."""

    async def app(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        for bit in (b"ab", b"cd"):
            await asyncio.sleep(1)
            await send({"type": "http.response.body", "body": bit, "more_body": bit != b"cd"})


@simulated
async def test_a_head_does_not_wait_for_a_body_that_comes_later():
    connection, wire = Streaming().connect()
    connection.data_received(GET)
    await settle()
    assert b"content-length: 4\r\n" in wire.got
    assert wire.got.endswith(b"\r\n\r\n")
    await asyncio.sleep(1.5)
    assert wire.got.endswith(b"\r\n\r\nab")
    await asyncio.sleep(1)
    assert wire.answers == [(200, b"abcd")]


@simulated
async def test_a_head_without_a_body_is_sent_before_the_connection_is_closed():
    connection, wire = NodeRuntime().connect()
    connection.data_received(GET.replace(b"GET", b"HEAD")[:-2] + b"connection: close\r\n\r\n")
    await settle()
    assert wire.got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert wire.gone


@simulated
async def test_a_client_that_goes_away_before_the_head_was_sent_is_not_written_to():
    connection, wire = Streaming().connect()
    connection.data_received(GET)
    asyncio.get_running_loop().call_soon(wire.abort)  # after the application has begun its answer
    await settle()
    assert wire.got == b""
    assert wire.gone


def whole(runtime, body=b"{}", told=None):
    async def work(scope, _receive, _send):
        written = scope["extensions"][WHOLE].answer_whole(200, b"application/json", body)
        if told is not None:
            told.append(written)

    runtime.state.app = work
    return runtime


@simulated
async def test_a_whole_answer_is_one_piece_and_the_connection_goes_on():
    runtime = whole(NodeRuntime(), b'{"a":1}')
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await settle()
    connection.data_received(GET + GET)
    await settle()
    assert wire.answers == [(200, b'{"a":1}')] * 3
    assert len(wire.pieces) == 3
    assert wire.pieces[0].count(b"x-content-type-options: nosniff") == 1
    assert not wire.gone


@simulated
@pytest.mark.parametrize("runtime", [NodeRuntime(), whole(NodeRuntime())])
async def test_what_a_request_was_made_of_goes_with_its_answer_and_not_with_the_garbage(runtime):
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await settle()
    gc.collect()
    gc.disable()
    try:
        connection.data_received(GET)
        await settle()
        exchange = weakref.ref(connection._exchange)
        connection.data_received(GET)
        await settle()
        assert exchange() is None
    finally:
        gc.enable()
    assert len(wire.answers) == 3


@simulated
async def test_a_whole_answer_ends_a_connection_that_asked_for_it():
    runtime = whole(NodeRuntime())
    connection, wire = runtime.connect()
    connection.data_received(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    await settle()
    assert b"connection: close" in wire.got
    assert wire.answers == [(200, b"{}")]
    assert wire.gone


@simulated
async def test_a_whole_answer_does_not_overtake_one_that_the_peer_has_not_taken():
    result = []
    runtime = whole(NodeRuntime(), told=result)
    connection, wire = runtime.connect()
    connection.pause_writing()
    connection.data_received(GET)
    await settle()
    assert result == [False]
    assert b"HTTP/1.1 200" not in wire.got


@simulated
async def test_a_head_is_refused_as_soon_as_it_is_too_large():
    runtime = NodeRuntime(head_bytes=10_000)
    connection, wire = runtime.connect()
    connection.data_received(b"GET / HTTP/1.1\r\nx: ")
    sent = 0
    while not wire.over and sent < 100_000:
        connection.data_received(b"a" * 1000)
        sent += 1000
    assert sent == 10_000
    assert wire.answers[0][0] == 431
    assert code_of(wire) == "too_large"
    assert "10,000 bytes or 256 headers" in wire.got.decode()
    assert runtime.refused == ["too_large"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 9_000, 200),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 10_000, 431),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nhost: localhost", 431),
        (b"GET / HTTP/1.1\r\nhost: localhost" + b"\r\na: b" * 255, 200),
        (b"GET / HTTP/1.1\r\nhost: localhost" + b"\r\na: b" * 256, 431),
        (b"GET / HTTP/1.1\r\nhost: localhost" + b"\r\na:" * 2_000, 431),
    ],
)
@pytest.mark.parametrize("step", [1, 1000, 1_000_000])
@simulated
async def test_a_head_at_the_limit_passes_and_one_beyond_it_does_not(head, status, step):
    runtime = NodeRuntime(head_bytes=10_000)
    connection, wire = runtime.connect()
    whole = head + b"\r\n\r\n"
    for at in range(0, len(whole), step):
        connection.data_received(whole[at : at + step])
    await settle()
    assert wire.answers[0][0] == status
    assert wire.over == (status == 431)


@simulated
async def test_many_requests_in_one_chunk_are_not_taken_for_one_large_head():
    runtime = NodeRuntime(head_bytes=1000)
    connection, wire = runtime.connect()
    body = POST + b"content-length: 5000\r\n\r\n" + b"x" * 5000
    connection.data_received(body + GET * 50 + GET[:20])
    await settle()
    connection.data_received(GET[20:])
    await settle()
    assert [status for status, _ in wire.answers] == [200] * 52
    assert runtime.refused == []


@simulated
async def test_while_one_request_is_answered_a_little_of_the_next_is_kept_and_no_more_is_read():
    go_on = asyncio.Event()
    runtime = NodeRuntime(lambda _scope: go_on.wait())
    connection, wire = runtime.connect()
    connection.data_received(GET)
    assert wire.reading
    assert len(connection.get_buffer(-1)) <= AHEAD_BYTES
    connection.data_received(GET * 50)
    await settle()
    assert not wire.reading
    assert len(runtime.state.tasks) == 1
    go_on.set()
    await asyncio.sleep(1)
    assert wire.answers == [(200, b"/hello ")] * 51
    assert wire.reading


CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


@simulated
async def test_a_trailer_is_thrown_away():
    seen = []

    async def note(scope):
        seen.extend(scope["headers"])

    runtime = NodeRuntime(note)
    connection, wire = runtime.connect()
    connection.data_received(CHUNKED + b"2\r\nhi\r\n0\r\nauthorization: Bearer x\r\nhost: y\r\n\r\n" + GET)
    await settle()
    assert wire.answers == [(200, b"/ hi"), (200, b"/hello ")]
    assert not {value for _, value in seen} & {b"Bearer x", b"y"}


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (POST + b"transfer-encoding: gzip, chunked\r\n\r\n", 501),
        (POST + b"transfer-encoding: xchunked\r\n\r\n", 501),
        (POST + b"transfer-encoding: identity\r\n\r\n", 501),
        (POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (POST.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n", 400),
        (POST + b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc", 400),
        (POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nabc", 400),
        (b"GET / HTTP/0.9\r\nhost: localhost\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nhost: localhost\n\n", 400),
        (b"GET / HTTP/1.1\r\nhost: localhost\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: a\r\n b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost : localhost\r\n\r\n", 400),
        (b"GET http://other/ HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (b"GET http://localhost:1/ HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (b"GET http://localhost/x HTTP/1.1\r\nhost: LOCALHOST\r\n\r\n", 200),
    ],
)
@pytest.mark.parametrize("step", [1, 1_000_000])
@simulated
async def test_what_two_readers_could_understand_differently_is_refused(request_bytes, status, step):
    connection, wire = NodeRuntime().connect()
    for at in range(0, len(request_bytes), step):
        connection.data_received(request_bytes[at : at + step])
    await settle()
    assert [answer[0] for answer in wire.answers] == [status]
    assert wire.over == (status != 200)


class Telling(NodeRuntime):
    """Answers with the status that the path names."""

    async def app(self, scope, receive, send):
        status = int(scope["path"][1:])
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


@simulated
async def test_a_peer_that_was_told_to_come_later_is_not_read_for_a_moment():
    connection, wire = Telling().connect()
    connection.data_received(GET.replace(b"hello", b"429") * 3)
    await settle()
    assert len(wire.answers) == 1
    assert not wire.reading
    await asyncio.sleep(HOLD_SECONDS / 2 - 0.01)
    assert len(wire.answers) == 1
    await asyncio.sleep(3 * HOLD_SECONDS)
    assert len(wire.answers) == 3
    assert wire.reading


@simulated
async def test_an_address_that_sends_garbage_finds_its_next_connections_closed_and_others_do_not():
    charged = []
    runtime = NodeRuntime()
    runtime.state.faults = FaultPolicy(charged.append, lambda address: charged.count(address) > 2)
    for _ in range(3):
        connection, wire = runtime.connect()
        connection.data_received(b"garbage\r\n\r\n")
        assert wire.answers[0][0] == 400
    _, closed = runtime.connect()
    assert closed.gone
    assert closed.got == b""
    other, wire = runtime.connect("203.0.113.5")
    other.data_received(GET)
    await settle()
    assert wire.answers == [(200, b"/hello ")]
    assert charged == ["192.0.2.7"] * 3


@simulated
async def test_a_413_ends_the_connection():
    connection, wire = Telling().connect()
    connection.data_received(POST.replace(b"/ ", b"/413 ") + b"content-length: 5000000\r\n\r\nabc")
    await settle()
    assert b"connection: close" in wire.got
    assert wire.over


GARBAGE = [
    b"\0\0\0\0",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to a plain port
    b"SSH-2.0-OpenSSH_9.0\r\n",
    b"hello\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET / HTTP/1.1\r\nho st: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nx: a\0b\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
    b"CONNECT example.com:443 HTTP/1.1\r\n\r\nx",
    b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET http://evil.example HTTP/1.1\r\nhost: localhost\r\n\r\n",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:40]))
@pytest.mark.parametrize("step", [1, 1_000_000])
@simulated
async def test_garbage_is_refused_once_in_json_or_answered_and_the_next_connection_is_fine(garbage, step):
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    for at in range(0, len(garbage), step):
        connection.data_received(garbage[at : at + step])
    await asyncio.sleep(PATIENCE * 2)
    assert wire.gone or wire.answers
    statuses = [status for status, _ in wire.answers]
    assert statuses in ([400], [408], [200])
    if statuses != [200]:
        assert code_of(wire) in ("malformed", "deadline")
        assert len(runtime.refused) == 1
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await settle()
    assert wire.answers == [(200, b"/hello ")]


@simulated
async def test_garbage_after_a_request_does_not_cost_it_its_answer():
    runtime = NodeRuntime(lambda _scope: asyncio.sleep(5))
    connection, wire = runtime.connect()
    connection.data_received(GET + b"\0garbage\r\n\r\n")
    connection.data_received(b"more garbage")
    await asyncio.sleep(6)
    assert [status for status, _ in wire.answers] == [200, 400]
    assert wire.over
    assert runtime.refused == ["malformed"]


@simulated
async def test_garbage_inside_a_body_is_told_to_the_peer_and_to_the_room():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    connection.data_received(POST + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await settle()
    connection.data_received(b"five\r\n")
    await settle()
    assert [status for status, _ in wire.answers] == [400]
    assert runtime.heard == ["gone"]
    assert wire.over


@simulated
async def test_a_body_in_many_small_pieces_arrives_whole():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    pieces = [bytes([97 + n % 26]) * (1 + n % 3) for n in range(2000)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    connection.data_received(POST + b"transfer-encoding: chunked\r\n\r\n" + chunks[:9000])
    await settle()
    connection.data_received(chunks[9000:] + b"0\r\n\r\n")
    await settle()
    assert runtime.heard == [("/", sum(map(len, pieces)))]
    assert wire.answers == [(200, b"/ " + b"".join(pieces)[:100])]


@simulated
async def test_a_body_longer_than_it_said_is_the_beginning_of_another_request():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    connection.data_received(POST + b"content-length: 5\r\n\r\nhello world")
    await asyncio.sleep(1)
    assert wire.answers[0] == (200, b"/ hello")
    assert wire.answers[1][0] == 400
    assert wire.over
    assert runtime.refused == ["malformed"]


class Refusing(NodeRuntime):
    """Answers before it has read anything, as the guard does."""

    async def app(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})


@simulated
async def test_a_body_that_nobody_wants_is_thrown_away_and_the_connection_stays_good():
    runtime = Refusing()
    connection, wire = runtime.connect()
    connection.data_received(POST + b"content-length: 500000\r\n\r\n")
    await settle()
    for _ in range(500):
        connection.data_received(b"x" * 1000)
    connection.data_received(GET)
    await settle()
    assert [status for status, _ in wire.answers] == [401, 401]
    assert not wire.gone


@simulated
async def test_a_body_that_nobody_wants_and_that_does_not_end_is_cut():
    runtime = Refusing()
    connection, wire = runtime.connect()
    connection.data_received(POST + b"transfer-encoding: chunked\r\n\r\n")
    await settle()
    sent = 0
    while not wire.over and sent < 10 * DISCARD_LIMIT:
        connection.data_received(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        sent += 10_000
    assert DISCARD_LIMIT < sent <= DISCARD_LIMIT + 20_000
    assert wire.answers == [(401, b"no")]


@pytest.mark.parametrize("refused", [False, True])
@simulated
async def test_a_body_that_is_no_body_is_charged_unless_its_request_was_refused_already(refused):
    runtime, charged = Refusing() if refused else NodeRuntime(), []
    runtime.state.faults = FaultPolicy(charged.append)
    connection, wire = runtime.connect()
    connection.data_received(POST + b"transfer-encoding: chunked\r\n\r\n")
    await settle()
    connection.data_received(b"no size\r\n")
    await settle()
    assert wire.over
    assert charged == ([] if refused else ["192.0.2.7"])


@simulated
async def test_of_a_connection_that_was_refused_a_bounded_number_of_bytes_is_read():
    connection, wire = NodeRuntime().connect()
    connection.data_received(b"no request\r\n\r\n")
    assert code_of(wire) == "malformed"
    sent = 0
    while not wire.gone and sent < 10 * LINGER_BYTES:
        connection.data_received(bytes(65_536))
        sent += 65_536
    assert LINGER_BYTES < sent <= LINGER_BYTES + 65_536


@simulated
async def test_an_address_with_many_connections_lets_another_one_in_after_one_request():
    runtime = NodeRuntime()
    runtime.state.faults = FaultPolicy(takes_turns=lambda _address: True)
    for number in range(64):
        connection, _ = runtime.connect("192.0.2.7")
        connection.data_received(GET.replace(b"/hello", b"/crowd%d" % number))
    honest, _ = runtime.connect("198.51.100.1")
    honest.data_received(GET)
    await settle()
    await settle()
    assert [path for path, _ in runtime.heard] == ["/crowd0", "/hello", *(f"/crowd{n}" for n in range(1, 64))]


@simulated
async def test_the_requests_of_one_address_are_begun_no_faster_than_its_turns():
    runtime = NodeRuntime()
    runtime.state.faults = FaultPolicy(takes_turns=lambda _address: True, turn_seconds=1.0)
    for number in range(3):
        connection, _ = runtime.connect("192.0.2.7")
        connection.data_received(GET.replace(b"/hello", b"/crowd%d" % number))
    begun = []
    for _ in range(4):
        await settle()
        begun.append(len(runtime.heard))
        await asyncio.sleep(1.0)  # of the simulated loop
    assert begun == [1, 2, 3, 3]


@simulated
async def test_a_connection_that_ends_while_it_waits_to_start_holds_up_nobody():
    runtime = NodeRuntime()
    runtime.state.faults = FaultPolicy(takes_turns=lambda _address: True)
    wires = []
    for _ in range(3):
        connection, wire = runtime.connect()
        connection.data_received(GET * 2)
        wires.append(wire)
    wires[1].abort()
    await settle()
    assert [len(wire.answers) for wire in wires] == [2, 0, 2]


class UpgradedWire(Wire):
    def set_protocol(self, protocol):
        self.connection = protocol

    def set_write_buffer_limits(self, high=None, low=None):
        pass


@pytest.mark.parametrize("fault", [True, False])
@simulated
async def test_of_a_websocket_that_was_closed_a_bounded_number_of_bytes_is_read(fault):
    async def close_at_once(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        if not fault:
            await send({"type": "websocket.close", "code": 1000})
        await receive()

    serving = Serving(close_at_once, ServerLimits(), websockets=["/socket"])
    connection = HttpConnection(serving)
    wire = UpgradedWire(connection)
    connection.connection_made(wire)
    connection.data_received(
        GET.replace(b"/hello", b"/socket").removesuffix(b"\r\n")
        + b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        + (b"\x83\x80" + bytes(4) if fault else b"")
    )
    await settle()
    assert wire.got.startswith(b"HTTP/1.1 101 ")
    frame, sent = b"\x82\xfe\x27\x10" + bytes(4 + 10_000), 0
    while not wire.gone and sent < 2 * LINGER_BYTES:
        assert wire.reading
        serving.buffer[: len(frame)] = frame
        wire.connection.buffer_updated(len(frame))
        sent += len(frame)
    assert LINGER_BYTES < sent <= LINGER_BYTES + len(frame)


@pytest.mark.parametrize("encrypted", [False, True])
@simulated
async def test_a_peer_that_is_still_sending_may_read_its_answer_before_the_connection_ends(encrypted):
    runtime = Refusing()
    connection, wire = runtime.connect()
    wire.encrypted = encrypted  # there one side cannot end alone
    connection.data_received(POST + b"connection: close\r\ncontent-length: 500000\r\n\r\n")
    await settle()
    assert wire.answers == [(401, b"no")]
    assert wire.ended == (not encrypted)
    for _ in range(100):
        connection.data_received(b"x" * 1000)
    await asyncio.sleep(LINGER_SECONDS - 0.1)
    assert not wire.closing
    await asyncio.sleep(0.2)
    assert wire.gone
    assert wire.answers == [(401, b"no")]
    assert not runtime.state.connections


class RefusingLate(Refusing):
    async def app(self, scope, receive, send):
        await asyncio.sleep(1)
        await super().app(scope, receive, send)


@simulated
async def test_a_peer_that_was_held_back_is_read_again_while_it_reads_its_answer():
    runtime = RefusingLate()
    connection, wire = runtime.connect()
    connection.data_received(POST + b"connection: close\r\ncontent-length: 500000\r\n\r\n" + b"x" * 100_000)
    assert not wire.reading
    await asyncio.sleep(1.1)
    assert wire.answers == [(401, b"no")]
    assert wire.reading


@simulated
async def test_a_peer_that_has_sent_everything_is_not_waited_for():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    connection.data_received(POST + b"connection: close\r\ncontent-length: 5\r\n\r\nhello")
    await settle()
    assert wire.answers == [(200, b"/ hello")]
    assert wire.gone


@simulated
async def test_one_connection_too_many_is_told_so_and_the_next_one_after_one_left_is_not():
    runtime = NodeRuntime(connections=3)
    inside = [runtime.connect() for _ in range(3)]
    _, outside = runtime.connect()
    assert outside.answers[0][0] == 503
    assert code_of(outside) == "overloaded"
    await settle()
    assert outside.gone
    assert not any(wire.gone for _, wire in inside)
    assert runtime.refused == ["overloaded"]
    inside[0][1].close()
    await settle()
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await settle()
    assert wire.answers == [(200, b"/hello ")]


@simulated
async def test_who_holds_most_places_gives_one_up_for_a_newcomer_and_what_is_answered_is_finished():
    runtime = NodeRuntime(lambda _scope: asyncio.sleep(1), connections=3)
    (busy, answered), (_, oldest), (_, other) = [runtime.connect("198.51.100.1") for _ in range(3)]
    busy.data_received(GET)
    await settle()
    newcomer, wire = runtime.connect("203.0.113.5")
    newcomer.data_received(GET)
    await asyncio.sleep(2)
    assert wire.answers == answered.answers == [(200, b"/hello ")]
    assert oldest.gone
    assert not other.gone
    assert runtime.refused == []
    assert runtime.connect("198.51.100.1")[1].answers[0][0] == 503  # two of three are its own already


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
@simulated
async def test_a_wish_for_another_protocol_is_answered_in_this_one_and_then_the_connection_ends(protocol):
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    connection.data_received(GET[:-2] + b"connection: upgrade\r\nupgrade: " + protocol + b"\r\n\r\n")
    await settle()
    assert wire.answers == [(200, b"/hello ")]
    assert wire.gone


@simulated
async def test_a_client_that_goes_away_in_the_middle_of_a_body_leaves_nothing_behind():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    connection.data_received(POST + b"content-length: 100\r\n\r\nhalf")
    await settle()
    wire.close()
    await settle()
    assert runtime.heard == ["gone"]
    assert not runtime.state.connections
    assert not runtime.state.tasks


PIPELINE = (
    GET
    + POST
    + b"content-length: 11\r\n\r\nhello world"
    + POST
    + b"transfer-encoding: chunked\r\n\r\n6\r\nhello \r\n5;x=y\r\nworld\r\n0\r\ntrailer: 1\r\n\r\n"
    + b"\r\n"
    + GET
)


@given(cuts=st.sets(st.integers(1, len(PIPELINE) - 1), max_size=20))
@settings(max_examples=50, deadline=None)
def test_however_a_stream_is_cut_the_answers_are_the_same(cuts):
    async def story():
        runtime = NodeRuntime()
        connection, wire = runtime.connect()
        edges = [0, *sorted(cuts), len(PIPELINE)]
        for start, stop in itertools.pairwise(edges):
            connection.data_received(PIPELINE[start:stop])
            await settle()
        bodies = [body for _, body in wire.answers]
        assert bodies == [b"/hello ", b"/ hello world", b"/ hello world", b"/hello "]
        assert runtime.refused == []

    run_simulated(story)


@given(
    parts=st.lists(
        st.one_of(
            st.binary(max_size=50),
            st.sampled_from(
                [GET, GET[:10], POST, b"content-length: 7\r\n\r\n", b"\r\n", b"\r\n\r\n", b"0\r\n\r\n"]
            ),
        ),
        max_size=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_no_bytes_at_all_break_it(parts):
    async def story():
        runtime = NodeRuntime()
        connection, wire = runtime.connect()
        for part in parts:
            if not wire.gone:
                connection.data_received(part)
                await asyncio.sleep(0)
        await asyncio.sleep(PATIENCE * 5)
        assert wire.gone
        assert not runtime.state.connections
        assert not runtime.state.tasks
        assert len(runtime.refused) <= 1

    run_simulated(story)
