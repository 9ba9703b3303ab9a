"""The real `vdo_*` tools over simulated sessions: only what lies beneath them, rooms and disks, is simulated."""

import asyncio
from io import BytesIO
from pathlib import Path

from comity.requests.caller import OWN_PROCESS
from comity.rooms.protocol.tool_answers import failed_payload
from comity.rooms.protocol.tool_arguments import VdoToolError
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.tool_handlers import RoomTools, ToolContext
from comity.wire.errors import ComityError

STEP = 0.2
"""Simulated seconds that pass while a tool waits for a change, and after each call."""


class SimulatedPath:
    """No file is there but those that were saved."""

    def __init__(self, path, saved):
        self.path = Path(path)
        self._saved = saved

    def open_file(self):
        raise VdoToolError(f"ENOENT: no such file or directory, stat '{self.path}'")

    def make_folder(self):
        return self.path

    def write_file(self, source, *, overwrite):
        if self.path in self._saved and not overwrite:
            raise VdoToolError(f"output exists: {self.path}")
        self._saved[self.path] = source.read()
        return len(self._saved[self.path])


class SimulatedRoom:
    """A simulated host in place of a session that runs, with its spool and its store."""

    is_closed = expects_peers = False
    streams_at_relay = frozenset()
    log_id = "log"

    def __init__(self, session_id, host):
        self.id = session_id
        self.host = host
        self.session = host.session
        self.spool = self.keeping = self
        self.run = host.run

    @property
    def now(self):
        return self.host.world.now

    def wake(self):
        """Nobody waits."""

    async def wait_change(self, seconds):
        self.host.world.run(min(seconds, STEP))

    async def send_durably(self, effects, _caller):
        self.host.run(effects)

    async def keep_state(self, _caller):
        """The host keeps no state."""

    def name_sender(self, _outgoing, _caller):
        """Nothing is recorded."""

    async def record_saved(self, *_):
        """Nothing is recorded."""

    def offer_bytes(self, transfer_id, data):
        self.host.disk.sources[transfer_id] = data

    def open_received(self, transfer_id):
        return BytesIO(self.host.disk.files[transfer_id])


class SimulatedRooms:
    """The sessions of one connection: hosts of one world."""

    demands = Demands()

    def __init__(self, world, own):
        self.world = world
        self.default = "ws://127.0.0.1:1"
        self.relays = self.paths = self
        self._own = own
        self._saved = {}
        self._rooms = {}

    def __iter__(self):
        return iter(self._rooms.values())

    def visible(self, _demands):
        return list(self)

    def find(self, session_id, _demands):
        if session_id not in self._rooms:
            raise VdoToolError(f"unknown session_id: {session_id}")
        return self._rooms[session_id]

    def add(self, session_id, host):
        room = self._rooms[session_id] = SimulatedRoom(session_id, host)
        return room

    def locate(self, path, _folder, *, typed):
        return SimulatedPath(path, self._saved)

    def own_invite(self, _room):
        return None

    def is_own(self, _host):
        return True

    async def connect(self, options, _invite, *, client, caller, any_name):
        fields = {
            name: getattr(options, name)
            for name in options.__struct_fields__
            if name not in {"stream_id", "host"}
        }
        host = self.world.host(options.stream_id, own=self._own, **fields)
        room = self.add(host.session.session_id, host)
        self.world.run(0.1)
        target = self.world.hosts.get(options.target_stream_id)
        if target is not None:
            self.world.link(target, host)
            self.world.run(STEP)
        return room, False

    async def end(self, room, _caller):
        room.run(room.session.stop(self.world.now))
        self.world.run(0.1)
        del self._rooms[room.id]


class SimulatedTools:
    """One connection to the tools."""

    def __init__(self, world, profile="full", own=False):
        self.world = world
        self.rooms = SimulatedRooms(world, own)
        self.tools = RoomTools(self.rooms, self, None)
        self.context = ToolContext(client="client", caller=OWN_PROCESS, demands=Demands(), profile=profile)

    def now(self):
        return self.world.wall()

    def call(self, tool, given):
        try:
            payload = asyncio.run(self.tools.call(tool, given, self.context))
        except ComityError as why:
            return failed_payload(tool, why.message)
        self.world.run(STEP)
        return payload
