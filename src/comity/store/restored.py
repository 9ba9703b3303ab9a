"""What a store remembers of having been restored from a backup.

A restored store has gone back in time: envelopes that were accepted after the backup are unknown to it, and could be
replayed. So nothing that was signed before the restore moves a chain any more (`check_stamped_after`). The moment is
set when the backup is put back, and once more when a node first starts on it: until then the former node may have
been running.
"""

import msgspec
from msgspec import Struct

from comity.core.errors import StoreCorruptError
from comity.store.operations import Operation, Put
from comity.store.protocol import Store

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
