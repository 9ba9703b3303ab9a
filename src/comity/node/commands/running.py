"""`comity status`, `comity stop` and `comity open`: the node that runs on the data folder, asked by its owner."""

import asyncio
import contextlib
import os
import sys
import time
import webbrowser
from typing import Annotated, Any, Final

import typer

from comity.identity.protocol.keys import VacantId
from comity.node.parts import BROWSERS_PATH, LINK_PATH, STOP_PATH
from comity.runtime.settings import Settings
from comity.store.claim import is_claimed, running_node
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import OwnNode, own_node, require_node
from comity.terminal.options import HomeOptions, Json, settings_of
from comity.terminal.output import (
    FAILED,
    counted,
    follow_up,
    one_line,
    paint,
    print_answer,
    print_fields,
    print_json,
    print_line,
    waiting,
)
from comity.wire.errors import NoAnswerError, StoreUnavailableError
from comity.wire.machine import duration_words

status_app = HelpfulApp()
stop_app = HelpfulApp()
open_app = HelpfulApp()

STATUS_PATH: Final = "/v1/status"
_EXTRA_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.05


@status_app.add("""
    comity status  show how the node of your data folder is doing
    comity status --json  print JSON; exit code 1 if no node runs
""")
def status(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Show whether a node runs on the data folder, where it answers, and how it is doing.

    The exit code is 0 if a node runs and is ready, else 1.
    """
    settings = settings_of(home).settings
    own = own_node(settings)
    if own is None:
        if as_json:
            print_json({"running": False, "data": str(settings.data)})
        elif is_claimed(settings.data):
            print_line(f"A node is starting or stopping on {settings.data}.")
        else:
            print_line(f"No node runs on {settings.data}. Start one: {follow_up('comity up')}")
        raise typer.Exit(FAILED)
    node = asyncio.run(own.ask("GET", STATUS_PATH))
    if as_json:
        print_json({"running": True, "pid": own.pid, **node})
    else:
        _print_status(node, own)
    if not node.get("ready"):
        raise typer.Exit(FAILED)


@stop_app.add("""
    comity stop  stop the node of your data folder
    comity stop --data /srv/node  stop the node of another data folder
""")
def stop(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Stop the node that runs on the data folder, and wait until it has stopped.

    The node finishes the calls that it is working on. Ctrl-C in the terminal of the node does the same.
    """
    settings = settings_of(home).settings
    own = own_node(settings)
    if own is None:
        result = {"stopped": False, "data": str(settings.data)}
        print_answer(result, f"No node runs on {settings.data}.", as_json=as_json)
        return
    began = time.monotonic()
    with waiting(f"stopping the node at {own.url}"):
        with contextlib.suppress(NoAnswerError):  # it may be gone before its answer is
            asyncio.run(own.ask("POST", STOP_PATH, {}))
        _wait_until_stopped(settings, own)
    ended = {"stopped": True, "pid": own.pid, "seconds": round(time.monotonic() - began, 3)}
    print_answer(ended, f"The node at {own.url} has stopped.", as_json=as_json)


@open_app.add("""
    comity open  open the page of the node in your browser
    comity open --no-browser  only print the link
    comity open --read-only  a link for somebody who may look and change nothing
    comity open --end-all  end every browser session and every unused link
""")
def open_(
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the link and do not start a browser.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Make a link that opens the page for reading only.")
    ] = False,
    end_all: Annotated[
        bool,
        typer.Option("--end-all", help="Sign every browser out and cancel unused links; make no new link."),
    ] = False,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Make a new link to the page of the running node, and open it in a browser.

    The link works once and expires after a day. The browser that opens it stays signed in for 12 hours, and can do what the
    page does: look, verify, run actions. It never gets keys, tokens, settings or files. With --read-only the link only shows
    the page.
    """
    settings = settings_of(home).settings
    own = require_node(settings)
    if end_all:
        ended = asyncio.run(own.ask("POST", BROWSERS_PATH, {}))
        print_answer(
            ended, f"{counted(ended['ended'], 'browser is', 'browsers are')} signed out.", as_json=as_json
        )
        return
    made = asyncio.run(own.ask("POST", LINK_PATH, {"read_only": read_only}))
    path = str(made["link"]).partition("://")[2].partition("/")[2]
    link = f"{own.url}/{path}"
    if as_json:
        print_json({"link": link, "read_only": read_only})
        return
    print_line(paint(link, "cyan"))
    if not no_browser and sys.stdout.isatty() and _has_browser():
        sys.stdout.flush()
        webbrowser.open(link)


def _print_status(node: dict[str, Any], own: OwnNode) -> None:
    ready = bool(node.get("ready"))
    words = "is ready" if ready else f"is not ready: {one_line(str(node.get('state')))}"
    state = paint(words, "bold green" if ready else "bold red")
    print_line(f"The node at {own.url} {state}.")
    print_line()
    entries = node["audit_entries"]
    print_fields(
        (
            ("identity", str(VacantId.from_hex(node["vacant_id"]))),
            ("release", f"comity {node['version']}, {node['environment']}"),
            ("running", f"{duration_words(node['uptime'])}, process {own.pid}"),
            ("data", node["data"]),
            ("calls", f"{node['calls']:,} answered"),
            ("audit", counted(entries, "entry", "entries") if isinstance(entries, int) else str(entries)),
            ("store", f"{node['store']}, context {node['encryption']}"),
            *([("off", f"{', '.join(node['off'])} (setting `off`)")] if node["off"] else []),
        ),
        indent="  ",
    )
    for panel in node["panels"].values():
        print_line()
        print_line(paint(one_line(panel["title"]), "bold"))
        print_fields([(one_line(value), one_line(label)) for label, value in panel["rows"]], indent="  ")


def _wait_until_stopped(settings: Settings, own: OwnNode) -> None:
    patience = settings.http.shutdown_seconds + _EXTRA_SECONDS
    until = time.monotonic() + patience
    while is_claimed(settings.data):
        now = running_node(settings.data)
        if now is not None and now.pid != own.pid:  # restarted by a service manager
            return
        if time.monotonic() > until:
            raise StoreUnavailableError(
                f"the node at {own.url} (process {own.pid}) did not stop within {patience:g} seconds; "
                f"see its log, or end it: kill {own.pid}"
            )
        time.sleep(_POLL_SECONDS)


def _has_browser() -> bool:
    return sys.platform in {"darwin", "win32"} or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
