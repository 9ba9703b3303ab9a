"""The runtime: what the parts of a node share. It opens from the inside out: folder, keys, store, record, pipeline.

What is opened is pushed onto `stack`, and closed in the opposite order.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from comity.bus.in_process import InProcessBus
from comity.http.client import ANSWER_LIMIT, GuardedHttp
from comity.identity.key_files import load_or_create_identity
from comity.identity.private_files import ensure_private_folder
from comity.identity.protocol.keys import VacantId
from comity.identity.secrets import (
    READ_TOKEN_FILE,
    TOKEN_FILE,
    VAULT_KEY_FILE,
    VAULT_KEY_VARIABLE,
    TokenBook,
    VaultKeyFile,
    load_or_create_token,
    load_or_create_vault_keys,
    read_vault_keys,
)
from comity.identity.succession_files import read_own_line
from comity.release import __version__
from comity.requests.budget import Budget, Figures
from comity.requests.metrics import Metrics
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder, own_act
from comity.requests.tracing import open_tracing
from comity.runtime.lazy import late
from comity.runtime.opening import open_store, open_trail
from comity.runtime.outside import NoOutsideDoor, OutsideDoor
from comity.runtime.part import Chore, Part
from comity.runtime.replaced_keys import record_replaced_keys
from comity.runtime.settings import Settings
from comity.store.audit_chain import timestamp
from comity.store.audit_log import RESTORED, keep_restored, read_restored
from comity.store.audit_trail import RestoreMark
from comity.store.claim import FolderClaim
from comity.store.vault import Vault
from comity.system import is_loopback
from comity.wire.errors import ComityError, KeyRefusedError, NotFoundError
from comity.wire.machine import Clock

if TYPE_CHECKING:
    from comity.requests import events
    from comity.requests.events import Events
else:
    events = late("comity.requests.events")

log = logging.getLogger("comity.node")

MAIN_CHAIN: Final = "main"
FIRST_CHORES: Final = 60.0
"""The first chores of a node, so that they also run in one that never runs for long."""

_P = TypeVar("_P", bound=Part)


class NodeRuntime:
    def __init__(
        self, settings: Settings, clock: Clock, stack: AsyncExitStack, stopping: asyncio.Event
    ) -> None:
        """`stopping` is set as soon as the node was asked to stop. Later `failure` says why it stops by itself, `claim`
        is None for a guest, and `restored_at` is when the store was restored from a backup. Without the part `watching`
        there are no `events`, no `new_entry_link` to the page and no `end_browser_sessions`.
        """
        self.settings = settings
        self.clock = clock
        self.stack = stack
        self.stopping = stopping
        self.notices: list[str] = []
        self.failure: ComityError | None = None
        self.claim: FolderClaim | None = None
        self.restored_at: float | None = None
        self.vault_file: VaultKeyFile | None = None
        self.new_entry_link: Callable[..., str] | None = None
        self.end_browser_sessions: Callable[[], int] | None = None
        self.url = ""
        self.parts: list[Part] = []
        self.events: Events | None = None
        self.guest = False
        self.outside: OutsideDoor = NoOutsideDoor()
        self._started_at = clock.monotonic()

    @property
    def vacant_id(self) -> VacantId:
        return self.key.vacant_id

    def current_vault(self) -> Vault:
        """Return the vault with the keys that the file holds now; they may be rotated or removed while the node runs."""
        file = self.vault_file
        if file is not None and file.has_changed():
            self.vault = self._read_vault(file)
        return self.vault

    def _read_vault(self, file: VaultKeyFile) -> Vault:
        """Return the vault of the file. If the file is gone, no new key is made."""
        try:
            keys = read_vault_keys(file.path)
        except KeyRefusedError as reason:
            log.error("the vault cannot be used: %s", reason)  # noqa: TRY400 - a sentence, no fault of ours
            keys = []
        return Vault(keys, environment=self.settings.environment)

    def uptime(self) -> float:
        return self.clock.monotonic() - self._started_at

    def find(self, kind: type[_P]) -> _P:
        """Return the open part of that class. Raise NotFoundError if it is switched off."""
        part = self.find_open(kind)
        if part is None:
            raise NotFoundError(kind.off_sentence())
        return part

    def find_open(self, kind: type[_P]) -> _P | None:
        """Return the open part of that class, or None if it is switched off."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    async def open(self, passphrase: str | None, *, guest: bool) -> None:
        """Open folder, keys, store, record and pipeline. A guest shares the data folder with other processes."""
        settings = self.settings
        data = settings.data
        self.guest = guest
        await asyncio.to_thread(ensure_private_folder, data)
        if not guest:
            claim = self.claim = FolderClaim(data)
            self.stack.callback(claim.release)
        self.key, _made = await asyncio.to_thread(load_or_create_identity, data, passphrase=passphrase)
        self.line = read_own_line(data, self.key.vacant_id)
        self.token = load_or_create_token(data / TOKEN_FILE)
        self.read_token = load_or_create_token(data / READ_TOKEN_FILE)
        self.named_tokens = TokenBook(data, self.clock)
        # before the keys are read, so that a change in between is noticed
        self.vault_file = None if VAULT_KEY_VARIABLE in os.environ else VaultKeyFile(data / VAULT_KEY_FILE)
        keys = load_or_create_vault_keys(data / VAULT_KEY_FILE, os.environ.get(VAULT_KEY_VARIABLE))
        self.vault = Vault(keys, environment=settings.environment, plaintext=settings.vault.plaintext)
        trail = open_trail(settings, self.key, MAIN_CHAIN)
        self.trail, self.chain = trail, trail.chain
        self.store = await open_store(settings, self.clock, trail)
        self.stack.push_async_callback(self.store.close)
        self.metrics = Metrics(
            __version__, self.uptime, lambda: (metric for part in self.parts for metric in part.metrics())
        )
        self.budget = Budget(self.clock, figures_of(settings))
        self.bus = InProcessBus()
        self.stack.push_async_callback(self.bus.close)
        if "watching" not in settings.off:
            self.events = events.Events(self.bus)
            self.stack.push_async_callback(self.events.close)
        tracing = open_tracing(os.environ, self.notices.append)
        if tracing is not None:
            self.stack.push_async_callback(tracing.close)
        self.record = (Recorder if tracing is None else tracing.recorder)(
            self.store, self.clock, metrics=self.metrics, events=self.events, level=settings.audit.level
        )
        self.pipeline = (Pipeline if tracing is None else tracing.pipeline)(
            self.record, self.clock, budget=self.budget
        )
        await self._begin_after_restore(guest=guest)
        await record_replaced_keys(self.store, self.record, self.line)
        await self.note("NODE_STARTED")
        self.stack.push_async_callback(self.note, "NODE_STOPPED")
        self.stack.callback(self.record.flush)

    def open_http(self, seconds: float, answer_limit: int = ANSWER_LIMIT) -> GuardedHttp:
        """Open a client with the exceptions of the owner (ruling 12). It is closed with the node."""
        http = GuardedHttp(
            allow=self.settings.dispatch.hosts,
            allow_loopback=is_loopback(self.settings.host),
            timeout=seconds,
            answer_limit=answer_limit,
            pinned_private=True,
        )
        self.stack.push_async_callback(http.aclose)
        return http

    def open_public_http(self, seconds: float) -> GuardedHttp:
        """Open a client for public addresses only, for addresses that others than the owner have named."""
        http = GuardedHttp(timeout=seconds)
        self.stack.push_async_callback(http.aclose)
        return http

    async def open_parts(self, kinds: Iterable[type[Part]]) -> None:
        """Open the parts that the settings want, then start their chores."""
        known = tuple(kinds)
        self.kinds = tuple(kind for kind in known if kind.is_wanted(self.settings))
        self.kinds_off = tuple(kind for kind in known if kind not in self.kinds)
        for kind in self.kinds:
            part = kind()
            await part.open(self)
            self.parts.append(part)
        for part in self.parts:
            if part.chores:
                await self.stack.enter_async_context(running(run_chores(self.clock, part.chores)))

    async def _begin_after_restore(self, *, guest: bool) -> None:
        restored = await read_restored(self.store)
        if restored is not None and not restored.started and not guest:
            restored = RestoreMark(at=self.clock.now(), started=True, since=restored.since)
            moment = f"signed-after:{timestamp(restored.at)}"
            await self.record.commit_counted((keep_restored(restored),), own_act(RESTORED, moment))
        self.restored_at = None if restored is None else restored.at

    def fail(self, reason: ComityError) -> None:
        """Stop the node because of this failure."""
        log.error("the node stops: %s", reason)
        self.failure = self.failure or reason
        self.stopping.set()

    async def note(self, result: str) -> None:
        """Record something that the node does by itself."""
        await self.record.commit_counted((), own_act(result))


def figures_of(settings: Settings) -> Figures:
    """Read what the budget needs from its two sections of the settings."""
    rate = settings.rate
    return Figures(
        requests=rate.requests,
        bytes=rate.bytes,
        per_seconds=rate.per_seconds,
        new_pairs=rate.new_pairs,
        handshakes=settings.vcp.handshakes,
        loopback_handshakes=settings.vcp.loopback_handshakes,
        limit_loopback=rate.limit_loopback,
    )


async def run_chores(clock: Clock, chores: Iterable[Chore]) -> None:
    """Run each chore every so many seconds, and soon after the start. One that fails is tried again next
    time.
    """
    due = {chore: clock.monotonic() + min(chore.every, FIRST_CHORES) for chore in chores}
    while True:
        await clock.sleep(max(0.0, min(due.values()) - clock.monotonic()))
        for chore, moment in due.items():
            if moment <= clock.monotonic():
                due[chore] = clock.monotonic() + chore.every
                try:
                    await chore.run()
                except ComityError as reason:
                    log.warning("a periodic task failed and will be tried again: %s", reason)
                except Exception:
                    log.exception("a periodic task failed and will be tried again")


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run it in the background until the block ends."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
