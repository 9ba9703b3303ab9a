"""Views over HTTP: who may read them, their pages, and what a wrong question gets."""

import asyncio

import httpx
import pytest

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.queues import chain_of
from comity.runtime.part import ViewQuery, paged
from comity.runtime.settings import AgentSettings
from comity.store.audit_chain import AuditDraft, timestamp
from comity.store.audit_log import AuditReport
from comity.store.interface import KeepReply
from comity.testing import bearer, running_node
from tests.envelopes.peers import Caller

AGENT = AgentSettings(behaviour="echo")


def reading(node):
    return {"authorization": f"Bearer {node.runtime.read_token}"}


def client(node, **headers):
    return httpx.AsyncClient(base_url=node.url, headers=headers, timeout=30)


async def test_the_token_that_only_reads_opens_page_views_and_events_and_nothing_else():
    async with running_node(agent=AGENT) as node, client(node, **reading(node)) as reader:
        names = [view["name"] for view in (await reader.get("/v1/views")).json()["views"]]
        for path in ("/", "/v1/status", *(f"/v1/views/{name}" for name in names)):
            assert (await reader.get(path)).status_code == 200, path
            assert (await reader.head(path)).status_code == 200, path
        async with reader.stream("GET", "/v1/events") as events:
            assert events.status_code == 200
        assert (await reader.post("/v1/status", json={})).status_code == 405
        for path in ("/v1/ping", "/v1/audit/verify", "/mcp", "/v1/actions/supportive_reply"):
            refused = await reader.post(path, json={})
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), path
        assert (await reader.get("/metrics")).status_code == 200
        for path in ("/openapi.json", "/v1/actions", "/mcp", "/v1/viewsandmore"):
            assert (await reader.get(path)).status_code == 403, path


async def test_nobody_else_reads_them():
    async with running_node() as node, client(node) as stranger:
        for path in ("/v1/views", "/v1/views/audit", "/v1/events"):
            assert (await stranger.get(path)).status_code == 401, path
        assert (await stranger.get("/v1/views", headers={"authorization": "Bearer wrong"})).status_code == 401


async def test_both_tokens_are_private_and_differ(tmp_path):
    async with running_node(tmp_path / "data") as node:
        assert node.runtime.read_token != node.runtime.token
        assert (tmp_path / "data" / "read-token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "wrong", ["limit=0", "limit=201", "limit=x", "limit=00001", f"text={'x' * 201}", f"after={'9' * 201}"]
)
async def test_a_wrong_question_is_told_what_is_wrong(wrong):
    async with running_node() as node, client(node, **bearer(node)) as owner:
        answer = await owner.get(f"/v1/views/audit?{wrong}")
        assert answer.status_code == 400
        assert wrong.partition("=")[0] in answer.json()["detail"]


async def test_a_view_that_is_not_there_is_404():
    async with running_node() as node, client(node, **bearer(node)) as owner:
        assert "/v1/views lists them" in (await owner.get("/v1/views/nothing")).json()["detail"]


async def test_the_audit_comes_in_pages_the_newest_first():
    async with running_node() as node, client(node, **bearer(node)) as owner:
        drafts = [
            AuditDraft(verification_result=f"N{number}", created_at=timestamp(0)) for number in range(25)
        ]
        await node.store.commit(audit=drafts)
        seen, after = [], ""
        while True:
            page = (await owner.get(f"/v1/views/audit?limit=10&after={after}")).json()
            (table,) = page["tables"]
            seen += [int(row[0]) for row in table["rows"]]
            after = table.get("more", "")
            if not after:
                break
        assert seen == list(range(seen[0], 0, -1))
        assert seen[0] >= 26


async def test_a_verification_runs_in_the_background_one_at_a_time_and_tells_what_it_found(tmp_path):
    async with running_node(tmp_path / "data") as node, client(node, **bearer(node)) as owner:

        async def verdict():
            facts = (await owner.get("/v1/views/audit")).json()["facts"]
            return next(fact for fact in facts if fact["label"] == "Verified")

        assert (await verdict())["value"] == "not since the node started"
        first, second = await asyncio.gather(*(owner.post("/v1/audit/verify") for _ in range(2)))
        assert first.json()["started"] or second.json()["started"]
        async with asyncio.timeout(20):
            while "mark" not in (result := await verdict()):  # noqa: ASYNC110 - what is waited for tells nobody
                await asyncio.sleep(0.02)
        assert result["mark"] == "good"
        assert result["value"].startswith("sound, ")


async def test_pairs_are_shown_by_id_count_and_tip_and_never_by_what_was_said(tmp_path):
    async with running_node(tmp_path / "data", agent=AGENT) as node, client(node, **bearer(node)) as owner:
        caller = Caller(to_vid=node.vacant_id)
        for text in ("a secret word", "another one"):
            answer = await owner.post("/a2a/message/send", json=to_a2a_jsonrpc(caller.next(text)))
            assert answer.status_code == 200, answer.text
        answer = await owner.get("/v1/views/pairs")
        (row,) = answer.json()["tables"][0]["rows"]
        assert row[:4] == [caller.key.vacant_id.hex()[:16], "calls to us", "2", "2"]
        assert "secret" not in answer.text


async def pair_verdict(reader):
    """What the view says of the only pair, once it is verified."""
    async with asyncio.timeout(20):
        while True:
            (row,) = (await reader.get("/v1/views/pairs")).json()["tables"][0]["rows"]
            if row[6] and not row[6].startswith("under way"):
                return row[6]
            await asyncio.sleep(0.02)


async def test_a_pair_is_verified_in_the_background_and_the_view_says_what_was_found(tmp_path):
    async with (
        running_node(tmp_path / "data", agent=AGENT) as node,
        client(node, **bearer(node)) as owner,
        client(node, **reading(node)) as reader,
    ):
        caller = Caller(to_vid=node.vacant_id)
        for _ in range(3):
            await owner.post("/a2a/message/send", json=to_a2a_jsonrpc(caller.next()))
        (table,) = (await reader.get("/v1/views/pairs")).json()["tables"]
        button = table["button"]
        asked = {button["member"]: button["values"][0]}
        assert asked == {"agent": caller.key.vacant_id.hex()}
        assert (await reader.post(button["path"], json=asked)).status_code == 403
        assert (await owner.post(button["path"], json=asked)).json() == {"started": True}
        assert await pair_verdict(reader) == "sound; calls on record: 3, stored replies: 3"

        chain = chain_of(PairKey(caller.key.vacant_id, node.vacant_id))
        kept = await node.runtime.store.reply(chain, 2)
        changed = kept.reply[:-1] + bytes([kept.reply[-1] ^ 1])
        await node.runtime.store.commit(
            KeepReply(chain=chain, seq=2, digest=kept.digest, reply=changed, at=kept.at)
        )
        await owner.post(button["path"], json=asked)
        async with asyncio.timeout(20):
            while not (result := await pair_verdict(reader)).startswith("BAD"):  # noqa: ASYNC110 - the page asks again and again, too
                await asyncio.sleep(0.02)
        assert result == "BAD: call to us, number 2: its stored reply cannot be decrypted"


async def test_one_thing_is_verified_at_a_time(tmp_path, monkeypatch):
    go_on, begun = asyncio.Event(), asyncio.Event()

    async def slow(*_given):
        begun.set()
        await go_on.wait()
        return AuditReport(chain="main", ok=True, entries=1)

    monkeypatch.setattr("comity.store.audit_log.verify_chain", slow)
    async with running_node(tmp_path / "data", agent=AGENT) as node, client(node, **bearer(node)) as owner:
        caller = Caller(to_vid=node.vacant_id)
        await owner.post("/a2a/message/send", json=to_a2a_jsonrpc(caller.next()))
        asked = {"agent": caller.key.vacant_id.hex()}
        assert (await owner.post("/v1/audit/verify")).json() == {"started": True}
        await begun.wait()
        assert (await owner.post("/v1/audit/verify")).json() == {"started": False}
        assert (await owner.post("/v1/pairs/verify", json=asked)).json() == {"started": False}
        go_on.set()
        async with asyncio.timeout(20):
            while not (await owner.post("/v1/pairs/verify", json=asked)).json()["started"]:  # noqa: ASYNC110 - same
                await asyncio.sleep(0.02)
        assert (await pair_verdict(owner)).startswith("sound")


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 400), ([], 400), ({"agent": 7}, 400), ({"agent": "zz"}, 400), ({"agent": "ab" * 32}, 404)],
)
async def test_a_pair_that_is_none_is_refused_by_name(tmp_path, body, status):
    async with running_node(tmp_path / "data") as node, client(node, **bearer(node)) as owner:
        assert (await owner.post("/v1/pairs/verify", json=body)).status_code == status


def test_a_page_of_rows_says_where_the_next_one_begins():
    rows = [(str(number),) for number in range(5)]
    assert paged(rows, ViewQuery(limit=2)) == (rows[:2], "2")
    assert paged(rows, ViewQuery(after="4", limit=2)) == (rows[4:], "")
    assert paged(rows, ViewQuery(after="nonsense", limit=5)) == (rows, "")
    assert paged(rows, ViewQuery(after="9" * 20, limit=5)) == (rows, "")
