"""The nodes of the demo: real `comity up` children on free ports in a temporary folder, and how each is spoken to.

- Nothing of the user is read or changed: no data folder, no setting, no variable of Comity.
- Whatever happens, the children are stopped by their pids and the folder is removed. A child has a session of its own, so
  that Ctrl-C reaches the demo alone and the children are stopped in order.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, TypeVar

from comity.http.client import GuardedHttp, HttpResponse
from comity.identity.key_files import create_identity
from comity.identity.secrets import TOKEN_FILE, read_token
from comity.node.parts import LINK_PATH
from comity.release import __version__
from comity.runtime.settings import Settings
from comity.terminal.open_target import own_node
from comity.terminal.output import DEBUG_VARIABLE
from comity.vcp.client_over_mcp import REVISION, McpOverHttp
from comity.vcp.client_targets import McpTarget
from comity.vcp.protocol import mcp_places as vcp_places
from comity.wire import strict_json
from comity.wire.errors import ComityError

T = TypeVar("T")

START_SECONDS: Final = 60.0
HTTP_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.02

_COMITY: Final = (sys.executable, "-m", "comity")
_OFFLINE: Final = {"WRTC_ALLOW_LOOPBACK": "1"}
"""WebRTC between two nodes of this machine works without any network, too."""

_FOREIGN: Final = ("ENVIRONMENT", "VCP_CONTEXT_ENCRYPTION_KEY")


class SceneFailedError(ComityError):
    """a scene of the demo did not have the expected result; the log of its node is shown"""

    code = "scene_failed"

    def __init__(self, message: str, node: "DemoNode") -> None:
        super().__init__(message)
        self.node = node


class DemoNode:
    """A child that runs `comity up` for one owner."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.data = folder / name.lower()
        self.log = folder / f"{name.lower()}.log"
        self.key = create_identity(self.data)
        self.id = self.key.vacant_id.hex()
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._ready = folder / f"{name.lower()}.ready"
        self._http = GuardedHttp(allow_loopback=True, timeout=HTTP_SECONDS)

    async def start(self, *flags: str, **settings: str) -> None:
        command = [*_COMITY, "up", "--port", "0", "--json", "--data", str(self.data), *flags]
        variables = {f"COMITY_{name}": value for name, value in settings.items()}
        with self._ready.open("wb") as out, self.log.open("wb") as errors:
            self.process = subprocess.Popen(  # noqa: ASYNC220, S603 - it takes a moment only, and runs this very program
                command,
                env={**os.environ, **_OFFLINE, "XDG_RUNTIME_DIR": str(self.data.parent), **variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
        self.url = await self._ready_url(self.process)

    async def _ready_url(self, process: "subprocess.Popen[bytes]") -> str:
        until = time.monotonic() + START_SECONDS
        while not (line := self._ready.read_bytes()).endswith(b"\n"):
            if process.poll() is not None:
                raise SceneFailedError(f"the node of {self.name} ended with {process.returncode}", self)
            if time.monotonic() > until:
                raise SceneFailedError(
                    f"the node of {self.name} was not ready within {START_SECONDS:g} seconds", self
                )
            await asyncio.sleep(POLL_SECONDS)
        return str(strict_json.loads(line)["url"])

    async def page_link(self) -> str:
        """Return a link to its page, which works once."""
        return str((await self.ask(LINK_PATH, {}))["link"])

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines of its log."""
        if not self.log.exists():
            return []
        return self.log.read_text(errors="replace").splitlines()[-count:]

    async def post(self, path: str, body: Any) -> HttpResponse:
        """Send a POST without a token."""
        with failing_at(self):
            return await self._http.request("POST", self.url + path, body)

    async def ask(self, path: str, body: Any) -> dict[str, Any]:
        """Return the answer to a command of its owner. Raise SceneFailedError for a refusal."""
        own = own_node(Settings(data=self.data), HTTP_SECONDS)
        if own is None:
            raise SceneFailedError(f"the node of {self.name} could not be reached; it is not running", self)
        try:
            with failing_at(self):
                return await own.ask("POST", path, body)
        finally:
            await own.http.aclose()

    async def room(self, tool: str, folder: Path | None = None, **arguments: Any) -> dict[str, Any]:
        """Call a tool of its rooms. Files may be sent from and saved to `folder`."""
        body: dict[str, Any] = {"tool": tool, "arguments": arguments, "client": "demo"}
        if folder is not None:
            body["folder"] = str(folder)
        return await self.ask("/v1/rooms", body)

    @contextlib.asynccontextmanager
    async def model(self, *extensions: str) -> AsyncIterator["ModelClient"]:
        """Open an MCP client of its owner, with VCP extensions if named."""
        carrier = McpOverHttp(McpTarget(address=f"{self.url}/mcp", bearer=self._token()), None)
        client = ModelClient(self, carrier)
        try:
            await client.begin(extensions)
            yield client
        finally:
            await carrier.close()

    async def command(self, *arguments: str) -> dict[str, Any]:
        """Run a command on the data folder of the node, and return the JSON that it prints."""
        process = await asyncio.create_subprocess_exec(
            *_COMITY,
            *arguments,
            "--json",
            "--data",
            str(self.data),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                out, errors = await process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if process.returncode:
            said = (errors or out).decode(errors="replace").strip()
            raise SceneFailedError(f"`comity {' '.join(arguments[:2])}` failed: {said}", self)
        result: dict[str, Any] = strict_json.loads(out)
        return result

    async def close(self) -> None:
        await self._http.aclose()

    def _token(self) -> str:
        return read_token(self.data / TOKEN_FILE)


class ModelClient:
    """An MCP client, as the host of a model is: it opens a session and calls tools."""

    def __init__(self, node: DemoNode, carrier: McpOverHttp) -> None:
        self._node = node
        self._carrier = carrier
        self._number = 0

    async def begin(self, extensions: tuple[str, ...]) -> None:
        params: dict[str, Any] = {
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "comity-demo", "version": __version__},
        }
        if extensions:
            hello = {"type": "vcp-hello", "version": "3.1", "min_version": "3.1", "extensions": extensions}
            params |= vcp_places.hello_for_initialize(hello)
        await self._request("initialize", params)
        await self._carrier.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured result of a tool. Raise SceneFailedError for a refusal."""
        result = await self._request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            texts = " ".join(block.get("text", "") for block in result.get("content", ()))
            raise SceneFailedError(f"the tool {tool} refused: {texts}", self._node)
        content: dict[str, Any] = result["structuredContent"]
        return content

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        with failing_at(self._node):
            answer = await self._carrier.request(asked)
        if "error" in answer:
            raise SceneFailedError(f"{method} was refused: {answer['error'].get('message')}", self._node)
        result: dict[str, Any] = answer["result"]
        return result


class DemoNodes:
    """The folder of the demo and the three nodes in it."""

    def __init__(self, *, keep: bool = False) -> None:
        """With `keep`, connections of the scenes stay open until the nodes stop."""
        self.keeps = keep
        self.stack = contextlib.AsyncExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="comity-demo-"))
        try:
            self.anna, self.bert, self.carol = (
                DemoNode(name, self.folder) for name in ("Anna", "Bert", "Carol")
            )
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def all(self) -> tuple[DemoNode, DemoNode, DemoNode]:
        return self.anna, self.bert, self.carol

    @contextlib.asynccontextmanager
    async def opened(self, context: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Open for the block, or for as long as the nodes are kept."""
        if self.keeps:
            yield await self.stack.enter_async_context(context)
        else:
            async with context as entered:
                yield entered

    def running(self) -> list["subprocess.Popen[bytes]"]:
        started = [node.process for node in self.all if node.process is not None]
        return [process for process in started if process.poll() is None]

    def stop(self) -> None:
        """Stop the children and remove the folder. A second Ctrl-C does not keep it from that."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in _interrupts()}
        try:
            for process in self.running():
                process.terminate()
            until = time.monotonic() + STOP_SECONDS
            for process in self.running():
                try:
                    process.wait(max(0.0, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.asynccontextmanager
async def open_nodes(*, keep: bool = False) -> AsyncIterator[DemoNodes]:
    """Open the nodes of a demo, and remove them when the block ends. SIGTERM and a closed terminal end it like Ctrl-C."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for number in _interrupts()[1:]:
        if signal.getsignal(number) is signal.SIG_IGN:  # `nohup comity demo`
            continue
        with contextlib.suppress(NotImplementedError):  # not every system has them
            loop.add_signal_handler(number, task.cancel)
    nodes = DemoNodes(keep=keep)
    try:
        yield nodes
    finally:
        try:
            await nodes.stack.aclose()
            for node in nodes.all:
                await node.close()
        finally:
            nodes.stop()


@contextlib.contextmanager
def no_settings_of_the_user() -> Iterator[None]:
    """Hide the variables of the user from the demo and its children inside the block."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if (name.startswith("COMITY_") or name in _FOREIGN) and name != DEBUG_VARIABLE
    }
    for name in kept:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept)


@contextlib.contextmanager
def failing_at(node: DemoNode) -> Iterator[None]:
    """Report failures in the block as failures of this node."""
    try:
        yield
    except SceneFailedError:
        raise
    except ComityError as failure:
        raise SceneFailedError(failure.message, node) from failure


def expect(true: object, otherwise: str, node: DemoNode) -> None:
    """Raise SceneFailedError unless the value is true."""
    if not true:
        raise SceneFailedError(otherwise, node)


def _interrupts() -> list[signal.Signals]:
    """Return the signals that end the demo, SIGINT first."""
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
