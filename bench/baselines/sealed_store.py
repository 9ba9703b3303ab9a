"""The least that keeps what a WebSocket tells it: reads each text as JSON, encrypts it, stores it durably, answers.

The store, the vault and the server are those of a node; nothing is checked, remembered or put on record.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from bench.baselines.serve import serve
from comity.identity.secrets import new_vault_key
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Put
from comity.store.sqlite import SqliteStore
from comity.store.vault import Vault
from comity.wire import strict_json

Message = MutableMapping[str, Any]


class SealedStore:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._vault = Vault([new_vault_key()])
        self._opening: asyncio.Task[SqliteStore] | None = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "websocket":
            return
        if self._opening is None:
            self._opening = asyncio.create_task(SqliteStore.open(self._file, SystemClock()))
        store = await self._opening
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            value = strict_json.loads(message["text"].encode(), unique_keys=True)
            sealed = self._vault.seal(strict_json.dumps(value))
            await store.commit(Put(space="bench", key="one", value=sealed))
            await send({"type": "websocket.send", "text": strict_json.dumps({"accepted": True}).decode()})


if __name__ == "__main__":
    serve(SealedStore(Path(sys.argv[1])), ws="websockets-sansio")
