"""A body in chunks, in whatever pieces it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.http.heads import MAX_SIZE_LINE_LENGTH, Chunks, HeadRefused

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
