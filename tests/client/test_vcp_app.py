"""A VCP server in an application of somebody's own, served by a server of somebody's own."""

import asyncio
import contextlib

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from comity import ComityError, VcpApp, VcpClient, VcpSettings
from comity.vcp.protocol.messages import PERSONAL
from tests.vcp.protocol.negotiation_samples import WIRE

pytestmark = pytest.mark.usefixtures("patience")


@contextlib.asynccontextmanager
async def serving(app):
    """The host and port of the application, under uvicorn."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="websockets-sansio"))
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done()
        await asyncio.sleep(0.01)
    try:
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


async def test_it_is_mounted_and_lives_with_the_application(tmp_path):
    vcp = VcpApp(tmp_path / "data")
    app = Starlette(routes=[WebSocketRoute("/talk", vcp)], lifespan=vcp.lifespan)
    with pytest.raises(ComityError, match="not open yet"):
        _ = vcp.server
    async with (
        serving(app) as host,
        VcpClient.connect(f"ws://{host}/talk", extensions=[PERSONAL], remember=False) as session,
    ):
        assert (session.version, session.extensions) == ("3.1", (PERSONAL,))
        assert all(session.core_features.values())
        assert [each.extensions for each in vcp.server.sessions] == [(PERSONAL,)]
        answer = await session.send_context({"categorical": {"wire": WIRE}})
        assert answer.message["accepted"] == ["categorical"]
    with pytest.raises(ComityError):
        _ = vcp.server
    assert (tmp_path / "data" / "comity.db").exists()


async def test_it_opens_with_the_first_connection_where_nobody_passes_the_lifespan_on(tmp_path):
    vcp = VcpApp(tmp_path / "data", vcp=VcpSettings(versions=("2.0",)))
    async with serving(Starlette(routes=[WebSocketRoute("/vcp", vcp)])) as host:
        async with VcpClient.connect(f"ws://{host}/vcp", remember=False) as session:
            assert session.version == "2.0"
        await vcp.close()


async def test_it_is_an_application_by_itself(tmp_path):
    async with (
        serving(VcpApp(tmp_path / "data")) as host,
        VcpClient.connect(f"ws://{host}/", remember=False) as session,
    ):
        assert session.version == "3.1"


async def test_a_page_of_another_origin_is_refused_unless_it_is_named(tmp_path):
    named = VcpApp(tmp_path / "data", origins=["https://app.example"])
    async with serving(Starlette(routes=[WebSocketRoute("/vcp", named)], lifespan=named.lifespan)) as host:
        url = f"ws://{host}/vcp"
        for origin in ("https://evil.example", "null"):
            with pytest.raises(InvalidStatus):
                await connect(url, additional_headers={"Origin": origin})
        for origin in (f"http://{host}", "https://app.example"):
            async with connect(url, additional_headers={"Origin": origin}) as socket:
                await socket.send('{"type":"vcp-hello","version":"3.1"}')
                assert "vcp-ack" in await socket.recv()
