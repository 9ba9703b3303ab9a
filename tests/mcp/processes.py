"""An MCP server as a process of its own, talked to over its pipes."""

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

from tests.mcp.conversing import line
from tests.places import ROOT

SECONDS = 20.0
WORKSHOP = (sys.executable, "-m", "tests.mcp.workshop")
COMITY = (sys.executable, "-m", "comity", "mcp")


class Process:
    def __init__(self, process):
        self._process = process
        self.pid = process.pid

    def say(self, *messages):
        for message in messages:
            self._process.stdin.write(message if isinstance(message, bytes) else line(message))

    async def drain(self):
        await self._process.stdin.drain()

    async def hear(self):
        """The next message."""
        async with asyncio.timeout(SECONDS):
            return json.loads(await self._process.stdout.readline())

    async def answer(self, id_):
        """The answer to a request; what comes before it is passed over."""
        while (message := await self.hear()).get("id") != id_:
            pass
        return message

    async def ask(self, message):
        self.say(message)
        return await self.answer(message["id"])

    def resident(self):
        """Bytes of memory in use now; Linux only."""
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number):
        self._process.send_signal(number)

    def end(self):
        self._process.stdin.close()

    async def wait(self):
        return await self._process.wait()

    async def over(self):
        """Exit code, the rest of stdout, stderr."""
        async with asyncio.timeout(SECONDS):
            out, err = await asyncio.gather(self._process.stdout.read(), self._process.stderr.read())
            return await self._process.wait(), out, err.decode()


@contextlib.asynccontextmanager
async def started(*command, env=None, **options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VDON_")}
    settings = {
        "stdin": asyncio.subprocess.PIPE,
        "stdout": asyncio.subprocess.PIPE,
        "stderr": asyncio.subprocess.PIPE,
        "cwd": ROOT,
        "limit": 1 << 26,
        **options,
    }
    process = await asyncio.create_subprocess_exec(*command, env={**environment, **(env or {})}, **settings)
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.communicate() if process.stdout is not None else await process.wait()


def comity_mcp(data, *flags, **options):
    return started(*COMITY, "--data", str(data), *flags, **options)
