"""The `vdo_*` tools over the sessions of a node (peers 1, rulings 59 to 63): one method for each row of the table, which
is given the arguments as they were read. A tool that waits holds up nobody: each call is a task of its own.
"""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, BinaryIO, ClassVar, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.queues import chain_of, state_of, tip_of
from comity.identity.protocol.keys import VacantId
from comity.mcp.protocol.results import LEGACY
from comity.release import __version__
from comity.requests.caller import Caller
from comity.requests.record import wait_uncancelled
from comity.rooms.links.webrtc import available_libraries, install_command
from comity.rooms.live import LiveRoom
from comity.rooms.paths import AllowedPath
from comity.rooms.protocol import tool_answers as answers
from comity.rooms.protocol.events import iso_moment
from comity.rooms.protocol.files import FileSource
from comity.rooms.protocol.invite import Invite, is_invite
from comity.rooms.protocol.loose_values import free_names, safe_name, sanitize_id
from comity.rooms.protocol.messages import KeepMessage, sign_message
from comity.rooms.protocol.outgoing_file import OutgoingFile
from comity.rooms.protocol.tool_arguments import Json, VdoToolError, flag, optional_text, required_text
from comity.rooms.protocol.tool_table import TOOLS, Demands, find_tool
from comity.rooms.sessions import Rooms
from comity.rooms.storage import ROOM_BOOK
from comity.store.interface import Advance
from comity.wire.machine import Clock

CONNECT_SECONDS: Final = 15.0
FIRST_PEER_SECONDS: Final = 2.0
PROGRESS_SECONDS: Final = 0.5
MAX_RESULT: Final = 16 * 1024 * 1024
MAX_EVENTS_BYTES: Final = 65_536
"""What one answer of vdo_receive holds, as long as it holds more than one event."""
MAX_WATCHERS: Final = 1024
SIGNED_PAGE: Final = 200
RESUME_MS: Final = 60_000

_UNDER_WAY: Final = ("waiting", "sent")

Progress = Callable[[float, float | None, str | None], None]


class ToolContext(Struct, frozen=True, kw_only=True):
    """Who calls a tool. `client` is its own cursor on the events, `folder` where it was started. `typed`: the paths were
    typed by a person.
    """

    client: str
    caller: Caller
    demands: Demands
    profile: str = "full"
    folder: str | None = None
    typed: bool = False
    progress: Progress = lambda _done, _total, _message: None


class RoomTools:
    """`invite` makes an invite, for the owner alone."""

    def __init__(self, rooms: Rooms, clock: Clock, invite: Callable[[Json], Awaitable[Json]]) -> None:
        self.rooms = rooms
        self._clock = clock
        self.invite = invite
        self._seen: dict[tuple[str, str], int] = {}
        self._stopping = False

    def stop_waiting(self) -> None:
        """The node stops: answer all waiting calls with the current state."""
        self._stopping = True
        for room in self.rooms:
            room.wake()

    async def call(self, name: str, given: Any, context: ToolContext) -> Json:
        """Raise VdoToolError, in the words of the contract."""
        tool = find_tool(name, context.profile)
        checked = tool.check(given, context.profile)
        method: Callable[..., Awaitable[Json]] = getattr(self, name)
        if tool.in_session:
            room = self.rooms.find(required_text(checked, "session_id"), context.demands)
            answer = await method(room, context, **tool.read(checked))
        else:
            answer = await method(context, **tool.read(checked))
        return answer if context.profile == "extended" else _of_the_contract(answer)

    async def call_by_owner(
        self, name: str, given: Json, *, client: str, caller: Caller, folder: str | None
    ) -> Json:
        """Call a tool of the table, or one that only the commands of the owner have."""
        context = ToolContext(
            client=client,
            caller=caller,
            demands=self.rooms.demands,
            profile="extended",
            folder=folder,
            typed=folder is not None,
        )
        own = self._OF_THE_OWNER.get(name)
        if own is not None:
            return await own(self, given, context)
        return await self.call(name, given, context)

    # Sessions.

    async def vdo_capabilities(self, context: ToolContext) -> Json:
        webrtc = bool(available_libraries())
        return answers.capabilities_payload(__version__, LEGACY, context.profile, webrtc=webrtc)

    async def vdo_connect(self, context: ToolContext, **given: Any) -> Json:
        room, _ = await self._enter(given, context)
        return self._connected(room)

    async def _enter(
        self, given: Json, context: ToolContext, *, any_name: bool = False
    ) -> tuple[LiveRoom, bool]:
        """Return the session of a room, and whether it was there before."""
        own = self._own_invite(given)
        is_invited = own is not None or is_invite(given["room"])
        host = self.rooms.relays.default
        if (
            host is None
            and given["host"] is None
            and not is_invited
            and sanitize_id(given["room"]) is not None
        ):
            raise VdoToolError(
                "host is required: no node runs on this data folder whose relay could be used; start one with "
                "`comity up`, or name a relay"
            )
        defaults = answers.ConnectDefaults(
            host=host or "ws://127.0.0.1",
            stream_suffix=secrets.token_hex(4),
            demands=self.rooms.demands.tightened(context.demands),
        )
        options, invite = answers.connect_options(given, defaults, self._clock.now() * 1000, own)
        if options.file_spool_dir is not None:
            folder = await self._locate(options.file_spool_dir, context)
            options = replace(options, file_spool_dir=str(await asyncio.to_thread(folder.make_folder)))
        room, was_there = await self.rooms.connect(
            options, invite, client=context.client, caller=context.caller, any_name=any_name
        )
        await self._wait(room, CONNECT_SECONDS, lambda: room.session.connection_state != "connecting")
        if room.expects_peers:
            await self._wait(room, FIRST_PEER_SECONDS, lambda: room.has_peer)
        return room, was_there

    def _connected(self, room: LiveRoom) -> Json:
        session = room.session
        config = answers.effective_config(session.options)
        payload = {"ok": True, **session.status(), "effective_config": config}
        of_room = answers.room_notice(
            session,
            session.sync_peers(room.now),
            room.streams_at_relay,
            own_relay=self.rooms.relays.is_own(session.options.host),
        )
        of_library = None
        if not available_libraries():
            of_library = (
                "no WebRTC library is installed, so only peers on this machine can be joined; "
                f"run: {install_command()}"
            )
        if notice := ". ".join(filter(None, (of_room, of_library))):
            payload["notice"] = notice
        return payload

    async def vdo_status(self, room: LiveRoom, _context: ToolContext) -> Json:
        return {"ok": True, **room.session.status(), "sync_peers": room.session.sync_peers(room.now)}

    async def vdo_list_sessions(self, context: ToolContext) -> Json:
        return {
            "ok": True,
            "sessions": [room.session.status() for room in self.rooms.visible(context.demands)],
        }

    async def vdo_disconnect(self, room: LiveRoom, context: ToolContext) -> Json:
        await self.rooms.end(room, context.caller)
        return answers.session_payload(room.id, closed_at=iso_moment(self._clock.now()))

    async def vdo_sync_peers(self, room: LiveRoom, _context: ToolContext) -> Json:
        peers = room.session.sync_peers(room.now)
        return answers.session_payload(room.id, peer_count=len(peers), peers=peers)

    async def vdo_sync_announce(self, room: LiveRoom, _context: ToolContext, target: Any) -> Json:
        result, effects = room.session.announce(target)
        room.run(effects)
        return answers.sent_payload(room.id, result)

    # Messages.

    async def vdo_send(
        self, room: LiveRoom, context: ToolContext, data: Any, target: Any, signed: bool
    ) -> Json:
        if signed:
            return answers.sent_payload(room.id, await self._send_signed(room, data, target, context))
        result, effects = room.session.send(data, target, room.now)
        await room.send_durably(effects, context.caller)
        return answers.sent_payload(room.id, result)

    async def vdo_receive(self, room: LiveRoom, context: ToolContext, max_events: int, wait_ms: int) -> Json:
        await self._wait(room, wait_ms / 1000, lambda: room.session.events.waiting_for(context.client) > 0)
        events, effects = room.session.read_events(context.client, max_events, MAX_EVENTS_BYTES)
        room.run(effects)
        return answers.events_payload(room.id, events)

    async def vdo_request(
        self, room: LiveRoom, context: ToolContext, data: Any, target: Any, timeout_ms: int
    ) -> Json:
        result, effects = room.session.send(data, target, room.now)
        ids = result.get("message_ids", ())
        if len(ids) != 1:
            await room.send_durably(effects, context.caller)
            raise VdoToolError("invalid target: a request goes to one peer that is a Comity node")
        reply = room.expect_reply(ids[0])
        try:
            await room.send_durably(effects, context.caller)
            event = await asyncio.wait_for(reply, timeout_ms / 1000)
        except (TimeoutError, asyncio.CancelledError) as why:
            reply.cancel()
            if isinstance(why, asyncio.CancelledError) and not room.is_closed:
                raise
            raise VdoToolError(f"timed out waiting for the reply to {ids[0]}") from None
        answer = {"message_id": event["message_id"], "streamID": event["streamID"], "data": event["data"]}
        return answers.session_payload(room.id, message_id=ids[0], reply=answer)

    async def vdo_reply(self, room: LiveRoom, context: ToolContext, request_id: str, data: Any) -> Json:
        result, effects = room.session.reply(request_id, data, room.now)
        await room.send_durably(effects, context.caller)
        return answers.sent_payload(room.id, result)

    async def vdo_message_status(self, room: LiveRoom, _context: ToolContext, message_id: str) -> Json:
        status = room.session.messages.status(message_id, room.now)
        if status is None:
            raise VdoToolError(f"invalid message_id: {message_id[:128]} is not known here")
        return answers.session_payload(room.id, message_id=message_id, status=status[0], reason=status[1])

    # Files.

    async def vdo_file_send(
        self,
        room: LiveRoom,
        context: ToolContext,
        data_base64: bytes,
        target: Any,
        timeout_ms: int,
        **given: Any,
    ) -> Json:
        sending = answers.send_options(given, f"file_{secrets.token_hex(4)}")
        source = FileSource(kind="memory", total_bytes=len(data_base64))
        outgoing, effects = room.session.send_file(source, target, sending, room.now)
        room.spool.offer_bytes(sending.transfer_id, data_base64)
        room.name_sender(outgoing, context.caller)
        room.run(effects)
        return await self._follow(room, outgoing, timeout_ms, context)

    async def vdo_file_send_path(
        self, room: LiveRoom, context: ToolContext, file_path: str, target: Any, timeout_ms: int, **given: Any
    ) -> Json:
        allowed = await self._locate(file_path, context)
        sending = answers.send_options(given, f"file_{secrets.token_hex(4)}", allowed.path.name)
        file = await asyncio.to_thread(allowed.open_file)
        try:
            source = FileSource(
                kind="path", total_bytes=os.fstat(file.fileno()).st_size, path=str(allowed.path)
            )
            outgoing, effects = room.session.send_file(source, target, sending, room.now)
        except BaseException:
            file.close()
            raise
        room.offer_source(sending.transfer_id, file)
        room.name_sender(outgoing, context.caller)
        room.run(effects)
        return await self._follow(room, outgoing, timeout_ms, context)

    async def vdo_file_resume(
        self,
        room: LiveRoom,
        context: ToolContext,
        transfer_id: str,
        target: Any,
        ack_timeout_ms: int | None,
        max_retries: int | None,
    ) -> Json:
        outgoing, effects = room.session.resume_file(
            transfer_id,
            target,
            room.now,
            ack_timeout=answers.in_seconds(ack_timeout_ms),
            max_retries=max_retries,
        )
        if effects:
            room.name_sender(outgoing, context.caller)
        room.run(effects)
        return await self._follow(room, outgoing, RESUME_MS, context)

    async def vdo_file_transfers(self, room: LiveRoom, _context: ToolContext, direction: str) -> Json:
        files = room.session.files
        incoming = [one.summary() for one in files.incoming.values() if direction != "outgoing"]
        outgoing = [one.summary() for one in files.outgoing.values() if direction != "incoming"]
        return answers.session_payload(
            room.id,
            direction=direction,
            incoming_count=len(incoming),
            outgoing_count=len(outgoing),
            incoming=incoming,
            outgoing=outgoing,
        )

    async def vdo_file_receive(
        self, room: LiveRoom, _context: ToolContext, transfer_id: str, encoding: str
    ) -> Json:
        summary = answers.completed_transfer(room.session, transfer_id)
        if summary["total_bytes"] > MAX_RESULT:
            raise VdoToolError(
                f"the file has {summary['total_bytes']} bytes and a result at most {MAX_RESULT}: use vdo_file_save"
            )

        def read() -> bytes:
            with _open_received(room, transfer_id) as source:
                return source.read()

        return answers.received_payload(room.id, summary, encoding, await asyncio.to_thread(read))

    async def vdo_file_save(
        self, room: LiveRoom, context: ToolContext, transfer_id: str, output_path: str, overwrite: bool
    ) -> Json:
        summary = answers.completed_transfer(room.session, transfer_id)
        allowed = await self._locate(output_path, context)
        path = str(allowed.path)

        def write() -> int:
            with _open_received(room, transfer_id) as source:
                return allowed.write_file(source, overwrite=overwrite)

        async def save() -> int:
            written = await asyncio.to_thread(write)
            await room.keeping.record_saved(room.id, context.caller, summary, path)
            return written

        written = await _complete(save())
        return answers.session_payload(
            room.id, transfer_id=transfer_id, transfer=summary, output_path=path, bytes_written=written
        )

    async def vdo_file_cancel(self, room: LiveRoom, _context: ToolContext, transfer_id: str) -> Json:
        room.run(room.session.cancel_file(transfer_id))
        files = room.session.files
        one = files.outgoing.get(transfer_id) or files.incoming[transfer_id]
        return answers.session_payload(room.id, transfer=one.summary())

    # Shared state.

    async def vdo_state_set(
        self, room: LiveRoom, context: ToolContext, key: str, value: Any, broadcast: bool, target: Any
    ) -> Json:
        entry, effects = room.session.put_state(key, value, target, broadcast=broadcast)
        return await self._wrote(room, entry, effects, context)

    async def vdo_state_get(
        self, room: LiveRoom, _context: ToolContext, key: str | None, include_meta: bool
    ) -> Json:
        return answers.state_payload(room.id, room.session.state, key, include_meta=include_meta)

    async def vdo_state_sync(self, room: LiveRoom, _context: ToolContext, mode: str, target: Any) -> Json:
        result, effects = room.session.sync_state(mode, target)
        room.run(effects)
        return answers.sent_payload(room.id, result)

    async def vdo_state_delete(self, room: LiveRoom, context: ToolContext, key: str) -> Json:
        entry, effects = room.session.put_state(key, UNSET)
        return await self._wrote(room, entry, effects, context)

    async def vdo_state_cas(
        self, room: LiveRoom, context: ToolContext, key: str, value: Any, expected_clock: int
    ) -> Json:
        entry, effects = room.session.swap_state(key, value, expected_clock)
        return await self._wrote(room, entry, effects, context)

    async def vdo_state_watch(
        self, room: LiveRoom, context: ToolContext, prefix: str | None, wait_ms: int
    ) -> Json:
        place = (room.id, context.client)
        seen = self._seen.get(place, 0)
        state = room.session.state
        await self._wait(room, wait_ms / 1000, lambda: bool(state.changes_since(seen, prefix or "")))
        self._seen.pop(place, None)
        self._seen[place] = state.revision
        while len(self._seen) > MAX_WATCHERS:
            del self._seen[next(iter(self._seen))]
        shown = [
            {**entry.to_json(), **({"deleted": True} if entry.is_deleted else {})}
            for entry in state.changes_since(seen, prefix or "")
        ]
        return answers.session_payload(room.id, change_count=len(shown), changes=shown)

    # What only the commands of the owner can do.

    async def _join(self, given: Json, context: ToolContext) -> Json:
        """Like vdo_connect; `attached` says whether the session was there before. `any_name`: without a stream id of the
        person's choice, any session of that room is the one.
        """
        tool = TOOLS["vdo_connect"]
        asked = {name: value for name, value in given.items() if name != "any_name"}
        read = tool.read(tool.check(asked, context.profile))
        any_name = flag()(given, "any_name")
        room = None
        if read["host"] is None and not is_invite(read["room"]):  # by its name alone, wherever its relay is
            room = self.rooms.named(sanitize_id(read["room"]), None if any_name else read["stream_id"])
        attached = room is not None
        if room is None:
            room, attached = await self._enter(read, context, any_name=any_name)
        return {**self._connected(room), "attached": attached}

    async def _peek(self, given: Json, context: ToolContext) -> Json:
        """Return the next events of a reader, each with its place, and take none. `after` is a place; `only_messages`
        leaves out all but the messages of others.
        """
        room = self._room_of_owner(given)
        limits = TOOLS["vdo_receive"].read(given)
        after = _number_at(room, optional_text(given, "after"))
        only_messages = flag()(given, "only_messages")

        def found() -> list[tuple[int, Json]]:
            return room.session.peek_events(
                context.client, limits["max_events"], after, only_messages=only_messages
            )

        await self._wait(room, limits["wait_ms"] / 1000, lambda: bool(found()))
        places = found()
        answer = answers.events_payload(room.id, [event for _, event in places])
        return {**answer, "places": [f"{room.log_id}:{number}" for number, _ in places]}

    async def _acknowledge(self, given: Json, context: ToolContext) -> Json:
        """Note, durably, that a reader has used all events up to a place. `acknowledged` is False for a place from before
        a restart: what was not acknowledged then comes again.
        """
        room = self._room_of_owner(given)
        through = _number_at(room, required_text(given, "through"))
        if through is not None:
            room.run(room.session.acknowledge_events(context.client, through))
            await room.keeping.flush_durably()
        return answers.session_payload(room.id, acknowledged=through is not None)

    async def _delivery(self, given: Json, _context: ToolContext) -> Json:
        """Return what became of messages that were sent, once the others have answered or `wait_ms` is over."""
        room = self._room_of_owner(given)
        ids = given.get("message_ids")
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
            raise VdoToolError("message_ids is required: a list of ids")
        wait_ms = TOOLS["vdo_receive"].read(given)["wait_ms"]

        def states() -> list[tuple[str, str | None]]:
            return [room.session.messages.status(one, room.now) or ("unknown", None) for one in ids]

        await self._wait(room, wait_ms / 1000, lambda: not any(state in _UNDER_WAY for state, _ in states()))
        shown = [
            {"message_id": one, "status": state, "reason": reason}
            for one, (state, reason) in zip(ids, states(), strict=True)
        ]
        return answers.session_payload(room.id, messages=shown)

    async def _links(self, given: Json, _context: ToolContext) -> Json:
        """Return how each peer of a session is reached."""
        room = self._room_of_owner(given)
        return answers.session_payload(room.id, links=await room.link_stats())

    async def _door(self, _given: Json, _context: ToolContext) -> Json:
        return self.rooms.relays.door()

    async def _keep_file(self, given: Json, context: ToolContext) -> Json:
        """Save a received file under its own name, or the next free one, in the folder `shared`."""
        room = self._room_of_owner(given)
        summary = answers.completed_transfer(room.session, required_text(given, "transfer_id"))
        context = ToolContext(client=context.client, caller=context.caller, demands=Demands())
        name = safe_name(summary["name"])
        for wanted in free_names(name):
            allowed = await self._locate(wanted, context)
            if not await asyncio.to_thread(os.path.lexists, allowed.path):
                return await self.vdo_file_save(
                    room, context, summary["transfer_id"], wanted, overwrite=False
                )
        raise VdoToolError(f"{name} is there too often already; move some of them away")

    async def _invites(self, _given: Json, _context: ToolContext) -> Json:
        """Return which rooms somebody can still come into by an invite. It shows no line."""
        listed = [
            {"room": hosted.room, "expires_at": invite.exp / 1000, "uses": invite.uses, "left": invite.left}
            for hosted, invite in self.rooms.hosting.open_invites()
        ]
        return {"ok": True, "invites": listed}

    async def _revoke(self, given: Json, _context: ToolContext) -> Json:
        name = sanitize_id(given.get("room"))
        if name is None:
            raise VdoToolError("room is required")
        hosted = await self.rooms.hosting.revoke(name)
        return {"ok": True, "room": name, "members": len(hosted.members)}

    async def _kick(self, given: Json, _context: ToolContext) -> Json:
        """Put a member of a room out, and begin a new epoch for those who stay."""
        name = sanitize_id(given.get("room"))
        if name is None:
            raise VdoToolError("room is required")
        before = self.rooms.hosting.find(name)
        hosted, member = await self.rooms.hosting.remove(name, required_text(given, "member"))
        ended = before is not None and before.invite is not None and hosted.invite is None
        return {
            "ok": True,
            "room": name,
            "removed": member,
            "invite_ended": ended,
            "members": len(hosted.members),
        }

    async def _export(self, given: Json, _context: ToolContext) -> Json:
        """Return a page of signed messages."""
        after = given.get("after", 0)
        if type(after) is not int or after < 0:
            raise VdoToolError("invalid after: it must be a whole number")
        found, following = await self.rooms.signed(after, SIGNED_PAGE)
        return {"ok": True, "messages": found, "after": following}

    _OF_THE_OWNER: ClassVar[dict[str, Callable[["RoomTools", Json, ToolContext], Awaitable[Json]]]] = {
        "join": _join,
        "peek": _peek,
        "acknowledge": _acknowledge,
        "delivery": _delivery,
        "links": _links,
        "invite": lambda self, given, _context: self.invite(given),
        "invites": _invites,
        "door": _door,
        "keep_file": _keep_file,
        "revoke": _revoke,
        "kick": _kick,
        "export": _export,
    }

    def _room_of_owner(self, given: Json) -> LiveRoom:
        return self.rooms.find(required_text(given, "session_id"), Demands())

    # What they share.

    def _own_invite(self, given: Json) -> Invite | None:
        """Return the invite to a room that this node hosts, named or by its line: it joins where its guests join."""
        if given["host"] is not None or given["password"] is not None:
            return None
        return self.rooms.own_invite(given["room"])

    async def _locate(self, path: str, context: ToolContext) -> AllowedPath:
        return await asyncio.to_thread(self.rooms.paths.locate, path, context.folder, typed=context.typed)

    async def _wait(self, room: LiveRoom, seconds: float, is_over: Callable[[], bool]) -> None:
        deadline = room.now + seconds
        while not is_over() and not room.is_closed and not self._stopping:
            left = deadline - room.now
            if left <= 0:
                return
            await room.wait_change(left)

    async def _wrote(self, room: LiveRoom, entry: Any, effects: Any, context: ToolContext) -> Json:
        room.run(effects)
        await room.keep_state(context.caller)
        return answers.session_payload(room.id, entry=entry.to_json())

    async def _follow(
        self, room: LiveRoom, outgoing: OutgoingFile, timeout_ms: int, context: ToolContext
    ) -> Json:
        """Wait until the transfer ends or the time is up; the transfer then continues (ruling 60)."""
        deadline = room.now + timeout_ms / 1000
        reported = -1
        while not outgoing.is_over and not room.is_closed and not self._stopping:
            left = deadline - room.now
            if left <= 0:
                break
            await room.wait_change(min(left, PROGRESS_SECONDS))
            if outgoing.acked_bytes != reported:
                reported = outgoing.acked_bytes
                context.progress(reported, outgoing.offer.total_bytes, outgoing.offer.name)
        if outgoing.status == "failed":
            raise VdoToolError(outgoing.last_error or "the transfer failed")
        return answers.session_payload(room.id, transfer=outgoing.summary())

    async def _send_signed(self, room: LiveRoom, data: Any, target: Any, context: ToolContext) -> Json:
        """One envelope for each node, each with its place in the chain of the pair."""
        ids = []
        for node in room.session.signed_targets(target):
            async with room.keeping.chain_lock:
                ids.append(await self._sign_for(room, VacantId.from_hex(node), data, context))
        return room.session.sent_result(target, ids, room.now, ok=bool(ids))

    async def _sign_for(self, room: LiveRoom, node: VacantId, data: Any, context: ToolContext) -> str:
        pair = PairKey(room.key.vacant_id, node)
        tip = await room.keeping.tip(pair)
        message_id = f"msg_{secrets.token_hex(8)}"
        envelope, after = sign_message(
            data, room.key, node, state_of(tip), idempotency_key=message_id, seconds=self._clock.now()
        )
        effects = room.session.send_signed(envelope, message_id, node.hex(), room.now)
        kept = next(effect for effect in effects if isinstance(effect, KeepMessage))
        move = Advance(chain=chain_of(pair, ROOM_BOOK), expected=tip, to=tip_of(after))
        await room.keeping.keep_out(room.id, kept, context.caller, [move])
        room.run([effect for effect in effects if effect is not kept])
        return message_id


def _number_at(room: LiveRoom, place: str | None) -> int | None:
    """Return the number of the event at a place; None for no place, and for one from before a restart."""
    if place is None:
        return None
    log_id, _, number = place.partition(":")
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        raise VdoToolError("invalid place: it must be one that peek has returned")
    return int(number) if log_id == room.log_id else None


def _of_the_contract(answer: Json) -> Json:
    """Remove what only the tools of `extended` use."""
    shown = {name: value for name, value in answer.items() if name != "message_ids"}
    for name in ("peers", "sync_peers"):
        if name in shown and all(isinstance(peer, dict) for peer in shown[name]):
            shown[name] = [{key: peer[key] for key in peer if key != "vacant_id"} for peer in shown[name]]
    return shown


async def _complete(work: Coroutine[Any, Any, int]) -> int:
    """Run it to its end, also when the caller is cancelled, so that a saved file has its entry in the record."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await wait_uncancelled(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it
        raise


def _open_received(room: LiveRoom, transfer_id: str) -> BinaryIO:
    source = room.spool.open_received(transfer_id)
    if source is None:
        raise VdoToolError(f"transfer payload unavailable: {transfer_id}")
    return source
