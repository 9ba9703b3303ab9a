"""`comity up`: one node, until somebody stops it.

With --json the only line on stdout is the ready line, and it comes when the node answers.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated

import typer

import comity
from comity.cli.colour import colour_wanted, paint
from comity.cli.help import HelpfulCommand, new_app
from comity.cli.options import Config, Data, Json, settings_of
from comity.cli.screen import print_fields, print_json, print_line
from comity.config import Settings
from comity.node import Node

app = new_app()


@app.command(
    cls=HelpfulCommand,
    epilog="""
    comity up  start here, with what is set
    comity up --port 9000 --data /srv/node  another port and folder
    comity up --port 0 --json  any free port; one ready line for programs
    comity up --host 0.0.0.0 --tls-cert c.pem --tls-key k.pem  for other machines; also set http.public
    """,
)
def up(
    host: Annotated[str | None, typer.Option("--host", metavar="HOST", help="The address to listen on [127.0.0.1].")] = None,
    port: Annotated[
        str | None,
        typer.Option("--port", metavar="PORT", help="The port to listen on [8420, or a free one]; 0 is any free one."),
    ] = None,
    data: Data = None,
    config: Config = None,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate for TLS, with its chain.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate.")] = None,
    as_json: Json = False,
) -> None:
    """Start a node and keep it running until Ctrl-C or SIGTERM.

    The first start makes the data folder, the identity and the local token. Nothing has to be typed.
    """
    loaded = settings_of(data, config, host=host, port=port, **{"tls.cert": tls_cert, "tls.key": tls_key})
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(loaded.settings, as_json=as_json))


async def _serve(settings: Settings, *, as_json: bool) -> None:
    node = Node(settings)
    try:
        await node.start()
        if as_json:
            ready = {"ready": True, "url": node.url, "vacant_id": node.vacant_id.hex(), "data": str(settings.data)}
            print_json(ready)
        else:
            _greet(node, settings)
        await node.wait_stopped()
    finally:
        await node.stop()
    if not as_json:
        print_line("Stopped.")
