"""One connection in simulated time: what a peer may send, how slowly, and what becomes of it."""

import asyncio
import itertools
import json

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from comity.doors.http.asgi import WHOLE_ANSWER
from comity.doors.http.connection import (
    BODY_BYTES,
    DISCARD_LIMIT,
    LINGER_SECONDS,
    HttpConnection,
    Limits,
)
from comity.testing import run_simulated
from tests.pipeline.walking import settle, simulated

PATIENCE = 20.0
KEEP_ALIVE = 75
GET = b"GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\n"


class Wire(asyncio.Transport):
    """The peer's end: what it was sent, and whether the connection is still there."""

    def __init__(self, connection):
        super().__init__({"peername": ("192.0.2.7", 4000), "sockname": ("127.0.0.1", 80)})
        self.connection = connection
        self.got = b""
        self.pieces = []
        self.reading = True
        self.closing = self.stuck = self.gone = self.ended = self.encrypted = False

    def write(self, data):
        assert not self.ended
        assert not self.gone, "uvloop refuses this with an error"
        if not self.closing:
            self.got += data
            self.pieces.append(data)

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True
        if not self.stuck:
            self._end()

    def abort(self):
        self.closing = True
        self._end()

    def _end(self):
        if not self.gone:
            self.gone = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def can_write_eof(self):
        return not self.encrypted

    def write_eof(self):
        assert not self.ended
        self.ended = True

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    @property
    def over(self):
        """Our side has said its last word."""
        return self.ended or self.closing

    @property
    def answers(self):
        """Status and body of each answer."""
        found, rest = [], self.got
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:])
            size = int(headers.get("content-length", 0))
            found.append((int(lines[0].split()[1]), rest[:size]))
            rest = rest[size:]
        return found


class House:
    """`work` is what the application does with a request; it answers with its path and its body."""

    def __init__(self, work=None, **limits):
        self.limits = Limits(**{"patience": PATIENCE, **limits})
        self.config = uvicorn.Config(
            self.app,
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self.config.load()
        self.state = ServerState()
        self.refused = []
        self.work = work
        self.heard = []

    def connect(self):
        connection = HttpConnection(self.config, self.state, self.limits, self.refused.append)
        wire = Wire(connection)
        connection.connection_made(wire)
        return connection, wire

    async def app(self, scope, receive, send):
        if self.work:
            await self.work(scope)
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.heard.append("gone")
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.heard.append((scope["path"], len(body)))
        answer = scope["path"].encode() + b" " + body[:100]
        size = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": size})
        await send({"type": "http.response.body", "body": answer})


def code_of(wire):
    return json.loads(wire.answers[-1][1])["code"]


@simulated
async def test_requests_on_one_connection_are_answered_in_turn():
    house = House()
    connection, wire = house.connect()
    for _ in range(3):
        connection.data_received(GET)
        await settle()
        await asyncio.sleep(60)
    assert wire.answers == [(200, b"/hello ")] * 3
    assert not wire.gone
    await asyncio.sleep(76)
    assert wire.gone  # a connection that nobody uses any more
    assert house.refused == []
    assert not house.state.connections


@simulated
async def test_requests_sent_together_are_answered_in_order():
    async def odd_ones_are_slow(scope):
        await asyncio.sleep(int(scope["path"][1:]) % 2)

    house = House(odd_ones_are_slow)
    connection, wire = house.connect()
    connection.data_received(b"".join(GET.replace(b"hello", b"%d" % n) for n in range(10)))
    await asyncio.sleep(10)
    assert [body for _, body in wire.answers] == [b"/%d " % n for n in range(10)]


@simulated
async def test_the_head_and_the_body_of_an_answer_leave_together():
    connection, wire = House().connect()
    for count in (1, 2):
        connection.data_received(GET)
        await settle()
        assert len(wire.pieces) == count
    assert wire.answers == [(200, b"/hello ")] * 2


class Streaming(House):
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
    assert wire.got.endswith(b"content-length: 4\r\n\r\n")
    await asyncio.sleep(1.5)
    assert wire.got.endswith(b"\r\n\r\nab")
    await asyncio.sleep(1)
    assert wire.answers == [(200, b"abcd")]


@simulated
async def test_a_head_without_a_body_is_sent_before_the_connection_is_closed():
    connection, wire = House().connect()
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


@simulated
async def test_a_connection_that_says_nothing_is_closed_without_a_word():
    house = House()
    _, wire = house.connect()
    await asyncio.sleep(PATIENCE - 0.1)
    assert not wire.gone
    await asyncio.sleep(PATIENCE / 3)
    assert wire.gone
    assert wire.got == b""
    assert house.refused == []


@simulated
async def test_a_head_that_comes_byte_by_byte_is_given_up():
    house = House()
    connection, wire = house.connect()
    began = asyncio.get_running_loop().time()
    for byte in b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: " + b"a" * 1000:
        if wire.over:
            break
        connection.data_received(bytes([byte]))
        await asyncio.sleep(1)
    assert wire.over
    assert asyncio.get_running_loop().time() - began <= PATIENCE * 1.3
    assert wire.answers[-1][0] == 408
    assert code_of(wire) == "deadline"
    assert house.refused == ["deadline"]


@pytest.mark.parametrize("dripped", [b"\r\n", b"G"])
@simulated
async def test_the_head_of_a_later_request_has_no_more_time(dripped):
    """Also where what is dripped is no head at all: empty lines between requests."""
    house = House()
    connection, wire = house.connect()
    connection.data_received(GET)
    await asyncio.sleep(70)
    assert not wire.gone
    for _ in range(100):
        if wire.over:
            break
        connection.data_received(dripped)
        dripped = dripped if dripped == b"\r\n" else b"E"
        await asyncio.sleep(1)
    assert wire.over
    assert asyncio.get_running_loop().time() <= 70 + PATIENCE * 1.3


@pytest.mark.parametrize("form", ["announced", "chunked"])
@simulated
async def test_a_body_that_comes_byte_by_byte_is_given_up(form):
    house = House()
    connection, wire = house.connect()
    announced = b"content-length: 100000\r\n\r\n"
    connection.data_received(
        POST + (announced if form == "announced" else b"transfer-encoding: chunked\r\n\r\n")
    )
    for _ in range(1000):
        if wire.over:
            break
        connection.data_received(b"x" if form == "announced" else b"1\r\nx\r\n")
        await asyncio.sleep(1)
    await settle()
    assert wire.over
    assert asyncio.get_running_loop().time() <= PATIENCE * 1.3
    assert wire.answers[-1][0] == 408
    assert house.heard == ["gone"]
    assert house.refused == ["deadline"]


@simulated
async def test_a_body_that_keeps_coming_is_waited_for():
    house = House()
    connection, wire = house.connect()
    seconds = 600
    per_second = BODY_BYTES * 4 // int(PATIENCE)
    connection.data_received(POST + b"content-length: %d\r\n\r\n" % (seconds * per_second))
    for _ in range(seconds):
        connection.data_received(b"x" * per_second)
        await asyncio.sleep(1)
    await settle()
    assert wire.answers[0][0] == 200
    assert house.heard == [("/", seconds * per_second)]


@simulated
async def test_a_peer_that_we_hold_back_is_not_blamed_for_it():
    house = House(lambda _scope: asyncio.sleep(1000))
    connection, wire = house.connect()
    connection.data_received(POST + b"content-length: 200000\r\n\r\n" + b"x" * 100_000)
    await asyncio.sleep(999)
    assert not wire.reading
    assert not wire.gone
    await asyncio.sleep(2)
    assert wire.reading
    connection.data_received(b"x" * 100_000)
    await settle()
    assert house.heard == [("/", 200_000)]


@simulated
async def test_a_connection_on_which_nothing_happens_is_closed_in_the_end():
    house = House()
    connection, wire = house.connect()
    for _ in range(3):
        connection.data_received(GET)
        await asyncio.sleep(KEEP_ALIVE - 1)
        assert not wire.gone
    await asyncio.sleep(1 + PATIENCE / 2)
    assert wire.gone
    assert [status for status, _ in wire.answers] == [200] * 3
    assert house.refused == []


@simulated
async def test_one_that_waits_for_its_answer_is_not_taken_for_idle():
    house = House(lambda _scope: asyncio.sleep(10 * KEEP_ALIVE))
    connection, wire = house.connect()
    connection.data_received(GET)
    await asyncio.sleep(10 * KEEP_ALIVE + KEEP_ALIVE / 2)
    assert not wire.gone
    assert wire.answers == [(200, b"/hello ")]
    await asyncio.sleep(KEEP_ALIVE)
    assert wire.gone


def whole(house, body=b"{}", told=None):
    async def work(scope, _receive, _send):
        written = scope["extensions"][WHOLE_ANSWER]["write"](200, b"application/json", body)
        if told is not None:
            told.append(written)

    house.app = work
    house.config.loaded_app = work
    return house


@simulated
async def test_a_whole_answer_is_one_piece_and_the_connection_goes_on():
    house = whole(House(), b'{"a":1}')
    connection, wire = house.connect()
    connection.data_received(GET)
    await settle()
    connection.data_received(GET + GET)
    await settle()
    assert wire.answers == [(200, b'{"a":1}')] * 3
    assert len(wire.pieces) == 3
    assert wire.pieces[0].count(b"x-content-type-options: nosniff") == 1
    assert not wire.gone


@simulated
async def test_a_whole_answer_ends_a_connection_that_asked_for_it():
    house = whole(House())
    connection, wire = house.connect()
    connection.data_received(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    await settle()
    assert b"connection: close" in wire.got
    assert wire.answers == [(200, b"{}")]
    assert wire.gone


@simulated
async def test_a_whole_answer_does_not_overtake_one_that_the_peer_has_not_taken():
    told = []
    house = whole(House(), told=told)
    connection, wire = house.connect()
    connection.pause_writing()
    connection.data_received(GET)
    await settle()
    assert told == [False]
    assert b"HTTP/1.1 200" not in wire.got


@simulated
async def test_work_that_takes_long_is_not_cut_short():
    house = House(lambda _scope: asyncio.sleep(3600))
    connection, wire = house.connect()
    connection.data_received(GET)
    await asyncio.sleep(3601)
    assert wire.answers == [(200, b"/hello ")]


@simulated
async def test_a_peer_that_takes_nothing_of_what_we_send_is_given_up():
    house = House()
    connection, wire = house.connect()
    wire.stuck = True
    connection.pause_writing()
    connection.data_received(GET)
    await asyncio.sleep(PATIENCE - 1)
    assert not wire.gone
    await asyncio.sleep(PATIENCE / 3)
    assert wire.gone
    assert not house.state.tasks


@simulated
async def test_a_peer_that_takes_it_in_time_is_not():
    house = House()
    connection, wire = house.connect()
    connection.data_received(GET)
    await settle()
    for _ in range(2):
        connection.pause_writing()
        await asyncio.sleep(PATIENCE - 8)
        connection.resume_writing()
    await asyncio.sleep(PATIENCE * 2)
    assert not wire.gone


@simulated
async def test_a_connection_that_does_not_end_when_it_is_closed_is_cut():
    house = House()
    connection, wire = house.connect()
    wire.stuck = True
    connection.data_received(GET[:-2] + b"connection: close\r\n\r\n")
    await asyncio.sleep(PATIENCE - 1)
    assert wire.closing
    assert not wire.gone
    await asyncio.sleep(PATIENCE)
    assert wire.gone


@simulated
async def test_a_head_is_refused_as_soon_as_it_is_too_large():
    house = House(head_bytes=10_000)
    connection, wire = house.connect()
    connection.data_received(b"GET / HTTP/1.1\r\nx: ")
    sent = 0
    while not wire.over and sent < 100_000:
        connection.data_received(b"a" * 1000)
        sent += 1000
    assert sent == 10_000
    assert wire.answers[0][0] == 431
    assert code_of(wire) == "too_large"
    assert "10,000 bytes or 256 headers" in wire.got.decode()
    assert house.refused == ["too_large"]


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
    house = House(head_bytes=10_000)
    connection, wire = house.connect()
    whole = head + b"\r\n\r\n"
    for at in range(0, len(whole), step):
        connection.data_received(whole[at : at + step])
    await settle()
    assert wire.answers[0][0] == status
    assert wire.over == (status == 431)


@simulated
async def test_many_requests_in_one_chunk_are_not_taken_for_one_large_head():
    house = House(head_bytes=1000)
    connection, wire = house.connect()
    body = POST + b"content-length: 5000\r\n\r\n" + b"x" * 5000
    connection.data_received(body + GET * 50 + GET[:20])
    await settle()
    connection.data_received(GET[20:])
    await settle()
    assert [status for status, _ in wire.answers] == [200] * 52
    assert house.refused == []


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
    house = House()
    connection, wire = house.connect()
    for at in range(0, len(garbage), step):
        connection.data_received(garbage[at : at + step])
    await asyncio.sleep(PATIENCE * 2)
    assert wire.gone or wire.answers
    statuses = [status for status, _ in wire.answers]
    assert statuses in ([400], [408], [200])
    if statuses != [200]:
        assert code_of(wire) in ("malformed", "deadline")
        assert len(house.refused) == 1
    connection, wire = house.connect()
    connection.data_received(GET)
    await settle()
    assert wire.answers == [(200, b"/hello ")]


@simulated
async def test_garbage_after_a_request_does_not_cost_it_its_answer():
    house = House(lambda _scope: asyncio.sleep(5))
    connection, wire = house.connect()
    connection.data_received(GET + b"\0garbage\r\n\r\n")
    connection.data_received(b"more garbage")
    await asyncio.sleep(6)
    assert wire.answers == [(200, b"/hello ")]
    assert wire.gone
    assert house.refused == ["malformed"]


@simulated
async def test_garbage_inside_a_body_is_told_to_the_peer_and_to_the_room():
    house = House()
    connection, wire = house.connect()
    connection.data_received(POST + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await settle()
    connection.data_received(b"five\r\n")
    await settle()
    assert [status for status, _ in wire.answers] == [400]
    assert house.heard == ["gone"]
    assert wire.over


@simulated
async def test_a_body_longer_than_it_said_is_the_beginning_of_another_request():
    house = House()
    connection, wire = house.connect()
    connection.data_received(POST + b"content-length: 5\r\n\r\nhello world")
    await asyncio.sleep(1)
    assert wire.answers == [(200, b"/ hello")]
    assert wire.gone
    assert house.refused == ["malformed"]


class Refusing(House):
    """Answers before it has read anything, as the guard does."""

    async def app(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})


@simulated
async def test_a_body_that_nobody_wants_is_thrown_away_and_the_connection_stays_good():
    house = Refusing()
    connection, wire = house.connect()
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
    house = Refusing()
    connection, wire = house.connect()
    connection.data_received(POST + b"transfer-encoding: chunked\r\n\r\n")
    await settle()
    sent = 0
    while not wire.over and sent < 10 * DISCARD_LIMIT:
        connection.data_received(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        sent += 10_000
    assert DISCARD_LIMIT < sent <= DISCARD_LIMIT + 20_000
    assert wire.answers == [(401, b"no")]


@pytest.mark.parametrize("encrypted", [False, True])
@simulated
async def test_a_peer_that_is_still_sending_may_read_its_answer_before_the_connection_ends(encrypted):
    house = Refusing()
    connection, wire = house.connect()
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
    assert not house.state.connections


class RefusingLate(Refusing):
    async def app(self, scope, receive, send):
        await asyncio.sleep(1)
        await super().app(scope, receive, send)


@simulated
async def test_a_peer_that_was_held_back_is_read_again_while_it_reads_its_answer():
    house = RefusingLate()
    connection, wire = house.connect()
    connection.data_received(POST + b"connection: close\r\ncontent-length: 500000\r\n\r\n" + b"x" * 100_000)
    assert not wire.reading
    await asyncio.sleep(1.1)
    assert wire.answers == [(401, b"no")]
    assert wire.reading


@simulated
async def test_a_peer_that_has_sent_everything_is_not_waited_for():
    house = House()
    connection, wire = house.connect()
    connection.data_received(POST + b"connection: close\r\ncontent-length: 5\r\n\r\nhello")
    await settle()
    assert wire.answers == [(200, b"/ hello")]
    assert wire.gone


@simulated
async def test_one_connection_too_many_is_told_so_and_the_next_one_after_one_left_is_not():
    house = House(connections=3)
    inside = [house.connect() for _ in range(3)]
    _, outside = house.connect()
    assert outside.answers[0][0] == 503
    assert code_of(outside) == "overloaded"
    await settle()
    assert outside.gone
    assert not any(wire.gone for _, wire in inside)
    assert house.refused == ["overloaded"]
    inside[0][1].close()
    await settle()
    connection, wire = house.connect()
    connection.data_received(GET)
    await settle()
    assert wire.answers == [(200, b"/hello ")]


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
@simulated
async def test_a_wish_for_another_protocol_is_answered_in_this_one_and_then_the_connection_ends(protocol):
    house = House()
    connection, wire = house.connect()
    connection.data_received(GET[:-2] + b"connection: upgrade\r\nupgrade: " + protocol + b"\r\n\r\n")
    await settle()
    assert wire.answers == [(200, b"/hello ")]
    assert wire.gone


@simulated
async def test_a_client_that_goes_away_in_the_middle_of_a_body_leaves_nothing_behind():
    house = House()
    connection, wire = house.connect()
    connection.data_received(POST + b"content-length: 100\r\n\r\nhalf")
    await settle()
    wire.close()
    await settle()
    assert house.heard == ["gone"]
    assert not house.state.connections
    assert not house.state.tasks


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
        house = House()
        connection, wire = house.connect()
        edges = [0, *sorted(cuts), len(PIPELINE)]
        for start, stop in itertools.pairwise(edges):
            connection.data_received(PIPELINE[start:stop])
            await settle()
        bodies = [body for _, body in wire.answers]
        assert bodies == [b"/hello ", b"/ hello world", b"/ hello world", b"/hello "]
        assert house.refused == []

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
        house = House()
        connection, wire = house.connect()
        for part in parts:
            if not wire.gone:
                connection.data_received(part)
                await asyncio.sleep(0)
        await asyncio.sleep(PATIENCE * 5)
        assert wire.gone
        assert not house.state.connections
        assert not house.state.tasks
        assert len(house.refused) <= 1

    run_simulated(story)
