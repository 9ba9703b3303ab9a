"""How long a frame says that it is."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.http.heads import FrameHeads


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
