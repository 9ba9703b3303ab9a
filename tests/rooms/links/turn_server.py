"""A TURN server in small, on 127.0.0.1 over UDP (RFC 8656): enough for the WebRTC libraries to be relayed by it."""

import asyncio
import contextlib
import hashlib
import struct

from aioice import stun

USERNAME, PASSWORD, REALM, NONCE = "user", "word", "test", b"nonce"
KEY = hashlib.md5(f"{USERNAME}:{REALM}:{PASSWORD}".encode()).digest()
LIFETIME = 600


class Allocation(asyncio.DatagramProtocol):
    """The address that the server lends to one client."""

    def __init__(self, server, client):
        self.server = server
        self.client = client
        self.permitted = set()
        self.channels = {}

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        if peer[0] not in self.permitted:
            return
        self.server.relayed += len(data)
        channel = next((number for number, address in self.channels.items() if address == peer), None)
        if channel is not None:
            self.server.transport.sendto(struct.pack("!HH", channel, len(data)) + data, self.client)
            return
        result = stun.Message(stun.Method.DATA, stun.Class.INDICATION)
        result.attributes["XOR-PEER-ADDRESS"] = peer
        result.attributes["DATA"] = data
        self.server.transport.sendto(bytes(result), self.client)


class TurnServer(asyncio.DatagramProtocol):
    def __init__(self):
        self.allocations = {}
        self.relayed = 0
        self.tasks = set()

    def connection_made(self, transport):
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data, client):
        if data[0] & 0xC0 == 0x40:
            number, length = struct.unpack_from("!HH", data)
            allocation = self.allocations.get(client)
            if allocation is not None and number in allocation.channels:
                allocation.transport.sendto(data[4 : 4 + length], allocation.channels[number])
            return
        try:
            message = stun.parse_message(data)
        except ValueError:
            return
        task = asyncio.ensure_future(self.answer(message, client))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def allocate(self, client):
        allocation = self.allocations[client] = Allocation(self, client)
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: allocation, local_addr=("127.0.0.1", 0))
        return allocation

    async def answer(self, message, client):
        method, attributes = message.message_method, message.attributes
        allocation = self.allocations.get(client)
        if message.message_class == stun.Class.INDICATION:
            peer = attributes.get("XOR-PEER-ADDRESS", ("",))
            if allocation is not None and peer[0] in allocation.permitted:
                allocation.transport.sendto(attributes["DATA"], peer)
            return
        reply = stun.Message(method, stun.Class.RESPONSE, transaction_id=message.transaction_id)
        if method == stun.Method.BINDING:
            reply.attributes["XOR-MAPPED-ADDRESS"] = client
            self.transport.sendto(bytes(reply), client)
            return
        if attributes.get("USERNAME") != USERNAME:
            reply.message_class = stun.Class.ERROR
            reply.attributes.update({"ERROR-CODE": (401, "Unauthorized"), "REALM": REALM, "NONCE": NONCE})
            self.transport.sendto(bytes(reply), client)
            return
        if method == stun.Method.ALLOCATE:
            allocation = allocation or await self.allocate(client)
            reply.attributes["XOR-RELAYED-ADDRESS"] = allocation.transport.get_extra_info("sockname")
            reply.attributes["LIFETIME"] = LIFETIME
            reply.attributes["XOR-MAPPED-ADDRESS"] = client
        elif method == stun.Method.REFRESH:
            reply.attributes["LIFETIME"] = attributes.get("LIFETIME", LIFETIME)
        elif method == stun.Method.CREATE_PERMISSION:
            allocation.permitted.add(attributes["XOR-PEER-ADDRESS"][0])
        elif method == stun.Method.CHANNEL_BIND:
            peer = attributes["XOR-PEER-ADDRESS"]
            allocation.permitted.add(peer[0])
            number = attributes["CHANNEL-NUMBER"]
            allocation.channels[number] = peer
        reply.add_message_integrity(KEY)
        self.transport.sendto(bytes(reply), client)


@contextlib.asynccontextmanager
async def turn_server():
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(TurnServer, local_addr=("127.0.0.1", 0))
    try:
        yield server
    finally:
        for allocation in server.allocations.values():
            allocation.transport.close()
        transport.close()
