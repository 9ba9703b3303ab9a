"""Replay protection for programs that serve a vacant themselves.

`check_and_advance` applies the chain rule and moves the pair in one compare-and-set, so that of several processes on
one store exactly one accepts an envelope. Check the signature before you call it.
"""

import asyncio
from pathlib import Path

from comity.envelopes.protocol.chain import PairKey, ReplayState, ReplayStore, check_chain
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.queues import chain_of, state_of, tip_of
from comity.runtime.opening import open_file, open_in_memory
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Advance, Store, StoreConflict
from comity.wire.errors import StoreError


async def check_envelope(store: ReplayStore, env: VacantEnvelope) -> None:
    await store.check_and_advance(env)


class _OnStore:
    """Both stores, but for how the store underneath comes to be."""

    async def open_once(self) -> Store:
        """Return the store underneath, where replies are kept beside the pairs."""
        raise AssertionError("a replay store says what it stands on")

    async def get(self, key: PairKey) -> ReplayState:
        return state_of(await (await self.open_once()).tip(chain_of(key)))

    async def check_and_advance(self, env: VacantEnvelope) -> None:
        """Accept the next envelope of its pair, or raise ReplayDetectedError or ChainForkError."""
        store = await self.open_once()
        key = PairKey.from_envelope(env)
        state = await self.get(key)
        while True:
            accepted = check_chain(state, env)
            try:
                await store.commit(Advance(chain=chain_of(key), expected=tip_of(state), to=tip_of(accepted)))
            except StoreConflict as overtaken:
                state = state_of(overtaken.current)
            else:
                return


class InMemoryReplayStore(_OnStore):
    """Forgets everything with the process: for tests and for those who accept that."""

    def __init__(self) -> None:
        self._store = open_in_memory(SystemClock())

    async def open_once(self) -> Store:
        return self._store

    def seed(self, key: PairKey, state: ReplayState) -> None:
        """Set where a pair stands, whatever it was: for taking over from elsewhere, before traffic."""
        self._store.seed(chain_of(key), tip_of(state))


class SqliteReplayStore(_OnStore):
    """On a store that is open already, or on a file of its own, opened when first used."""

    def __init__(self, store_or_path: Store | Path | str) -> None:
        if not isinstance(store_or_path, Path | str) and not hasattr(store_or_path, "tip"):
            raise TypeError(
                "SqliteReplayStore takes the path of its file (a str or a Path) or a store of comity's that is "
                f"open, not {type(store_or_path).__name__}"
            )
        self._given = store_or_path
        self._opening: asyncio.Task[Store] | None = None

    async def open_once(self) -> Store:
        if not isinstance(self._given, Path | str):
            return self._given
        if self._opening is None:
            self._opening = asyncio.create_task(open_file(Path(self._given), SystemClock()))
        try:
            return await asyncio.shield(self._opening)
        except StoreError:
            self._opening = None  # the next envelope may find it mended
            raise

    async def init_schema(self) -> None:
        """Open now, so that a file that cannot be used is refused before the first envelope."""
        await self.open_once()

    async def close(self) -> None:
        """Close the file, if it is ours."""
        if self._opening is not None:
            await (await self._opening).close()
