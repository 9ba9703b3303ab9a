"""The node of the data folder, for commands: asked while it runs, else opened here, or its folder alone.

- A running node is asked by its owner through the socket that it names in `node.json`, usually `owner.sock` in the folder.
  One that names none (on Windows there are no such sockets) is asked at its own address, with its token. An https node must
  then show the key that it names there, whatever certificate the settings of the command know.
- `open_guest` opens the node inside this process, without doors.
- `writing` opens the database, also while a node runs. Each process that writes has an audit chain of its own: `cli`, or
  `cli-2` while another command has that.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from comity.http.addresses import read_url, with_pin
from comity.identity.secrets import TOKEN_FILE, read_token
from comity.runtime.lazy import NODE, late, load
from comity.runtime.part import Part
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.claim import FolderClaim, RunningNode, running_node
from comity.terminal.options import KeyOptions, passphrase_for, read_passphrase, settings_of
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    ConfigError,
    ConflictError,
    InvalidError,
    MalformedError,
    NotFoundError,
    UnusableAnswerError,
)

if TYPE_CHECKING:
    from comity.http import client as http_client
    from comity.identity import key_files
    from comity.identity.protocol.keys import SigningKey, VacantId
    from comity.requests import handler, record
    from comity.runtime import opening
    from comity.runtime.node_runtime import NodeRuntime
    from comity.store.interface import Store
    from comity.store.vault import Vault
else:
    http_client = late("comity.http.client")
    key_files = late("comity.identity.key_files")
    handler = late("comity.requests.handler")
    record = late("comity.requests.record")
    opening = late("comity.runtime.opening")

_TIMEOUT: Final = 15.0
_SOCKET_BASE: Final = "http://localhost"
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - where such a node is asked from here
_REFUSALS: Final[dict[int, type[ComityError]]] = {400: InvalidError, 404: NotFoundError, 409: ConflictError}
CLI_CHAIN: Final = "cli"

_Own = TypeVar("_Own")
_Result = TypeVar("_Result")


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
            self.http = http_client.GuardedHttp(timeout=timeout, unix_socket=Path(running.owner_socket))
            self._proof: dict[str, str] = {}
        else:
            self.base = with_pin(self.url, running.pin) if running.pin else self.url
            self.http = http_client.GuardedHttp(
                allow=[host.strip("[]")], allow_loopback=True, timeout=timeout
            )
            self._proof = {"authorization": f"Bearer {read_token(settings.data / TOKEN_FILE)}"}

    async def ask(self, method: str, path: str, json: Any = None) -> dict[str, Any]:
        """Return the JSON object of the answer. Raise the refusal, such as NotFoundError for a path that it does not have."""
        status, body = await self.answer(method, path, json)
        if status == 200:
            return body
        raise self.refusal(status, body)

    async def answer(self, method: str, path: str, json: Any = None) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of the answer, also where that is a refusal."""
        answer = await self.http.request(method, self.base + path, json, self._proof)
        return answer.status, _object(answer.body)

    async def stream(self, path: str, headers: Mapping[str, str], *, silence: float) -> AsyncIterator[bytes]:
        """Yield the parts of a long answer as they come."""
        async with self.http.stream(self.base + path, {**headers, **self._proof}, silence=silence) as answer:
            if answer.status != 200:
                raise self.refusal(answer.status, _object(b"".join([part async for part in answer.parts])))
            async for part in answer.parts:
                yield part

    def refusal(self, status: int, body: dict[str, Any]) -> ComityError:
        """Return the error for an answer with this status."""
        kind = _REFUSALS.get(status, UnusableAnswerError)
        said = str(body.get("detail", "")) or f"status {status}"
        return kind(f"the node at {self.url} refused: {said}")


def own_node(settings: Settings, timeout: float = _TIMEOUT) -> OwnNode | None:
    """Return the node that runs on the data folder, or None. It has `timeout` seconds for each answer."""
    running = running_node(settings.data)
    return None if running is None else OwnNode(settings, running, timeout)


def require_node(settings: Settings, timeout: float = _TIMEOUT) -> OwnNode:
    """Return the node that runs on the data folder. Raise NotFoundError if there is none."""
    own = own_node(settings, timeout)
    if own is None:
        raise no_node(settings)
    return own


def no_node(settings: Settings) -> NotFoundError:
    return NotFoundError(
        f"no node is running on {settings.data}; start one with `comity up`, or name its folder with --data"
    )


@contextlib.asynccontextmanager
async def open_serving(settings: Settings) -> "AsyncIterator[NodeRuntime]":
    """Run the node of the folder inside this process, for as long as the block lasts, as `comity up` does."""
    node = load(NODE)(settings, may_move_port=True)
    await node.start()
    try:
        yield node.runtime
    finally:
        await node.stop()


@contextlib.asynccontextmanager
async def open_guest(settings: Settings) -> "AsyncIterator[NodeRuntime]":
    """Open the node of the folder inside this process, for as long as the block lasts. Nobody else can reach it."""
    node = load(NODE)(settings, guest=True)
    await node.start()
    try:
        yield node.runtime
    finally:
        await node.stop()


def refuse_memory(settings: Settings, what: str) -> None:
    if settings.store.is_volatile:
        raise ConfigError(
            f"store.engine {settings.store.engine} keeps nothing on disk, and {what}; use sqlite"
        )


def refuse_off(settings: Settings, part: type[Part]) -> None:
    if not part.is_wanted(settings):
        raise ConfigError(part.off_sentence())


def own_id(settings: Settings) -> "VacantId":
    """Return the id of the identity in the folder."""
    _refuse_missing(settings)
    return key_files.stored_vacant_id(settings.data)


def own_key(settings: Settings, passphrase_file: str | None) -> "SigningKey":
    _refuse_missing(settings)
    return key_files.load_identity(settings.data, passphrase=passphrase_for(settings.data, passphrase_file))


def new_key(settings: Settings, passphrase_file: str | None) -> "tuple[SigningKey, bool]":
    """Return the key of a folder, made if there is none, and whether it was made."""
    passphrase = None if passphrase_file is None else read_passphrase(passphrase_file)
    return key_files.load_or_create_identity(settings.data, passphrase=passphrase)


def _refuse_missing(settings: Settings) -> None:
    if not key_files.has_identity(settings.data):
        raise NotFoundError(
            f"there is no identity in {settings.data}; make one with `comity id new`, or start a node: `comity up`"
        )


@contextlib.asynccontextmanager
async def writing(
    settings: Settings, key: "SigningKey", *, claim: bool = False
) -> "AsyncIterator[tuple[Store, record.Recorder, str]]":
    """Open the store, its record, and the chain that this process writes. What is done in the block is one request.
    With `claim` no node may run meanwhile.
    """
    with contextlib.ExitStack() as held:
        if claim:
            held.callback(FolderClaim(settings.data).release)
        clock, trail = SystemClock(), opening.open_trail(settings, key, CLI_CHAIN)
        store = await opening.open_store(settings, clock, trail)
        handler.begin_request(record.REQUEST_IDS.new())
        try:
            yield store, record.Recorder(store, clock, level=settings.audit.level), trail.chain
        finally:
            await store.close()


def own_vault(settings: Settings) -> "Callable[[], Vault]":
    """Return the vault of the folder each time with the keys that the file holds then: a node may rotate them."""
    return opening.open_vault(settings)


def work_with(
    opening: Callable[[Settings, str | None], AbstractAsyncContextManager[_Own]],
    home: KeyOptions,
    work: Callable[[_Own], Awaitable[_Result]],
) -> _Result:
    """Open a data folder and run `work`."""
    settings = settings_of(home).settings

    async def run() -> _Result:
        async with opening(settings, home.passphrase_file) as own:
            return await work(own)

    return asyncio.run(run())


def _object(answer: bytes) -> dict[str, Any]:
    try:
        body = strict_json.loads(answer)
    except MalformedError:
        body = None
    return body if isinstance(body, dict) else {}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
