"""Two readers of one stream must agree where a request ends: what can be read in two ways is refused.

Each attack carries a second request where one of the two readers would find it. It is never served.
"""

import pytest

from tests.http.attacks.peers import BODY_LIMIT, GET, HIDDEN, PING, open_door

pytestmark = pytest.mark.usefixtures("patience")

CHUNKED = b"transfer-encoding: chunked\r\n"
LENGTH = b"content-length: %d\r\n" % len(HIDDEN)
BODY = b"2\r\n{}\r\n0\r\n\r\n"

REFUSED = {
    "content-length twice, the same": PING + LENGTH + LENGTH + b"\r\n" + HIDDEN,
    "content-length twice, different": PING + LENGTH + b"content-length: 2\r\n\r\n" + b"{}" + HIDDEN,
    "content-length as a list": PING + b"content-length: 2, 2\r\n\r\n{}" + HIDDEN,
    "content-length with a sign": PING + b"content-length: +2\r\n\r\n{}" + HIDDEN,
    "content-length below zero": PING + b"content-length: -2\r\n\r\n{}" + HIDDEN,
    "content-length in hexadecimal": PING + b"content-length: 0x2\r\n\r\n{}" + HIDDEN,
    "content-length with nothing": PING + b"content-length:\r\n\r\n" + HIDDEN,
    "content-length beyond any number": PING + b"content-length: 99999999999999999999999\r\n\r\n" + HIDDEN,
    "content-length, then chunked": PING + LENGTH + CHUNKED + b"\r\n0\r\n\r\n" + HIDDEN,
    "chunked, then content-length": PING + CHUNKED + LENGTH + b"\r\n0\r\n\r\n" + HIDDEN,
    "bare LF after every line": PING.replace(b"\r\n", b"\n") + b"content-length: 2\n\n{}" + HIDDEN,
    "bare LF after one header": PING + b"x: y\ncontent-length: 2\r\n\r\n{}" + HIDDEN,
    "bare LF at the end of the head": PING + b"content-length: 2\r\n\n{}" + HIDDEN,
    "bare CR inside a value": PING + b"x: y\rcontent-length: 2\r\n\r\n" + HIDDEN,
    "a NUL inside a value": PING + b"x: y\0z\r\ncontent-length: 2\r\n\r\n{}" + HIDDEN,
    "a folded header": PING + b"x: y\r\n content-length: 2\r\n\r\n" + HIDDEN,
    "a folded transfer coding": PING + b"transfer-encoding:\r\n chunked\r\n\r\n" + BODY + HIDDEN,
    "a space before the colon": PING + b"content-length : 2\r\n\r\n{}" + HIDDEN,
    "a space before the colon of the coding": PING + b"transfer-encoding : chunked\r\n\r\n" + BODY + HIDDEN,
    "a header without a name": PING + b": y\r\ncontent-length: 2\r\n\r\n{}" + HIDDEN,
    "a header without a colon": PING + b"content-length\r\n\r\n" + HIDDEN,
    "a space before the first header": b"POST /v1/ping HTTP/1.1\r\n host: localhost\r\n\r\n" + HIDDEN,
    "a chunk size with a sign": PING + CHUNKED + b"\r\n+2\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk size below zero": PING + CHUNKED + b"\r\n-2\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk size with 0x": PING + CHUNKED + b"\r\n0x2\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk size that is no number": PING + CHUNKED + b"\r\ntwo\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "no chunk size": PING + CHUNKED + b"\r\n\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk size that overflows to a small one": PING
    + CHUNKED
    + b"\r\n10000000000000002\r\n{}\r\n0\r\n\r\n"
    + HIDDEN,
    "a chunk size of many digits": PING + CHUNKED + b"\r\n" + b"f" * 40 + b"\r\n" + HIDDEN,
    "a chunk longer than its size": PING + CHUNKED + b"\r\n2\r\n{}{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk that ends in a bare LF": PING + CHUNKED + b"\r\n2\r\n{}\n0\r\n\r\n" + HIDDEN,
    "a chunk size that ends in a bare LF": PING + CHUNKED + b"\r\n2\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a bare LF in a chunk extension": PING + CHUNKED + b"\r\n2;x\ny\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "HTTP/0.9": b"GET /healthz\r\n\r\n" + HIDDEN,
    "HTTP/0.9 by its name": b"GET /healthz HTTP/0.9\r\nhost: localhost\r\n\r\n" + HIDDEN,
    "HTTP/2 by its name": b"GET /healthz HTTP/2.0\r\nhost: localhost\r\n\r\n" + HIDDEN,
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two spaces before the target": PING.replace(b" /", b"  /", 1) + b"content-length: 2\r\n\r\n{}" + HIDDEN,
    "two spaces before the version": PING.replace(b" H", b"  H", 1) + b"content-length: 2\r\n\r\n{}" + HIDDEN,
    "a space before the method": b" " + PING + b"content-length: 2\r\n\r\n{}" + HIDDEN,
    "a space after the version": PING.replace(b"1.1\r", b"1.1 \r", 1)
    + b"content-length: 2\r\n\r\n{}"
    + HIDDEN,
    "a tab in the request line": PING.replace(b" /", b"\t/", 1) + b"content-length: 2\r\n\r\n{}" + HIDDEN,
    "a version that is none": b"GET /healthz HTTP/1.x\r\nhost: localhost\r\n\r\n" + HIDDEN,
}


@pytest.mark.parametrize("pieces", ["at once", "byte by byte"])
@pytest.mark.parametrize("attack", REFUSED)
async def test_what_can_be_read_in_two_ways_is_refused_and_the_connection_ends(attack, pieces):
    async with open_door() as door, door.peer() as peer:
        data = REFUSED[attack]
        await peer.send_in_pieces(data, len(data) if pieces == "at once" else 1)
        answers = await peer.answers()
        assert [answer.status for answer in answers] in ([400], [413], [505])
        assert answers[0].ends_the_connection
        assert "/v1/status" not in [path for _, path, _ in door.seen]
        assert await door.still_serves()


CODINGS = [
    b"gzip, chunked",
    b"identity",
    b"xchunked",
    b"gzip",
    b"identity, chunked",
    b"deflate;q=1, chunked",
    b'"chunked"',
    b"chunked;x=y",
]


@pytest.mark.parametrize("coding", CODINGS, ids=bytes.decode)
async def test_chunked_is_the_only_transfer_coding(coding):
    async with open_door() as door, door.peer() as peer:
        await peer.send(PING + b"transfer-encoding: " + coding + b"\r\n\r\n" + BODY + HIDDEN)
        answers = await peer.answers()
        assert [answer.status for answer in answers] == [501]
        assert answers[0].ends_the_connection
        assert door.seen == []
        assert await door.still_serves()


@pytest.mark.parametrize(
    "twice",
    [
        b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: chunked, chunked\r\n",
        b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        b"transfer-encoding: chunked, identity\r\n",
        b"transfer-encoding:\r\n",
    ],
)
async def test_a_coding_that_is_named_twice_or_not_at_all_is_refused(twice):
    async with open_door() as door, door.peer() as peer:
        await peer.send(PING + twice + b"\r\n" + BODY + HIDDEN)
        answers = await peer.answers()
        assert [answer.status for answer in answers] in ([400], [501])
        assert door.seen == []
        assert await door.still_serves()


@pytest.mark.parametrize("name", [b"Transfer-Encoding: CHUNKED", b"transfer-encoding:\t chunked"])
async def test_the_one_coding_may_be_spelled_as_http_allows(name):
    async with open_door() as door, door.peer() as peer:
        await peer.send(PING + name + b"\r\n\r\n" + BODY + GET + b"connection: close\r\n\r\n")
        assert [answer.status for answer in await peer.answers()] == [200, 200]


async def test_the_old_version_knows_no_chunks():
    """RFC 9112 6.1: such a request is framed in a way its version does not have; at most it is answered."""
    async with open_door() as door, door.peer() as peer:
        await peer.send(PING.replace(b"HTTP/1.1", b"HTTP/1.0") + CHUNKED + b"\r\n" + BODY + HIDDEN)
        assert len(await peer.answers()) == 1
        assert "/v1/status" not in [path for _, path, _ in door.seen]


@pytest.mark.parametrize("extension", [b";x", b";x=y", b'; x="y z"', b";" + b"x" * 100], ids=repr)
async def test_a_small_chunk_extension_means_the_same_however_it_is_cut(extension):
    data = PING + CHUNKED + b"\r\n2" + extension + b"\r\n{}\r\n0\r\n\r\n" + GET + b"connection: close\r\n\r\n"
    result = []
    async with open_door() as door:
        for size in (1, 7, len(data)):
            async with door.peer() as peer:
                await peer.send_in_pieces(data, size)
                result.append([answer.status for answer in await peer.answers()])
    assert result in ([[200, 200]] * 3, [[400]] * 3)


ENDLESS = {
    "chunk extension": (b"\r\n2;x=", b"y"),
    "chunk extensions": (b"\r\n2", b";x=y"),
    "quoted chunk extension": (b'\r\n2;x="', b"y"),
    "zeros before a chunk size": (b"\r\n", b"0"),
    "empty values of extensions": (b"\r\n2", b";"),
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_a_chunk_line_that_does_not_end_is_refused(what):
    begin, more = ENDLESS[what]
    async with open_door(patience=20.0) as door, door.peer() as peer:
        await peer.send(PING + CHUNKED + begin)
        await peer.push(more * (65_536 // len(more)), 16 * 1024 * 1024)
        answers = await peer.answers()  # until the other side closes
        assert [answer.status for answer in answers] in ([400], [413], [431], [])
        assert await door.still_serves()


async def test_extensions_of_many_small_chunks_are_no_way_around_the_limit():
    """A byte of a body may not cost thousands of bytes of chunk lines without end."""
    async with open_door(patience=20.0) as door, door.peer() as peer:
        await peer.send(PING + CHUNKED + b"\r\n")
        await peer.push((b"1;" + b"x" * 4000 + b"\r\n{\r\n") * 16, 64 * 1024 * 1024)
        assert [answer.status for answer in await peer.answers()] in ([400], [413], [431], [])
        assert await door.still_serves()


@pytest.mark.parametrize("form", ["announced", "not announced"])
async def test_a_body_that_is_too_large_ends_the_connection_and_says_so(form):
    body = b" " * (BODY_LIMIT + 1)
    head = b"content-length: %d\r\n\r\n" % len(body) if form == "announced" else CHUNKED + b"\r\n"
    sent = body if form == "announced" else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    async with open_door() as door, door.peer() as peer:
        await peer.send(PING + head + sent + HIDDEN)
        (answer,) = await peer.answers()
        assert answer.status == 413
        assert answer.ends_the_connection
        assert "/v1/status" not in [path for _, path, _ in door.seen]
        assert await door.still_serves()


async def test_one_that_asks_before_it_sends_too_much_is_not_told_to_go_on():
    async with open_door() as door, door.peer() as peer:
        await peer.send(PING + b"expect: 100-continue\r\ncontent-length: 2000000\r\n\r\n")
        (answer,) = await peer.answers()
        assert answer.status == 413
        assert answer.ends_the_connection


WEBSOCKET = (
    b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c", b"TLS/1.0"])
@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
async def test_another_protocol_is_not_begun_where_there_is_none(protocol, version):
    async with open_door() as door, door.peer() as peer:
        request = GET.replace(b"HTTP/1.1", version) + WEBSOCKET.replace(b"websocket\r", protocol + b"\r")
        await peer.send(request + HIDDEN)
        statuses = [answer.status for answer in await peer.answers()]
        assert len(statuses) == 1
        assert statuses[0] != 101
        assert "/v1/status" not in [path for _, path, _ in door.seen]


AGREEING = [
    (b"http://localhost/healthz", b"localhost"),
    (b"http://localhost:8420/healthz", b"localhost:8420"),
    (b"HTTP://LOCALHOST/healthz", b"localhost"),
    (b"http://localhost/healthz", b"LocalHost"),
    (b"http://127.0.0.1:1/healthz", b"127.0.0.1:1"),
    (b"http://[::1]:1/healthz", b"[::1]:1"),
]
DISAGREEING = [
    (b"http://evil.example/healthz", b"localhost"),
    (b"http://localhost/healthz", b"evil.example"),
    (b"http://localhost:8421/healthz", b"localhost:8420"),
    (b"http://localhost@evil.example/healthz", b"localhost"),
    (b"http://evil.example@localhost/healthz", b"localhost"),
    (b"http://localhost.evil.example/healthz", b"localhost"),
    (b"http:///healthz", b"localhost"),
    (b"http://127.0.0.1/healthz", b"localhost"),
]


@pytest.mark.parametrize(("target", "host"), AGREEING)
async def test_a_target_with_a_host_that_agrees_is_served(target, host):
    async with open_door() as door, door.peer() as peer:
        await peer.send(b"GET " + target + b" HTTP/1.1\r\nhost: " + host + b"\r\nconnection: close\r\n\r\n")
        (answer,) = await peer.answers()
        assert answer.status == 200
        assert [path for _, path, _ in door.seen] == ["/healthz"]


@pytest.mark.parametrize(("target", "host"), DISAGREEING)
async def test_a_target_with_another_host_than_the_header_is_refused(target, host):
    async with open_door() as door, door.peer() as peer:
        await peer.send(b"GET " + target + b" HTTP/1.1\r\nhost: " + host + b"\r\nconnection: close\r\n\r\n")
        (answer,) = await peer.answers()
        assert answer.status == 400
        assert await door.still_serves()


async def test_a_target_with_a_host_does_not_stand_in_for_the_header():
    async with open_door() as door, door.peer() as peer:
        await peer.send(b"GET http://localhost/healthz HTTP/1.1\r\nconnection: close\r\n\r\n")
        (answer,) = await peer.answers()
        assert answer.status in (400, 403)
