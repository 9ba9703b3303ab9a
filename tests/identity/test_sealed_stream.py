"""A stream under a passphrase: it comes back whole, or it is refused."""

import io
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.identity.passphrase import (
    FRAME_BYTES,
    MAGIC,
    SealedBox,
    SealedReader,
    SealedWriter,
    SealingCost,
    seal,
    unseal,
)
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
    ("content", "shown"),
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
def test_what_is_no_such_stream_is_refused_in_a_sentence(content, shown):
    with pytest.raises(MalformedError, match=shown):
        opened(content)


def test_whoever_wrote_it_reads_it_back_with_the_key_at_hand():
    out = io.BytesIO()
    writer = SealedWriter(out, "open sesame", CHEAP)
    writer.write(b"data")
    writer.finish()
    out.seek(0)
    assert SealedReader(out, "node.backup", key=writer.key).read(10) == b"data"


@settings(max_examples=40)
@given(st.binary(max_size=100), st.text(min_size=1, max_size=30))
def test_what_is_sealed_opens_with_its_passphrase(secret, passphrase):
    assert unseal(seal(secret, passphrase, CHEAP), passphrase) == secret


@pytest.mark.parametrize("passphrase", ["", "open", "Open sesame", "open sesame ", "open\0sesame"])
def test_another_passphrase_does_not_open_it(passphrase):
    with pytest.raises(KeyRefusedError, match="passphrase does not open it"):
        unseal(seal(b"secret", "open sesame", CHEAP), passphrase)


def test_a_passphrase_is_what_people_see():
    assert unseal(seal(b"secret", "caf\u00e9", CHEAP), "cafe\u0301") == b"secret"


def test_an_empty_passphrase_is_refused():
    with pytest.raises(InvalidError, match="protects nothing"):
        seal(b"secret", "", CHEAP)


def test_no_two_boxes_are_alike():
    one, other = (seal(b"secret", "open", CHEAP) for _ in range(2))
    assert one.salt != other.salt
    assert one.box != other.box


def test_the_secret_is_not_in_the_box():
    assert b"secret".hex() not in seal(b"secret", "open", CHEAP).box


def test_no_part_of_a_box_may_change():
    sealed = seal(b"secret", "open", CHEAP)
    for position in range(0, len(sealed.box), 2):
        byte = int(sealed.box[position : position + 2], 16) ^ 1
        box = f"{sealed.box[:position]}{byte:02x}{sealed.box[position + 2 :]}"
        with pytest.raises(KeyRefusedError):
            unseal(msgspec.structs.replace(sealed, box=box), "open")
    for cost in (SealingCost(passes=2, memory=8192), SealingCost(passes=1, memory=16384)):
        with pytest.raises(KeyRefusedError):
            unseal(msgspec.structs.replace(sealed, cost=cost), "open")


@pytest.mark.parametrize("field", ["salt", "box"])
@pytest.mark.parametrize("text", ["", "00", "zz", "0" * 31, "00" * 16, "00" * 23, "00" * 24, "00" * 39])
def test_a_box_that_is_none_is_refused(field, text):
    sealed = seal(b"secret", "open", CHEAP)
    with pytest.raises(KeyRefusedError, match="was changed"):
        unseal(msgspec.structs.replace(sealed, **{field: text}), "open")


@pytest.mark.parametrize(
    ("passes", "memory"), [(0, 8192), (17, 8192), (-1, 8192), (1, 8191), (1, 0), (1, 2**30 + 1), (1, 2**62)]
)
def test_a_cost_without_bounds_is_refused(passes, memory):
    with pytest.raises(InvalidError, match="cost must be"):
        SealingCost(passes=passes, memory=memory)


@pytest.mark.parametrize(("passes", "memory"), [(1, 8192), (16, 2**30)])
def test_the_bounds_themselves_are_allowed(passes, memory):
    assert SealingCost(passes=passes, memory=memory).passes == passes


def test_memory_that_is_not_there_is_told(monkeypatch):
    from nacl.exceptions import RuntimeError as FailedInC
    from nacl.pwhash import argon2id

    def kdf(*_arguments, **_limits):
        raise FailedInC("Unexpected failure in key derivation")

    sealed = SealedBox(cost=SealingCost(), salt="00" * 16, box="00" * 72)
    monkeypatch.setattr(argon2id, "kdf", kdf)
    with pytest.raises(KeyRefusedError, match="256 MiB"):
        unseal(sealed, "open")
