"""A head that was seen before means what it meant."""

import asyncio
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.http.asgi import HEADERS_BY_NAME, by_name
from comity.http.heads import KEPT_HEADS, MAX_HEAD_LENGTH, SIGHTINGS, FrameHeads, HeadCache
from comity.testing import run_simulated
from tests.http.wires import NodeRuntime
from tests.requests.pipelines import settle, simulated

REQUEST_ID = re.compile(rb"x-request-id: [0-9a-f]+\r\n")
HELLO = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Forgetful(HeadCache):
    def learn(self, data, head):
        pass


class Watching(NodeRuntime):
    """Writes down the scopes it is asked in, and counts what is left to the parser."""

    def __init__(self, heads=None):
        super().__init__()
        self.scopes = []
        self.parsed = 0
        self.heads = heads or HeadCache()
        self.state.heads = Counting(self, self.heads)

    async def app(self, scope, receive, send):
        self.scopes.append({name: value for name, value in scope.items() if name != "extensions"})
        await super().app(scope, receive, send)

    async def hear(self, connection, *requests):
        for request in requests:
            connection.data_received(request)
            await settle()


class Counting:
    """What is not found is left to the parser."""

    def __init__(self, runtime, heads):
        self._runtime = runtime
        self._heads = heads
        self.put = heads.put

    def find(self, data):
        found = self._heads.find(data)
        self._runtime.parsed += found is None
        return found


def post(body, *lines, first=b"POST /a%20b?c=d HTTP/1.1", length=b"Content-Length: %d"):
    return b"\r\n".join([first, b"Host: localhost", *lines, length % len(body), b"", body])


async def after_two(request, *more):
    """A runtime that got a request twice on one connection, which is when its head is stored, and then more."""
    runtime = Watching()
    connection, wire = runtime.connect()
    await runtime.hear(connection, HELLO, request, request)
    runtime.parsed = 0
    del runtime.scopes[:2]
    await runtime.hear(connection, *more)
    assert not wire.gone
    return runtime


@simulated
@pytest.mark.parametrize("length", [b"Content-Length: %d", b"content-length: %d"])
@pytest.mark.parametrize("lines", [(), (b"Content-Type: application/json", b"X-A: 1", b"X-A: 2")])
async def test_what_comes_again_is_answered_in_the_same_scope_without_the_parser(length, lines):
    request = post(b"body", *lines, length=length)
    runtime = await after_two(request, request)
    assert runtime.parsed == 0
    before, after = runtime.scopes
    assert after == before
    assert after[HEADERS_BY_NAME] == by_name(after["headers"])
    assert runtime.heard == [("/", 0)] + [("/a b", 4)] * 3


@simulated
async def test_the_length_of_a_body_may_change():
    runtime = await after_two(post(b"one"), post(b"seven" * 7))
    assert runtime.parsed == 0
    assert runtime.heard[-1] == ("/a b", 35)
    assert runtime.scopes[-1]["headers"][-1] == (b"content-length", b"35")
    assert runtime.scopes[-1][HEADERS_BY_NAME][b"content-length"] == b"35"


@simulated
async def test_a_head_is_known_on_every_connection_and_each_has_its_own_scope():
    runtime = await after_two(post(b"body"))
    connection, _ = runtime.connect()
    await runtime.hear(connection, HELLO)
    for _ in range(3):
        await runtime.hear(connection, post(b"body"))
        runtime.scopes[-1]["headers"].append((b"x-added", b"by the application"))
    assert runtime.parsed == 1
    assert [len(scope["headers"]) for scope in runtime.scopes[-3:]] == [3] * 3


@simulated
@pytest.mark.parametrize(
    "request_bytes",
    [
        post(b"body", b"Transfer-Encoding: chunked", length=b"X: %d").replace(
            b"body", b"4\r\nbody\r\n0\r\n\r\n"
        ),
        post(b"body", b"Expect: 100-continue"),
        post(b"body", length=b"CONTENT-length:%d"),
        post(b"body", b"X: " + b"a" * MAX_HEAD_LENGTH),
        b"\r\n" + post(b"body"),
        b"\r\n\r\n" + post(b"body"),
    ],
    ids=["chunked", "expects", "spelled oddly", "long", "after an empty line", "after two"],
)
async def test_one_that_is_said_anew_each_time_is_read_each_time(request_bytes):
    runtime = await after_two(request_bytes, request_bytes, request_bytes)
    assert runtime.parsed == 2
    assert runtime.heard[-1] == ("/a b", 4)


@simulated
@pytest.mark.parametrize(
    ("first", "line"),
    [
        (b"POST / HTTP/1.0", b"X: y"),
        (b"POST / HTTP/1.1", b"Connection: close"),
        (b"CONNECT / HTTP/1.1", b"X: y"),
        (b"GET / HTTP/1.1", b"Connection: upgrade\r\nUpgrade: h2c"),
    ],
)
async def test_one_that_ends_its_connection_ends_it_each_time(first, line):
    runtime = Watching()
    for _ in range(4):
        connection, wire = runtime.connect()
        await runtime.hear(connection, HELLO, post(b"", line, first=first))
        assert wire.over
        assert wire.answers[-1] == (200, b"/ ")


@simulated
async def test_nothing_is_answered_after_a_request_that_ends_the_connection():
    async def work(scope):
        if scope["path"] == "/slow":
            await asyncio.sleep(1)

    runtime = await after_two(post(b"body"))
    runtime.work = work
    connection, wire = runtime.connect()
    await runtime.hear(connection, HELLO)
    connection.data_received(
        HELLO.replace(b"GET / ", b"GET /slow ").replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    )
    connection.data_received(post(b"body"))
    reading = wire.reading  # or it would not be noticed when the peer goes away
    await asyncio.sleep(2)
    assert reading
    assert [body for _, body in wire.answers] == [b"/ ", b"/slow "]
    assert wire.over


@simulated
@pytest.mark.parametrize(
    "other",
    [
        post(b"").replace(b": 0", b": "),
        post(b"body").replace(b": 4", b": 04x"),
        post(b"body").replace(b": 4", b": -4"),
        post(b"body").replace(b": 4", b": " + b"4" * 30),
        post(b"body").replace(b"localhost", b"localhosT"),
        post(b"body").replace(b"\r\n", b"\n"),
        b"",
        b"\r\n\r\n",
    ],
)
async def test_what_differs_is_left_to_the_parser(other):
    runtime = await after_two(post(b"body"))
    assert runtime.heads.find(post(b"body")) is not None
    assert runtime.heads.find(other) is None


@simulated
@pytest.mark.parametrize("before", [b"\r\n\r\n", b"\n\r\n\r\n", b"\r\r\n\r\n"])
async def test_empty_lines_are_never_taken_for_a_request(before):
    runtime = await after_two(before + b"GET /x HTTP/1.1\r\n\r\n")
    heard = len(runtime.heard)
    connection, wire = runtime.connect()
    await runtime.hear(connection, HELLO, before)
    assert len(runtime.heard) == heard + 1
    assert len(wire.answers) == 1


@simulated
async def test_only_so_many_are_kept():
    runtime = Watching()
    connection, _ = runtime.connect()
    for number in range(KEPT_HEADS + 20):
        request = b"GET /%d HTTP/1.1\r\nhost: localhost\r\n\r\n" % number
        await runtime.hear(connection, request, request)
    assert 0 < len(runtime.heads._known) <= KEPT_HEADS


def test_heads_that_never_come_again_push_none_out_and_are_not_kept():
    heads = HeadCache()
    _, head = run_simulated(lambda: head_of(heads, post(b"body")))
    for number in range(2 * SIGHTINGS):
        heads.put(b"GET /%d HTTP/1.1\r\nhost: localhost\r\n\r\n" % number, head)
    assert len(heads._known) == 1
    assert len(heads._seen_once) <= SIGHTINGS


async def head_of(heads, request):
    runtime = Watching(heads)
    connection, _ = runtime.connect()
    await runtime.hear(connection, HELLO, request, request)
    found = heads.find(request)
    return runtime, found[0]


names = st.sampled_from(
    [b"Host", b"Content-Length", b"content-length", b"X-Length", b"Expect", b"Connection", b"Upgrade", b"A"]
)
values = st.sampled_from(
    [
        b"localhost",
        b"4",
        b"04",
        b" 4",
        b"4 ",
        b"0",
        b"keep-alive",
        b"close",
        b"upgrade",
        b"a\r\n b",
        b"",
        b"x: 4",
        b"a\rb",
    ]
)
lines = st.lists(st.tuples(names, st.sampled_from([b": ", b":", b":\t"]), values), max_size=3)
bodies = st.sampled_from([b"", b"body", b"04\r\n\r\n", b"{}\r\n", HELLO])


@st.composite
def requests(draw):
    before = draw(st.sampled_from([b"", b"", b"\r\n", b"\r\n\r\n", b"\n", b"\r\r\n\r\n"]))
    method = draw(st.sampled_from([b"GET", b"POST", b"HEAD", b"CONNECT", b"OPTIONS"]))
    target = draw(st.sampled_from([b"/path", b"/p%20q?a=b", b"*", b"http://localhost/x"]))
    said = draw(lines)
    head = method + b" " + target + b" HTTP/1.1\r\n" + b"".join(b"".join(line) + b"\r\n" for line in said)
    return before + head + b"\r\n" + draw(bodies)


@given(
    st.lists(requests(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=9),
)
def test_whoever_has_said_what_before_everybody_is_answered_as_if_nobody_had(said, plan):
    async def played(heads):
        runtime = Watching(heads)
        connected = [runtime.connect() for _ in range(2)]
        for connection, _ in connected:
            await runtime.hear(connection, HELLO)
        for at, what in plan:
            connection, wire = connected[at]
            if wire.over:
                connected[at] = connection, wire = runtime.connect()
                await runtime.hear(connection, HELLO)
            await runtime.hear(connection, said[what % len(said)])
        for scope in runtime.scopes:
            scope.pop(HEADERS_BY_NAME, None)
        ends = [(REQUEST_ID.sub(b"", wire.got), wire.over, wire.reading) for _, wire in connected]
        return ends, runtime.heard, runtime.scopes, runtime.refused, len(runtime.state.tasks)

    assert run_simulated(lambda: played(HeadCache())) == run_simulated(lambda: played(Forgetful()))


# How long a frame says that it is.


def head(length, *, masked=True, more=None):
    """`more` is in how many bytes the length is written, besides the first one."""
    mask = 0x80 if masked else 0
    more = (0 if length < 126 else 2 if length < 65_536 else 8) if more is None else more
    first = {0: length, 2: 126, 8: 127}[more]
    written = {0: b"", 2: struct.pack("!H", length & 0xFFFF), 8: struct.pack("!Q", length)}[more]
    return bytes([0x81, mask | first]) + written


@pytest.mark.parametrize("length", [1, 125, 126, 65_535, 65_536, 1 << 40])
def test_the_length_is_known_with_the_last_byte_of_the_head(length):
    heads, written = FrameHeads(), head(length)
    assert heads.feed(written[:-1])
    assert heads.announced == 0
    assert heads.feed(written[-1:])
    assert heads.announced == length


@pytest.mark.parametrize(("length", "more"), [(0, 2), (125, 2), (0, 8), (125, 8), (126, 8), (65_535, 8)])
def test_a_length_that_is_not_in_its_shortest_form_is_reported(length, more):
    assert not FrameHeads().feed(head(length, more=more))


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 125, 126, 300, 70_000]), st.booleans()), max_size=5),
    st.integers(1, 90_000),
)
def test_frames_are_followed_however_they_are_cut(frames, step):
    heads = FrameHeads()
    data = b"".join(
        head(length, masked=masked) + (bytes(4) if masked else b"") + b"\xff" * length
        for length, masked in frames
    )
    for at in range(0, len(data), step):
        assert heads.feed(data[at : at + step])
    assert heads.announced == 0
    assert heads.feed(head(5))
    assert heads.announced == 5
