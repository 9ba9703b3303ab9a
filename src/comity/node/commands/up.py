"""`comity up`: run one node until it is stopped.

With --json the only line on stdout is the ready line. It comes when the node answers and handles SIGTERM.
"""

import asyncio
import gc
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from comity.agents.behaviour import load_behaviour
from comity.agents.part import Publishing
from comity.envelopes.protocol.card import Visibility
from comity.envelopes.protocol.envelope import MESSAGE_SEND_PATH
from comity.http.addresses import read_url
from comity.identity.key_files import has_identity
from comity.node.mcp_server import Mcp
from comity.node.node import Node
from comity.node.parts import Watching
from comity.release import __version__
from comity.runtime.lazy import late
from comity.runtime.settings_file import DEFAULT, Loaded
from comity.system import is_loopback
from comity.terminal.help import HelpfulApp, section
from comity.terminal.logs import write_logs
from comity.terminal.options import (
    HomeOptions,
    Json,
    PassphraseFile,
    TlsCert,
    TlsKey,
    fast_loop,
    option,
    passphrase_for,
    read_passphrase,
    settings_of,
)
from comity.terminal.output import follow_up, one_line, paint, print_fields, print_json, print_line
from comity.vcp.part import Vcp
from comity.wire.errors import ConfigError

if TYPE_CHECKING:
    from comity.directory.publishing import PublicationReport
    from comity.node.commands import event_output
    from comity.node.commands.event_output import ActSinks
else:
    event_output = late("comity.node.commands.event_output")

app = HelpfulApp()

GARBAGE_AFTER = 20_000
"""New objects before a garbage collection: calls leave no cycles, and thousands of objects are alive under load."""
SWITCH_SECONDS = 0.0002
"""After this time a thread that waits for the interpreter gets it, also from a loop that is never idle: the thread that
writes to the disk needs it several times for each batch. Python's own 5 ms let a busy peer hold up every commit
(docs/why.md).
"""

FIRST_PUBLICATION = 5.0
"""How many seconds the greeting waits for the directory."""

_OTHER_FOLDER = "~/comity-guest"


@app.add("""
    comity up  start a node with the current settings
    comity up --agent echo  with an agent that repeats each message, to try it out
    comity up --agent mypkg:handle --capability "translates to French"  with a function of yours
    comity up --agent echo --directory https://directory.example  publish the agent there, so that others find it
    comity up --port 9000 --data /srv/node  with another port and data folder
    comity up --port 0 --json  on any free port; print one JSON line when ready
""")
def up(
    agent: Annotated[
        str | None,
        option(
            "--agent",
            "AGENT",
            "The agent that answers calls: echo, actions, module:function, mcp:… or openai:…. Default: no agent.",
        ),
    ] = None,
    capability: Annotated[
        str | None, option("--capability", "TEXT", "What the agent offers. Its card shows this text.")
    ] = None,
    name: Annotated[
        str | None,
        option(
            "--name", "NAME", "The name of the agent, shown at /health. Default: the short form of its id."
        ),
    ] = None,
    directory: Annotated[
        str | None,
        option(
            "--directory",
            "URL",
            "Publish the agent in this directory and keep its card there up to date. Default: not published.",
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        option(
            "--endpoint",
            "URL",
            "The public URL where others call the agent, if it is not the address of the node. Its card shows it.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        option(
            "--host",
            "HOST",
            "The address to listen on. Default: 127.0.0.1. An address that other machines can reach needs TLS and the setting http.public.",
        ),
    ] = None,
    port: Annotated[
        str | None,
        option(
            "--port",
            "PORT",
            "The port to listen on. Default: 8420, or a free port if 8420 is in use. 0: any free port.",
        ),
    ] = None,
    home: HomeOptions = HomeOptions(),
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
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
        "agent.endpoint": endpoint,
        "directory.url": directory,
        "directory.publish": None if directory is None else True,
        "tls.cert": tls_cert,
        "tls.key": tls_key,
    }
    loaded = settings_of(home, host=host, port=port, **flags)
    settings = loaded.settings
    if settings.agent.behaviour:
        load_behaviour(settings.agent.behaviour)  # refused before anything is made or opened
    elif not {capability, name, endpoint, directory} <= {None}:
        raise ConfigError(
            "--capability, --name, --endpoint and --directory are about an agent, but no agent is set; add --agent"
        )
    if directory is not None and Publishing.name in settings.off:
        raise ConfigError(
            "--directory publishes the agent, but the setting `off` switches publishing off; take `publishing` out of it"
        )
    write_logs(settings.log_level, as_json=settings.log_json)
    sys.setswitchinterval(SWITCH_SECONDS)
    passphrase = _passphrase(settings.data, passphrase_file)
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_serve(loaded, passphrase, as_json=as_json, quiet=quiet))


async def _serve(loaded: Loaded, passphrase: str | None, *, as_json: bool, quiet: bool) -> None:
    moves = loaded.sources["port"] == DEFAULT  # only the default port may change
    node = Node(loaded.settings, passphrase=passphrase, may_move_port=moves)
    sinks: ActSinks | None = None
    try:
        await node.start()
        gc.collect()
        gc.freeze()  # what exists now stays: scanning it again and again would delay calls
        gc.set_threshold(GARBAGE_AFTER, 20, 50)
        stopped = asyncio.ensure_future(node.wait_stopped())
        await asyncio.sleep(0)  # set its signal handlers before we report that the node is ready
        report = await _first_publication(node, stopped)
        if as_json:
            print_json(_ready_line(node, report))
        else:
            _greet(node, report)
        sinks = _open_sinks(node, shown=not (quiet or as_json))
        await stopped
    finally:
        await node.stop()
        if sinks is not None:
            await sinks.finish()
    if node.runtime.failure is not None:
        raise node.runtime.failure
    if not as_json:
        print_line("\nStopped." if sys.stdout.isatty() else "Stopped.")  # a terminal has just shown ^C


def _open_sinks(node: Node, *, shown: bool) -> "ActSinks | None":
    """Return the outputs of events; None if no events are kept."""
    if node.runtime.events is None:
        return None
    return event_output.ActSinks(node.runtime.events, node.settings, shown=shown)


async def _first_publication(node: Node, stopped: "asyncio.Future[None]") -> "PublicationReport | None":
    """Return the report of the first attempt; None if the node does not publish the agent."""
    part = node.runtime.find_open(Publishing)
    if part is None:
        return None
    kept = part.kept
    attempted = asyncio.ensure_future(kept.attempted.wait())
    waits: list[asyncio.Future[Any]] = [attempted, stopped]
    await asyncio.wait(waits, timeout=FIRST_PUBLICATION, return_when=asyncio.FIRST_COMPLETED)
    attempted.cancel()
    return kept.report


def _ready_line(node: Node, report: "PublicationReport | None") -> dict[str, object]:
    agent = node.settings.agent
    served = {"endpoint": agent.endpoint or node.url + MESSAGE_SEND_PATH, "capability": agent.offer}
    return {
        "ready": True,
        "url": node.url,
        "vacant_id": node.vacant_id.hex(),
        "data": str(node.settings.data),
        **dict(_vcp_over_tcp(node)),
        **(served if agent.behaviour else {}),
        **({"published": msgspec.to_builtins(report)} if report else {}),
    }


def _greet(node: Node, report: "PublicationReport | None") -> None:
    print_line(paint(f"Comity {__version__} is running.", "bold green"))
    notices = [*node.notices]
    if report is not None and _is_only_here(report.directory, node):
        notices.append(
            "the card names an address that only this machine can reach; see --host and --endpoint"
        )
    for notice in notices:
        print_line(f"{paint('note:', 'bold yellow')} {notice}")
    print_line()
    print_fields(
        (
            ("address", paint(node.url, "cyan")),
            *_vcp_over_tcp(node),
            ("identity", str(node.vacant_id)),
            *_served(node),
            *_published(report),
            ("data", str(node.settings.data)),
            *_browser(node),
            *([("off", f"{', '.join(node.settings.off)} (setting `off`)")] if node.settings.off else []),
        ),
        indent="  ",
    )
    print_line()
    print_line(section("Next", _next(node, report)) + "\n")
    sys.stdout.flush()


def _browser(node: Node) -> list[tuple[str, str]]:
    if not node.entry_link:
        return []
    link = paint(node.entry_link, "cyan")
    return [("browser", link), ("", "open this link in a browser; it works once")]


def _vcp_over_tcp(node: Node) -> list[tuple[str, str]]:
    port = node.settings.vcp.tcp_port
    if not port or node.runtime.find_open(Vcp) is None:
        return []
    scheme = "tcps" if node.settings.tls.cert else "tcp"
    host = node.url.partition("://")[2].rpartition(":")[0]
    return [("vcp", f"{scheme}://{host}:{port}")]


def _served(node: Node) -> list[tuple[str, str]]:
    agent = node.settings.agent
    if not agent.behaviour:
        return []
    endpoint = paint(agent.endpoint or node.url + MESSAGE_SEND_PATH, "cyan")
    return [("agent", agent.behaviour), ("offers", one_line(agent.offer)), ("endpoint", endpoint)]


def _published(report: "PublicationReport | None") -> list[tuple[str, str]]:
    if report is None:
        return []
    where = ("directory", paint(one_line(report.directory), "cyan"))
    if report.problem or report.event_seq is None:
        why = one_line(report.problem) or "the directory has not answered yet"
        return [where, ("", f"not published yet: {why}"), ("", "the node tries again by itself")]
    if report.visibility is Visibility.NONE:
        return [where, ("", "hidden there, as you left it")]
    return [where, ("", f"published as event {report.event_seq}; kept up to date")]


def _is_only_here(directory: str, node: Node) -> bool:
    """Return whether others can reach the directory but not the address on the card."""
    endpoint = node.settings.agent.endpoint or node.url
    return is_loopback(read_url(endpoint).host) and not is_loopback(read_url(directory).host)


def _next(node: Node, report: "PublicationReport | None") -> list[tuple[str, str]]:
    """Return commands to type next in another terminal, with the flags that lead to this node."""
    steps = [("comity id show", "show the identity of this node, to give to others")]
    if node.settings.agent.behaviour:
        publish = [("comity card publish", "let others find it")]
        if report is not None:
            where = f" --directory {shlex.quote(report.directory)}"
            hidden = report.visibility is Visibility.NONE
            publish = [(f"comity card publish{where}", "show it there again")] if hidden else []
        steps = [
            ("comity card show", "show what others see of the agent"),
            (f"comity call {node.url} hello --data {_OTHER_FOLDER}", "call the agent with another identity"),
            *publish,
        ]
    if node.runtime.find_open(Mcp) is not None:
        steps += [("comity install", "let Claude Code, Codex, Cursor and others use it")]
    if node.runtime.find_open(Watching) is not None:
        steps += [("comity watch", "show events as they happen")]
    steps += [
        ("comity doctor", "find problems"),
        ("comity demo", "see in a minute what nodes of several owners do together"),
    ]
    typed = [(follow_up(command).replace("comity", _typed(), 1), purpose) for command, purpose in steps]
    return [*typed, ("Ctrl-C", "stop")]


def _typed() -> str:
    """Return how to call the command from anywhere: by its name if a shell finds it, else by its path."""
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
