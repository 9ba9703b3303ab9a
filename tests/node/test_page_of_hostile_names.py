"""The page while others call themselves what harms a page: markup, turned and hidden characters, 10,000 letters."""

import asyncio
import base64
import subprocess
import sys

import pytest

from comity import VcpClient
from comity.requests.record import Act
from comity.rooms.part import PeersSettings
from comity.runtime.settings import AgentSettings
from comity.testing import running_node
from tests.browser import CHROMIUM, browsing
from tests.callers import OWNER
from tests.node.test_page_of_the_demo import look, show
from tests.rooms.scene import Client, meet, rooms_node

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed"
    ),
]

MARKUP = "<img src=x onerror=window.ran=1>"
NASTY = MARKUP + "\u202egnp.exe\u200b\nnext"
SHOWN = MARKUP + r"\u202egnp.exe\u200b\u000anext"
TITLE = MARKUP + "W" * 900
"""What a deliberation may be called: others than these characters are refused by its scan."""
LONG = NASTY + "<script>window.ran=1</script>" + "W" * 8_000
LOOKS = ((1280, False), (1280, True), (360, False), (360, True))
NAMED = {"overview": SHOWN[:40], "agent": SHOWN, "directory": SHOWN, "rooms": SHOWN, "deliberations": MARKUP}


async def command(node, *words):
    """A command of the owner of that node."""
    given = [sys.executable, "-m", "comity", *words, "--data", str(node.settings.data)]
    done = await asyncio.to_thread(subprocess.run, given, check=False, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr[-300:]


async def call_everything_so(node, other):
    """An agent, its card, a deliberation, a peer, a file, a key of shared state and a VCP client have such names."""
    await command(node, "card", "publish")
    await command(node, "vote", "open", TITLE, "--clause", f"{MARKUP} | no")
    anna, bert = Client(node), Client(other)
    await meet(anna, bert)
    await bert.call("vdo_file_send", data_base64=base64.b64encode(b"x").decode(), name=f"{NASTY}.bin")
    await bert.call("vdo_state_set", key=NASTY, value=1)
    (peer,) = (await anna.live()).session._peers
    peer.stream_id = NASTY  # a peer of ours would not say this; another program may
    node.runtime.record.note(Act(feature="shop", result="SHOP_OK", caller=OWNER, about=NASTY + "W" * 10_000))
    return VcpClient.connect(f"{node.url}/vcp", client_id=NASTY, remember=False)


async def test_hostile_names_are_shown_and_harm_nothing_on_any_panel(axe, tmp_path):
    agent = AgentSettings(behaviour="echo", capability=LONG, name=NASTY)
    parts = {"peers": PeersSettings()}
    async with (
        running_node(tmp_path / "data", agent=agent, parts=parts) as node,
        rooms_node() as other,
        await call_everything_so(node, other),
        browsing(tmp_path / "browser") as browser,
    ):
        await browser.open(node.entry_link)
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        await browser.run(axe)
        tabs = await browser.run("[...document.querySelectorAll('#tabs a')].map(a => a.hash.slice(1))")
        for width, dark in LOOKS:
            await look(browser, width, dark)
            for name in tabs:
                await show(browser, name)
                if name in NAMED:
                    await browser.until(
                        f"document.getElementById('main').textContent.includes({NAMED[name]!r})"
                    )
                found = await browser.run(
                    "axe.run().then(r => r.violations.map(v => [v.id, v.impact, v.nodes[0].html]))"
                )
                assert [one for one in found if one[1] in ("serious", "critical")] == [], (name, width, dark)
                wide = await browser.run("document.documentElement.scrollWidth > innerWidth")
                assert not wide, f"{name} is wider than {width} pixels"
                tall = await browser.run(
                    "Math.max(...[...document.querySelectorAll('td, dd')].map(one => one.offsetHeight))"
                )
                assert tall < 700, f"one name fills the panel {name}"
        assert not await browser.run("!!document.querySelector('main img, main script') || 'ran' in window")
        assert browser.complaints == []
