"""The entries of the record about replaced keys of this node. The files say what happened, so a crash leaves no gap: the
next process that opens the store adds the entry that is missing.
"""

from typing import Final

from comity.identity.succession_files import OwnLine
from comity.requests.record import Recorder, own_act
from comity.store.interface import Put, Store, StoreConflict

KEY_REPLACED: Final = "KEY_REPLACED"

_SPACE: Final = "own-line"
_KEY: Final = "recorded"


async def record_replaced_keys(store: Store, record: Recorder, line: OwnLine) -> None:
    """Add the entries that the record lacks, one for each key that was replaced."""
    if not line.statements:
        return
    held = await store.get(_SPACE, _KEY)
    recorded, version = (int(held.value), held.version) if held else (0, 0)
    for statement in line.statements[recorded:]:
        put = Put(space=_SPACE, key=_KEY, value=b"%d" % statement.number, expect=version)
        said = f"succession:{statement.old}:{statement.new}"
        try:
            *_, version = await record.commit_counted((put,), own_act(KEY_REPLACED, said))
        except StoreConflict:  # another process of this folder adds them
            return
