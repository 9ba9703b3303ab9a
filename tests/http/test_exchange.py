"""One request and its answer: what an application reads and says, and what is left of it."""

import asyncio
import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.http.asgi import WHOLE, answer_at_once, read_body
from comity.http.heads import MAX_SIZE_LINE_LENGTH, Chunks, HeadRefused
from tests.http.wires import GET, POST, NodeRuntime
from tests.requests.pipelines import settle, simulated

BODY = POST + b"content-length: 4\r\n\r\nbody"


class Application(NodeRuntime):
    """Does with a request what the test says."""

    def __init__(self, work):
        super().__init__()
        self.state.app = work


async def whole(scope, receive, send):
    await answer_at_once(scope, send, await read_body(scope, receive, 1000) or b"nothing")


@simulated
@pytest.mark.parametrize("cut", [len(BODY), len(BODY) - 2, len(BODY) - 4])
async def test_a_body_is_read_however_it_comes(cut):
    connection, wire = Application(whole).connect()
    connection.data_received(BODY[:cut])
    await settle()
    connection.data_received(BODY[cut:])
    await settle()
    assert wire.answers == [(200, b"body")]


@simulated
async def test_what_is_left_of_a_body_is_read_once():
    read = []

    async def twice(scope, receive, send):
        read.extend(scope["extensions"][WHOLE].read_whole(limit) for limit in (3, 4, 4))
        await answer_at_once(scope, send, b"{}")

    connection, _ = Application(twice).connect()
    connection.data_received(BODY)
    await settle()
    assert read == [None, b"body", None]


@simulated
async def test_the_body_of_a_peer_that_is_gone_is_not_worked_on():
    worked = []

    async def work(scope, receive, send):
        worked.append(await read_body(scope, receive, 1000))

    connection, wire = Application(work).connect()
    connection.data_received(BODY)
    wire.abort()
    connection.connection_lost(None)
    await settle()
    assert worked == []


@simulated
async def test_the_leave_to_go_on_comes_before_the_answer():
    connection, wire = Application(whole).connect()
    connection.data_received(BODY.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n"))
    await settle()
    assert wire.got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@simulated
async def test_a_peer_of_http_1_0_gets_no_leave_to_go_on():
    connection, wire = Application(whole).connect()
    old = BODY.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n")
    connection.data_received(old)
    await settle()
    assert wire.got.startswith(b"HTTP/1.1 200 OK\r\n")


@simulated
async def test_a_look_at_the_head_gets_no_body():
    connection, wire = Application(whole).connect()
    connection.data_received(GET.replace(b"GET", b"HEAD"))
    await settle()
    assert wire.got.endswith(b"\r\n\r\n")
    assert b"content-length: 7" in wire.got


@simulated
async def test_who_is_answering_hears_of_a_peer_that_went_away_also_when_others_wait():
    heard = []

    async def listen(scope, receive, send):
        while (message := await receive())["type"] != "http.disconnect":
            pass
        heard.append((scope["path"], message["type"]))

    runtime = Application(listen)
    connection, wire = runtime.connect()
    connection.data_received(GET + GET.replace(b"hello", b"second"))
    await settle()
    wire.abort()
    await settle()
    assert heard == [("/hello", "http.disconnect")]
    assert not runtime.state.tasks


@simulated
@pytest.mark.parametrize("started", [False, True])
async def test_a_fault_of_the_application_is_for_the_log_and_ends_the_connection(started, caplog):
    async def fail(_scope, _receive, send):
        if started:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError("a fault")

    runtime = Application(fail)
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await settle()
    assert "a fault" in caplog.text
    assert wire.over
    assert wire.got.startswith(b"HTTP/1.1 200" if started else b"HTTP/1.1 500")
    assert not runtime.state.tasks


@simulated
@pytest.mark.parametrize("sent", [b"", GET, GET + GET, BODY, b"garbage\r\n\r\n", GET[:9]])
async def test_a_connection_that_is_over_is_not_left_to_the_garbage(sent):
    runtime = Application(whole)
    gc.collect()
    gc.disable()
    try:
        connection, wire = runtime.connect()
        connection.data_received(sent)
        await settle()
        wire.abort()
        await asyncio.sleep(30)
        gone = weakref.ref(connection)
        wire.connection = None
        del connection
        assert gone() is None
    finally:
        gc.enable()


# A body in chunks, in whatever pieces it comes.


MAX_BYTES = 1000
MOST_TRAILERS = 5


def read(data, step=1_000_000):
    """The body, and what follows it; None while it goes on."""
    chunks = Chunks(MAX_BYTES, MOST_TRAILERS)
    body, at = b"", 0
    while at < len(data) and not chunks.ended:
        part, used = chunks.take(data[at : at + step])
        assert used > 0
        body += part
        at += used
    return body, data[at:] if chunks.ended else None


@st.composite
def bodies(draw):
    parts = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    extension = draw(st.sampled_from([b"", b";a=b", b';a="b c"', b";a"]))
    trailers = draw(st.lists(st.sampled_from([b"x: y", b"Host: evil", b"a:"]), max_size=MOST_TRAILERS))
    spelled = draw(st.sampled_from([b"%x", b"%X", b"00%x"]))
    lines = [spelled % len(part) + extension + b"\r\n" + part + b"\r\n" for part in parts]
    return b"".join(parts), b"".join(lines) + b"0\r\n" + b"".join(t + b"\r\n" for t in trailers) + b"\r\n"


@given(bodies(), st.binary(max_size=30), st.integers(1, 50))
def test_it_is_whole_in_whatever_pieces_it_comes_and_what_follows_is_left(body, after, step):
    whole, coded = body
    assert read(coded + after, step) == (whole, after)
    assert read(coded[:-1], step)[1] is None


@pytest.mark.parametrize(
    "wrong",
    [
        b"zz\r\n",
        b"\r\n",
        b" 5\r\n",
        b"5 \r\n",
        b"0x5\r\n",
        b"+5\r\n",
        b"-1\r\n",
        b"5\nhello",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"f" * 16 + b"\r\n",
        b"5;" + b"a" * MAX_SIZE_LINE_LENGTH + b"\r\n",
        b"5;" + b"a" * MAX_SIZE_LINE_LENGTH,
        b"0\r\nx: y\n\r\n",
        b"0\r\n" + b"x: y\r\n" * (MOST_TRAILERS + 1) + b"\r\n",
        b"0\r\nx: " + b"y" * MAX_BYTES,
        b"0\r\n" + (b"x: " + b"y" * 400 + b"\r\n") * 3,
    ],
)
@pytest.mark.parametrize("step", [1, 1_000_000])
def test_what_is_not_a_chunk_is_refused(wrong, step):
    with pytest.raises(HeadRefused):
        read(wrong + b"later" * 100, step)
