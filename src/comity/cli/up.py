"""`comity up`: one node, until somebody stops it.

With --json the only line on stdout is the ready line. It comes when the node answers and listens to
SIGTERM, so that whoever waited for it may use and stop the node at once.
"""

import asyncio
import gc
import importlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import comity
from comity.agents.load import load_behaviour
from comity.cli.act_sinks import ActSinks
from comity.cli.colour import colour_wanted, paint
from comity.cli.help import HelpfulCommand, new_app, section
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
from comity.cli.screen import one_line, print_fields, print_json, print_line
from comity.config import DEFAULT, Loaded, flag_of
from comity.core.errors import ConfigError
from comity.doors.a2a.message_send import MESSAGE_SEND_PATH
from comity.keys.identity import has_identity
from comity.node import Node

app = new_app()

SWITCH_SECONDS = 0.0002
"""After this time a thread that waits for the interpreter gets it, also from a loop that is never idle: the thread that
writes to the disk needs it several times for each batch. Python's own 5 ms let a busy peer hold up every commit
(docs/why.md).
"""

_OTHER_FOLDER = "~/comity-guest"


@app.command(
    cls=HelpfulCommand,
    epilog="""
    comity up  start a node with the current settings
    comity up --agent echo  with an agent that repeats each message, to try it out
    comity up --agent mypkg:handle --capability "translates to French"  with a function of yours
    comity up --port 9000 --data /srv/node  with another port and data folder
    comity up --port 0 --json  on any free port; print one JSON line when ready
    """,
)
def up(
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="AGENT",
            help="The agent that answers calls: echo, actions, module:function, mcp:… or openai:…. Default: no agent.",
        ),
    ] = None,
    capability: Annotated[
        str | None,
        typer.Option("--capability", metavar="TEXT", help="What the agent offers. Its card shows this text."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The name of the agent, shown at /health.")
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option(
            "--directory",
            metavar="URL",
            help="The directory where the agent is published. Default: the directory of this node.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="The address to listen on. Default: 127.0.0.1. An address that other machines can reach needs TLS and http.public.",
        ),
    ] = None,
    port: Annotated[
        str | None,
        typer.Option(
            "--port",
            metavar="PORT",
            help="The port to listen on. Default: 8420, or a free port if 8420 is in use. 0: any free port.",
        ),
    ] = None,
    data: Data = None,
    config: Config = None,
    tls_cert: Annotated[
        str | None,
        typer.Option("--tls-cert", metavar="FILE", help="The TLS certificate, with its chain."),
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="The private key of the certificate.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show events on the terminal.")] = False,
    as_json: Json = False,
) -> None:
    """Start a node and keep it running until Ctrl-C or SIGTERM.

    The first start creates the data folder, the identity and the local token, without questions. On a terminal the
    node prints one line for each event.
    """
    flags = {
        "agent.behaviour": agent,
        "agent.capability": capability,
        "agent.name": name,
        "directory.url": directory,
        "tls.cert": tls_cert,
        "tls.key": tls_key,
    }
    loaded = settings_of(data, config, host=host, port=port, **flags)
    settings = loaded.settings
    if settings.agent.behaviour:
        load_behaviour(settings.agent.behaviour)  # refused before anything is made or opened
    elif capability is not None or name is not None:
        raise ConfigError("--capability and --name describe an agent, but no agent is set; add --agent")
    write_logs(settings.log_level, as_json=settings.log_json)
    sys.setswitchinterval(SWITCH_SECONDS)
    passphrase = _passphrase(settings.data, passphrase_file)
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        runner.run(_serve(loaded, passphrase, as_json=as_json, quiet=quiet))


async def _serve(loaded: Loaded, passphrase: str | None, *, as_json: bool, quiet: bool) -> None:
    moves = loaded.sources["port"] == DEFAULT  # a port that somebody asked for is that one or none
    node = Node(loaded.settings, passphrase=passphrase, may_move_port=moves)
    sinks: ActSinks | None = None
    try:
        await node.start()
        gc.collect()
        gc.freeze()  # what was made by now stays: looking through it again and again would hold up calls
        stopped = asyncio.ensure_future(node.wait_stopped())
        await asyncio.sleep(0)  # its signal handlers are in place before anybody is told
        if as_json:
            print_json(_ready_line(node))
        else:
            _greet(node, loaded)
        sinks = ActSinks(node.house.events, loaded.settings, shown=not (quiet or as_json))
        await stopped
    finally:
        await node.stop()
        if sinks is not None:
            await sinks.finish()
    if not as_json:
        print_line("\nStopped." if sys.stdout.isatty() else "Stopped.")  # a terminal has just shown ^C


def _ready_line(node: Node) -> dict[str, object]:
    agent = node.settings.agent
    served = {"endpoint": agent.endpoint or node.url + MESSAGE_SEND_PATH, "capability": agent.offer}
    return {
        "ready": True,
        "url": node.url,
        "vacant_id": node.vacant_id.hex(),
        "data": str(node.settings.data),
        **dict(_vcp_over_tcp(node)),
        **(served if agent.behaviour else {}),
    }


def _greet(node: Node, loaded: Loaded) -> None:
    coloured = colour_wanted()
    print_line(paint(f"Comity {comity.__version__} is running.", "bold green", wanted=coloured))
    for notice in node.notices:
        print_line(f"{paint('note:', 'bold yellow', wanted=coloured)} {notice}")
    print_line()
    print_fields(
        (
            ("address", paint(node.url, "cyan", wanted=coloured)),
            *_vcp_over_tcp(node),
            ("identity", str(node.vacant_id)),
            *_served(node),
            ("data", str(node.settings.data)),
            ("browser", paint(node.entry_link, "cyan", wanted=coloured)),
            ("", "open this link in a browser; it works once"),
        ),
        indent="  ",
    )
    print_line()
    print_line(section("Next", _next(node, loaded)) + "\n")
    sys.stdout.flush()


def _vcp_over_tcp(node: Node) -> list[tuple[str, str]]:
    port = node.settings.vcp.tcp_port
    if not port:
        return []
    scheme, host = (
        "tcps" if node.settings.tls.cert else "tcp",
        node.url.partition("://")[2].rpartition(":")[0],
    )
    return [("vcp", f"{scheme}://{host}:{port}")]


def _served(node: Node) -> list[tuple[str, str]]:
    agent = node.settings.agent
    if not agent.behaviour:
        return []
    endpoint = paint(agent.endpoint or node.url + MESSAGE_SEND_PATH, "cyan", wanted=colour_wanted())
    return [("agent", agent.behaviour), ("offers", one_line(agent.offer)), ("endpoint", endpoint)]


def _next(node: Node, loaded: Loaded) -> list[tuple[str, str]]:
    """What one may type now, in another terminal, with the flags that lead to this node."""
    folder = f" --data {shlex.quote(str(node.settings.data))}" if loaded.sources["data"] == "--data" else ""
    comity = _typed()
    steps = [(f"{comity} id show{folder}", "show the identity of this node, to give to others")]
    if node.settings.agent.behaviour:
        given = loaded.sources["directory.url"] == flag_of("directory.url")
        where = f" --directory {shlex.quote(node.settings.directory.url)}" if given else ""
        steps = [
            (f"{comity} card show{folder}", "show what others see of the agent"),
            (
                f"{comity} call {node.url} hello --data {_OTHER_FOLDER}",
                "call the agent with another identity",
            ),
            (f"{comity} card publish{where}{folder}", "let others find it"),
        ]
    return [
        *steps,
        (f"{comity} install{folder}", "let Claude Code, Codex, Cursor and others use it"),
        (f"{comity} watch{folder}", "show events as they happen"),
        (f"{comity} doctor{folder}", "find problems"),
        ("Ctrl-C", "stop"),
    ]


def _typed() -> str:
    """How the command is called from anywhere: by its name, where a shell finds it; else by its whole path."""
    if shutil.which("comity"):
        return "comity"
    started_as = Path(sys.argv[0])
    if started_as.name == "comity":
        return shlex.quote(os.path.abspath(started_as))  # noqa: PTH100 - Path.resolve() follows links
    return f"{shlex.quote(sys.executable)} -m comity"


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
