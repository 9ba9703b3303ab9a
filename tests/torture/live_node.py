"""A node as a process of its own, that is used over HTTP while it is killed and started again."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from comity.identity.protocol.keys import VacantId
from comity.runtime.opening import reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from tests.mcp.conversing import modern
from tests.mcp.http_talk import posted, repeated
from tests.ports import unused_port
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
SECONDS = 60  # for what takes a moment, on a busy machine
HELLO = {"type": "vcp-hello", "version": "3.1", "extensions": ["VCP-X-Consensus"], "identity": None}


class RefusedError(Exception):
    """The node answered, and said no."""


class NoAnswerError(Exception):
    """The node died, or was dead: what it was asked may be done or not."""


async def until(find, what):
    """Return what `find` gives, once it gives anything; `what` says what is wrong if it never does."""
    return await eventually(find, SECONDS, 0.02, what)


def _message_in(answer):
    """The one message of an MCP answer: its body, or the last event of a slow one."""
    if answer.headers["Content-Type"].startswith("text/event-stream"):
        said = [line for line in answer.text.splitlines() if line.startswith("data: {")]
        return json.loads(said[-1].removeprefix("data: "))
    return answer.json()


class LiveNode:
    """`comity up` on a folder, at the same port whenever it starts. `up` is set while it may be asked."""

    def __init__(self, name, folder):
        self.name = name
        self.data = folder / name
        self.url = f"http://127.0.0.1:{(port := unused_port())}"
        self.up = asyncio.Event()
        self.vacant_id = None
        self.session_id = None
        self.http = None
        self._runs = folder / f"{name}.runs"
        self._log = folder / f"{name}.log"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COMITY_")},
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
            "TORTURE_RUNS": str(self._runs),
            "COMITY_DATA": str(self.data),
            "COMITY_PORT": str(port),
            "COMITY_AGENT_BEHAVIOUR": "tests.torture.counting_agent:answer",
            "COMITY_DELIBERATIONS_RETRY_SECONDS": "0.2",
            "COMITY_PEERS_SAME_HOST": "true",
        }
        self._process = None

    async def launch(self):
        """Start the process, and wait for nothing."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "comity", "up", "--json"),
                env=self._environ,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )

    async def start(self):
        await self.launch()
        async with asyncio.timeout(SECONDS):
            line = await self._process.stdout.readline()
        assert line, f"{self.name} did not start: {self._log.read_text()[-2000:]}"
        if self.http is None:
            self.vacant_id = VacantId.from_hex(json.loads(line)["vacant_id"])
            token = (self.data / "token").read_text().strip()
            self.http = httpx.AsyncClient(
                base_url=self.url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=SECONDS,
                trust_env=False,
            )
        self.up.set()

    async def kill(self):
        self.up.clear()
        self._process.send_signal(signal.SIGKILL)
        assert await self._process.wait() == -signal.SIGKILL, "it had ended by itself"

    async def stop(self):
        if self._process is not None and self._process.returncode is None:
            self.up.clear()
            self._process.terminate()
            await self._process.wait()
        if self.http is not None:
            await self.http.aclose()

    async def post(self, path, **request):
        try:
            return await self.http.post(path, **request)
        except httpx.TransportError as lost:
            raise NoAnswerError from lost

    async def use_room(self, tool, **arguments):
        if self.session_id is not None:
            arguments = {"session_id": self.session_id, **arguments}
        body = {"tool": tool, "arguments": arguments, "client": "torture"}
        answer = await self.post("/v1/rooms", json=body)
        if answer.status_code != 200:
            raise RefusedError(answer.text)
        return answer.json()

    async def use_vote(self, tool, **arguments):
        """An operation of the consensus extension, as the owner of the node."""
        greeting = {"space.creed/vcp-hello": HELLO}
        message = modern(1, "tools/call", {"name": f"vcp_{tool}", "arguments": arguments}, **greeting)
        answer = await self.post("/mcp", **posted(message, repeated(message)))
        result = _message_in(answer).get("result", {"isError": True})
        if result["isError"]:
            raise RefusedError(answer.text)
        return result["structuredContent"]

    def runs(self):
        """How often the agent ran for each text."""
        return Counter(self._runs.read_text().splitlines()) if self._runs.exists() else Counter()

    @asynccontextmanager
    async def reading(self):
        async with reading(Settings(data=self.data), SystemClock()) as store:
            yield store

    async def command(self, *arguments):
        """What `comity` prints as JSON for this folder, and its exit code."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "comity", *map(str, arguments), "--json"),
            env={name: value for name, value in self._environ.items() if name != "COMITY_PORT"},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return process.returncode, json.loads(out)
