"""The `vdo_*` tools over the sessions of a node (peers 1, rulings 59 to 63).

Arguments and answers are those of `core/peering`; here is only what the tools do. A tool that waits holds up nobody: each
call is a task of its own.
"""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.protocol.envelope import signed_envelope, to_a2a_message
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.replay_stores import chain_of, tip_of
from comity.identity.protocol.keys import VacantId
from comity.mcp.protocol.results import LATEST_LEGACY, LEGACY
from comity.release import __version__
from comity.requests.caller import Caller
from comity.requests.record import finish
from comity.rooms.links.webrtc import available_libraries, install_command
from comity.rooms.live import LiveRoom
from comity.rooms.paths import AllowedPath
from comity.rooms.protocol import tool_answers as answers
from comity.rooms.protocol import tool_arguments as arguments
from comity.rooms.protocol.events import iso_moment
from comity.rooms.protocol.files import FileSource
from comity.rooms.protocol.invite import is_invite
from comity.rooms.protocol.loose_values import sanitize_id
from comity.rooms.protocol.messages import KeepMessage, signed_text
from comity.rooms.protocol.outgoing_file import OutgoingFile
from comity.rooms.protocol.tool_arguments import ConnectDefaults, VdoToolError
from comity.rooms.protocol.tool_table import TOOLS_OF, Demands
from comity.rooms.sessions import Rooms
from comity.rooms.storage import ROOM_BOOK
from comity.store.interface import Advance
from comity.wire.machine import Clock

CONNECT_SECONDS: Final = 15.0
FIRST_PEER_SECONDS: Final = 2.0
PROGRESS_SECONDS: Final = 0.5
MAX_RESULT: Final = 16 * 1024 * 1024
MAX_WATCHERS: Final = 1024
SIGNED_PAGE: Final = 200
_WITHOUT_SESSION: Final = frozenset(("vdo_connect", "vdo_list_sessions", "vdo_capabilities"))

Json = dict[str, Any]
Progress = Callable[[float, float | None, str | None], None]


class ToolCaller(Struct, frozen=True, kw_only=True):
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
    def __init__(self, rooms: Rooms, clock: Clock) -> None:
        self.rooms = rooms
        self._clock = clock
        self._seen: dict[tuple[str, str], int] = {}
        self._stopping = False

    def stop_waiting(self) -> None:
        """The node stops: answer all waiting calls with the current state."""
        self._stopping = True
        for room in self.rooms:
            room.wake()

    async def call(self, tool: str, given: Any, who: ToolCaller) -> Json:
        """Raises VdoToolError, in the words of the contract."""
        if tool not in TOOLS_OF["extended"]:
            raise VdoToolError(f"unknown tool: {tool}")
        if tool not in TOOLS_OF[who.profile]:
            raise VdoToolError(f"tool '{tool}' is disabled by tool profile '{who.profile}'")
        checked = arguments.checked_fields(tool, given, who.profile)
        act: Callable[..., Awaitable[Json]] = getattr(self, tool)
        if tool in _WITHOUT_SESSION:
            answer = await act(checked, who)
        else:
            room = self.rooms.find(arguments.text_of(checked, "session_id"), who.demands)
            answer = await act(room, checked, who)
        return answer if who.profile == "extended" else _of_the_contract(answer)

    # Sessions.

    async def vdo_capabilities(self, _given: Json, who: ToolCaller) -> Json:
        return answers.capabilities_payload(
            name="comity",
            version=__version__,
            protocol_version=LATEST_LEGACY,
            supported=LEGACY,
            profile=who.profile,
        )

    async def vdo_connect(self, given: Json, who: ToolCaller) -> Json:
        given = self._with_own_invite(given)
        wants_host = given.get("host") is None and not is_invite(given.get("room"))
        host = self.rooms.default_relay()
        if wants_host and host is None and sanitize_id(given.get("room")) is not None:
            raise VdoToolError(
                "host is required: no node runs on this data folder whose relay could be used; start one with "
                "`comity up`, or name a relay"
            )
        defaults = ConnectDefaults(
            host=host or "ws://127.0.0.1",
            stream_suffix=secrets.token_hex(4),
            demands=self.rooms.demands.tightened(who.demands),
        )
        options, invite = arguments.read_connect(given, defaults, self._clock.now() * 1000)
        if options.file_spool_dir is not None:
            folder = await self._locate(options.file_spool_dir, who)
            options = replace(options, file_spool_dir=str(await asyncio.to_thread(folder.make_folder)))
        room = await self.rooms.connect(options, invite, client=who.client, caller=who.caller)
        await self._wait(room, CONNECT_SECONDS, lambda: room.session.connection_state != "connecting")
        if room.expects_peers:
            await self._wait(room, FIRST_PEER_SECONDS, lambda: room.has_peer)
        payload = answers.connected_payload(room.session)
        if not available_libraries():
            payload["notice"] = (
                "no WebRTC library is installed, so only peers on this machine can be joined; "
                f"run: {install_command()}"
            )
        return payload

    async def vdo_status(self, room: LiveRoom, _given: Json, _who: ToolCaller) -> Json:
        return answers.status_payload(room.session, room.now)

    async def vdo_list_sessions(self, _given: Json, who: ToolCaller) -> Json:
        return answers.sessions_payload(room.session for room in self.rooms.visible(who.demands))

    async def vdo_disconnect(self, room: LiveRoom, _given: Json, who: ToolCaller) -> Json:
        await self.rooms.end(room, who.caller)
        return answers.session_payload(room.id, closed_at=iso_moment(self._clock.now()))

    async def vdo_sync_peers(self, room: LiveRoom, _given: Json, _who: ToolCaller) -> Json:
        return answers.peers_payload(room.session, room.now)

    async def vdo_sync_announce(self, room: LiveRoom, given: Json, _who: ToolCaller) -> Json:
        result, effects = room.session.announce(arguments.target_of(given))
        room.run(effects)
        return answers.sent_payload(room.id, result)

    # Messages.

    async def vdo_send(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        data, target = arguments.data_of(given), arguments.target_of(given)
        if who.profile == "extended" and arguments.flag_of(given, "signed"):
            return answers.sent_payload(room.id, await self._send_signed(room, data, target, who))
        result, effects = room.session.send(data, target, room.now)
        await room.settle(effects, who.caller)
        return answers.sent_payload(room.id, result)

    async def vdo_receive(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        most, wait = arguments.max_events_of(given), arguments.wait_of(given)
        await self._wait(room, wait / 1000, lambda: room.session.events.waiting_for(who.client) > 0)
        events, effects = room.session.read_events(who.client, most)
        room.run(effects)
        return answers.events_payload(room.id, events)

    async def peek(self, given: Json, client: str) -> Json:
        """Return the next events of a reader, each with its place, and take none; for the command line. `after` is a
        place; `only_messages` leaves out all but the messages of others.
        """
        room = self.rooms.find(arguments.text_of(given, "session_id"), Demands())
        most, wait = arguments.max_events_of(given), arguments.wait_of(given)
        after = _number_at(room, arguments.optional_text_of(given, "after"))
        only_messages = arguments.flag_of(given, "only_messages")

        def found() -> list[tuple[int, Json]]:
            return room.session.peek_events(client, most, after, only_messages=only_messages)

        await self._wait(room, wait / 1000, lambda: bool(found()))
        places = found()
        answer = answers.events_payload(room.id, [event for _, event in places])
        return {**answer, "places": [f"{room.log_id}:{number}" for number, _ in places]}

    async def acknowledge(self, given: Json, client: str) -> Json:
        """Note, durably, that a reader has used all events up to a place. `acknowledged` is False for a place from before
        a restart: what was not acknowledged then comes again.
        """
        room = self.rooms.find(arguments.text_of(given, "session_id"), Demands())
        through = _number_at(room, arguments.text_of(given, "through"))
        if through is not None:
            room.run(room.session.acknowledge_events(client, through))
            await room.keeping.flush_durably()
        return answers.session_payload(room.id, acknowledged=through is not None)

    async def vdo_request(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        target = arguments.target_of(given)
        if target is None:
            raise VdoToolError("target is required: the stream id or uuid of one peer")
        data, timeout = arguments.data_of(given), arguments.timeout_of(given)
        result, effects = room.session.send(data, target, room.now)
        ids = result.get("message_ids", ())
        if len(ids) != 1:
            await room.settle(effects, who.caller)
            raise VdoToolError("invalid target: a request goes to one peer that is a Comity node")
        reply = room.expect_reply(ids[0])
        try:
            await room.settle(effects, who.caller)
            event = await asyncio.wait_for(reply, timeout / 1000)
        except (TimeoutError, asyncio.CancelledError) as why:
            reply.cancel()
            if isinstance(why, asyncio.CancelledError) and not room.is_closed:
                raise
            raise VdoToolError(f"timed out waiting for the reply to {ids[0]}") from None
        answer = {"message_id": event["message_id"], "streamID": event["streamID"], "data": event["data"]}
        return {"ok": True, "session_id": room.id, "message_id": ids[0], "reply": answer}

    async def vdo_reply(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        request, data = arguments.text_of(given, "request_id"), arguments.data_of(given)
        result, effects = room.session.reply(request, data, room.now)
        await room.settle(effects, who.caller)
        return answers.sent_payload(room.id, result)

    async def vdo_message_status(self, room: LiveRoom, given: Json, _who: ToolCaller) -> Json:
        message_id = arguments.text_of(given, "message_id")
        return answers.message_status_payload(room.id, message_id, room.session.messages.status(message_id))

    # Files.

    async def vdo_file_send(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        data = arguments.read_file_bytes(given)
        sending = arguments.read_sending(given, f"file_{secrets.token_hex(4)}")
        target = arguments.target_of(given)
        source = FileSource(kind="memory", total_bytes=len(data))
        outgoing, effects = room.session.send_file(source, target, sending, room.now)
        room.spool.offer_bytes(sending.transfer_id, data)
        room.name_sender(outgoing, who.caller)
        room.run(effects)
        return await self._follow(room, outgoing, given, who)

    async def vdo_file_send_path(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        allowed = await self._locate(arguments.text_of(given, "file_path"), who)
        sending = arguments.read_sending(given, f"file_{secrets.token_hex(4)}", allowed.path.name)
        target = arguments.target_of(given)
        file = await asyncio.to_thread(allowed.open_file)
        try:
            source = FileSource(
                kind="path", total_bytes=os.fstat(file.fileno()).st_size, path=str(allowed.path)
            )
            outgoing, effects = room.session.send_file(source, target, sending, room.now)
        except BaseException:
            file.close()
            raise
        room.offer_source(sending.transfer_id, room.spool.offer_file(sending.transfer_id, file))
        room.name_sender(outgoing, who.caller)
        room.run(effects)
        return await self._follow(room, outgoing, given, who)

    async def vdo_file_resume(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        outgoing, effects = room.session.resume_file(
            arguments.text_of(given, "transfer_id"),
            arguments.target_of(given),
            room.now,
            ack_timeout=arguments.ack_timeout_of(given),
            max_retries=arguments.max_retries_of(given),
        )
        if effects:
            room.name_sender(outgoing, who.caller)
        room.run(effects)
        return await self._follow(room, outgoing, given, who)

    async def vdo_file_transfers(self, room: LiveRoom, given: Json, _who: ToolCaller) -> Json:
        return answers.transfers_payload(room.session, arguments.direction_of(given))

    async def vdo_file_receive(self, room: LiveRoom, given: Json, _who: ToolCaller) -> Json:
        encoding = arguments.encoding_of(given)
        summary = answers.completed_transfer(room.session, arguments.text_of(given, "transfer_id"))
        if summary["total_bytes"] > MAX_RESULT:
            raise VdoToolError(
                f"the file has {summary['total_bytes']} bytes and a result at most {MAX_RESULT}: use vdo_file_save"
            )

        def read() -> bytes:
            with _open_received(room, summary["transfer_id"]) as source:
                return source.read()

        return answers.received_payload(room.id, summary, encoding, await asyncio.to_thread(read))

    async def vdo_file_save(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        transfer_id, output = arguments.text_of(given, "transfer_id"), arguments.text_of(given, "output_path")
        summary = answers.completed_transfer(room.session, transfer_id)
        overwrite = arguments.flag_of(given, "overwrite")
        allowed = await self._locate(output, who)

        def write() -> int:
            with _open_received(room, transfer_id) as source:
                return allowed.write_file(source, overwrite=overwrite)

        async def save() -> int:
            written = await asyncio.to_thread(write)
            await room.keeping.record_saved(room.id, who.caller, summary, str(allowed.path))
            return written

        written = await _complete(save())
        return answers.saved_payload(room.id, summary, str(allowed.path), written)

    async def vdo_file_cancel(self, room: LiveRoom, given: Json, _who: ToolCaller) -> Json:
        transfer_id = arguments.text_of(given, "transfer_id")
        room.run(room.session.cancel_file(transfer_id))
        book = room.session.files
        one = book.outgoing.get(transfer_id) or book.incoming[transfer_id]
        return answers.session_payload(room.id, transfer=one.summary())

    # Shared state.

    async def vdo_state_set(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        entry, effects = room.session.put_state(
            arguments.text_of(given, "key"),
            given.get("value", UNSET),  # without a value it is a deleted key
            arguments.target_of(given),
            broadcast=arguments.flag_of(given, "broadcast", default=True),
        )
        return await self._wrote(room, entry, effects, who)

    async def vdo_state_get(self, room: LiveRoom, given: Json, _who: ToolCaller) -> Json:
        key, include_meta = arguments.optional_text_of(given, "key"), arguments.flag_of(given, "include_meta")
        return answers.state_payload(room.id, room.session.state, key, include_meta=include_meta)

    async def vdo_state_sync(self, room: LiveRoom, given: Json, _who: ToolCaller) -> Json:
        result, effects = room.session.sync_state(arguments.mode_of(given), arguments.target_of(given))
        room.run(effects)
        return answers.sent_payload(room.id, result)

    async def vdo_state_delete(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        entry, effects = room.session.put_state(arguments.text_of(given, "key"), UNSET)
        return await self._wrote(room, entry, effects, who)

    async def vdo_state_cas(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        expected = arguments.expected_clock_of(given)
        key, value = arguments.text_of(given, "key"), arguments.data_of(given, "value")
        entry, effects = room.session.swap_state(key, value, expected)
        return await self._wrote(room, entry, effects, who)

    async def vdo_state_watch(self, room: LiveRoom, given: Json, who: ToolCaller) -> Json:
        prefix = arguments.optional_text_of(given, "prefix") or ""
        place = (room.id, who.client)
        seen = self._seen.get(place, 0)
        state = room.session.state
        await self._wait(
            room, arguments.wait_of(given) / 1000, lambda: bool(state.changes_since(seen, prefix))
        )
        self._seen.pop(place, None)
        self._seen[place] = state.revision
        while len(self._seen) > MAX_WATCHERS:
            del self._seen[next(iter(self._seen))]
        return answers.changes_payload(room.id, state.changes_since(seen, prefix))

    async def links(self, given: Json) -> Json:
        """How each peer of a session is reached; for the command line."""
        room = self.rooms.find(arguments.text_of(given, "session_id"), Demands())
        return {"ok": True, "session_id": room.id, "links": await room.link_stats()}

    async def invites(self, _given: Json) -> Json:
        """Which rooms somebody can still come into by an invite; for the command line. It shows no line."""
        listed = [{"room": one.room, "expires_at": one.exp / 1000} for one in self.rooms.open_invites()]
        return {"ok": True, "invites": listed}

    async def revoke(self, given: Json) -> Json:
        """Take an invite back; for the command line."""
        name = sanitize_id(given.get("room"))
        if name is None:
            raise VdoToolError("room is required")
        return {"ok": True, "room": name, "sessions_ended": await self.rooms.revoke(name)}

    async def export(self, given: Json) -> Json:
        """Signed messages, a page of them; for the command line."""
        after = given.get("after", 0)
        if type(after) is not int or after < 0:
            raise VdoToolError("invalid after: it must be a whole number")
        found, following = await self.rooms.signed(after, SIGNED_PAGE)
        return {"ok": True, "messages": found, "after": following}

    # What they share.

    def _with_own_invite(self, given: Json) -> Json:
        """A room that this node has invited to is joined as its guests join it."""
        if is_invite(given.get("room")) or given.get("host") is not None or given.get("password") is not None:
            return given
        name = sanitize_id(given.get("room"))
        line = None if name is None else self.rooms.known_invite(name)
        return given if line is None else {**given, "room": line}

    async def _locate(self, path: str, who: ToolCaller) -> AllowedPath:
        return await asyncio.to_thread(self.rooms.paths.locate, path, who.folder, typed=who.typed)

    async def _wait(self, room: LiveRoom, seconds: float, is_over: Callable[[], bool]) -> None:
        deadline = room.now + seconds
        while not is_over() and not room.is_closed and not self._stopping:
            left = deadline - room.now
            if left <= 0:
                return
            await room.wait_change(left)

    async def _wrote(self, room: LiveRoom, entry: Any, effects: Any, who: ToolCaller) -> Json:
        room.run(effects)
        await room.keep_state(who.caller)
        return answers.session_payload(room.id, entry=entry.to_json())

    async def _follow(self, room: LiveRoom, outgoing: OutgoingFile, given: Json, who: ToolCaller) -> Json:
        """Wait until the transfer ends or the time is up; the transfer then continues (ruling 60)."""
        deadline = room.now + arguments.timeout_of(given) / 1000
        told = -1
        while not outgoing.is_over and not room.is_closed and not self._stopping:
            left = deadline - room.now
            if left <= 0:
                break
            await room.wait_change(min(left, PROGRESS_SECONDS))
            done = outgoing.acked_bytes
            if done != told:
                told = done
                who.progress(done, outgoing.offer.total_bytes, outgoing.offer.name)
        if outgoing.status == "failed":
            raise VdoToolError(outgoing.last_error or "the transfer failed")
        return answers.session_payload(room.id, transfer=outgoing.summary())

    async def _send_signed(self, room: LiveRoom, data: Any, target: Any, who: ToolCaller) -> Json:
        """One envelope for each node, each with its place in the chain of the pair."""
        nodes = room.session.signed_targets(target)
        ids = []
        for node in nodes:
            async with room.keeping.chain_turn:
                ids.append(await self._sign_for(room, VacantId.from_hex(node), data, who))
        return {"ok": bool(ids), "used_target": target, "message_ids": ids}

    async def _sign_for(self, room: LiveRoom, node: VacantId, data: Any, who: ToolCaller) -> str:
        pair = PairKey(room.key.vacant_id, node)
        tip = await room.keeping.tip(pair)
        message_id = f"msg_{secrets.token_hex(8)}"
        envelope = signed_envelope(
            from_vid=pair.from_vid,
            to_vid=node,
            payload=A2AMessage(role="ROLE_USER", parts=(A2APart(text=signed_text(data)),)),
            sequence_no=tip.seq + 1,
            prev_envelope_hash=tip.hash,
            idempotency_key=message_id,
            timestamp=datetime.fromtimestamp(self._clock.now(), UTC),
            signing_key=room.key,
        )
        effects = room.session.send_signed(to_a2a_message(envelope), message_id, node.hex(), room.now)
        kept = next(effect for effect in effects if isinstance(effect, KeepMessage))
        after = tip_of(ReplayState(envelope.sequence_no, envelope.compute_hash()))
        move = Advance(chain=chain_of(pair, ROOM_BOOK), expected=tip, to=after)
        await room.keeping.keep_out(room.id, kept, who.caller, [move])
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
    """Without what only the tools of `extended` have a use for."""
    shown = {name: value for name, value in answer.items() if name != "message_ids"}
    for name in ("peers", "sync_peers"):
        if name in shown and all(isinstance(peer, dict) for peer in shown[name]):
            shown[name] = [{key: peer[key] for key in peer if key != "vacant_id"} for peer in shown[name]]
    return shown


async def _complete(work: Coroutine[Any, Any, int]) -> int:
    """Run it to its end, also when the caller is cancelled: a file that was saved has its entry in the record."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await finish(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it
        raise


def _open_received(room: LiveRoom, transfer_id: str) -> BinaryIO:
    source = room.spool.open_received(transfer_id)
    if source is None:
        raise VdoToolError(f"transfer payload unavailable: {transfer_id}")
    return source
