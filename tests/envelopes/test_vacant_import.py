import json
import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.envelopes.protocol.card import RuntimeState
from comity.envelopes.protocol.chain import ReplayState
from comity.envelopes.vacant_import import CallChains, read_vacant_folder
from comity.wire.errors import KeyRefusedError
from tests.identity.vacant_folders import CHAINS, KEY, META, PLAINTEXT, TARGET, logbook_lines, write_folder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "alice"


def test_a_whole_folder_is_read(folder):
    write_folder(folder)
    (folder / "attestations_issued.jsonl").write_text("{}\n")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    read = read_vacant_folder(folder)
    assert (read.name, read.key.seed, read.kept_in_keyring) == ("alice", KEY.seed, False)
    assert (read.capability, read.endpoint, read.state) == (
        "translates",
        META["endpoint"],
        RuntimeState.ACTIVE,
    )
    assert read.parent is None
    assert read.chains == {TARGET: CallChains(ReplayState(7, b"\xaa" * 32), ReplayState(6, b"\xbb" * 32))}
    assert (read.logbook_entries, read.logbook_fault) == (2, None)
    assert read.left == ("attestations_issued.jsonl",)
    assert read.faults == ()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_only_the_key_is_needed(folder):
    read = read_vacant_folder(write_folder(folder, meta=None, chains=None, logbook=None))
    assert read.key.vacant_id == KEY.vacant_id
    assert (read.capability, read.state, read.chains) == (None, None, {})
    assert (read.logbook_entries, read.logbook_fault, read.faults) == (0, None, ())


def test_an_older_key_file_does_not_say_where_the_key_is(folder):
    assert read_vacant_folder(write_folder(folder, key={"seed_hex": KEY.seed.hex()})).key.seed == KEY.seed


def test_an_upper_case_id_is_the_same_id(folder):
    write_folder(folder, key={**PLAINTEXT, "pubkey_hex": KEY.vacant_id.hex().upper()})
    assert read_vacant_folder(folder).key.seed == KEY.seed


def test_the_seed_may_be_in_the_keyring_under_the_name_of_the_folder(folder, monkeypatch):
    class Backend:
        priority = 5

        def get_password(self, service, username):
            return {("vacant.cli", "alice"): KEY.seed.hex()}.get((service, username))

    library = ModuleType("keyring")
    library.get_keyring = Backend
    monkeypatch.setitem(sys.modules, "keyring", library)
    kept = {"key_storage": "keyring", "pubkey_hex": KEY.vacant_id.hex()}
    read = read_vacant_folder(write_folder(folder, key=kept))
    assert (read.key.seed, read.kept_in_keyring) == (KEY.seed, True)
    with pytest.raises(KeyRefusedError, match=r"holds nothing for vacant\.cli/bob"):
        read_vacant_folder(write_folder(folder.with_name("bob"), key=kept))
    Backend.get_password = None
    with pytest.raises(KeyRefusedError, match="unlock it"):
        read_vacant_folder(folder)
    Backend.priority = 0
    with pytest.raises(KeyRefusedError, match="no keyring is running here"):
        read_vacant_folder(folder)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (b"", "is not the key file of a vacant"),
        (b"[]", "is not the key file of a vacant"),
        (b'{"seed_hex": 5}', "is not the key file of a vacant"),
        ({}, "holds no seed of 64 hexadecimal digits"),
        ({"seed_hex": "00" * 31}, "holds no seed"),
        ({"seed_hex": "zz" * 32}, "holds no seed"),
        ({**PLAINTEXT, "key_storage": "tpm"}, "keeps its key in 'tpm'"),
        ({**PLAINTEXT, "pubkey_hex": "00" * 32}, "names another identity than its key has"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused(folder, key, words):
    with pytest.raises(KeyRefusedError, match=words):
        read_vacant_folder(write_folder(folder, key=key))


def test_a_meta_file_of_somebody_else_is_refused(folder):
    with pytest.raises(KeyRefusedError, match=r"meta\.json names another identity"):
        read_vacant_folder(write_folder(folder, meta={**META, "vacant_id_hex": "00" * 32}))


def test_a_key_that_others_can_read_is_refused(folder):
    write_folder(folder)
    (folder / "key.json").chmod(0o644)
    with pytest.raises(KeyRefusedError, match="chmod 600"):
        read_vacant_folder(folder)


def test_a_folder_that_holds_no_key_says_what_to_name(folder):
    with pytest.raises(KeyRefusedError, match="is not a folder"):
        read_vacant_folder(folder)
    write_folder(folder)
    with pytest.raises(KeyRefusedError, match="holds several identities; name one of them: alice"):
        read_vacant_folder(folder.parent)
    (folder / "key.json").unlink()
    with pytest.raises(KeyRefusedError, match=r"holds no key\.json"):
        read_vacant_folder(folder)


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ({"meta": b"{"}, "meta.json cannot be read"),
        ({"meta": b'{"state": 5}'}, "meta.json cannot be read"),
        ({"meta": {**META, "state": "ASLEEP"}}, "a state that nobody knows: 'ASLEEP'"),
        ({"meta": {**META, "parent_id_hex": "x"}}, "a parent_id_hex that is no id"),
        ({"chains": b"{"}, "envelope_state.json cannot be read"),
        ({"chains": []}, "it is not a JSON object"),
        ({"chains": {"short": CHAINS[TARGET.hex()]}}, "a chain that cannot be used ('short')"),
        ({"chains": {TARGET.hex(): 5}}, "a chain that cannot be used"),
        ({"chains": {TARGET.hex(): {"request": {"last_seq": -1}}}}, "a number up to"),
        ({"chains": {TARGET.hex(): {"request": {"last_seq": 2**63}}}}, "a number up to"),
        ({"chains": {TARGET.hex(): {"request": {"last_hash_hex": "aa"}}}}, "a hash of 32 bytes"),
        ({"chains": {TARGET.hex(): {"request": {"last_hash_hex": "zz"}}}}, "a chain that cannot be used"),
        ({"chains": {TARGET.hex(): {"request": {"last_seq": 3}}}}, "number and hash contradict each other"),
    ],
)
def test_what_cannot_be_read_beside_the_key_is_told_and_not_taken(folder, part, fault):
    read = read_vacant_folder(write_folder(folder, **part))
    assert read.key.seed == KEY.seed
    (shown,) = read.faults
    assert fault in shown


def test_one_bad_chain_does_not_spoil_the_others(folder):
    read = read_vacant_folder(
        write_folder(folder, chains={**CHAINS, "00" * 32: {"request": {"last_seq": 3}}})
    )
    assert list(read.chains) == [TARGET]
    assert len(read.faults) == 1


def test_a_broken_logbook_is_reported(folder):
    first, second, third = logbook_lines(3)
    for lines, fault in (
        ([second], "log entry 1 does not follow"),
        ([first, third], "log entry 2 does not follow"),
        ([first, second.replace("HEARTBEAT", "GENESIS")], "log entry 2 is not signed by"),
        ([first, "{"], "invalid line of the logbook"),
    ):
        read = read_vacant_folder(write_folder(folder, logbook=lines))
        assert read.logbook_entries == len(lines)
        assert fault in read.logbook_fault
    (folder / "logbook.jsonl").unlink()
    (folder / "logbook.jsonl").mkdir()
    assert read_vacant_folder(folder).logbook_fault == "logbook.jsonl is not a file"


@given(meta=st.binary(max_size=60), chains=st.binary(max_size=60), lines=st.binary(max_size=60))
def test_no_bytes_beside_the_key_are_more_than_a_fault(tmp_path_factory, meta, chains, lines):
    folder = tmp_path_factory.mktemp("any") / "alice"
    write_folder(folder, meta=meta, chains=chains, logbook=None)
    (folder / "logbook.jsonl").write_bytes(lines)
    read = read_vacant_folder(folder)
    assert read.key.seed == KEY.seed


@given(
    st.dictionaries(
        st.binary(min_size=32, max_size=32).map(bytes.hex),
        st.tuples(st.integers(1, 2**63 - 1), st.binary(min_size=32, max_size=32).filter(any)),
        max_size=4,
    )
)
def test_every_chain_that_was_written_is_read(tmp_path_factory, held):
    chains = {
        target: {"request": {"last_seq": seq, "last_hash_hex": tip.hex()}, "response": {}}
        for target, (seq, tip) in held.items()
    }
    folder = write_folder(tmp_path_factory.mktemp("any") / "alice", chains=json.dumps(chains).encode())
    read = read_vacant_folder(folder)
    assert read.faults == ()
    assert {target.hex(): each.requests for target, each in read.chains.items()} == {
        target: ReplayState(*state) for target, state in held.items()
    }
