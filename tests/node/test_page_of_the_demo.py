"""The page while `comity demo --keep` runs: every panel shows what the demo did, in both schemes and at two widths."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, browsing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed"
    ),
]

SECONDS = 120
SHOWN = {
    "agent": ("repeats each message", "ACTIVE"),
    "pairs": ("calls to us", "Verify"),
    "directory": ("no agent is published here yet", "comity card publish --data "),
    "vcp": ("Relational, Torch", "injection_scanning"),
    "rooms": ("workshop", "bert", "plan.bin", "completed", "16,000,000"),
    "deliberations": ("How we answer", "active", "clause c1: v1 wins"),
    "actions": ("supportive_reply", "Try it"),
    "contacts": ("bert", "hold call"),
    "witness": ("Own record", "entries, root"),
    "audit": ("ROOM_FILE_SENT", "DELIBERATION_OPENED", "Verify now"),
    "limits": ("replies", "requests and", "new pair"),
}


@pytest.fixture
def kept():
    """What the demo says when its scenes are over and its nodes are kept."""
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket has to be short
        demo = subprocess.Popen(
            [sys.executable, "-m", "comity", "demo", "--fast", "--keep", "--json"],
            env={**os.environ, "TMPDIR": folder},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            result = []
            while not (result and result[-1].get("kept")):
                result.append(json.loads(demo.stdout.readline()))
                assert result[-1].get("ok", True), result[-1]
            pids = [node["pid"] for node in result[0]["nodes"]]
            yield result[-1]
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate(timeout=SECONDS)
        assert demo.returncode == 130
        assert list(Path(folder).iterdir()) == []
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def show(browser, name):
    await browser.run(f"document.querySelector('#tabs a[href=\"#{name}\"]').click()")
    await browser.until(f"!!document.querySelector('#tabs a[href=\"#{name}\"][aria-current]')")
    if name != "overview":
        await browser.until("!!document.querySelector('#view-body dl, #view-body .table')")


async def look(browser, width, dark):
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    await browser.do("Emulation.setEmulatedMedia", features=scheme)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    await browser.do("Emulation.setDeviceMetricsOverride", **size)


async def test_every_panel_shows_what_the_demo_did_and_can_be_used(kept, axe, tmp_path):
    async with browsing(tmp_path) as browser:
        await browser.open(kept["pages"]["Anna"])
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        tabs = await browser.run("[...document.querySelectorAll('#tabs a')].map(a => a.hash.slice(1))")
        assert tabs == ["overview", *SHOWN]
        await browser.until("document.getElementById('act-rows').textContent.includes('party answered')")
        for name, expected in SHOWN.items():
            await show(browser, name)
            for text in expected:
                await browser.until(f"document.getElementById('view').textContent.includes({text!r})")
        await use_panels(browser)
        await browser.run(axe)
        for width, dark in ((1280, False), (1280, True), (360, False), (360, True)):
            await look(browser, width, dark)
            for name in tabs:
                await show(browser, name)
                found = await browser.run(
                    "axe.run().then(r => r.violations.map(v => [v.id, v.impact, v.nodes[0].html]))"
                )
                assert [one for one in found if one[1] in ("serious", "critical")] == [], (name, width, dark)
                assert not await browser.run("document.documentElement.scrollWidth > innerWidth"), (
                    name,
                    width,
                )
        assert browser.complaints == []
        here = await browser.run("location.origin")
        assert {url for url in browser.asked if not url.startswith((here, "about:", "data:"))} == set()

        await browser.open(kept["pages"]["Bert"])
        await browser.until("document.querySelectorAll('#tabs a').length > 8")
        await show(browser, "directory")
        await browser.until("document.getElementById('view').textContent.includes('repeats each message')")
        await browser.run("document.getElementById('search').value = 'nobody offers this'")
        await browser.run("document.getElementById('search').dispatchEvent(new Event('input'))")
        await browser.until("document.getElementById('view').textContent.includes('no agent was found')")


async def use_panels(browser):
    """What can be pressed on the page is pressed."""
    await show(browser, "audit")
    await browser.run("document.querySelector('#tools button').click()")
    await browser.until("document.getElementById('view-body').textContent.includes('sound, ')")
    await show(browser, "pairs")
    await browser.run("document.querySelector('#view-body button.small').click()")
    await browser.until(
        "document.getElementById('view-body').textContent.includes('sound; calls on record: 2')"
    )
    await show(browser, "deliberations")
    cells = "[...document.querySelectorAll('.matrix tbody td')].map(one => one.textContent)"
    assert await browser.run(cells) == ["0", "10", "20", "0"]
    assert await browser.run("document.querySelector('.matrix .wins').textContent") == "20"
    await show(browser, "actions")
    await browser.until("document.querySelectorAll('#action option').length > 5")
    await browser.run(
        "{ const chosen = document.getElementById('action'); chosen.value = 'supportive_reply';"
        "chosen.dispatchEvent(new Event('change'));"
        "document.getElementById('input-message').value = 'I lost my job today.';"
        "document.getElementById('run').click(); }"
    )
    assert json.loads(await browser.until("document.getElementById('said').textContent"))["reply"]
    await show(browser, "overview")
    await browser.until(
        "/at most [1-9]|at most 0.[1-9]/.test(document.getElementById('load-said').textContent)"
    )
