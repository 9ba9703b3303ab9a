"""The parts `watching` and `operating`: the page, commands of the owner, and the check of the data folder.

`comity stop`, `comity open` (with `--end-all` too) and `comity vault rotate` each have a handler here. A data folder that is moved away or
removed while the node runs stops it: what it would store from then on is not where its owner looks for it.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from comity.identity.protocol.rights import Right
from comity.requests.owner_handler import OwnerHandler
from comity.runtime.lazy import late
from comity.runtime.part import Chore, Part
from comity.wire.errors import (
    ConflictError,
    NotFoundError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from starlette import routing

    from comity.http import app
    from comity.identity import secrets
    from comity.node import event_stream
    from comity.runtime.node_runtime import NodeRuntime
    from comity.store import vault
    from comity.store.interface import Store
else:
    app = late("comity.http.app")
    secrets = late("comity.identity.secrets")
    event_stream = late("comity.node.event_stream")
    vault = late("comity.store.vault")
    routing = late("starlette.routing")

# What happens on the node: the page at `/`, its views, and `/v1/events`.


class Watching(Part):
    name = "watching"
    paths = ("/v1/events", "/v1/views")
    open_paths = ("/", "/enter", "/assets")
    serves_outside = False

    async def serve(self, runtime: "NodeRuntime") -> None:
        assert runtime.events is not None, "events are kept where this part is wanted"
        self.hot = {
            event_stream.EVENTS_PATH: event_stream.EventsEndpoint(
                runtime.events, runtime.record, runtime.stopping
            )
        }


STOP_PATH: Final = "/v1/stop"
LINK_PATH: Final = "/v1/link"
BROWSERS_PATH: Final = "/v1/browsers/end"
ROTATION_PATH: Final = "/v1/vault/rotate"
ROTATION_SECONDS: Final = 3600.0

_CHECK_EVERY = 5.0


class Operating(Part):
    name = "operating"
    rights: ClassVar[Mapping[str, Right]] = MappingProxyType({ROTATION_PATH: "secrets"})

    async def open(self, runtime: "NodeRuntime") -> None:
        self._runtime = runtime
        if runtime.claim is not None:
            self.chores = [Chore(_CHECK_EVERY, self._check_folder)]

    async def serve(self, runtime: "NodeRuntime") -> None:
        handlers = {
            STOP_PATH: OwnerHandler("stop", self._stop),
            LINK_PATH: OwnerHandler("link", self._new_link, flag="read_only"),
            BROWSERS_PATH: OwnerHandler("browsers", self._end_browsers),
            ROTATION_PATH: OwnerHandler("vault", self._rotate, ROTATION_SECONDS, right="secrets"),
        }
        limit = runtime.settings.http.body_limit
        self.routes = [
            routing.Route(path, app.HandlerRoute(handler, runtime.pipeline, limit))
            for path, handler in handlers.items()
        ]

    async def _stop(self) -> dict[str, Any]:
        """Stop the node. Open requests finish first, this one too."""
        self._runtime.stopping.set()
        return {"stopping": True}

    async def _new_link(self, *, read_only: bool = False) -> dict[str, Any]:
        if self._runtime.new_entry_link is None:
            raise NotFoundError(Watching.off_sentence())
        return {"link": self._runtime.new_entry_link(reads_only=read_only), "read_only": read_only}

    async def _end_browsers(self) -> dict[str, Any]:
        if self._runtime.end_browser_sessions is None:
            raise NotFoundError(Watching.off_sentence())
        return {"ended": self._runtime.end_browser_sessions()}

    async def _rotate(self) -> dict[str, Any]:
        file = self._runtime.vault_file
        return await rotate_vault(
            self._runtime.store, None if file is None else file.path, self._runtime.clock.sleep
        )

    async def _check_folder(self) -> None:
        runtime = self._runtime
        if runtime.claim is None or runtime.stopping.is_set():
            return
        if runtime.claim.is_in_place():
            runtime.claim.announce_again()
            return
        runtime.fail(
            StoreUnavailableError(
                f"the data folder {runtime.settings.data} was moved or removed while the node ran; put it back, "
                "or start a node where it is now"
            )
        )


async def rotate_vault(
    store: "Store", file: "Path | None", sleep: Callable[[float], Awaitable[None]]
) -> dict[str, Any]:
    """Seal what is stored with a new key of the file. Where the keys come from the environment instead, with the
    first of those. Raise ConflictError, with all keys still in place, if a value does not open with any of them.
    """
    if file is None:
        keys = secrets.parse_vault_keys(os.environ[secrets.VAULT_KEY_VARIABLE])
        resealed = await vault.reseal_all(store, vault.Vault(keys))
    else:
        keys = secrets.read_vault_keys(file)
        resealed = await vault.rotate_keys(
            store, keys, secrets.new_vault_key(), partial(secrets.keep_vault_keys, file), sleep
        )
    place = secrets.VAULT_KEY_VARIABLE if file is None else str(file)
    if resealed.unreadable:
        tables = ", ".join(f"{count:,} in {table}" for table, count in resealed.unreadable.items())
        total = sum(resealed.unreadable.values())
        raise ConflictError(
            f"{total:,} of the stored values could not be decrypted with any key ({tables}), so no key was removed; "
            f"all others are encrypted with the first key. Add the key of those values to {place} "
            f"after the others, {'restart the node, ' if file is None else ''}and rotate again"
        )
    return {"resealed": resealed.values, "unreadable": 0, "keys": place}
