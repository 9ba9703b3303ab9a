"""A real browser, driven over its DevTools protocol: what it shows, what it complains of, and whom it asks."""

import asyncio
import base64
import contextlib
import json
import shutil

from websockets.asyncio.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 60
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class Browser:
    def __init__(self, link):
        self._link = link
        self._number = 0
        self._answers = {}
        self.complaints = []
        self.asked = []

    async def listen(self):
        async for text in self._link:
            told = json.loads(text)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told["method"] in ("Runtime.exceptionThrown", "Log.entryAdded") or (
                told["method"] == "Runtime.consoleAPICalled" and told["params"]["type"] == "error"
            ):
                self.complaints.append(told["params"])
            elif told["method"] == "Network.requestWillBeSent":
                self.asked.append(told["params"]["request"]["url"])

    async def do(self, method, **params):
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._link.send(json.dumps({"id": self._number, "method": method, "params": params}))
        async with asyncio.timeout(SECONDS):
            told = await answer
        assert "error" not in told, told
        return told["result"]

    async def open(self, url, *, width=1280, height=900, dark=False):
        scheme = "dark" if dark else "light"
        await self.do(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        await self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        await self.do("Page.navigate", url=url)

    async def run(self, script):
        told = await self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, script):
        """What the script gives, once that is something."""
        async with asyncio.timeout(SECONDS):
            while not (found := await self.run(script)):  # noqa: ASYNC110 - the page tells nobody
                await asyncio.sleep(0.05)
        return found

    async def picture(self):
        shot = await self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])


@contextlib.asynccontextmanager
async def browsing(folder):
    """A browser with a profile of its own in that folder."""
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *_FLAGS,
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            while b"DevTools listening on" not in (line := await process.stderr.readline()):
                assert line, "the browser ended"
        rest = asyncio.create_task(process.stderr.read())
        port = line.split(b"127.0.0.1:")[1].split(b"/")[0].decode()
        async with connect(await _page_address(port), max_size=None, ping_interval=None) as link:
            browser = Browser(link)
            listening = asyncio.create_task(browser.listen())
            for domain in ("Page", "Runtime", "Log", "Network"):
                await browser.do(f"{domain}.enable")
            yield browser
            listening.cancel()
        rest.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _page_address(port):
    import httpx

    async with httpx.AsyncClient() as client:
        pages = (await client.get(f"http://127.0.0.1:{port}/json")).json()
    return next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
