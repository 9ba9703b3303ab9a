"""How replies are stored: sealed by the vault and bound to their pair and number.

A stored reply that begins as JSON was stored by an earlier release. It is still given again: it has the signature of this
node, and names the request that it answers.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from comity.store.interface import ChainKey, place_of
from comity.store.vault import Vault
from comity.wire.errors import StoreCorruptError

_LOOK_EVERY: Final = 0.25
"""Seconds. A rotation waits longer than that for values under the key before it."""


class ReplyVault:
    """Without a vault replies are stored as they are. The one that seals is asked for now and then, because that looks at
    a file, and every call comes through here; the one that opens is asked for each time.
    """

    def __init__(self, vault: Callable[[], Vault] | None) -> None:
        self._vault = vault
        self._sealing: Vault | None = None
        self._look_at = 0.0

    def require(self) -> None:
        """Raise KeyRefusedError if nothing can be sealed: before work is done whose reply could not be stored."""
        if self._vault is not None and self._sealing is None:
            self._vault().require()

    def seal(self, chain: ChainKey, number: int, reply: bytes) -> bytes:
        if self._vault is None:
            return reply
        vault, now = self._sealing, time.monotonic()
        if vault is None or now >= self._look_at:
            self._sealing = None  # until it is known that the newest one can seal
            vault = self._vault()
            vault.require()
            self._sealing, self._look_at = vault, now + _LOOK_EVERY
        return vault.seal_in(_place(chain, number), reply)

    def open(self, chain: ChainKey, number: int, stored: bytes) -> bytes | None:
        """Return the reply; None for what does not open."""
        if self._vault is None or stored.startswith(b"{"):
            return stored
        return self._vault().open_in(_place(chain, number), stored)

    def give(self, chain: ChainKey, number: int, stored: bytes) -> bytes:
        """Return the reply, to be given again."""
        reply = self.open(chain, number, stored)
        if reply is None:
            raise StoreCorruptError(
                "a stored reply cannot be decrypted; restore vault.key in the data folder, or set VCP_CONTEXT_ENCRYPTION_KEY"
            )
        return reply


def _place(chain: ChainKey, number: int) -> bytes:
    return b"%b\0%d" % (_place_of_all(chain), number)


@lru_cache(4096)
def _place_of_all(chain: ChainKey) -> bytes:
    return place_of("reply", chain.book, chain.sender, chain.receiver)
