"""`comity up`: one node, until somebody stops it.

With --json the only line on stdout is the ready line. It comes when the node answers and listens to
SIGTERM, so that whoever waited for it may use and stop the node at once.
"""

import asyncio
import importlib
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import comity
from comity.cli.colour import colour_wanted, paint
from comity.cli.help import HelpfulCommand, new_app
from comity.cli.logs import write_logs
from comity.cli.options import (
    Config,
    Data,
    Json,
    PassphraseFile,
    passphrase_for,
    read_passphrase,
    settings_of,
)
from comity.cli.screen import print_fields, print_json, print_line
from comity.config import DEFAULT, Loaded
from comity.keys.identity import has_identity
from comity.node import Node

app = new_app()

_NEXT = {
    "comity id show": "who this node is, to tell others",
    "comity audit tail --follow": "what happens, as it happens",
    "comity doctor": "when something seems wrong",
}


@app.command(
    cls=HelpfulCommand,
    epilog="""
    comity up  start here, with what is set
    comity up --port 9000 --data /srv/node  another port and folder
    comity up --port 0 --json  any free port; one ready line for programs
    """,
)
def up(
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="The address to listen on; 127.0.0.1 if not set. Others need TLS and http.public.",
        ),
    ] = None,
    port: Annotated[
        str | None,
        typer.Option(
            "--port", metavar="PORT", help="The port; 8420 or a free one if not set, 0 for any free one."
        ),
    ] = None,
    data: Data = None,
    config: Config = None,
    tls_cert: Annotated[
        str | None,
        typer.Option("--tls-cert", metavar="FILE", help="The certificate for TLS, with its chain."),
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="The key of that certificate.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Start a node and keep it running until Ctrl-C or SIGTERM.

    The first start makes the data folder, the identity and the local token. Nothing has to be typed.
    """
    loaded = settings_of(data, config, host=host, port=port, **{"tls.cert": tls_cert, "tls.key": tls_key})
    settings = loaded.settings
    write_logs(settings.log_level, as_json=settings.log_json)
    passphrase = _passphrase(settings.data, passphrase_file)
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        runner.run(_serve(loaded, passphrase, as_json=as_json))


async def _serve(loaded: Loaded, passphrase: str | None, *, as_json: bool) -> None:
    moves = loaded.sources["port"] == DEFAULT  # a port that somebody asked for is that one or none
    node = Node(loaded.settings, passphrase=passphrase, may_move_port=moves)
    try:
        await node.start()
        stopped = asyncio.ensure_future(node.wait_stopped())
        await asyncio.sleep(0)  # its signal handlers are in place before anybody is told
        if as_json:
            print_json(_ready_line(node))
        else:
            _greet(node, loaded.sources["data"])
        await stopped
    finally:
        await node.stop()
    if not as_json:
        print_line("\nStopped." if sys.stdout.isatty() else "Stopped.")  # a terminal has just shown ^C


def _ready_line(node: Node) -> dict[str, object]:
    return {
        "ready": True,
        "url": node.url,
        "vacant_id": node.vacant_id.hex(),
        "data": str(node.settings.data),
    }


def _greet(node: Node, data_source: str) -> None:
    coloured = colour_wanted()
    print_line(paint(f"Comity {comity.__version__} is running.", "bold green", wanted=coloured))
    for notice in node.notices:
        print_line(f"{paint('note:', 'bold yellow', wanted=coloured)} {notice}")
    print_line()
    print_fields(
        (
            ("address", paint(node.url, "cyan", wanted=coloured)),
            ("identity", str(node.vacant_id)),
            ("data", str(node.settings.data)),
            ("browser", paint(node.entry_link, "cyan", wanted=coloured)),
            ("", "this link lets a browser in, once"),
        ),
        indent="  ",
    )
    print_line()
    print_line(paint("Next", "bold", wanted=coloured))
    same_folder = f" --data {shlex.quote(str(node.settings.data))}" if data_source == "--data" else ""
    steps = [(command + same_folder, purpose) for command, purpose in _NEXT.items()]
    print_fields([*steps, ("Ctrl-C", "stop")], indent="  ")
    sys.stdout.flush()


def _passphrase(data: Path, file: str | None) -> str | None:
    if has_identity(data):
        return passphrase_for(data, file)
    return read_passphrase(file) if file is not None else None


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The quicker event loop where there is one; the usual one elsewhere."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory
