"""The node that runs on this data folder, asked by its owner: through the socket that the node names in
`node.json`, usually `owner.sock` in the folder.

A node that names none (on Windows there are no such sockets) is asked at its own address, with its token. Of an https node the
certificate must then be the very one that the settings name; nobody else need trust it.

Where none runs, a command may be one itself: `open_guest`.
"""

import contextlib
import importlib
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from comity.http.addresses import read_url
from comity.http.client import GuardedHttp
from comity.identity.secrets import TOKEN_FILE, read_token
from comity.runtime.settings import Settings
from comity.store.claim import RunningNode, running_node
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    ConflictError,
    InvalidError,
    MalformedError,
    NotFoundError,
    UnusableAnswerError,
)

if TYPE_CHECKING:
    from comity.runtime.node_runtime import NodeRuntime

_TIMEOUT: Final = 15.0
_NODE: Final = "comity.node.node"
"""It is above the terminal: imported by name, when a command becomes a node."""

_SOCKET_BASE: Final = "http://localhost"
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - where such a node is asked from here
_REFUSALS: Final[dict[int, type[ComityError]]] = {400: InvalidError, 404: NotFoundError, 409: ConflictError}


class OwnNode:
    """`url` is the address that people are shown, `base` the one that commands ask, through `http`."""

    def __init__(self, settings: Settings, running: RunningNode, timeout: float = _TIMEOUT) -> None:
        self.pid = running.pid
        where = read_url(running.url)
        host = _EVERYWHERE.get(where.host, where.host)
        self.url = running.url.replace(f"//{_bracketed(where.host)}:", f"//{_bracketed(host)}:")
        self.vacant_id = running.vacant_id
        if running.owner_socket:
            self.base = _SOCKET_BASE
            self.http = GuardedHttp(timeout=timeout, unix_socket=Path(running.owner_socket))
            self._proof: dict[str, str] = {}
        else:
            self.base = self.url
            tls = _only(settings.tls.cert) if settings.tls.cert else None
            self.http = GuardedHttp(allow=[host.strip("[]")], allow_loopback=True, timeout=timeout, tls=tls)
            self._proof = {"authorization": f"Bearer {read_token(settings.data / TOKEN_FILE)}"}

    async def ask(self, method: str, path: str, json: Any = None) -> dict[str, Any]:
        """The JSON object that it answers; NotFoundError when it serves no agent and so has no such path."""
        status, body = await self.answer(method, path, json)
        if status == 200:
            return body
        raise self.refusal(status, body)

    async def answer(self, method: str, path: str, json: Any = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of the answer, also where that is a refusal."""
        answer = await self.http.request(method, self.base + path, json, self._proof)
        return answer.status, _object(answer.body)

    async def stream(self, path: str, headers: Mapping[str, str], *, silence: float) -> AsyncIterator[bytes]:
        """The parts of an answer that goes on, as they come."""
        async with self.http.stream(self.base + path, {**headers, **self._proof}, silence=silence) as answer:
            if answer.status != 200:
                raise self.refusal(answer.status, _object(b"".join([part async for part in answer.parts])))
            async for part in answer.parts:
                yield part

    def refusal(self, status: int, body: dict[str, Any]) -> ComityError:
        """Say of an answer with this status that the node refused, and why."""
        kind = _REFUSALS.get(status, UnusableAnswerError)
        said = str(body.get("detail", "")) or f"status {status}"
        return kind(f"the node at {self.url} refused: {said}")


def own_node(settings: Settings, timeout: float = _TIMEOUT) -> OwnNode | None:
    """The node that runs on the data folder; it has `timeout` seconds for each answer."""
    running = running_node(settings.data)
    return None if running is None else OwnNode(settings, running, timeout)


def no_node(settings: Settings) -> NotFoundError:
    return NotFoundError(
        f"no node is running on {settings.data}; start one with `comity up`, or name its folder with --data"
    )


@contextlib.asynccontextmanager
async def open_guest(settings: Settings) -> "AsyncIterator[NodeRuntime]":
    """Make this process a node on the data folder that nobody else can reach, for as long as the block lasts."""
    node = importlib.import_module(_NODE).Node(settings, guest=True)
    await node.start()
    try:
        yield node.runtime
    finally:
        await node.stop()


def _object(answer: bytes) -> dict[str, Any]:
    try:
        body = strict_json.loads(answer)
    except MalformedError:
        body = None
    return body if isinstance(body, dict) else {}


def _only(cert: Path) -> ssl.SSLContext:
    """Trust in this certificate, whatever name the node is called by, and in no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cert)
    return context


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
