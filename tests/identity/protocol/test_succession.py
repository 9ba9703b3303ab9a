"""Statements that a new key takes the place of an old one, and what a reader makes of them."""

import itertools
from base64 import urlsafe_b64decode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.identity.protocol.keys import SigningKey, verify
from comity.identity.protocol.succession import (
    MAX_LINE,
    Continues,
    KnownLine,
    Succession,
    SuccessionRefusedError,
    accept_line,
    check_line,
    choose_conflicting,
    make_succession,
    read_line,
    read_recovery_hash,
    recovery_hash,
    take_line,
)
from comity.identity.protocol.written_key import GROUPS, read_key, write_key
from comity.wire.canonical import jcs
from comity.wire.errors import ComityError, MalformedError

WHEN = "2026-01-31T08:15:00.000000Z"


def key_of(name):
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


A, B, C, D, THIEF, PAPER, OTHER_PAPER = map(key_of, ("a", "b", "c", "d", "thief", "paper", "other paper"))
TRUSTED = recovery_hash(PAPER.vacant_id.public)


def line_of(*keys, by=(), reason="planned"):
    """Return a line over these keys. `by` names the signer of single steps by their place."""
    line = ()
    for place, (old, new) in enumerate(itertools.pairwise(keys)):
        signer = dict(by).get(place, old)
        line += (make_succession(line, old=old.vacant_id, new=new, signer=signer, time=WHEN, reason=reason),)
    return line


def known(root=A, recovery=TRUSTED):
    return KnownLine(root=root.vacant_id.hex(), recovery=recovery)


def as_json(line):
    return [statement.as_json() for statement in line]


def test_a_statement_is_signed_over_the_domain_and_five_members_in_rfc_8785():
    (statement,) = line_of(A, B)
    members = {
        "old": A.vacant_id.hex(),
        "new": B.vacant_id.hex(),
        "number": 1,
        "time": WHEN,
        "reason": "planned",
    }
    said = b"vacant-succession-v1\n" + jcs(members)
    assert statement.signed_bytes() == said
    assert verify(A.vacant_id.public, said, urlsafe_b64decode(statement.signature + "=="))
    assert verify(B.vacant_id.public, said, urlsafe_b64decode(statement.new_signature + "=="))


def test_a_line_survives_its_way_over_the_wire():
    line = line_of(A, B, C, by={1: PAPER}.items())
    assert read_line(msgspec.json.decode(msgspec.json.encode(as_json(line)))) == line


def changed(line, place, **members):
    spoiled = as_json(line)
    spoiled[place].update(members)
    return spoiled


LINE = line_of(A, B, C)


@pytest.mark.parametrize(
    ("spoiled", "sentence"),
    [
        (as_json((LINE[0], LINE[0], LINE[1])), "statement 2 .* replaces"),
        (as_json((LINE[1],)), "number 2; numbers count from 1"),
        (as_json((LINE[1], LINE[0])), "number 2; numbers count"),
        (changed(LINE, 1, number=1), "has the number 1"),
        (changed(LINE, 1, number=3), "has the number 3"),
        (changed(LINE, 0, number=0), "number"),
        (changed(LINE, 0, reason="stolen"), "not signed by the old key"),
        (changed(LINE, 0, signature=LINE[1].signature), "not signed by the old key"),
        (changed(LINE, 0, new_signature=LINE[1].new_signature), "not signed by the new key"),
        (changed(LINE, 0, signer=THIEF.vacant_id.hex()), "not signed by the recovery key"),
        (changed(LINE, 0, signer=B.vacant_id.hex()), "not by the new key alone"),
        (changed(LINE, 1, old=THIEF.vacant_id.hex()), "statement 2 .* replaces"),
        (changed(LINE, 0, old=A.vacant_id.hex().upper()), "lower-case"),
        (changed(LINE, 0, time="yesterday"), "time of a succession"),
        (changed(LINE, 0, reason="x" * 201), "cannot be read"),
        (changed(LINE, 0, reason="a\x1b[31m"), "control character"),
        (changed(LINE, 0, more=1), "cannot be read"),
        (changed(LINE, 0, signature="x"), "cannot be read"),
        ([{k: v for k, v in as_json(LINE)[0].items() if k != "new_signature"}], "cannot be read"),
        (as_json(LINE) * 20, "at most 32"),
        ([], "at least one"),
        ({}, "must be a list"),
        (None, "must be a list"),
        ([7], "cannot be read"),
    ],
)
def test_a_line_that_is_not_whole_and_signed_is_refused_in_one_sentence(spoiled, sentence):
    with pytest.raises(SuccessionRefusedError, match=sentence) as refusal:
        read_line(spoiled)
    assert "\n" not in refusal.value.message
    assert len(refusal.value.message) < 400


def test_a_line_in_a_circle_cannot_be_made_or_read():
    with pytest.raises(SuccessionRefusedError, match="returns to"):
        line_of(A, B, A)
    said = replace(LINE[1], new=A.vacant_id.hex())
    with pytest.raises(SuccessionRefusedError, match="returns to"):
        check_line((LINE[0], said))


def test_a_line_has_an_end():
    keys = [key_of(f"key {number}") for number in range(MAX_LINE + 2)]
    assert len(read_line(as_json(line_of(*keys[:-1])))) == MAX_LINE
    with pytest.raises(SuccessionRefusedError, match="limit; create a new identity"):
        line_of(*keys)


@given(cut=st.integers(0, 5_000), data=st.data())
def test_a_line_that_was_cut_or_changed_anywhere_is_never_believed(cut, data):
    encoded = bytearray(msgspec.json.encode(as_json(LINE)))
    place = data.draw(st.integers(0, len(encoded) - 1))
    spoiled = encoded[: min(cut, len(encoded) - 1)] if data.draw(st.booleans()) else encoded
    if spoiled is encoded:
        spoiled[place] ^= 1 << data.draw(st.integers(0, 6))
    try:
        value = msgspec.json.decode(bytes(spoiled))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    if value == as_json(LINE):
        return
    with pytest.raises(SuccessionRefusedError):
        read_line(value)


def test_a_reader_follows_a_line_once_and_keeps_it():
    first = take_line(known(), line_of(A, B))
    assert (first.state, first.current) == ("followed", B.vacant_id.hex())
    assert take_line(first, line_of(A, B)) is first
    second = take_line(first, line_of(A, B, C))
    assert (second.state, second.current) == ("followed", C.vacant_id.hex())
    assert take_line(second, line_of(A, B)) is second  # an old statement that is sent again


def test_a_reader_who_knows_only_a_later_key_follows_from_there():
    after = take_line(known(root=B), line_of(A, B, C))
    assert (after.current, len(after.steps)) == (C.vacant_id.hex(), 1)
    with pytest.raises(SuccessionRefusedError, match="does not replace"):
        take_line(known(root=D), line_of(A, B, C))


def test_without_a_known_recovery_key_a_line_waits_for_the_owner():
    waiting = take_line(known(recovery=""), line_of(A, B))
    assert (waiting.state, waiting.current) == ("waits", A.vacant_id.hex())
    longer = take_line(waiting, line_of(A, B, C))
    assert (longer.state, longer.current) == ("waits", A.vacant_id.hex())
    assert accept_line(longer).current == C.vacant_id.hex()


def test_a_line_of_a_contact_waits_for_the_owner_even_with_a_recovery_key():
    waiting = take_line(known(), line_of(A, B), ask=True)
    assert (waiting.state, waiting.current) == ("waits", A.vacant_id.hex())
    assert take_line(waiting, line_of(A, B, C)).state == "waits"


def test_the_recovery_key_outranks_a_thief_who_was_first():
    stolen = take_line(known(), line_of(A, THIEF, D))
    assert stolen.current == D.vacant_id.hex()
    back = take_line(stolen, line_of(A, B, by={0: PAPER}.items()))
    assert (back.state, back.current) == ("followed", B.vacant_id.hex())
    assert THIEF.vacant_id.hex() not in set(back.ids())
    with pytest.raises(SuccessionRefusedError, match="was replaced by its recovery key"):
        take_line(back, line_of(A, THIEF, D))
    with pytest.raises(SuccessionRefusedError, match="was replaced by its recovery key"):
        take_line(back, line_of(A, key_of("another of the thief")))


def test_the_recovery_key_ends_a_conflict_at_any_place():
    torn = take_line(take_line(known(), line_of(A, B, C)), line_of(A, THIEF))
    assert torn.state == "conflict"
    for line in (
        line_of(A, D, by={0: PAPER}.items()),
        line_of(A, B, D, by={1: PAPER}.items()),
        line_of(A, B, C, D, by={2: PAPER}.items()),
        line_of(A, THIEF, D, by={1: PAPER}.items()),  # then it was the other one who was true
    ):
        back = take_line(torn, line)
        assert (back.state, back.current) == ("followed", D.vacant_id.hex())


def test_what_the_recovery_key_says_of_both_lines_is_a_conflict():
    first = take_line(known(), line_of(A, B, C, by={1: PAPER}.items()))
    assert take_line(first, line_of(A, THIEF, D, by={1: PAPER}.items())).state == "conflict"
    assert take_line(first, line_of(A, D, by={0: PAPER}.items())).current == D.vacant_id.hex()


@pytest.mark.parametrize("trusted", ["", recovery_hash(OTHER_PAPER.vacant_id.public)])
def test_a_recovery_key_that_was_not_seen_first_is_not_believed(trusted):
    with pytest.raises(SuccessionRefusedError, match="recovery key of it was seen"):
        take_line(known(recovery=trusted), line_of(A, B, by={0: PAPER}.items()))


def test_two_statements_of_one_key_are_a_conflict_that_stops_following():
    torn = take_line(take_line(known(), line_of(A, B)), line_of(A, THIEF))
    assert (torn.state, torn.conflict.new) == ("conflict", THIEF.vacant_id.hex())
    assert take_line(torn, line_of(A, D)) is torn  # one contradiction is kept, however many come
    with pytest.raises(SuccessionRefusedError, match="in conflict"):
        take_line(torn, line_of(A, B, C))
    assert accept_line(torn).current == B.vacant_id.hex()
    assert choose_conflicting(torn).current == THIEF.vacant_id.hex()


def test_two_statements_of_the_recovery_key_are_a_conflict_as_well():
    first = take_line(known(), line_of(A, B, by={0: PAPER}.items()))
    assert take_line(first, line_of(A, C, by={0: PAPER}.items())).state == "conflict"


def test_a_reason_that_differs_makes_another_statement():
    assert take_line(take_line(known(), line_of(A, B)), line_of(A, B, reason="other")).state == "conflict"


def test_nobody_claims_the_key_of_another_without_its_signature():
    false = make_false(THIEF)
    with pytest.raises(SuccessionRefusedError, match="not signed by the old key"):
        check_line((false,))


def make_false(thief):
    true = line_of(THIEF, B)[0]
    return Succession(
        old=A.vacant_id.hex(),
        new=B.vacant_id.hex(),
        number=1,
        time=WHEN,
        reason="planned",
        signer=A.vacant_id.hex(),
        signature=true.signature,
        new_signature=true.new_signature,
    )


KEYS = [key_of(f"state {number}") for number in range(5)]
moves = st.lists(
    st.tuples(
        st.permutations(range(1, 5)), st.integers(1, 4), st.lists(st.booleans(), min_size=4, max_size=4)
    ),
    max_size=8,
)


@given(moves)
def test_no_order_of_lines_gives_an_identity_to_a_key_that_the_recovery_key_has_taken_it_from(played):
    held = KnownLine(root=KEYS[0].vacant_id.hex(), recovery=TRUSTED)
    recovered = None
    for order, length, paper in played:
        keys = [KEYS[0], *(KEYS[number] for number in order[:length])]
        line = line_of(*keys, by={n: PAPER for n in range(length) if paper[n]}.items())
        try:
            held = take_line(held, line)
        except SuccessionRefusedError:
            continue
        if recovered is None and paper[0]:
            recovered = line[0].new
        assert held.followed <= len(held.steps) <= MAX_LINE
        ids = list(held.ids())
        assert len(set(ids)) == len(ids)
        if recovered is not None:
            assert held.steps[0].new == recovered
            assert held.current != held.root


def test_a_new_chain_names_the_end_of_the_old_one_under_the_new_key():
    peer, tip = D.vacant_id.hex(), "ab" * 32
    said = Continues.signed(B, old=A.vacant_id.hex(), peer=peer, seq=7, tip=tip)
    assert said.verify(old=A.vacant_id.hex(), new=B.vacant_id.hex(), peer=peer)
    assert not said.verify(old=A.vacant_id.hex(), new=THIEF.vacant_id.hex(), peer=peer)
    assert not said.verify(old=C.vacant_id.hex(), new=B.vacant_id.hex(), peer=peer)
    assert not replace(said, seq=8).verify(old=A.vacant_id.hex(), new=B.vacant_id.hex(), peer=peer)


@pytest.mark.parametrize(
    ("policy", "found"),
    [({"recovery": TRUSTED}, TRUSTED), ({}, ""), ({"recovery": 7}, ""), ({"recovery": TRUSTED.upper()}, "")],
)
def test_a_recovery_hash_is_read_only_in_its_one_form(policy, found):
    assert read_recovery_hash(policy) == found


@given(st.binary(min_size=32, max_size=32))
def test_a_recovery_key_comes_back_from_paper(seed):
    written = write_key(seed)
    assert len(written.split()) == GROUPS
    assert read_key(written) == seed
    assert read_key(written.lower().replace(" ", "-\n").replace("0", "o").replace("1", "l")) == seed


@given(st.binary(min_size=32, max_size=32), st.integers(0, 55), st.integers(1, 31))
def test_one_wrong_character_is_always_noticed(seed, place, by):
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    letters = list(write_key(seed).replace(" ", ""))
    letters[place] = alphabet[(alphabet.index(letters[place]) + by) % 32]
    with pytest.raises(MalformedError, match="checksum") as refusal:
        read_key("".join(letters))
    assert "".join(letters)[:8] not in refusal.value.message


@pytest.mark.parametrize("text", ["", "ABCD", "!" * 56, "A" * 57, "A" * 100_000])
def test_what_is_no_recovery_key_is_refused(text):
    with pytest.raises(ComityError) as refusal:
        read_key(text)
    assert len(refusal.value.message) < 200
