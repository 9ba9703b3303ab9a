"""`comity receipt` and `comity verify` as a person types them, with real nodes, and where there is no network at all."""

import asyncio
import json
import shutil
import subprocess
import sys

import pytest

import comity as api
from comity.receipts.protocol.format import MAX_BYTES, hash_of
from comity.testing.links import Randomness
from comity.votes.protocol.provenance import MAX_RECORD_BYTES
from tests.fixtures.command_line import COMITY
from tests.mcp.test_agents import Model
from tests.places import ROOT
from tests.receipts import samples

STRANGER = [sys.executable, str(ROOT / "docs" / "receipt_stranger.py")]


@pytest.fixture
def node(neighbourhood, tmp_path):
    return neighbourhood.node(tmp_path / "there")


def saved(comity, node, tmp_path, text="hello"):
    file = tmp_path / f"{text}.json"
    outcome = comity("call", node.url, text, "--save", file)
    assert outcome.code == 0, outcome.err
    return file


def verdict(comity, file, *more):
    outcome = comity("verify", file, "--json", *more)
    (found,) = json.loads(outcome.out)["receipts"]
    assert outcome.code == {"good": 0, "bad": 1, "not verifiable": 3}[found["verdict"]]
    assert not outcome.err
    return found


def test_a_call_is_saved_and_verified_where_neither_party_is_known(
    comity, node, identity, tmp_path, monkeypatch
):
    file = saved(comity, node, tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("COMITY_DATA", str(tmp_path / "elsewhere"))
    found = verdict(comity, file)
    asked, answered = found["statements"]
    me, it = identity.vacant_id.hex(), node.vacant_id.hex()
    assert (asked["who"], asked["to"], asked["number"], asked["text"]) == (me, it, 1, "hello")
    assert (answered["who"], answered["to"], answered["number"]) == (it, me, 1)
    assert answered["text"] == f"echo from {node.vacant_id.short()}: hello"
    assert not (tmp_path / "elsewhere").exists()
    shown = comity("verify", file)
    assert shown.code == 0
    assert f"{file}, a call: good" in shown.out
    assert "does not prove" in shown.out


def test_a_receipt_of_a_call_can_be_written_later_while_it_is_the_last_one(comity, node, tmp_path):
    first = saved(comity, node, tmp_path)
    again = tmp_path / "again.json"
    assert comity("receipt", "call", node.vacant_id.hex()[:8], "--out", again).code == 0
    assert again.read_bytes() == first.read_bytes()
    outcome = comity("receipt", "call", node.vacant_id.hex(), "7")
    assert (outcome.code, "only those of call 1" in outcome.err) == (1, True)


def test_a_program_has_the_receipt_and_a_model_its_name(comity, node, neighbourhood, data, tmp_path):
    async def call():
        async with api.Client(data=data) as client:
            return await client.call(node.url, "from a program")

    file = tmp_path / "program.json"
    file.write_bytes(asyncio.run(call()).receipt)
    assert verdict(comity, file)["statements"][0]["text"] == "from a program"
    own = neighbourhood.node(data)

    async def ask():
        async with Model(own) as model:
            return (await model.use("call_agent", agent=node.url, message="x"))["structuredContent"]

    told = neighbourhood.run(ask())
    assert comity("receipt", "call", told["agent"], "--out", tmp_path / "model.json").code == 0
    assert hash_of((tmp_path / "model.json").read_bytes()) == told["receipt"]


def test_a_receipt_without_text_is_not_verifiable(comity, node, tmp_path):
    saved(comity, node, tmp_path, "secret")
    bare = tmp_path / "bare.json"
    assert comity("receipt", "call", node.vacant_id.hex(), "--without-text", "--out", bare).code == 0
    assert b"secret" not in bare.read_bytes()
    assert verdict(comity, bare)["verdict"] == "not verifiable"


def test_nothing_is_called_if_the_file_of_the_receipt_is_there_already(comity, node, identity, tmp_path):
    file = saved(comity, node, tmp_path)
    before = file.read_bytes()
    outcome = comity("call", node.url, "again", "--save", file)
    assert (outcome.code, "exists already" in outcome.err) == (2, True)
    assert file.read_bytes() == before
    assert json.loads(comity("chain", "show", "--json").out)["peers"][0]["call"]["requests"]["seq"] == 1


def test_the_audit_record_has_a_receipt(comity, node, tmp_path):
    saved(comity, node, tmp_path)
    file = tmp_path / "record.json"
    assert comity("receipt", "range", "--chain", "cli", "--out", file).code == 0
    found = verdict(comity, file)
    assert (found["verdict"], found["facts"]["chain"]) == ("good", "cli")
    assert found["facts"]["results"]["CALL_ANSWERED"] == 1
    assert comity("receipt", "range", "--chain", "none").code == 1
    assert "begin with one of these" in comity("receipt", "range", "--chain", "cli", "--from", "99").err


def test_a_few_entries_have_a_receipt_with_the_proof_that_they_are_in_the_record(comity, node, tmp_path):
    for text in ("one", "two", "three"):
        saved(comity, node, tmp_path, text)
    file = tmp_path / "entry.json"
    entry = ("receipt", "range", "--chain", "cli", "--from", "2", "--to", "3", "--out", file)
    assert comity(*entry).code == 0
    found = verdict(comity, file)["facts"]
    assert (found["first"], found["last"]) == (2, 3)
    assert json.loads(file.read_text())["head"]["position"] > 3
    assert subprocess.run([*STRANGER, file], check=False).returncode == 0
    hashes = json.loads(file.read_text())["proof"]["hashes"]
    file.write_text(file.read_text().replace(hashes[0], hashes[0][::-1]))
    assert "no proof shows" in verdict(comity, file)["reason"]
    assert subprocess.run([*STRANGER, file], check=False).returncode == 1
    assert "end with a later one" in comity("receipt", "range", "--chain", "cli", "--to", "9999").err


def test_receipts_of_all_kinds_are_verified_without_a_network(comity, node, joined, scene, tmp_path, environ):
    files = [saved(comity, node, tmp_path), *(tmp_path / f"{n}.json" for n in ("talk", "rules", "record"))]
    for text in ("one", "two"):
        assert comity("room", "send", text, "--signed", "--to", "bert").code == 0
        assert comity("room", "wait", "--data", joined, "--seconds", "20").out == f"{text}\n"
    made = [
        comity("receipt", "messages", "--data", joined, "--out", files[1]),
        comity("receipt", "vote", scene.ratified(), "--data", scene.bob, "--out", files[2]),
        comity("receipt", "range", "--from", "1", "--out", files[3]),
    ]
    assert [outcome.err for outcome in made if outcome.code] == []
    unshare = shutil.which("unshare")
    if (
        unshare is None
        or subprocess.run([unshare, "-n", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine gives no network namespace: unshare -n")
    home = {**environ, "HOME": str(tmp_path / "nobody"), "COMITY_DATA": str(tmp_path / "nobody" / "data")}
    for program in ([*COMITY, "verify"], STRANGER):
        finished = subprocess.run(
            [unshare, "-n", *program, *map(str, files)], env=home, capture_output=True, text=True, check=False
        )
        assert (finished.returncode, finished.stderr) == (0, ""), finished.stdout
        assert finished.stdout.count(": good") == len(files)
    assert not (tmp_path / "nobody").exists()


BAD = {
    "cut": lambda data: data[: len(data) // 2],
    "cut by its last byte": lambda data: data[:-1],
    "empty": lambda _data: b"",
    "a member doubled": lambda data: data.replace(
        b'{"comity_receipt":1', b'{"comity_receipt":1,"comity_receipt":1'
    ),
    "members in another order": lambda data: json.dumps(
        dict(reversed(json.loads(data).items())), separators=(",", ":")
    ).encode(),
    "spaces": lambda data: json.dumps(json.loads(data)).encode(),
    "another version": lambda data: data.replace(b'"comity_receipt":1', b'"comity_receipt":2'),
    "version true": lambda data: data.replace(b'"comity_receipt":1', b'"comity_receipt":true'),
    "another kind": lambda data: data.replace(b'"kind":"call"', b'"kind":"oath"'),
    "one more member": lambda data: data.replace(b'{"comity_receipt":1', b'{"a":1,"comity_receipt":1'),
    "another text": lambda data: data.replace(b"good morning", b"good evening"),
    "deep nesting": lambda _data: b'{"comity_receipt":1,"kind":"call","reply":' + b"[" * 100_000,
    "deep nesting that ends": lambda _data: b"[" * 5000 + b"]" * 5000,
    "not JSON": lambda _data: b"\x89PNG\r\n",
    "not UTF-8": lambda data: data.replace(b"good", b"\xff\xfe"),
    "JSON, but a list": lambda _data: b"[1]",
    "100 MB": lambda data: data + b" " * 100_000_000,
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_stores_nothing(comity, tmp_path, data, name):
    good = samples.write_receipt(samples.call_of("good morning", "yes"))
    file = tmp_path / "bad.json"
    file.write_bytes(BAD[name](good))
    before = sorted(tmp_path.iterdir())
    found = verdict(comity, file)
    assert found["verdict"] == "bad"
    assert found["reason"]
    assert "\n" not in found["reason"]
    shown = comity("verify", file)
    assert (shown.code, shown.err, shown.out.count("\n")) == (1, "", 1)
    assert sorted(tmp_path.iterdir()) == before
    assert not data.exists()


def test_a_directory_a_missing_file_and_a_receipt_of_another_key_are_bad(comity, tmp_path):
    assert "is not a file" in verdict(comity, tmp_path)["reason"]
    assert "there is no file" in verdict(comity, tmp_path / "none")["reason"]
    file = tmp_path / "forged.json"
    file.write_bytes(samples.write_receipt(samples.call(Randomness(1), signer=samples.EVE)))
    assert "signature of the reply is not valid" in verdict(comity, file)["reason"]
    file.write_bytes(samples.write_receipt(samples.audit_range(Randomness(1), signer=samples.EVE)))
    assert "signature of the head is not valid" in verdict(comity, file)["reason"]


def test_a_receipt_is_read_from_a_pipe_and_several_have_the_worst_verdict(program, comity, tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(samples.write_receipt(samples.call_of("a", "b")) + b"\n")
    bad.write_bytes(b"{}")
    assert program("verify", "-", input=good.read_text()).code == 0
    assert comity("verify", good, good).code == 0
    assert comity("verify", good, bad).code == 1


def test_the_limit_of_a_receipt_is_below_that_of_a_record_of_a_vote():
    assert MAX_BYTES < MAX_RECORD_BYTES
