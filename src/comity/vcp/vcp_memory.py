"""What a server answered last time, kept so that a downgrade is noticed (vcp 1.9).

- One answer is stored for each server and each highest version that was requested, because a request for an older version
  gets an older version.
- Extensions that were not requested this time keep their earlier answer. All others get the new answer, so an alert is
  given once.
- The id of the session is not stored. A record that cannot be read is ignored, with a line in the log.
- Without a store, the answers of the last 1,000 servers are in the file `vcp-acks.json` of the data folder. If the file
  cannot be written, the log says so and nothing else fails.
"""

import logging
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from comity.identity.private_files import alone, replace_whole
from comity.requests.record import REQUEST_IDS, Recorder, own_act
from comity.requests.request import within_request
from comity.runtime.settings_file import data_folder
from comity.store.audit_chain import privacy_hash
from comity.store.interface import Store
from comity.store.operations import Put
from comity.vcp.protocol import versions
from comity.vcp.protocol.messages import Ack, encode
from comity.wire.errors import ComityError

log = logging.getLogger("comity.vcp")

NOT_REMEMBERED: Final = (
    "what %s promises is not remembered, so a downgrade will go unnoticed: %s cannot be written (%s)"
)
"""What the log says, with the server, the file and why."""

ACKS_FILE: Final = "vcp-acks.json"
FILE_LIMIT: Final = 16 * 1024 * 1024
MOST_SERVERS: Final = 1000
SPACE: Final = "vcp:acks"
REMEMBERED: Final = "VCP_ACK_REMEMBERED"


class FileAcks:
    """Last answers in a file of a folder, None: that of the user's node. It is small and rarely written, so it is read
    and written in place.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._path = (data_folder() if folder is None else Path(folder).expanduser()) / ACKS_FILE

    async def recall(self, server: str, version: str) -> Ack | None:
        kept = self._read().get(_key(server, version))
        return None if kept is None else _read_ack(msgspec.json.encode(kept), server)

    async def remember(self, server: str, version: str, ack: Ack, before: Ack | None) -> None:
        """`before` is what was recalled. Nothing is written when there is nothing new."""
        kept = merged(before, ack)
        if kept == before:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with alone(self._path.with_name(f".{ACKS_FILE}.lock")):  # on Windows one of two may be forgotten
                known = self._read()
                known.pop(_key(server, version), None)
                known[_key(server, version)] = msgspec.to_builtins(kept)
                for oldest in tuple(known)[:-MOST_SERVERS]:
                    del known[oldest]
                replace_whole(self._path, msgspec.json.encode(known))
        except OSError as reason:
            log.warning(
                NOT_REMEMBERED,
                server,
                self._path,
                reason.strerror,
            )

    def _read(self) -> dict[str, Any]:
        try:
            with self._path.open("rb") as file:
                data = file.read(FILE_LIMIT + 1)
            return msgspec.json.decode(data, type=dict[str, Any]) if len(data) <= FILE_LIMIT else {}
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("%s cannot be read; no last answers are compared", self._path)
            return {}


class LastAcks:
    """Last answers in a store."""

    def __init__(self, store: Store, record: Recorder) -> None:
        self._store = store
        self._record = record

    async def recall(self, server: str, version: str) -> Ack | None:
        kept = await self._store.get(SPACE, _key(server, version))
        return None if kept is None else _read_ack(kept.value, server)

    async def remember(self, server: str, version: str, ack: Ack, before: Ack | None) -> None:
        kept = merged(before, ack)
        if kept == before:
            return
        put = Put(space=SPACE, key=_key(server, version), value=encode(kept))
        with within_request(REQUEST_IDS.new):
            await self._record.commit_counted((put,), own_act(REMEMBERED, privacy_hash(server), room="vcp"))


def _read_ack(data: bytes, server: str) -> Ack | None:
    try:
        ack = msgspec.json.decode(data, type=Ack)
        versions.parse(ack.version)
    except (msgspec.MsgspecError, UnicodeDecodeError, ComityError):
        log.warning("what is stored of the last answer of %s cannot be read and is not compared", server)
        return None
    return ack


def merged(before: Ack | None, now: Ack) -> Ack:
    """What a server offers, after the ack `now`. Its hello may have requested less than an earlier one."""
    kept = replace(now, session_id=UNSET)
    if before is None:
        return kept
    answered = {*now.supported, *now.unsupported}
    silent = tuple(name for name in before.supported if name not in answered)
    described = {name: before.capabilities[name] for name in silent if name in before.capabilities}
    return replace(kept, supported=(*now.supported, *silent), capabilities={**now.capabilities, **described})


def _key(server: str, version: str) -> str:
    return f"{version} {server}"
