"""A link between two nodes whose TCP connection is cut in the middle of whatever it carries."""

import asyncio
import contextlib
from urllib.parse import urlsplit

import pytest

from comity.rooms.links import websocket
from tests.rooms.scene import PATIENCE, Client, meet, rooms_node

FILE_BYTES = 6_000_001
MESSAGES = 12


class Scissors:
    """Stands in front of every link, and cuts each after so many bytes; after the last cut links stay whole."""

    def __init__(self, offsets):
        self.offsets = list(offsets)
        self.cuts = [asyncio.Event() for _ in self.offsets]

    async def connect(self, url, **options):
        target = urlsplit(url).port
        async with await asyncio.start_server(
            lambda *ends: self._serve(target, *ends), "127.0.0.1", 0
        ) as server:
            port = server.sockets[0].getsockname()[1]
            return await self.really_connect(f"ws://127.0.0.1:{port}/", **options)

    async def _serve(self, port, reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        left = [self.offsets.pop(0) if self.offsets else float("inf")]
        ends = (writer, far_writer)
        try:
            with contextlib.suppress(OSError):
                await asyncio.gather(
                    self._pump(reader, far_writer, left, ends), self._pump(far_reader, writer, left, ends)
                )
        finally:
            for end in ends:
                end.transport.abort()

    async def _pump(self, reader, writer, left, ends):
        while data := await reader.read(65_536):
            writer.write(data if left[0] > len(data) else data[: int(left[0])])
            left[0] -= len(data)
            if left[0] <= 0:
                await writer.drain()
                next(cut for cut in self.cuts if not cut.is_set()).set()
                for end in ends:
                    end.transport.abort()
                return
            await writer.drain()
        writer.close()


@pytest.mark.slow
async def test_what_was_under_way_goes_on_after_cuts_at_random_offsets(randomness, monkeypatch):
    scissors = Scissors(randomness.integer(2_000, FILE_BYTES // 3) for _ in range(2))
    scissors.really_connect = websocket.connect
    monkeypatch.setattr(websocket, "connect", scissors.connect)
    data = randomness.bytes(FILE_BYTES)
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        source = here.settings.data / "shared" / "a.bin"
        source.parent.mkdir(exist_ok=True)
        source.write_bytes(data)
        sending = asyncio.create_task(
            anna.call("vdo_file_send_path", file_path="a.bin", transfer_id="cut", target="bert")
        )
        ids = []
        for number in range(MESSAGES):
            if number in (4, 8):
                await asyncio.wait_for(scissors.cuts[number // 4 - 1].wait(), PATIENCE)
            ids += (await bert.call("vdo_send", data=number, target="anna"))["message_ids"]
        assert (await sending)["transfer"]["status"] == "completed"
        read = await anna.events("data_received", MESSAGES)
        assert sorted(event["data"] for event in read) == list(range(MESSAGES))
        result = await bert.events("message_status", MESSAGES)
        assert {event["message_id"]: event["status"] for event in result} == dict.fromkeys(ids, "stored")
        await bert.call("vdo_file_save", transfer_id="cut", output_path="a.bin")
        assert (there.settings.data / "shared" / "a.bin").read_bytes() == data
