"""Every carrier of links with channels, as a function that joins two ends in this process."""

import asyncio
import contextlib

from comity.rooms.links.webrtc import IceSettings, WebRtcLink, new_connection
from comity.rooms.links.websocket import WebSocketListener, use_ticket
from comity.testing.loopback import channel_loopback_pair


@contextlib.asynccontextmanager
async def loopback(folder):
    yield channel_loopback_pair()


@contextlib.asynccontextmanager
async def websocket(folder):
    listener = WebSocketListener(folder / "tickets")
    ticket = await listener.lay_ticket()
    right = await use_ticket(folder / "tickets", ticket.name)
    yield await ticket.wait_link(), right
    await listener.close()


def webrtc(left_library, right_library):
    @contextlib.asynccontextmanager
    async def join(folder):
        telling = []

        def tell(whom):
            return lambda candidate: telling.append(asyncio.ensure_future(whom().add_candidates([candidate])))

        left = WebRtcLink(
            await new_connection(IceSettings(), left_library), is_offerer=True, candidate=tell(lambda: right)
        )
        right = WebRtcLink(
            await new_connection(IceSettings(), right_library), is_offerer=False, candidate=tell(lambda: left)
        )
        await left.accept(await right.answer(await left.offer()))
        await asyncio.gather(left.wait_open(), right.wait_open())
        yield left, right
        await asyncio.gather(*telling)

    return join


CARRIERS = {
    "loopback": loopback,
    "websocket": websocket,
    "wrtc": webrtc("wrtc", "wrtc"),
    "aiortc": webrtc("aiortc", "aiortc"),
    "wrtc-aiortc": webrtc("wrtc", "aiortc"),
    "aiortc-wrtc": webrtc("aiortc", "wrtc"),
}
