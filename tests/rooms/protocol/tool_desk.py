"""The `vdo_*` tools over simulated sessions: what the room of the tools does, in the plainest way."""

from msgspec import UNSET

from comity.rooms.protocol import tool_answers as answers
from comity.rooms.protocol import tool_arguments as arguments
from comity.rooms.protocol.events import iso_moment
from comity.rooms.protocol.tool_arguments import ConnectDefaults, VdoToolError
from comity.rooms.protocol.tool_table import TOOLS_OF
from comity.wire.errors import ComityError

SERVER = {
    "name": "comity",
    "version": "1.0",
    "protocol_version": "2025-06-18",
    "supported": ("2025-06-18", "2024-11-05"),
}


class ToolDesk:
    """Each connection has its own; sessions are simulated hosts of one world."""

    def __init__(self, world, profile="full", own=False, demands=None):
        self.world = world
        self.profile = profile
        self.own = own
        self.hosts = {}
        self.saved = {}
        self.defaults = {"host": "ws://127.0.0.1:1", "stream_suffix": "0011aabb"}
        if demands is not None:
            self.defaults["demands"] = demands

    def call(self, tool, given):
        try:
            if tool not in TOOLS_OF[self.profile]:
                raise VdoToolError(f"unknown tool: {tool}")
            payload = getattr(self, tool)(arguments.checked_fields(tool, given, self.profile))
        except ComityError as why:
            return answers.failed_payload(tool, why.message)
        self.world.run(0.2)
        return payload

    def _host(self, given):
        session_id = arguments.text_of(given, "session_id")
        if session_id not in self.hosts:
            raise VdoToolError(f"unknown session_id: {session_id}")
        return self.hosts[session_id]

    def vdo_capabilities(self, _given):
        return answers.capabilities_payload(**SERVER, profile=self.profile)

    def vdo_connect(self, given):
        options, _ = arguments.read_connect(given, ConnectDefaults(**self.defaults), self.world.wall() * 1000)
        fields = {
            name: getattr(options, name)
            for name in options.__struct_fields__
            if name not in {"stream_id", "host"}
        }
        host = self.world.host(options.stream_id, own=self.own, **fields)
        self.hosts[host.session.session_id] = host
        self.world.run(0.1)
        payload = answers.connected_payload(host.session)
        target = self.world.hosts.get(options.target_stream_id)
        if target is not None:
            self.world.link(target, host)
            self.world.run(0.2)
        return payload

    def vdo_send(self, given):
        host = self._host(given)
        data, target = arguments.data_of(given), arguments.target_of(given)
        return answers.sent_payload(host.session.session_id, host.send(data, target))

    def vdo_receive(self, given):
        host = self._host(given)
        most = arguments.max_events_of(given)
        return answers.events_payload(host.session.session_id, host.read("client", most))

    def vdo_status(self, given):
        return answers.status_payload(self._host(given).session, self.world.now)

    def vdo_disconnect(self, given):
        host = self._host(given)
        host.run(host.session.stop(self.world.now))
        self.world.run(0.1)
        del self.hosts[host.session.session_id]
        return answers.session_payload(host.session.session_id, closed_at=iso_moment(self.world.wall()))

    def vdo_list_sessions(self, _given):
        return answers.sessions_payload(host.session for host in self.hosts.values())

    def vdo_sync_peers(self, given):
        session = self._host(given).session
        return answers.peers_payload(session, self.world.now)

    def vdo_sync_announce(self, given):
        host = self._host(given)
        result, effects = host.session.announce(arguments.target_of(given))
        host.run(effects)
        return answers.sent_payload(host.session.session_id, result)

    def vdo_file_send(self, given):
        host = self._host(given)
        data = arguments.read_file_bytes(given)
        sending = arguments.read_sending(given, "file_00112233")
        more = {name: getattr(sending, name) for name in sending.__struct_fields__}
        outgoing = host.send_file(data, arguments.target_of(given), **more)
        self.world.run(arguments.timeout_of(given) / 1000 if not outgoing.is_over else 0)
        if outgoing.status == "failed":
            raise VdoToolError(outgoing.last_error)
        return answers.session_payload(host.session.session_id, transfer=outgoing.summary())

    def vdo_file_send_path(self, given):
        self._host(given)
        path = arguments.text_of(given, "file_path")
        raise VdoToolError(f"ENOENT: no such file or directory, stat '{path}'")

    def vdo_file_resume(self, given):
        host = self._host(given)
        transfer_id = arguments.text_of(given, "transfer_id")
        outgoing, effects = host.session.resume_file(
            transfer_id,
            arguments.target_of(given),
            self.world.now,
            ack_timeout=arguments.ack_timeout_of(given),
            max_retries=arguments.max_retries_of(given),
        )
        host.run(effects)
        return answers.session_payload(host.session.session_id, transfer=outgoing.summary())

    def vdo_file_transfers(self, given):
        session = self._host(given).session
        return answers.transfers_payload(session, arguments.direction_of(given))

    def vdo_file_receive(self, given):
        host = self._host(given)
        encoding = arguments.encoding_of(given)
        summary = answers.completed_transfer(host.session, arguments.text_of(given, "transfer_id"))
        data = bytes(host.disk.files[summary["transfer_id"]])
        return answers.received_payload(host.session.session_id, summary, encoding, data)

    def vdo_file_save(self, given):
        host = self._host(given)
        transfer_id, output = arguments.text_of(given, "transfer_id"), arguments.text_of(given, "output_path")
        summary = answers.completed_transfer(host.session, transfer_id)
        if output in self.saved and not arguments.flag_of(given, "overwrite"):
            raise VdoToolError(f"output exists: {output}")
        self.saved[output] = bytes(host.disk.files[transfer_id])
        return answers.saved_payload(host.session.session_id, summary, output, len(self.saved[output]))

    def vdo_state_set(self, given):
        host = self._host(given)
        entry = host.put(
            arguments.text_of(given, "key"),
            given.get("value", UNSET),
            arguments.target_of(given),
            broadcast=arguments.flag_of(given, "broadcast", default=True),
        )
        return answers.session_payload(host.session.session_id, entry=entry.to_json())

    def vdo_state_get(self, given):
        session = self._host(given).session
        key, include_meta = arguments.optional_text_of(given, "key"), arguments.flag_of(given, "include_meta")
        return answers.state_payload(session.session_id, session.state, key, include_meta=include_meta)

    def vdo_state_sync(self, given):
        host = self._host(given)
        mode = arguments.mode_of(given)
        result, effects = host.session.sync_state(mode, arguments.target_of(given))
        host.run(effects)
        return answers.sent_payload(host.session.session_id, result)

    def vdo_file_cancel(self, given):
        host = self._host(given)
        transfer_id = arguments.text_of(given, "transfer_id")
        host.run(host.session.cancel_file(transfer_id))
        book = host.session.files
        one = book.outgoing.get(transfer_id) or book.incoming[transfer_id]
        return answers.session_payload(host.session.session_id, transfer=one.summary())

    def vdo_state_delete(self, given):
        host = self._host(given)
        entry = host.put(arguments.text_of(given, "key"), UNSET)
        return answers.session_payload(host.session.session_id, entry=entry.to_json())

    def vdo_state_cas(self, given):
        host = self._host(given)
        expected = arguments.expected_clock_of(given)
        key, value = arguments.text_of(given, "key"), arguments.data_of(given, "value")
        entry, effects = host.session.swap_state(key, value, expected)
        host.run(effects)
        return answers.session_payload(host.session.session_id, entry=entry.to_json())

    def vdo_state_watch(self, given):
        session = self._host(given).session
        seen, self.seen = getattr(self, "seen", 0), session.state.revision
        changes = session.state.changes_since(seen, arguments.optional_text_of(given, "prefix") or "")
        return answers.changes_payload(session.session_id, changes)

    def vdo_request(self, given):
        host = self._host(given)
        result = host.send(arguments.data_of(given), arguments.target_of(given))
        return answers.sent_payload(host.session.session_id, result)

    def vdo_reply(self, given):
        host = self._host(given)
        request = arguments.text_of(given, "request_id")
        result, effects = host.session.reply(request, arguments.data_of(given), self.world.now)
        host.run(effects)
        return answers.sent_payload(host.session.session_id, result)

    def vdo_message_status(self, given):
        session = self._host(given).session
        message_id = arguments.text_of(given, "message_id")
        return answers.message_status_payload(
            session.session_id, message_id, session.messages.status(message_id)
        )
