import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.wire.frames import HEADER_LIMIT, BadHeader, FrameDecoder, Message, Oversize, Truncated, encode

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def decode(data, limit=100, chunk=None, **options):
    decoder = FrameDecoder(limit, **options)
    size = chunk or max(len(data), 1)
    events = []
    for at in range(0, len(data), size):
        events += decoder.feed(data[at : at + size])
        assert decoder.held <= max(limit + 1, HEADER_LIMIT + 1)
    return events + decoder.end()


def decoded(data, limit=100, **options):
    """The events, which have to be the same at once, in pairs of bytes and byte by byte."""
    events = decode(data, limit, **options)
    for chunk in (1, 2, 7):
        assert decode(data, limit, chunk, **options) == events
    return events


def line(body):
    return Message(body, framed=False)


def frame(body):
    return Message(body, framed=True)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_ends_with_lf_or_crlf(end):
    assert decoded(b"{}" + end + b"[]" + end) == [line(b"{}"), line(b"[]")]


def test_the_last_line_needs_no_line_end():
    assert decoded(b"{}\n[]") == [line(b"{}"), line(b"[]")]
    assert decoded(b"{}\r") == [line(b"{}")]


def test_blank_lines_are_nothing():
    assert decoded(b"\n\r\n \t\r\n{}\n\n  ") == [line(b"{}")]


def test_a_body_is_given_as_it_came():
    assert decoded(b' {"a": "\xff"}\t\n') == [line(b' {"a": "\xff"}\t')]


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 40\r\n\r\n",
        b"content-length:40\n\n",
        b"CONTENT-LENGTH :\t 0040 \t\r\n\n",
        b"Content-Length: 40\n\r\n",
        b"Content-Length: 40\r\nContent-Type: application/json\r\n\r\n",
        b"Content-Type: application/json; charset=utf-8\r\nX-A:\r\nContent-Length: 40\r\n\r\n",
        b"content-foo: bar\ncontent-length: 40\ncontent-length: 40\n\n",
        b"\r\n \n  Content-Length: 40\r\n\r\n",
    ],
)
def test_a_header_block_announces_exactly_one_body(head):
    assert decoded(head + PING + PING + b"\n") == [frame(PING), line(PING)]


def test_lines_and_frames_may_follow_each_other_in_any_order():
    data = PING + b"\n" + encode(PING, framed=True) * 2 + PING + b"\n" + encode(b"\n\n", framed=True)
    assert decoded(data) == [line(PING), frame(PING), frame(PING), line(PING), frame(b"\n\n")]


def test_a_body_may_hold_what_looks_like_framing():
    body = b"Content-Length: 3\r\n\r\nabc\n"
    assert decoded(encode(body, framed=True)) == [frame(body)]


def test_an_empty_frame_is_a_message():
    assert decoded(b"Content-Length: 0\r\n\r\n{}\n") == [frame(b""), line(b"{}")]


def test_a_line_at_the_limit_passes_and_one_byte_more_is_oversize():
    for end in (b"\n", b"\r\n", b""):
        assert decoded(b"x" * 100 + end) == [line(b"x" * 100)]
        assert decoded(b"x" * 101 + end) == [Oversize(100, framed=False)]
    assert decoded(b"x" * 100 + b"\r\r\n{}") == [Oversize(100, framed=False), line(b"{}")]
    assert decoded(b"x" * 100 + b"\rx\n{}") == [Oversize(100, framed=False), line(b"{}")]


def test_a_frame_at_the_limit_passes_and_one_byte_more_is_oversize():
    assert decoded(encode(b"x" * 100, framed=True)) == [frame(b"x" * 100)]
    assert decoded(encode(b"x" * 101, framed=True)) == [Oversize(100, framed=True)]


def test_exactly_the_oversize_line_is_skipped():
    data = b"y" * 5000 + b"\n" + PING + b"\n" + b"z" * 101 + b"\n" + encode(PING, framed=True)
    too_long = Oversize(100, framed=False)
    assert decoded(data) == [too_long, line(PING), too_long, frame(PING)]


def test_exactly_the_oversize_frame_is_skipped():
    body = (PING + b"\n") * 10
    data = encode(body, framed=True) + PING + b"\n" + encode(PING, framed=True)
    assert decoded(data) == [Oversize(100, framed=True), line(PING), frame(PING)]


def test_oversize_is_told_as_soon_as_it_is_certain_and_nothing_of_it_is_kept():
    decoder = FrameDecoder(100)
    assert decoder.feed(b"x" * 100) == []
    assert decoder.feed(b"x") == [Oversize(100, framed=False)]
    assert decoder.held == 0
    assert decoder.feed(b"x" * 1000) == []
    assert decoder.held == 0
    assert decoder.feed(b"\nContent-Length: 101\r\n\r\n") == [Oversize(100, framed=True)]
    assert decoder.feed(b"x" * 50) == []
    assert decoder.held == 0
    assert decoder.feed(b"x" * 51 + b"{}\n") == [line(b"{}")]
    assert decoder.feed(b"x" * 100 + b"\r") == []
    assert decoder.feed(b"\r") == [Oversize(100, framed=False)]


@pytest.mark.parametrize("limit", [1, 4, 8, 16, 40])
def test_the_limit_of_messages_does_not_bind_headers(limit):
    small = b"1"
    data = b"Content-Type: text/plain; x=" + b"y" * 50 + b"\r\nContent-Length: 1\r\n\r\n" + small + b"2\n"
    assert decoded(data, limit) == [frame(small), line(b"2")]
    no_header = b"content-" + b"z" * 40 + b"\n1\n"
    assert decoded(no_header, limit) == [Oversize(limit, framed=False), line(b"1")]


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"Content-Length: -5", "whole number"),
        (b"Content-Length: abc", "whole number"),
        (b"Content-Length: 4.0", "whole number"),
        (b"Content-Length: +4", "whole number"),
        (b"Content-Length: 4, 4", "whole number"),
        (b"Content-Length:", "whole number"),
        (b"Content-Length: \xd9\xa4", "whole number"),
        (b"Content-Length: " + b"9" * 5000, "whole number"),
        (b"Content-Length: 4\r\nContent-Length: 5", "given twice"),
        (b"Content-Length: 4\r\nContent-Length: x", "whole number"),
        (b"Content-Type: application/json", "missing Content-Length"),
        (b"Content-Length-Of-It: 4", "missing Content-Length"),
    ],
)
def test_a_bad_header_block_is_told_once_and_skipped(head, reason):
    for end in (b"\r\n", b"\n"):
        events = decoded(head.replace(b"\r\n", end) + end + end + PING + b"\n")
        assert [type(event) for event in events] == [BadHeader, Message]
        assert reason in events[0].reason
        assert events[1] == line(PING)


@pytest.mark.parametrize("after", [PING, b"[]", b"5", b'"a: b"', b"hello world", b"{a:b}"])
def test_a_header_block_without_its_blank_line_does_not_swallow_what_follows(after):
    events = decoded(b"Content-Length: 4\r\nX-A: b\r\n" + after + b"\n" + PING + b"\n")
    assert [type(event) for event in events] == [BadHeader, Message, Message]
    assert events[1:] == [line(after), line(PING)]


def test_a_long_message_after_a_lost_blank_line_is_read_too():
    message = b"[" + b"1," * HEADER_LIMIT + b"1]"
    events = decoded(b"Content-Length: 4\n" + message + b"\n", limit=10 * HEADER_LIMIT)
    assert events[1:] == [line(message)]


def test_a_garbage_line_that_begins_like_a_header_is_a_line():
    assert decoded(b"content- is king\n" + PING + b"\n") == [line(b"content- is king"), line(PING)]
    assert decoded(b"Content Length: 4\n\n" + PING) == [line(b"Content Length: 4"), line(PING)]


@pytest.mark.parametrize(
    "block",
    [
        b"Content-Length: 40\r\nX: " + b"y" * HEADER_LIMIT + b"\r\nZ: 1\r\n\r\n",
        b"Content-Length: 40\r\n" + b"X-Header: y\r\n" * 2000 + b"\r\n",
        b"Content-Type: " + b"y" * 3 * HEADER_LIMIT + b"\r\nContent-Length: 40\r\n\r\n",
        b"Content-Length: 40\r\nX: " + b"y" * HEADER_LIMIT + b"\r\n\r\n",
        b"Content-Type: " + b"y" * 3 * HEADER_LIMIT + b"\r\n\r\n",
        b"Content-Length: 40\r\nX: " + b"y" * (HEADER_LIMIT - 22) + b"\r\n\r\n",
    ],
)
def test_a_header_block_has_a_limit_of_its_own(block):
    for after in (PING, b"X: 1"):
        events = decoded(block + after + b"\n", limit=10 * HEADER_LIMIT)
        assert [type(event) for event in events] == [BadHeader, Message]
        assert f"{HEADER_LIMIT} bytes" in events[0].reason
        assert events[1] == line(after)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_header_block_may_be_as_long_as_its_limit(end):
    head = b"Content-Length: 40\n"
    rest = b"X: " + b"y" * (HEADER_LIMIT - len(head) - 4)
    assert decoded(head + rest + b"\n" + end + PING) == [frame(PING)]


def test_a_frame_that_is_not_whole_at_the_end_is_told():
    assert decoded(b"Content-Length: 40\r\n\r\n{") == [Truncated("the stream ended after 1 of 40 bytes")]
    assert decoded(b"Content-Length: 40\r\nX") == [Truncated("the stream ended inside a header block")]
    assert decoded(b"Content-Length: 40") == [Truncated("the stream ended inside a header block")]
    for rest in (b"", b"\r\n", b"\r\nZ: 1"):
        bad = decoded(b"Content-Length: 40\r\nX: " + b"y" * 2 * HEADER_LIMIT + rest)
        assert [type(event) for event in bad] == [BadHeader]
    assert decoded(b"Content-Length: 101\r\n\r\n{") == [Oversize(100, framed=True)]
    assert decoded(b"") == []


def test_output_is_framed_for_ever_once_a_whole_frame_has_come():
    decoder = FrameDecoder(100)
    decoder.feed(PING + b"\nContent-Length: -5\r\n\r\nContent-Type: x\r\n\r\nContent-Length: 2\r\n\r\n{")
    assert not decoder.framed
    decoder.feed(b"}")
    assert decoder.framed
    decoder.feed(PING + b"\n")
    assert decoder.framed


@pytest.mark.parametrize("head", [b"Content-Length: 0\r\n\r\n", b"Content-Length: 101\r\n\r\n"])
def test_an_empty_or_oversize_frame_counts_as_a_frame(head):
    decoder = FrameDecoder(100)
    decoder.feed(head)
    assert decoder.framed


def test_a_frame_has_exactly_this_header():
    assert encode("é".encode(), framed=True) == b"Content-Length: 2\r\n\r\n\xc3\xa9"
    assert encode(b"{}", framed=False) == b"{}\n"


def test_plain_lines_end_with_lf_crlf_or_cr_and_may_be_blank():
    data = b"a\nb\r\nc\rd\r\r\n\n e \r\n\nContent-Length: 1\r\n\r\nf"
    lines = [b"a", b"b", b"c", b"d", b"", b"", b" e ", b"", b"Content-Length: 1", b"", b"f"]
    assert decoded(data, lines_only=True) == [line(body) for body in lines]


def test_plain_lines_have_the_same_limit():
    data = b"x" * 100 + b"\r" + b"x" * 101 + b"\r" + b" " * 101 + b"\n" + b"content-" + b"y" * 93 + b"\r\nz"
    too_long = Oversize(100, framed=False)
    expected = [line(b"x" * 100), too_long, too_long, too_long, line(b"z")]
    assert decoded(data, lines_only=True) == expected


bodies = st.binary(max_size=30).filter(lambda body: b"\n" not in body and not body.endswith(b"\r"))
lines = bodies.filter(lambda body: body.strip() and body.lstrip(b" \t")[:1].lower() != b"c")


@st.composite
def streams(draw):
    """A stream of lines, frames and faults, and the events it has to give under a limit of 20."""
    parts = draw(st.lists(st.sampled_from(["line", "frame", "blank", "bad"]), max_size=8))
    data, events = b"", []
    for part in parts:
        end = draw(st.sampled_from([b"\n", b"\r\n"]))
        if part == "line":
            body = draw(lines)
            data += body + end
            events.append(line(body) if len(body) <= 20 else Oversize(20, framed=False))
        elif part == "frame":
            body = draw(st.binary(max_size=30))
            name = draw(st.sampled_from([b"Content-Length", b"content-length"]))
            data += name + b": %d" % len(body) + end + end + body
            events.append(frame(body) if len(body) <= 20 else Oversize(20, framed=True))
        elif part == "bad":
            data += b"Content-Length: x" + end + end
            events.append(BadHeader)
        else:
            data += end
    return data, events


@given(streams(), st.data())
def test_whatever_the_chunks_the_events_are_those_of_the_stream(stream, choices):
    data, expected = stream
    cuts = sorted(choices.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    decoder = FrameDecoder(20)
    events = []
    for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        events += decoder.feed(data[start:stop])
    events += decoder.end()
    assert [BadHeader if isinstance(event, BadHeader) else event for event in events] == expected
    assert decoder.framed == any(getattr(event, "framed", False) for event in events)


@given(st.lists(st.tuples(lines, st.booleans())))
def test_what_is_encoded_is_decoded(messages):
    data = b"".join(encode(body, framed) for body, framed in messages)
    assert decoded(data) == [Message(body, framed) for body, framed in messages]


@given(
    st.lists(
        st.sampled_from(
            [b"\r", b"\n", b"\r\n", b" ", b"Content-Length", b"content-", b":", b"3", b"-", b"{", b"x" * 9]
        )
        | st.binary(max_size=3)
    ),
    st.booleans(),
    st.integers(1, 24),
)
def test_garbage_gives_the_same_events_in_any_chunks(pieces, lines_only, limit):
    decoded(b"".join(pieces), limit, lines_only=lines_only)


@pytest.mark.parametrize(
    "piece",
    [b"x", b"x\n", b" \n", b"\r", b"Content-Length: 1\r\n\r\nx", b"Content-X: " + b" " * 50, b"content-a:\n"],
)
def test_decoding_is_linear_in_the_length_of_the_stream(piece, cpu_seconds):
    data = piece * (600_000 // len(piece))
    for chunk in (len(data), 4096, 16):
        with cpu_seconds(2):
            decode(data, 1 << 20, chunk)


def test_one_long_line_byte_by_byte_is_linear(cpu_seconds):
    data = b"x" * 500_000 + b"\n"
    with cpu_seconds(4):
        assert decode(data, 1 << 20, 1) == [line(data[:-1])]
