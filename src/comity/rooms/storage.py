"""What of a session survives a restart: itself, its messages, transfers and shared state (ruling 61).

- Every value is sealed by the vault: it holds passwords, secrets and what people wrote to each other.
- A message of the inbox is kept with its audit entry in one commit before it is receipted; a signed one moves its chain
  in the same commit. What was read leaves its id behind for as long as it may come again.
- A lease says which process runs a session, so that a client that works by itself and a node never run it twice.
"""

import asyncio
import contextlib
import contextvars
import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.queues import chain_of, state_of, tip_of
from comity.requests.caller import Caller
from comity.requests.record import Act, Recorder
from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.hosted_room import HostedRoom
from comity.rooms.protocol.invite import InviteRelay
from comity.rooms.protocol.membership import Epoch
from comity.rooms.protocol.messages import (
    MAX_WAIT,
    KeepMessage,
    MessageKept,
    MessageNotKept,
    not_kept,
    place_signed,
    signed_pair,
)
from comity.rooms.protocol.shared_data import StateEntry
from comity.store.audit_chain import privacy_hash
from comity.store.interface import (
    Acquire,
    Advance,
    Append,
    Delete,
    Operation,
    Put,
    Release,
    Store,
    StoreConflict,
    Tip,
    Trim,
)
from comity.store.vault import Vault
from comity.wire import strict_json
from comity.wire.errors import ComityError
from comity.wire.machine import Clock

log = logging.getLogger("comity.rooms")

SESSIONS: Final = "rooms:session"
HOSTED: Final = "rooms:hosted"
ROOM_BOOK: Final = "room"
SIGNED_LOG: Final = "rooms:signed"
MAX_SIGNED: Final = 10_000
LEASE_SECONDS: Final = 60.0
MAX_SHOWN_LENGTH: Final = 256
LATER_SECONDS: Final = 0.05
BATCH_SECONDS: Final = 0.002
_OUTBOX: Final = "rooms:outbox"
_INBOX: Final = "rooms:inbox"
_READ: Final = "rooms:read"
_STATUS: Final = "rooms:status"
_TRANSFERS: Final = "rooms:transfer"
_STATE: Final = "rooms:state"
_MORE: Final = "rooms:more"
_PAGE: Final = 200
_T = TypeVar("_T")


class KeptSession(Struct, frozen=True, kw_only=True):
    """`own_relay`: the address is this node's own, whatever that is now. `relay_token` is for the relay. `places`: where the host
    of an invite may be met, if that is not this node.
    """

    session_id: str
    options: SessionOptions
    own_relay: bool
    relay_token: str | None = None
    tls_sha256: str | None = None
    ice: tuple[dict[str, Any], ...] | None = None
    places: tuple[InviteRelay, ...] = ()
    created_at: float = 0.0


class Restored(Struct, frozen=True, kw_only=True):
    """What a session left behind, as `RoomSession.restore` and the spool want it: messages in the order in which they
    were sent and came. A signed one that goes out before its predecessor would have to wait.
    """

    outgoing: list[dict[str, Any]]
    incoming: list[dict[str, Any]]
    outbox: list[dict[str, Any]]
    inbox: list[dict[str, Any]]
    read_ids: list[tuple[str, str]]
    state: list[dict[str, Any]]
    clock: int
    nodes: dict[str, str]
    statuses: list[dict[str, Any]]
    epoch: Epoch | None = None


class RoomStore:
    def __init__(
        self,
        store: Store,
        record: Recorder,
        clock: Clock,
        vault: Callable[[], Vault],
        holder: str,
        restored_at: float | None = None,
    ) -> None:
        """`restored_at` is when the store was restored from a backup: nothing signed up to then is taken."""
        self._restored_at = None if restored_at is None else datetime.fromtimestamp(restored_at, UTC)
        self._store = store
        self._record = record
        self._clock = clock
        self._vault = vault
        self._holder = holder
        self._tokens: dict[str, int] = {}
        self._later: list[Operation] = []
        self._batch: list[asyncio.Future[None]] = []
        self._batch_timer: asyncio.TimerHandle | None = None
        self.chain_lock = asyncio.Lock()
        """Signed messages get their places one after the other."""

    # Sessions and invites.

    async def sessions(self) -> list[KeptSession]:
        return await self._decoded(SESSIONS, _session)

    async def claim(self, session_id: str) -> bool:
        """Return whether the session is this process's to run, for `LEASE_SECONDS` from now."""
        try:
            (lease,) = await self._store.commit(
                Acquire(name=f"room:{session_id}", holder=self._holder, ttl=LEASE_SECONDS)
            )
        except StoreConflict:
            return False
        self._tokens[session_id] = lease.token
        return True

    async def release(self, session_id: str) -> None:
        token = self._tokens.pop(session_id, None)
        if token is not None:
            await self._store.commit(Release(name=f"room:{session_id}", token=token))

    async def keep_session(self, kept: KeptSession, caller: Caller) -> None:
        put = Put(space=SESSIONS, key=kept.session_id, value=self._sealed(_encode(kept)))
        await self._record.commit([put], room_act("ROOM_JOINED", caller, kept.session_id))

    async def forget_session(self, session_id: str, caller: Caller) -> None:
        """Delete a session with all that it stored."""
        self.flush()
        operations: list[Operation] = [
            Delete(space=SESSIONS, key=session_id),
            Delete(space=_MORE, key=session_id),
        ]
        for space in (_OUTBOX, _INBOX, _READ, _STATUS, _TRANSFERS, _STATE):
            kept = await self._pages(space, f"{session_id}/")
            operations += [Delete(space=space, key=key) for key, _ in kept]
        await self._record.commit(operations, room_act("ROOM_LEFT", caller, session_id))

    async def hosted(self) -> list[HostedRoom]:
        return await self._decoded(HOSTED, _hosted)

    async def keep_hosted(self, hosted: HostedRoom, result: str, caller: Caller) -> None:
        put = Put(space=HOSTED, key=hosted.room, value=self._sealed(_encode(hosted)))
        await self._record.commit([put], _invite_act(result, caller, hosted.room))

    async def forget_hosted(self, room: str, caller: Caller) -> None:
        gone = Delete(space=HOSTED, key=room)
        await self._record.commit([gone], _invite_act("ROOM_INVITE_REVOKED", caller, room))

    # What a session keeps while it runs.

    async def keep_in(
        self, session_id: str, message: KeepMessage, sender: Caller
    ) -> MessageKept | MessageNotKept:
        """Keep a message that came; a signed one with its place in its chain. One that is shown already waits a moment
        to share a commit: with the answer to it, for example.
        """
        key = _key(session_id, message.node, message.message_id)
        record = {**message.record, "kept_at": self._clock.now()}
        try:
            operations: list[Operation] = [self._put(_INBOX, key, record)]
            pair = signed_pair(message)
            if pair is None:
                await self.join_batch()
            else:
                tip = await self.tip(pair)
                after = place_signed(message, state_of(tip), self._restored_at)
                if isinstance(after, MessageNotKept):
                    self._record.refuse("peers", after.code)
                    return after
                operations.append(Advance(chain=chain_of(pair, ROOM_BOOK), expected=tip, to=tip_of(after)))
                operations.append(self._signed(message.record["envelope"]))
            await self._record.commit(operations, room_act("ROOM_MESSAGE_STORED", sender, session_id))
        except ComityError as why:
            self._record.refuse("peers", why.code)
            return not_kept(message, why)
        return MessageKept(message.node, message.message_id)

    async def keep_out(
        self, session_id: str, message: KeepMessage, caller: Caller, more: Sequence[Operation] = ()
    ) -> None:
        key = _key(session_id, message.node, message.message_id)
        operations: list[Operation] = [self._put(_OUTBOX, key, message.record), *more]
        envelope = message.record["payload"].get("envelope")
        if envelope is not None:
            operations.append(self._signed(envelope))
        result = "ROOM_MESSAGE_SENT" if envelope is None else "ROOM_MESSAGE_SIGNED"
        self.flush_batch()
        await self._record.commit(operations, room_act(result, caller, session_id))

    async def tip(self, pair: PairKey) -> Tip:
        return await self._store.tip(chain_of(pair, ROOM_BOOK))

    def forget_out(self, session_id: str, node: str, message_id: str) -> None:
        self._submit_later(Delete(space=_OUTBOX, key=_key(session_id, node, message_id)))

    def keep_status(
        self, session_id: str, message_id: str, record: dict[str, Any], forget: str | None
    ) -> None:
        """Keep what became of a message that was sent, for as long as it may be asked for."""
        now = self._clock.now()
        value = self._sealed(strict_json.dumps({**record, "at": now}))
        key = f"{session_id}/{_short(message_id)}"
        self._submit_later(Put(space=_STATUS, key=key, value=value, expires_at=now + 2 * MAX_WAIT))
        if forget is not None:
            self._submit_later(Delete(space=_STATUS, key=f"{session_id}/{_short(forget)}"))

    def mark_read(self, session_id: str, node: str, message_id: str) -> None:
        key = _key(session_id, node, message_id)
        until = self._clock.now() + 2 * MAX_WAIT
        read_id = _encode({"node": node, "id": message_id})
        self._submit_later(
            Delete(space=_INBOX, key=key), Put(space=_READ, key=key, value=read_id, expires_at=until)
        )

    async def signed(self, after: int, most: int) -> tuple[list[dict[str, Any]], int]:
        """Signed messages that were sent and received, in their order, and the place to go on from; 0 at the end."""
        page = await self._store.read(SIGNED_LOG, after, most)
        vault = self._vault()
        opened = [vault.open(record.data) for record in page]
        found = [strict_json.loads(one, lone_surrogates=True) for one in opened if one is not None]
        return found, page[-1].position if len(page) == most else 0

    async def forget_old_signed(self) -> None:
        end = await self._store.end(SIGNED_LOG)
        if end > MAX_SIGNED:
            await self._store.commit(Trim(log=SIGNED_LOG, through=end - MAX_SIGNED))

    def keep_transfer(
        self, session_id: str, direction: str, transfer_id: str, record: dict[str, Any]
    ) -> None:
        self._submit(self._put(_TRANSFERS, f"{session_id}/{direction}/{_short(transfer_id)}", record))

    async def record_saved(
        self, session_id: str, caller: Caller, transfer: dict[str, Any], path: str
    ) -> None:
        """Write down that a client has saved a file that a peer sent."""
        await self._record.commit([], file_act("ROOM_FILE_SAVED", caller, session_id, transfer, path))

    def forget_transfer(self, session_id: str, direction: str, transfer_id: str) -> None:
        self._submit(Delete(space=_TRANSFERS, key=f"{session_id}/{direction}/{_short(transfer_id)}"))

    def keep_more(
        self, session_id: str, clock: int, nodes: dict[str, str], epoch: Epoch | None = None
    ) -> None:
        more = {"clock": clock, "nodes": nodes, "epoch": msgspec.to_builtins(epoch)}
        self._submit(self._put(_MORE, session_id, more))

    async def keep_state(
        self, session_id: str, changed: Sequence[StateEntry], gone: Sequence[str], caller: Caller | None
    ) -> None:
        """`gone` are keys that are not even remembered as deleted. `caller` None: peers wrote it, and nobody waits."""
        operations: list[Operation] = [
            self._put(_STATE, f"{session_id}/{_short(one.key)}", one.to_json()) for one in changed
        ]
        operations += [Delete(space=_STATE, key=f"{session_id}/{_short(key)}") for key in gone]
        if caller is None:
            self._submit(*operations)
        else:
            await self._record.commit(operations, room_act("ROOM_STATE_SET", caller, session_id))

    async def restore(self, session_id: str) -> Restored:
        prefix = f"{session_id}/"
        transfers = [_json.decode(value) for _, value in await self._all(_TRANSFERS, prefix)]
        more = await self._store.get(_MORE, session_id)
        opened = None if more is None else self._vault().open(more.value)
        kept: dict[str, Any] = {"clock": 0, "nodes": {}} if opened is None else _json.decode(opened)
        read = await self._pages(_READ, prefix)
        read_ids = [(one["node"], one["id"]) for one in (_json.decode(value) for _, value in read)]
        return Restored(
            outgoing=[one for one in transfers if one["direction"] == "outgoing"],
            incoming=[one for one in transfers if one["direction"] == "incoming"],
            outbox=sorted(await self._loaded(_OUTBOX, prefix), key=lambda one: one["queued_at"]),
            inbox=sorted(await self._loaded(_INBOX, prefix), key=lambda one: one.get("kept_at", 0.0)),
            read_ids=read_ids,
            state=await self._loaded(_STATE, prefix),
            clock=kept["clock"],
            nodes=kept["nodes"],
            epoch=msgspec.convert(kept.get("epoch"), Epoch | None),
            statuses=sorted(await self._loaded(_STATUS, prefix), key=lambda one: one["at"]),
        )

    # How it is done.

    async def _decoded(self, space: str, decoder: "msgspec.json.Decoder[_T]") -> list[_T]:
        """Return all that can be read; a value that cannot stays where it is."""
        found = []
        for key, value in await self._all(space, ""):
            try:
                found.append(decoder.decode(value))
            except msgspec.MsgspecError as fault:
                log.warning("%s %s cannot be read and is left out: %s", space, key[:60], fault)
        return found

    async def _loaded(self, space: str, prefix: str) -> list[Any]:
        return [strict_json.loads(value, lone_surrogates=True) for _, value in await self._all(space, prefix)]

    async def _pages(self, space: str, prefix: str) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        after = ""
        while page := await self._store.scan(space, prefix, after, _PAGE):
            found += [(key, held.value) for key, held in page]
            after = page[-1][0]
        return found

    async def _all(self, space: str, prefix: str) -> list[tuple[str, bytes]]:
        """Return all values that can be decrypted. Values of a lost key are left out."""
        vault = self._vault()
        opened = [(key, vault.open(value)) for key, value in await self._pages(space, prefix)]
        return [(key, value) for key, value in opened if value is not None]

    def _put(self, space: str, key: str, record: Any) -> Put:
        return Put(space=space, key=key, value=self._sealed(strict_json.dumps(record)))

    def _signed(self, envelope: dict[str, Any]) -> Append:
        return Append(log=SIGNED_LOG, data=self._sealed(strict_json.dumps(envelope)))

    def _sealed(self, value: bytes) -> bytes:
        return self._vault().seal(value)

    def flush(self) -> None:
        later, self._later = self._later, []
        self._submit(*later)

    async def flush_durably(self) -> None:
        """Commit what was stored later, and wait until it is durable."""
        later, self._later = self._later, []
        if later:
            await self._store.commit(*later)

    async def join_batch(self) -> None:
        """Wait until another commit is made, but only a moment. A cancelled caller continues at once: what was shown is kept."""
        loop = asyncio.get_running_loop()
        if self._batch_timer is None:
            self._batch_timer = loop.call_later(
                BATCH_SECONDS, self.flush_batch, context=contextvars.Context()
            )
        waiting = loop.create_future()
        self._batch.append(waiting)
        with contextlib.suppress(asyncio.CancelledError):
            await waiting

    def flush_batch(self) -> None:
        """Let the waiting commits be made before the loop hands over the next one."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        waiting, self._batch = self._batch, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def _submit_later(self, *operations: Operation) -> None:
        """Commit later what may be lost with the process, because it would only be done again."""
        if not self._later:
            asyncio.get_running_loop().call_later(LATER_SECONDS, self.flush, context=contextvars.Context())
        self._later += operations

    def _submit(self, *operations: Operation) -> None:
        if operations:
            self._store.submit(operations).add_done_callback(_ignore_failure)


def room_act(result: str, caller: Caller, session_id: str) -> Act:
    hashes = {"session_id_hash": privacy_hash(session_id)}
    return Act(feature="peers", result=result, caller=caller, hashes=hashes)


def file_act(
    result: str, caller: Caller, session_id: str, transfer: dict[str, Any], path: str | None = None
) -> Act:
    """`transfer` is the summary of a transfer, or an event about it; `path` the file on this machine. The hash is the one
    that the peers have agreed on: of the file, or `chunks:` and the hash of the hashes of its chunks.
    """
    hashes = {"session_id_hash": privacy_hash(session_id)}
    file_hash = transfer.get("file_hash")
    if file_hash is not None:
        hashes["content_hash"] = file_hash if ":" in file_hash else f"sha256:{file_hash}"
    checks = [f"transfer:{_shown(transfer['transfer_id'])}", f"bytes:{transfer['total_bytes']}"]
    if path is not None:
        checks.append(f"path:{_shown(path)}")
    name = _shown(os.path.basename(path) if path is not None else transfer.get("name") or "")  # noqa: PTH119 - a text
    return Act(feature="peers", result=result, caller=caller, checks=tuple(checks), about=name, hashes=hashes)


def _shown(text: str) -> str:
    """Return the end of a path or name, without characters that cannot be printed."""
    printable = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return printable if len(printable) <= MAX_SHOWN_LENGTH else f"…{printable[1 - MAX_SHOWN_LENGTH :]}"


def _invite_act(result: str, caller: Caller, room: str) -> Act:
    return Act(feature="peers", result=result, caller=caller, hashes={"content_hash": privacy_hash(room)})


def _key(session_id: str, node: str, message_id: str) -> str:
    return f"{session_id}/{node}/{_short(message_id)}"


def _short(name: str) -> str:
    """Return a short key for a name that a peer chose: it may be long, and have any characters."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _ignore_failure(done: Any) -> None:
    if not done.cancelled():
        done.exception()  # the store says by itself that it cannot be written to


_encode = msgspec.json.encode
_json = msgspec.json.Decoder()
_session = msgspec.json.Decoder(KeptSession)
_hosted = msgspec.json.Decoder(HostedRoom)
