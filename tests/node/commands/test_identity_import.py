"""`comity id import`: an identity of the reference release goes on living here."""

import contextlib
import json
import sqlite3
import sys
import tomllib
from types import ModuleType

import pytest

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.queues import chain_of
from comity.identity.key_files import create_identity, load_identity, needs_passphrase
from comity.identity.passphrase import SealingCost
from tests.identity.vacant_folders import CHAINS, KEY, META, TARGET, logbook_lines, write_folder


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / ".vacant" / "alice")


def imported(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def notes(told, part):
    return {fact["what"]: fact["note"] for fact in told[part]}


def chains(comity):
    return json.loads(comity("chain", "show", "--json").out)["peers"]


def test_key_state_words_and_chains_are_taken_and_the_rest_is_told(comity, folder, data):
    (folder / "reviews_received.jsonl").write_text("{}\n")
    result = imported(comity("id", "import", folder, "--json"))
    assert (result["vacant_id"], result["name"], result["data"]) == (KEY.vacant_id.hex(), "alice", str(data))
    assert result["logbook"] == {"entries": 2, "fault": None}
    assert notes(result, "taken") == {
        "key": f"now in {data / 'identity.json'}, open to its owner only",
        "name": "alice, as agent.name in config.toml",
        "capability": "translates, as agent.capability in config.toml",
        "state": "ACTIVE",
        "chains": "with 1 target, as the caller",
    }
    assert notes(result, "left") == {
        "endpoint": f"{META['endpoint']}; --port 8443 serves it again",
        "logbook": "2 entries, all verified; it stays where it is",
        "reviews_received.jsonl": "is not read",
    }
    assert load_identity(data).seed == KEY.seed
    assert tomllib.loads((data / "config.toml").read_text("utf-8")) == {
        "agent": {"name": "alice", "capability": "translates"}
    }
    assert json.loads(comity("state", "show", "--json").out)["state"] == "ACTIVE"
    (peer,) = chains(comity)
    assert peer["vacant_id"] == TARGET.hex()
    assert peer["call"]["requests"] == {"seq": 7, "tip": "aa" * 32}
    assert peer["call"]["replies"] == {"seq": 6, "tip": "bb" * 32}
    assert "IDENTITY_IMPORTED" in comity("audit", "tail").out
    assert comity("audit", "verify").code == 0


def test_for_people_it_is_a_page_that_warns_of_two_callers(comity, folder, data):
    out = comity("id", "import", folder).out
    assert out.startswith(f"{KEY.vacant_id}, called alice, is the identity of {data}.\n\nTaken\n  key ")
    assert "\nNot taken\n  endpoint" in out
    assert "use only one of the two programs" in out
    assert KEY.seed.hex() not in out


def test_the_imported_identity_calls_on_where_it_was(comity, neighbourhood, tmp_path, data):
    there = tmp_path / "there"
    node = neighbourhood.node(there)
    first = tmp_path / "first"
    create_identity(first, key=KEY)
    for text in ("one", "two"):
        assert comity("call", node.url, text, "--data", first).code == 0
    (peer,) = json.loads(comity("chain", "show", "--json", "--data", first).out)["peers"]
    state = {
        node.vacant_id.hex(): {
            name: {"last_seq": peer["call"][ours]["seq"], "last_hash_hex": peer["call"][ours]["tip"]}
            for name, ours in (("request", "requests"), ("response", "replies"))
        }
    }
    comity("id", "import", write_folder(tmp_path / "alice", chains=state))
    result = json.loads(comity("call", node.url, "three", "--json").out)
    assert (result["request_seq"], result["response_seq"], result["caller"]) == (3, 3, KEY.vacant_id.hex())


def test_another_identity_is_never_overwritten(comity, folder, data, identity):
    before = {path: path.read_bytes() for path in data.iterdir()}
    outcome = comity("id", "import", folder)
    assert (outcome.code, outcome.out) == (1, "")
    assert "is another identity and is never overwritten" in outcome.err
    assert {path: path.read_bytes() for path in data.iterdir()} == before


def test_a_second_import_takes_what_is_new_and_never_goes_back(comity, folder, data):
    comity("id", "import", folder)
    again = imported(comity("id", "import", folder, "--json"))
    assert notes(again, "taken") == {}
    assert notes(again, "left")["key"] == f"is in {data / 'identity.json'} already"
    assert notes(again, "left")["chains"] == "with 1 of 1: known here, as far or farther"
    later = {TARGET.hex(): {**CHAINS[TARGET.hex()], "request": {"last_seq": 9, "last_hash_hex": "cc" * 32}}}
    write_folder(folder, chains=later)
    assert "chains" in notes(imported(comity("id", "import", folder, "--json")), "taken")
    write_folder(folder)
    comity("id", "import", folder)
    (peer,) = chains(comity)
    assert (peer["call"]["requests"]["seq"], peer["call"]["replies"]["seq"]) == (9, 6)


def test_a_settings_file_that_exists_is_left_alone(comity, folder, data):
    data.mkdir(mode=0o700)
    (data / "config.toml").write_text("port = 9000\n")
    left = notes(imported(comity("id", "import", folder, "--json")), "left")
    assert left["capability"] == "translates: set it as agent.capability, if you want it"
    assert (data / "config.toml").read_text() == "port = 9000\n"


def test_words_that_are_no_settings_are_not_taken(comity, tmp_path, data):
    for number, (text, fits) in enumerate(
        (
            ('Ünïcode "quoted" \\ back\nand\ttab \x7f 🙂', True),
            ("a" * 5000, False),
            ("\x1f", False),
            ("  x\n", True),
        )
    ):
        folder = write_folder(tmp_path / "alice", meta={**META, "capability_text": text})
        result = imported(comity("id", "import", folder, "--json", "--data", tmp_path / f"data {number}"))
        assert ("capability" in notes(result, "taken")) is fits
        if fits:
            config = (tmp_path / f"data {number}" / "config.toml").read_text("utf-8")
            assert tomllib.loads(config)["agent"]["capability"] == text
            assert comity("config", "show", "--data", tmp_path / f"data {number}").code == 0


def test_a_broken_logbook_and_damaged_files_are_told(comity, tmp_path):
    first, _, third = logbook_lines(3)
    folder = write_folder(tmp_path / "alice", logbook=[first, third], chains=b"{")
    result = imported(comity("id", "import", folder, "--json"))
    assert notes(result, "left")["logbook"].startswith("BROKEN: log entry 2 does not follow")
    assert notes(result, "left")["damaged"].startswith("envelope_state.json cannot be read")
    assert result["logbook"]["fault"].startswith("log entry 2")


def test_a_running_node_is_not_imported_under(comity, neighbourhood, folder, data):
    neighbourhood.node(data)
    outcome = comity("id", "import", folder)
    assert outcome.code == 1
    assert "a node is running on" in outcome.err


def test_the_key_may_be_sealed_on_the_way(comity, folder, data, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "comity.identity.key_files.SealingCost", lambda: SealingCost(passes=1, memory=8 * 1024)
    )
    secret = tmp_path / "pass.txt"
    secret.write_text("correct horse\n")
    secret.chmod(0o600)
    assert comity("id", "import", folder, "--passphrase-file", secret).code == 0
    assert needs_passphrase(data)
    assert load_identity(data, passphrase="correct horse").seed == KEY.seed


def test_a_key_from_the_keyring_stays_in_one(comity, tmp_path, data, monkeypatch):
    entries = {("vacant.cli", "alice"): KEY.seed.hex()}

    class Backend:
        priority = 5

        def get_password(self, service, username):
            return entries.get((service, username))

        def set_password(self, service, username, password):
            entries[service, username] = password

    library = ModuleType("keyring")
    library.get_keyring = Backend
    monkeypatch.setitem(sys.modules, "keyring", library)
    folder = write_folder(
        tmp_path / "alice", key={"key_storage": "keyring", "pubkey_hex": KEY.vacant_id.hex()}
    )
    result = imported(comity("id", "import", folder, "--json"))
    assert notes(result, "taken")["key"] == "now in the keyring of the operating system"
    assert KEY.seed.hex() not in (data / "identity.json").read_text()
    assert load_identity(data).seed == KEY.seed


@pytest.mark.parametrize(
    ("named", "code", "words"),
    [
        (None, 2, "missing argument 'FOLDER'"),
        ("nowhere", 1, "nowhere is not a folder; name one such as ~/.vacant/alice"),
        ("~/.vacant", 1, "holds several identities; name one of them: alice"),
    ],
)
def test_a_folder_that_is_none_is_told_and_nothing_is_made(comity, folder, data, named, code, words):
    outcome = comity("id", "import", *([] if named is None else [named]))
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert not data.exists()


@pytest.fixture
def replay(tmp_path):
    """The database that the reference's server keeps: one row for every envelope that it accepted."""
    caller, own = TARGET.hex(), KEY.vacant_id.hex()
    file = tmp_path / "replay.db"
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute(
            "CREATE TABLE replay_protect (from_vid_hex TEXT, to_vid_hex TEXT, sequence_no INT, "
            "chain_tip BLOB NOT NULL, PRIMARY KEY (from_vid_hex, to_vid_hex, sequence_no))"
        )
        rows = [(caller, own, seq, bytes([seq]) * 32) for seq in range(1, 13)]
        rows += [(own, caller, seq, bytes([100 + seq]) * 32) for seq in range(1, 12)]
        rows += [("ab" * 32, "cd" * 32, 5, bytes(32))]
        database.executemany("INSERT INTO replay_protect VALUES (?, ?, ?, ?)", rows)
    return file


def test_what_its_server_accepted_is_not_accepted_again(comity, folder, replay):
    result = imported(comity("id", "import", folder, "--replay", replay, "--json"))
    assert notes(result, "taken")["replay"] == "chains with 1 caller, as the agent"
    (peer,) = chains(comity)
    assert peer["serve"]["requests"] == {"seq": 12, "tip": "0c" * 32}
    assert peer["serve"]["replies"] == {"seq": 11, "tip": "6f" * 32}
    assert comity("audit", "verify").code == 0


def test_the_tips_alone_are_taken_for_the_identity_that_is_here_and_only_forwards(comity, data, replay):
    create_identity(data, key=KEY)
    result = imported(comity("id", "import", "--replay", replay, "--json"))
    assert notes(result, "taken") == {"replay": "chains with 1 caller, as the agent"}
    assert "REPLAY_IMPORTED" in comity("audit", "tail").out
    with contextlib.closing(sqlite3.connect(replay)) as database, database:
        database.execute("DELETE FROM replay_protect WHERE sequence_no > 3")
    again = imported(comity("id", "import", "--replay", replay, "--json"))
    assert notes(again, "left") == {"replay": "chains with 1 of 1: known here, as far or farther"}
    (peer,) = chains(comity)
    assert peer["serve"]["requests"]["seq"] == 12
    assert "Not taken" in comity("id", "import", "--replay", replay).out


def test_a_server_goes_on_after_the_replay_database(comity, data, replay, neighbourhood):
    """An envelope that the old server accepted is refused, and the next number is taken."""
    create_identity(data, key=KEY)
    assert comity("id", "import", "--replay", replay).code == 0
    node = neighbourhood.node(data)

    async def where_it_stands():
        calls = chain_of(PairKey(TARGET, KEY.vacant_id))
        return await node.store.tip(calls)

    assert neighbourhood.run(where_it_stands()).seq == 12


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        (lambda file: None, 2, "is not a file"),
        (lambda file: file.write_bytes(b"no database at all, but long enough to look at" * 10), 1, "replay"),
        (
            lambda file: sqlite3.connect(file).execute("CREATE TABLE a (b)").connection.close(),
            1,
            "replay_protect",
        ),
    ],
)
def test_a_file_that_is_no_replay_database_is_told(comity, data, tmp_path, make, code, words):
    create_identity(data, key=KEY)
    file = tmp_path / "other.db"
    make(file)
    outcome = comity("id", "import", "--replay", file)
    assert (outcome.code, words in outcome.err) == (code, True), outcome.err


def test_a_row_that_cannot_be_read_takes_nothing(comity, data, replay):
    create_identity(data, key=KEY)
    with contextlib.closing(sqlite3.connect(replay)) as database, database:
        database.execute("UPDATE replay_protect SET chain_tip = x'00' WHERE sequence_no = 12")
    outcome = comity("id", "import", "--replay", replay)
    assert (outcome.code, "nothing was taken" in outcome.err) == (1, True)
    assert comity("id", "import").code == 2
