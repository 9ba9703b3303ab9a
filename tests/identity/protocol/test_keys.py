import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.keys import BASE58, SigningKey, VacantId, decode_base58, encode_base58, verify
from comity.testing.vectors import format_runner, known_keys
from comity.wire.errors import InvalidError, MalformedError

# RFC 8032, 7.1: seed, public key, message, signature
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
            "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
    (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        (
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
        (
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
            "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"
        ),
    ),
]

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, PRIME) % PRIME
KEY = SigningKey.from_seed(bytes(range(32)))
MESSAGE = b"the quick brown fox"
SIGNATURE = KEY.sign(MESSAGE)


def added(one, other):
    """Edwards addition, written out, so that the list of small points does not rest on the code's own."""
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, PRIME)
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, PRIME)
    return x % PRIME, y % PRIME


def root(square):
    candidate = pow(square, (PRIME + 3) // 8, PRIME)
    for factor in (1, pow(2, (PRIME - 1) // 4, PRIME)):
        if (candidate * factor) ** 2 % PRIME == square % PRIME:
            return candidate * factor % PRIME
    return None


def point(y):
    x = root((y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME)
    return None if x is None else (x, y)


def times(count, one):
    total = (0, 1)
    for bit in f"{count:b}":
        total = added(total, total)
        if bit == "1":
            total = added(total, one)
    return total


def small_points():
    """All multiples of a point of order eight: the whole torsion subgroup."""
    y = 2
    while True:
        candidate = point(y)
        if candidate is not None:
            torsion = times(ORDER, candidate)
            if times(4, torsion) != (0, 1):
                return [times(count, torsion) for count in range(8)]
        y += 1


def encodings(y):
    """Every 32 bytes that read as this y: reduced or not, with either sign."""
    values = [value for value in (y, y + PRIME) if value < 2**255]
    return [(value | sign << 255).to_bytes(32, "little") for value in values for sign in (0, 1)]


SMALL = small_points()
SMALL_ENCODINGS = sorted({data for _, y in SMALL for data in encodings(y)})
NOT_REDUCED = [
    (value | sign << 255).to_bytes(32, "little") for value in range(PRIME, 2**255) for sign in (0, 1)
]


class TestSigning:
    @pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032)
    def test_the_standards_answers_are_ours(self, seed, public, message, signature):
        key = SigningKey.from_seed(bytes.fromhex(seed))
        assert key.vacant_id.hex() == public
        assert key.sign(bytes.fromhex(message)).hex() == signature
        assert verify(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature))

    @given(st.binary(min_size=32, max_size=32), st.binary(max_size=200))
    def test_what_is_signed_verifies(self, seed, message):
        key = SigningKey.from_seed(seed)
        signature = key.sign(message)
        assert len(signature) == 64
        assert verify(key.vacant_id.public, message, signature)
        assert not verify(key.vacant_id.public, message + b"\0", signature)

    def test_the_seed_is_given_only_when_asked_for(self):
        seed = bytes(range(32))
        assert KEY.seed == seed
        shown = f"{KEY} {KEY!r} {KEY.vacant_id!r}"
        assert seed.hex() not in shown
        assert repr(seed) not in shown
        assert "vacant:03a107bff3ce" in repr(KEY)

    def test_a_key_is_not_copied_by_accident(self):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(KEY)
        with pytest.raises(TypeError, match="not pickled"):
            copy.copy(KEY)

    @pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), bytes(64), "0" * 32, None, bytearray(32)])
    def test_a_seed_is_exactly_32_bytes(self, seed):
        with pytest.raises(InvalidError, match="exactly 32 bytes"):
            SigningKey.from_seed(seed)


class TestVerifying:
    @pytest.mark.parametrize("bit", range(512))
    def test_no_bit_of_a_signature_may_change(self, bit):
        changed = bytearray(SIGNATURE)
        changed[bit // 8] ^= 1 << bit % 8
        assert not verify(KEY.vacant_id.public, MESSAGE, bytes(changed))

    @given(st.integers(0, 255))
    def test_no_bit_of_the_key_may_change(self, bit):
        changed = bytearray(KEY.vacant_id.public)
        changed[bit // 8] ^= 1 << bit % 8
        assert not verify(bytes(changed), MESSAGE, SIGNATURE)

    @pytest.mark.parametrize("multiple", [1, 2, 8, 14])
    def test_a_scalar_that_is_not_reduced_is_refused(self, multiple):
        scalar = int.from_bytes(SIGNATURE[32:], "little") + multiple * ORDER
        malleated = SIGNATURE[:32] + scalar.to_bytes(32, "little")
        assert not verify(KEY.vacant_id.public, MESSAGE, malleated)

    def test_the_small_points_are_eight_and_have_fourteen_encodings(self):
        assert len(set(SMALL)) == 8
        assert all(times(8, one) == (0, 1) for one in SMALL)
        assert len(SMALL_ENCODINGS) == 14

    @pytest.mark.parametrize("public", SMALL_ENCODINGS, ids=bytes.hex)
    def test_a_key_of_small_order_proves_nothing(self, public):
        # with S = 0 and R a small point, the bare equation holds for one message in eight, or for all
        for r in SMALL_ENCODINGS:
            for number in range(8):
                assert not verify(public, bytes([number]), r + bytes(32))

    @pytest.mark.parametrize("public", NOT_REDUCED, ids=bytes.hex)
    def test_a_key_that_is_not_in_canonical_form_proves_nothing(self, public):
        assert not verify(public, MESSAGE, SIGNATURE)
        assert not verify(public, MESSAGE, public + bytes(32))

    @pytest.mark.parametrize("public", [*SMALL_ENCODINGS, *NOT_REDUCED], ids=bytes.hex)
    def test_refusing_such_keys_does_not_rest_on_the_library(self, public, monkeypatch):
        import nacl.bindings

        monkeypatch.setattr(nacl.bindings, "crypto_sign_open", lambda signed, _public: signed[64:])
        assert verify(KEY.vacant_id.public, MESSAGE, SIGNATURE)
        assert not verify(public, MESSAGE, SIGNATURE)

    @pytest.mark.parametrize("length", [0, 1, 31, 33, 64])
    def test_a_key_of_another_length_is_refused(self, length):
        assert not verify((KEY.vacant_id.public * 2)[:length], MESSAGE, SIGNATURE)

    @pytest.mark.parametrize("length", [0, 1, 32, 63, 65, 128])
    def test_a_signature_of_another_length_is_refused(self, length):
        assert not verify(KEY.vacant_id.public, MESSAGE, (SIGNATURE * 2)[:length])

    def test_a_signature_does_not_borrow_from_the_message(self):
        assert not verify(KEY.vacant_id.public, SIGNATURE[63:] + MESSAGE, SIGNATURE[:63])

    @given(st.data())
    def test_anything_at_all_gets_an_answer(self, data):
        anything = st.one_of(
            st.none(), st.text(), st.integers(), st.binary(), st.binary(min_size=32, max_size=64), st.floats()
        )
        arguments = [data.draw(anything) for _ in range(3)]
        assert verify(*arguments) is False

    @given(st.binary(min_size=32, max_size=32), st.binary(max_size=50), st.binary(min_size=64, max_size=64))
    def test_garbage_of_the_right_length_is_refused(self, public, message, signature):
        assert verify(public, message, signature) is False


class TestAnId:
    text = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"

    def test_is_written_in_four_ways(self):
        vacant_id = VacantId.from_hex(self.text)
        assert vacant_id.hex() == self.text
        assert vacant_id.short() == "03a107bff3ce"
        assert str(vacant_id) == "vacant:03a107bff3ce"
        assert vacant_id.did_key() == "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"

    def test_a_published_did_key_is_read_and_written_the_same(self):
        # the first Ed25519 example of the did:key method
        did = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
        vacant_id = VacantId.from_did_key(did)
        assert vacant_id.hex() == "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"
        assert vacant_id.did_key() == did

    @given(st.binary(min_size=32, max_size=32))
    def test_every_form_but_the_short_one_leads_back(self, public):
        vacant_id = VacantId(public)
        assert VacantId.from_hex(vacant_id.hex()) == vacant_id
        assert VacantId.from_hex(vacant_id.hex().upper()) == vacant_id
        assert VacantId.from_did_key(vacant_id.did_key()) == vacant_id
        assert eval(repr(vacant_id)) == vacant_id

    def test_is_the_same_when_its_bytes_are(self):
        one, same, other = VacantId(bytes(32)), VacantId(bytes(32)), VacantId(bytes(31) + b"\1")
        assert one == same
        assert hash(one) == hash(same)
        assert len({one, same, other}) == 2
        assert one != bytes(32)

    def test_may_name_a_key_that_will_never_prove_anything(self):
        for public in SMALL_ENCODINGS:
            assert VacantId(public).public == public

    @pytest.mark.parametrize("public", [b"", bytes(31), bytes(33), "0" * 32, None, bytearray(32)])
    def test_is_exactly_32_bytes(self, public):
        with pytest.raises(InvalidError, match="exactly 32 bytes"):
            VacantId(public)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            text[:-1],
            text + "0",
            text[:-2] + "  ",
            text[:-1] + "g",
            " " + text,
            text[:-1] + "\uff11",
            "x" * 64,
        ],
    )
    def test_is_written_as_64_hexadecimal_digits(self, text):
        with pytest.raises(MalformedError, match="64 hexadecimal digits"):
            VacantId.from_hex(text)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "did:key:",
            "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooW",
            "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWpp",
            "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooW0",
            "did:key:Z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
            "did:web:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
            "did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc",  # X25519
            "did:key:z" + "z" * 47,
            "did:key:z" + "1" * 47,
            "did:key:z" + "2" * 1_000_000,
        ],
    )
    def test_is_not_read_from_another_did(self, text):
        with pytest.raises(MalformedError, match="z6Mk"):
            VacantId.from_did_key(text)


def sections(content):
    """The file is shared: keys one by one, the rest by section for the tests that know them."""
    for key in content["keys"]:
        yield f"keys-{key['name']}", key
    yield from ((name, None) for name in content if name not in ("about", "keys"))


@format_runner("envelope", "vectors", cases=sections, takes=lambda case: case is not None)
def test_vector_envelope_key_has_the_recorded_id(case):
    known_keys(case, "name", "seed_hex", "public_hex", "short", "str")
    vacant_id = SigningKey.from_seed(bytes.fromhex(case["seed_hex"])).vacant_id
    assert vacant_id.hex() == case["public_hex"]
    assert vacant_id.short() == case["short"]
    assert str(vacant_id) == case["str"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"\0", "1"),
        (b"\0\0\x01", "112"),
        (b"Hello World!", "2NEpo7TZRRrLZSi2U"),
        (bytes.fromhex("0000287fb4cd"), "11233QC4"),
        (b"\xff", "5Q"),
    ],
)
def test_known_answers_hold_both_ways(data, text):
    assert encode_base58(data) == text
    assert decode_base58(text) == data


@given(st.binary(max_size=80))
def test_whatever_is_encoded_comes_back(data):
    assert decode_base58(encode_base58(data)) == data


@given(st.text(BASE58, max_size=80))
def test_every_text_stands_for_one_value_only(text):
    assert encode_base58(decode_base58(text)) == text


@pytest.mark.parametrize("text", ["0", "O", "I", "l", "2NEpo7TZRRrLZSi2U ", "é", "1\n"])
def test_a_foreign_character_is_refused(text):
    with pytest.raises(MalformedError, match="alphabet"):
        decode_base58(text)
