"""A head that was seen before means what it meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.doors.http.asgi import HEADERS_BY_NAME, by_name
from comity.doors.http.heads import KEPT_HEADS, LONGEST_HEAD, KnownHeads
from comity.testing import run_simulated
from tests.doors.http.wires import House
from tests.pipeline.walking import settle, simulated


class Watching(House):
    """Writes down the scopes it is asked in, and how often the parser is."""

    def __init__(self):
        super().__init__()
        self.scopes = []
        self.parsed = 0
        self.heads = KnownHeads()

    async def app(self, scope, receive, send):
        self.scopes.append({name: value for name, value in scope.items() if name != "extensions"})
        await super().app(scope, receive, send)

    def connect(self):
        connection, wire = super().connect()
        connection._heads = self.heads
        parser = connection.parser

        class Counting:
            def feed_data(_, data):  # noqa: N805 - the outer self is the house
                self.parsed += 1
                parser.feed_data(data)

            def __getattr__(_, name):  # noqa: N805
                return getattr(parser, name)

        connection.parser = Counting()
        return connection, wire


def post(body, *lines, first=b"POST /a%20b?c=d HTTP/1.1", length=b"Content-Length: %d"):
    return b"\r\n".join([first, b"Host: localhost", *lines, length % len(body), b"", body])


async def scopes_of(*requests):
    """The scopes of requests on one connection after a first one, which the parser reads."""
    house = Watching()
    connection, wire = house.connect()
    for request in (b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", *requests):
        connection.data_received(request)
        await settle()
    assert not wire.gone
    return house, house.scopes[1:]


@simulated
@pytest.mark.parametrize("length", [b"Content-Length: %d", b"content-length: %d"])
@pytest.mark.parametrize("lines", [(), (b"Content-Type: application/json", b"X-A: 1", b"X-A: 2")])
async def test_the_same_bytes_are_answered_in_the_same_scope_without_the_parser(length, lines):
    request = post(b"body", *lines, length=length)
    house, (first, second) = await scopes_of(request, request)
    assert house.parsed == 2
    named = second.pop(HEADERS_BY_NAME)
    assert second == first
    assert named == by_name(first["headers"])
    assert house.heard == [("/", 0)] + [("/a b", 4)] * 2


@simulated
async def test_the_length_of_a_body_may_change():
    house, (_, second) = await scopes_of(post(b"one"), post(b"seven" * 7))
    assert house.parsed == 2
    assert house.heard[-1] == ("/a b", 35)
    assert second["headers"][-1] == (b"content-length", b"35")
    assert second[HEADERS_BY_NAME][b"content-length"] == b"35"


@simulated
async def test_a_head_is_known_on_every_connection_and_each_has_its_own_scope():
    house = Watching()
    for _ in range(2):
        connection, _ = house.connect()
        for _ in range(2):
            connection.data_received(post(b"body"))
            await settle()
            house.scopes[-1]["headers"].append((b"x-added", b"by the application"))
    assert house.parsed == 3  # the first of each connection, and the one that was learned from
    assert [len(scope["headers"]) for scope in house.scopes] == [3] * 4


@simulated
@pytest.mark.parametrize(
    "request_bytes",
    [
        post(b"body", b"Transfer-Encoding: chunked", length=b"X: %d").replace(
            b"body", b"4\r\nbody\r\n0\r\n\r\n"
        ),
        post(b"body", b"Expect: 100-continue"),
        post(b"body", length=b"CONTENT-length:%d"),
        post(b"body", b"X: " + b"a" * LONGEST_HEAD),
        b"\r\n" + post(b"body"),
    ],
    ids=["chunked", "expects", "spelled oddly", "long", "led by an empty line"],
)
async def test_one_that_is_said_anew_each_time_is_read_each_time(request_bytes):
    house, scopes = await scopes_of(request_bytes, request_bytes)
    assert house.parsed == 3
    assert len(scopes) == 2


@simulated
@pytest.mark.parametrize(
    ("first", "line"), [(b"POST / HTTP/1.0", b"X: y"), (b"POST / HTTP/1.1", b"Connection: close")]
)
async def test_one_that_ends_its_connection_is_not_kept(first, line):
    house = Watching()
    for _ in range(2):
        connection, wire = house.connect()
        connection.data_received(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await settle()
        connection.data_received(post(b"body", line, first=first))
        await settle()
        assert wire.gone
        assert wire.answers[-1] == (200, b"/ body")


@pytest.mark.parametrize(
    "other",
    [
        post(b"body")[:-1],
        post(b"body") + b"G",
        post(b"body").replace(b": 4", b": 04x"),
        post(b"body").replace(b": 4", b": -4"),
        post(b"body").replace(b": 4", b": " + b"4" * 30),
        post(b"body").replace(b"localhost", b"localhosT"),
        post(b"body").replace(b"\r\n", b"\n"),
        b"",
        b"\r\n\r\n",
    ],
)
def test_what_differs_is_left_to_the_parser(other):
    async def known():
        house, _ = await scopes_of(post(b"body"))
        return house.heads

    heads = run_simulated(known)
    assert heads.find(post(b"body")) is not None
    assert heads.find(other) is None


@simulated
async def test_only_so_many_are_kept():
    house = Watching()
    connection, _ = house.connect()
    for number in range(KEPT_HEADS + 20):
        connection.data_received(b"GET /%d HTTP/1.1\r\nhost: localhost\r\n\r\n" % number)
        await settle()
    assert 0 < len(house.heads._known) <= KEPT_HEADS


names = st.sampled_from(
    [b"Host", b"Content-Length", b"content-length", b"X-Length", b"Expect", b"Connection", b"A"]
)
values = st.sampled_from(
    [b"localhost", b"4", b"04", b" 4", b"4 ", b"0", b"keep-alive", b"close", b"a\r\n b", b"", b"x: 4"]
)
lines = st.lists(st.tuples(names, st.sampled_from([b": ", b":", b":\t"]), values), max_size=4)


@given(lines, st.sampled_from([b"GET", b"POST", b"HEAD"]), st.sampled_from([b"", b"body", b"04\r\n\r\n"]))
def test_whatever_is_said_is_answered_alike_the_second_time(said, method, body):
    request = (
        method + b" /path HTTP/1.1\r\n" + b"".join(b"".join(line) + b"\r\n" for line in said) + b"\r\n" + body
    )

    async def answers(heads):
        """What each of two requests got, each on a connection that has spoken before."""
        got = []
        for _ in range(2):
            house = Watching()
            house.heads = heads or KnownHeads()
            connection, wire = house.connect()
            connection.data_received(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await settle()
            connection.data_received(request)
            await settle()
            for scope in house.scopes:
                scope.pop(HEADERS_BY_NAME, None)
            got.append((wire.got, wire.over, house.heard, house.scopes))
        return got

    assert run_simulated(lambda: answers(KnownHeads())) == run_simulated(lambda: answers(None))
