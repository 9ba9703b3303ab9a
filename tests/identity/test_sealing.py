import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.identity.passphrase import SealedBox, SealingCost, seal, unseal
from comity.wire.errors import InvalidError, KeyRefusedError

CHEAP = SealingCost(passes=1, memory=8192)


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
