"""On whose account the directory keeps what it was sent: that of the address that sent the thing first."""

from collections.abc import Callable

from msgspec import Struct

from comity.requests.budget import CARDS, Quota
from comity.requests.handler import Call
from comity.store.interface import Hold, Store


class Reserved(Struct):
    """What a request has set aside while it is on its way."""

    bytes: int = 0
    holder: str = ""


class Account:
    def __init__(self, store: Store, quota: Quota | None) -> None:
        self._store = store
        self._quota = quota

    async def hold(self, call: Call, item: str, size: Callable[[int], int]) -> Hold:
        """Return what counts the thing, and set aside how much it grows. `size` makes its bytes of those that it has."""
        reserved = call.evidence
        held = await self._store.held_item(CARDS, item)
        before = held.bytes if held else 0
        holder = held.holder if held else ""
        after = size(before)
        if self._quota is not None:
            if held is None and not call.request.caller.is_local:
                holder = self._quota.holder_of(call.request.caller.address)
            if after > before:
                await self._quota.reserve(holder, after - before, known=held is not None)
                reserved.holder, reserved.bytes = holder, after - before
        return Hold(quota=CARDS, item=item, holder=holder, bytes=after)

    def release(self, reserved: Reserved, *, stored: bool) -> None:
        if self._quota is not None and reserved.bytes:
            self._quota.end_reservation(reserved.holder, reserved.bytes, stored=stored)
            reserved.bytes = 0
