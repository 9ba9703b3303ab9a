"""A stream under a passphrase: it comes back whole, or it is refused."""

import io
import random

import pytest

from comity.identity.passphrase import FRAME_BYTES, MAGIC, SealedReader, SealedWriter, SealingCost
from comity.wire.errors import InvalidError, KeyRefusedError, MalformedError

CHEAP = SealingCost(passes=1, memory=8 * 1024)
SIZES = [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 2 * FRAME_BYTES, 2 * FRAME_BYTES + 7]


def sealed(data, passphrase="open sesame"):
    out = io.BytesIO()
    writer = SealedWriter(out, passphrase, CHEAP)
    at = 0
    for size in (5, 70_000, len(data)):
        writer.write(data[at : at + size])
        at += size
    writer.finish()
    return out.getvalue()


def opened(stream, passphrase="open sesame"):
    reader = SealedReader(io.BytesIO(stream), "node.backup", passphrase)
    data = b""
    while part := reader.read(100_000):
        data += part
    reader.finish()
    return data


@pytest.mark.parametrize("size", SIZES)
def test_what_was_sealed_comes_back(size):
    data = random.Random(size).randbytes(size)
    stream = sealed(data)
    assert opened(stream) == data
    assert size < 64 or data[:64] not in stream


def test_a_wrong_passphrase_is_told_from_damage():
    with pytest.raises(KeyRefusedError, match=r"the passphrase does not open node\.backup"):
        opened(sealed(b"secret"), "open barley")
    with pytest.raises(InvalidError, match="empty passphrase"):
        sealed(b"secret", "")


@pytest.mark.parametrize("size", [10, FRAME_BYTES, 2 * FRAME_BYTES + 7])
def test_a_stream_that_was_cut_anywhere_is_refused(size):
    stream = sealed(random.Random(1).randbytes(size))
    seed = random.randrange(2**32)
    print("seed", seed)
    cuts = {0, 5, len(MAGIC), len(MAGIC) + 20, len(stream) - 1, len(stream) - 17, FRAME_BYTES}
    cuts |= {random.Random(seed + number).randrange(len(stream)) for number in range(20)}
    for cut in cuts:
        if cut < len(stream):
            with pytest.raises((MalformedError, KeyRefusedError)):
                opened(stream[:cut])


def test_a_stream_that_ends_between_two_frames_is_cut_short():
    whole = sealed(bytes(2 * FRAME_BYTES + 7))
    last = 7 + 17
    with pytest.raises(MalformedError, match=r"node\.backup is cut short"):
        opened(whole[:-last])


def test_every_changed_byte_is_noticed():
    stream = sealed(b"a short secret")
    for place in range(len(stream)):
        changed = bytearray(stream)
        changed[place] ^= 1
        with pytest.raises((MalformedError, KeyRefusedError)):
            opened(bytes(changed))


def test_nothing_can_be_added_after_the_end():
    with pytest.raises(MalformedError):
        opened(sealed(b"data") + b"more")
    with pytest.raises(MalformedError, match="goes on after its end"):
        opened(sealed(bytes(FRAME_BYTES)) + b"more")


def test_frames_cannot_be_exchanged():
    stream = sealed(bytes(FRAME_BYTES) + bytes([1]) * FRAME_BYTES + b"end")
    wide = FRAME_BYTES + 17
    start = len(stream) - (3 + 17) - 2 * wide
    swapped = stream[:start] + stream[start + wide : start + 2 * wide] + stream[start : start + wide]
    with pytest.raises(MalformedError, match="damaged"):
        opened(swapped + stream[start + 2 * wide :])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is not a backup made by Comity"),
        (b"PK\x03\x04 and so on", "is not a backup made by Comity"),
        (MAGIC, "cut short or damaged at its beginning"),
        (MAGIC + b"{}\n", "damaged at its beginning"),
        (MAGIC + b'{"version":1,"cost":{"passes":99,"memory":1},"salt":""}\n', "damaged at its beginning"),
        (
            MAGIC + b'{"version":2,"new":"things"}\n',
            "has format 2, this release knows up to 1; upgrade comity",
        ),
        (MAGIC + b"x" * 5000, "cut short or damaged at its beginning"),
    ],
)
def test_what_is_no_such_stream_is_refused_in_a_sentence(content, told):
    with pytest.raises(MalformedError, match=told):
        opened(content)


def test_whoever_wrote_it_reads_it_back_with_the_key_at_hand():
    out = io.BytesIO()
    writer = SealedWriter(out, "open sesame", CHEAP)
    writer.write(b"data")
    writer.finish()
    out.seek(0)
    assert SealedReader(out, "node.backup", key=writer.key).read(10) == b"data"
