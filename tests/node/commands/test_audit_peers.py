"""`comity audit challenge`, `proof` and `export`, with real nodes over real sockets."""

import asyncio
import base64
import hashlib
import json
import shutil

import apsw
import httpx
import msgspec
import pytest

from comity.envelopes.part import Witnessing
from comity.envelopes.protocol.witness import CHALLENGE_PATH, Seen, signed_challenge
from comity.envelopes.witness import peers
from comity.identity.key_files import load_identity
from comity.identity.protocol.keys import SigningKey, verify
from comity.runtime.part import ViewQuery
from comity.runtime.settings import AgentSettings
from comity.runtime.system_clock import SystemClock
from comity.store import audit_chain as audit
from comity.store.audit_log import heads, tail
from comity.store.audit_trail import AuditTrail, HeadFile
from comity.store.sqlite import SqliteStore
from comity.store.sqlite.connection import CHECKSUMMED_VFS, load_checksums
from comity.testing import running_node

ECHO = AgentSettings(behaviour="echo")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "target"


def serving(folder, port=0):
    return running_node(folder, agent=ECHO, port=port)


async def rewrite(folder, position):
    """As the owner who has the key: change one entry, then link, hash and sign all of them again."""
    key = load_identity(folder)
    file = folder / "comity.db"
    store = await SqliteStore.open_for_reading(file, SystemClock())
    entries = [entry async for entry in tail(store, "main", 1000)]
    await store.close()
    load_checksums()
    connection = apsw.Connection(str(file), vfs=CHECKSUMMED_VFS)
    connection.execute("DELETE FROM record WHERE log = (SELECT id FROM log WHERE name = 'audit:main')")
    connection.execute("DELETE FROM log WHERE name = 'audit:main'")
    connection.execute("DELETE FROM value WHERE space IN ('audit-tree', 'audit-head') AND key LIKE 'main%'")
    connection.close()
    (folder / "audit" / "main.head").unlink()
    drafts = []
    for entry in entries:
        fields = {name: getattr(entry, name) for name in audit.AuditDraft.__struct_fields__}
        if entry.chain_position == position:
            fields["verification_result"] = "NOTHING_HAPPENED"
        drafts.append(audit.AuditDraft(**fields))
    trail = AuditTrail("main", key, HeadFile(folder / "audit" / "main.head"))
    store = await SqliteStore.open(file, SystemClock(), trail)
    await store.commit(audit=drafts)
    await store.close()


async def run(comity, *words):
    return await asyncio.to_thread(comity, *words)


async def test_a_peer_proves_its_record_and_is_caught_when_its_owner_rewrites_it(
    comity, target, data, tmp_path
):
    async with serving(target) as node:
        port, agent = int(node.url.rsplit(":", 1)[1]), node.vacant_id.hex()
        assert (await run(comity, "call", node.url, "hello")).code == 0
        sound = await run(comity, "audit", "challenge", "--json")
        assert sound.code == 0, sound.err
        (shown,) = json.loads(sound.out)["agents"]
        assert (shown["agent"], shown["verdict"]) == (agent, "sound")
        assert (await run(comity, "audit", "challenge", agent[:8])).out.count("sound") == 1
    gone = await run(comity, "audit", "challenge")
    assert gone.code == 0
    assert "unreachable" in gone.out
    await rewrite(target, 1)
    async with serving(target, port):
        caught = await run(comity, "audit", "challenge", "--json")
    assert caught.code == 1
    (shown,) = json.loads(caught.out)["agents"]
    assert shown["verdict"] == "REWRITTEN"
    file = tmp_path / "elsewhere.json"
    shutil.copy(shown["proof"], file)
    checked = await run(comity, "audit", "proof", str(file))
    assert checked.code == 0
    assert checked.out.startswith(f"Proven: {agent} rewrote its audit record")
    file.write_text(file.read_text().replace(agent, "ab" * 32))
    refused = await run(comity, "audit", "proof", str(file))
    assert refused.code == 1
    assert "not signed" in refused.err
    async with running_node(data, agent=ECHO) as node:
        part = node.runtime.find(Witnessing)
        assert "REWROTE" in (await part.panel()).rows[1][1]
        (view,) = part.views
        page = await view.read(ViewQuery())
        assert page.tables[0].rows[0][1] == "REWRITTEN"


async def test_an_agent_watches_its_callers_from_the_second_call_on(comity, target, data, monkeypatch):
    async with running_node(data):  # the record of the caller
        pass
    async with serving(target) as node:
        monkeypatch.setattr("comity.envelopes.witness.EVERY", 0.0)
        assert (await run(comity, "call", node.url, "hello")).code == 0
        assert [held async for held in peers(node.runtime.store)] == []
        assert (await run(comity, "call", node.url, "hello")).code == 0
        ((_, record),) = [held async for held in peers(node.runtime.store)]
        assert record.last.head.chain == "main"


async def test_nobody_to_challenge(comity, target):
    async with serving(target) as node:
        assert (await run(comity, "call", node.url, "hello")).code == 0
    refused = await run(comity, "audit", "challenge", "ffffffff")
    assert refused.code == 1
    assert "no head of an agent" in refused.err


async def test_a_node_that_answers_no_challenges_is_said_to_be_so(comity, target):
    async with running_node(target, agent=ECHO, off=("witness",)) as node:
        answer = await run(comity, "call", node.url, "hello")
        assert answer.code == 0
    none = await run(comity, "audit", "challenge")
    assert none.code == 0


async def test_strangers_get_no_answer_to_a_challenge(target, tmp_path):
    stranger = SigningKey.from_seed(b"stranger".ljust(32))
    async with serving(target) as node, httpx.AsyncClient(base_url=node.url) as http:
        seen = Seen(log="", size=1, root="00" * 32)
        asked = signed_challenge(stranger, node.vacant_id, seen, now=SystemClock().now(), nonce="ab" * 16)
        body = msgspec.to_builtins(asked)
        answers = [await http.post(CHALLENGE_PATH, json=body) for _ in range(11)]
        assert [answer.status_code for answer in answers] == [403] * 10 + [429]
        assert (await http.post(CHALLENGE_PATH, json={**body, "nonce": "cd" * 16})).status_code == 400
        assert (await http.post(CHALLENGE_PATH, content=b"x" * 5000)).status_code in (400, 413, 415)


async def test_the_checkpoint_is_a_signed_note_that_others_can_check(comity, data):
    async with running_node(data, agent=ECHO) as node:
        owner = node.vacant_id
        answer = await run(comity, "audit", "export", "--checkpoint", "--json")
        assert answer.code == 0, answer.err
        ((_, head),) = [each for each in await heads(node.runtime.store) if each[0] == "main"]
    shown = json.loads(answer.out)
    text, _, signatures = shown["checkpoint"].partition("\n\n")
    text += "\n"
    name, size, root = text.splitlines()
    assert name == f"comity-audit/{owner.hex()}/main"
    assert int(size) == head.size
    assert base64.b64decode(root).hex() == head.root
    dash, by, signed = signatures.rstrip("\n").split(" ")
    assert (dash, by) == ("\u2014", name)
    raw = base64.b64decode(signed)
    assert raw[:4] == hashlib.sha256(name.encode() + b"\n\x01" + owner.public).digest()[:4]
    assert verify(owner.public, text.encode(), raw[4:])
    key_name, key_hash, key_data = shown["verifier_key"].split("+", 2)
    assert (key_name, key_hash) == (name, raw[:4].hex())
    assert base64.b64decode(key_data) == b"\x01" + owner.public
    assert (await run(comity, "audit", "export")).code != 0
