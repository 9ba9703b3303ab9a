"""What a store remembers of having been restored from a backup.

A restored store does not know the envelopes that were accepted after the backup, so these could be replayed. Therefore an
envelope that was signed before the restore does not move a chain (`check_stamped_after`). The time of the restore is set
when the backup is restored, and again when a node first starts on it, because the old node may have run until then.
"""

import msgspec
from msgspec import Struct

from comity.store.interface import Store
from comity.store.operations import Operation, Put
from comity.wire.errors import StoreCorruptError

RESTORED = "RESTORED"
"""The audit entry that goes with each setting of the moment."""

_SPACE = "restored"
_KEY = "moment"


class RestoreMark(Struct, frozen=True, kw_only=True):
    """`started`: a node has run since, and the moment stays what it is."""

    at: float
    started: bool = False


async def read_restored(store: Store) -> RestoreMark | None:
    held = await store.get(_SPACE, _KEY)
    try:
        return None if held is None else msgspec.json.decode(held.value, type=RestoreMark)
    except msgspec.MsgspecError:
        raise StoreCorruptError(
            "what is stored about the last restore cannot be read; restore the database from a backup"
        ) from None


def keep_restored(restored: RestoreMark) -> Operation:
    return Put(space=_SPACE, key=_KEY, value=msgspec.json.encode(restored))
