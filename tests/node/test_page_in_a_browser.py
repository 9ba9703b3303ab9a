"""The page in a real browser: every panel, live acts, what others wrote, and a node that stops."""

import asyncio
import json
import subprocess
import sys

import httpx
import pytest

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.queues import chain_of
from comity.node.http_server import NodeHttp
from comity.requests.record import Act
from comity.runtime.settings import AgentSettings
from comity.store.audit_chain import AuditDraft, timestamp
from comity.store.interface import KeepReply
from comity.testing import running_node
from tests.browser import CHROMIUM, browsing
from tests.callers import OWNER
from tests.envelopes.peers import Caller

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed"
)

AGENT = AgentSettings(behaviour="echo")
NASTY = "<img src=x onerror=alert(1)>\u202egnp"
SHOWN = r"<img src=x onerror=alert(1)>\u202egnp"
PANELS = ("agent", "pairs", "directory", "vcp", "rooms", "deliberations", "actions", "audit", "limits")


def words(place):
    return f"document.getElementById('{place}').textContent"


async def test_every_panel_opens_without_a_complaint_and_asks_nobody_else(tmp_path):
    async with running_node(agent=AGENT) as node, browsing(tmp_path) as browser:
        await browser.open(node.entry_link)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        assert await browser.until(words("state")) == "ready"
        shown = await browser.run("[...document.querySelectorAll('#tabs a')].map(a => a.hash.slice(1))")
        assert {*PANELS, "overview"} <= {*shown}
        for name in PANELS:
            await browser.run(f"document.querySelector('#tabs a[href=\"#{name}\"]').click()")
            await browser.until(f"location.hash === '#{name}' && !document.getElementById('view').hidden")
            await browser.until(
                "!!document.querySelector('#view-body dl, #view-body table, #view-body .table')"
            )
        assert node.vacant_id.hex() in await browser.run("document.documentElement.textContent")
        assert browser.complaints == []
        assert {url for url in browser.asked if not url.startswith((node.url, "about:", "data:"))} == set()


async def test_acts_appear_as_they_happen_and_what_others_wrote_is_text(tmp_path):
    async with running_node() as node, browsing(tmp_path) as browser:
        await browser.open(node.entry_link)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        node.runtime.record.note(Act(feature="shop", result="SHOP_OK", caller=OWNER, about=NASTY))
        await browser.until(f"{words('act-rows')}.includes('shop ok')")
        assert SHOWN in await browser.run(words("act-rows"))
        assert not await browser.run("!!document.querySelector('#act-rows img')")
        assert browser.complaints == []


async def test_a_card_that_tries_to_be_markup_or_to_turn_the_text_around_is_shown_as_text(tmp_path):
    agent = AgentSettings(behaviour="echo", capability=f"helps {NASTY}", name=NASTY)
    async with running_node(tmp_path / "data", agent=agent) as node, browsing(tmp_path / "it") as browser:
        publish = [sys.executable, "-m", "comity", "card", "publish", "--data", str(node.settings.data)]
        await asyncio.to_thread(subprocess.run, publish, check=True, capture_output=True, timeout=60)
        await browser.open(node.entry_link)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        for name in ("directory", "agent"):
            await browser.run(f"location.hash = '{name}'")
            await browser.until(f"{words('view-body')}.includes({json.dumps(SHOWN)})")
            assert not await browser.run("!!document.querySelector('#view img')")
        turned = "[...document.querySelectorAll('#view-body td, #view-body code')].every(one => getComputedStyle(one).unicodeBidi === 'isolate')"
        assert await browser.run(turned)
        assert browser.complaints == []


async def test_ten_thousand_rows_come_in_pages(tmp_path):
    async with running_node() as node, browsing(tmp_path) as browser:
        drafts = [AuditDraft(verification_result="SHOP_OK", created_at=timestamp(0.0)) for _ in range(500)]
        for _ in range(20):
            await node.runtime.store.commit(audit=drafts)
        await browser.open(node.entry_link)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        await browser.run("location.hash = 'audit'")
        rows = "[...document.querySelectorAll('#view-body tbody tr')].map(one => Number(one.firstChild.textContent))"
        first = await browser.until(f"{rows}.length === 50 && {rows}")
        assert first == list(range(first[0], first[0] - 50, -1))
        assert first[0] > 10_000
        await browser.run("document.querySelectorAll('.pager button')[1].click()")
        assert await browser.until(f"{rows}[0] < {first[-1]} && {rows}[0]") == first[-1] - 1
        await browser.run("document.querySelectorAll('.pager button')[0].click()")
        await browser.until(f"{rows}[0] >= {first[0]}")
        assert browser.complaints == []


async def test_the_audit_is_verified_and_an_action_tried_from_the_page(tmp_path):
    async with running_node() as node, browsing(tmp_path) as browser:
        await browser.open(node.entry_link)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        await browser.run("location.hash = 'audit'")
        await browser.until("!!document.querySelector('#tools button')")
        await browser.run("document.querySelector('#tools button').click()")
        await browser.until(f"{words('view-body')}.includes('sound, ')")
        await browser.run("location.hash = 'actions'")
        await browser.until("document.querySelectorAll('#action option').length > 5")
        await browser.run("document.getElementById('action').value = 'supportive_reply'")
        await browser.run("document.getElementById('action').dispatchEvent(new Event('change'))")
        await browser.run("document.getElementById('input-message').value = 'I lost my job today.'")
        await browser.run("document.getElementById('run').click()")
        assert json.loads(await browser.until(words("said")))["reply"]


async def test_times_are_told_from_now_numbers_stand_right_and_an_empty_panel_says_what_to_do(tmp_path):
    async with running_node(tmp_path / "data") as node, browsing(tmp_path / "it") as browser:
        await browser.open(node.entry_link)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        moment = "const one = document.querySelector('#act-rows time'); one && [one.textContent, one.title, one.dateTime]"
        text, title, exact = await browser.until(
            f"(() => {{ {moment.replace('one &&', 'return one &&')} }})()"
        )
        assert text == "now" or text.endswith(" ago")
        assert title == f"{exact[:10]} {exact[11:19]} UTC"
        await browser.run("location.hash = 'audit'")
        columns = "[...document.querySelectorAll('#view-body th.number')].map(one => one.textContent)"
        assert await browser.until(f"{columns}.length && {columns}") == ["entry", "times"]
        aligned = "[...document.querySelectorAll('td.number')].every(one => getComputedStyle(one).textAlign === 'right')"
        assert await browser.run(aligned)
        await browser.run("location.hash = 'rooms'")
        command = "document.querySelector('#view-body .table code')?.textContent"
        assert await browser.until(command) == f"comity room invite lab --data {node.settings.data}"
        assert browser.complaints == []


async def call_node(node, *texts):
    caller = Caller(to_vid=node.vacant_id)
    async with httpx.AsyncClient(base_url=node.url) as client:
        for text in texts:
            await client.post("/a2a/message/send", json=to_a2a_jsonrpc(caller.next(text)))
    return chain_of(PairKey(caller.key.vacant_id, node.vacant_id))


async def test_the_chains_of_a_pair_are_verified_from_the_page_and_the_bad_message_is_named(tmp_path):
    async with running_node(tmp_path / "data", agent=AGENT) as node, browsing(tmp_path / "it") as browser:
        chain = await call_node(node, "one", "two", "three")
        await browser.open(node.entry_link + "#pairs")
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        await browser.run("location.hash = 'pairs'")
        await browser.until("!!document.querySelector('#view-body button.small')")
        await browser.run("document.querySelector('#view-body button.small').click()")
        await browser.until(f"{words('view-body')}.includes('sound; calls on record: 3')")
        kept = await node.runtime.store.reply(chain, 3)
        changed = kept.reply[:-1] + bytes([kept.reply[-1] ^ 1])
        await node.runtime.store.commit(
            KeepReply(chain=chain, seq=3, digest=kept.digest, reply=changed, at=kept.at)
        )
        await browser.run("document.querySelector('#view-body button.small').click()")
        await browser.until(f"{words('view-body')}.includes('BAD: call to us, number 3: ')")
        assert browser.complaints == []


async def test_a_link_that_only_reads_shows_everything_and_offers_nothing_that_acts(tmp_path):
    async with running_node(tmp_path / "data", agent=AGENT) as node, browsing(tmp_path / "it") as browser:
        await call_node(node, "one")
        await browser.open(node.runtime.new_entry_link(reads_only=True))
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        for name in PANELS:
            await browser.run(f"location.hash = '{name}'")
            await browser.until(f"!!document.querySelector('#tabs a[href=\"#{name}\"][aria-current]')")
            await browser.until("!!document.querySelector('#view-body dl, #view-body .table')")
            assert not await browser.run("!!document.querySelector('#tools button, #view-body button.small')")
        refused = "fetch('/v1/audit/verify', {method: 'POST'}).then(told => told.status)"
        assert await browser.run(refused) == 403


async def test_a_node_that_stops_is_told(tmp_path):
    async with browsing(tmp_path) as browser:
        async with running_node() as node:
            await browser.open(node.entry_link)
            await browser.until("document.querySelectorAll('#tabs a').length > 8")
        await browser.until(f"{words('state')}.includes('does not answer')")


async def test_a_page_of_another_release_asks_to_be_loaded_again(tmp_path, monkeypatch):
    real, upgraded = NodeHttp._status, False

    async def status(self):
        return {**await real(self), **({"version": "9.9.9"} if upgraded else {})}

    monkeypatch.setattr(NodeHttp, "_status", status)

    async with running_node() as node, browsing(tmp_path) as browser:
        await browser.open(node.entry_link)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        assert await browser.run("document.getElementById('notice').hidden")
        upgraded = True
        assert "9.9.9" in await browser.until(words("notice"))


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("dark", [False, True])
async def test_axe_finds_nothing_serious(axe, tmp_path, width, dark):
    async with running_node(agent=AGENT) as node, browsing(tmp_path) as browser:
        await browser.open(node.entry_link, width=width, dark=dark)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        await browser.run(axe)
        for name in ("overview", "audit", "actions", "rooms"):
            await browser.run(f"location.hash = '{name}'")
            await browser.until(f"!!document.querySelector('#tabs a[href=\"#{name}\"][aria-current]')")
            found = await browser.run(
                "axe.run().then(r => r.violations.map(v => [v.id, v.impact, v.nodes[0].html]))"
            )
            assert [one for one in found if one[1] in ("serious", "critical")] == [], name
            wide = await browser.run("document.documentElement.scrollWidth > innerWidth")
            assert not wide, f"{name} is wider than the window"
