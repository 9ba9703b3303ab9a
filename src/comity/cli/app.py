"""The table of commands, and the one place where every failure becomes a sentence and an exit code.

The table knows each command's name, line of help and module. Listing, completing and mistyping a name
import no module; running a command, or asking for its own help, imports its one.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from comity.release import __version__
from comity.terminal.help import HelpfulGroup, examples, paragraphs, records, section, usage
from comity.terminal.output import Given, finish, report
from comity.wire.errors import ConfigError

PROGRAM = "comity"


class Announced(NamedTuple):
    name: str
    module: str
    help: str


CHAPTERS = {
    "Run a node": (
        Announced("up", "comity.node.commands.up", "Start a node; the first start creates all that it needs"),
        Announced("status", "comity.node.commands.running:status_app", "Show how the running node is doing"),
        Announced("open", "comity.node.commands.running:open_app", "Open the page of the running node"),
        Announced("stop", "comity.node.commands.running:stop_app", "Stop the running node"),
        Announced("demo", "comity.cli.demo", "See in a minute what nodes of several owners do together"),
        Announced(
            "state",
            "comity.agents.commands.card:state_app",
            "Show or set whether the agent of the node accepts calls",
        ),
        Announced("doctor", "comity.node.commands.doctor", "Check this machine and say how to fix problems"),
        Announced(
            "watch", "comity.node.commands.watch", "Show what happens on the running node, line by line"
        ),
        Announced("mcp", "comity.node.commands.mcp", "Serve an MCP client on standard input and output"),
        Announced(
            "outside", "comity.outside.commands", "Open or close the door of the node for other machines"
        ),
        Announced(
            "relay", "comity.rooms.commands.relay", "Run a relay that helps peers connect to each other"
        ),
    ),
    "Meet others": (
        Announced(
            "invite", "comity.rooms.commands.meet:invite_app", "Print a line that lets somebody join you"
        ),
        Announced("join", "comity.rooms.commands.meet:join_app", "Join somebody by such a line"),
        Announced(
            "send", "comity.rooms.commands.meet:send_app", "Send files to who has the line that it prints"
        ),
        Announced("receive", "comity.rooms.commands.meet:receive_app", "Receive files by such a line"),
        Announced(
            "room", "comity.rooms.commands.room", "Meet others in a room: talk, pass files, share state"
        ),
        Announced("call", "comity.agents.commands.call", "Call an agent and print its signed reply"),
        Announced(
            "contacts",
            "comity.agents.commands.contacts",
            "Give names to others, and decide who may call you",
        ),
        Announced("search", "comity.directory.commands", "Find agents by what they offer"),
        Announced("review", "comity.agents.commands.review", "Say how good an agent is"),
        Announced(
            "hello", "comity.vcp.commands:hello_app", "Negotiate with a VCP server and show its answer"
        ),
        Announced(
            "card", "comity.agents.commands.card:card_app", "Show, publish or verify what an agent offers"
        ),
        Announced(
            "vote",
            "comity.votes.commands.vote",
            "Ask other nodes, or write rules together with them and ratify them",
        ),
        Announced(
            "torch", "comity.extensions.commands:torch_app", "Pass the result of a session on to the next one"
        ),
        Announced(
            "actions", "comity.actions.commands", "Serve, list or run the actions for humane communication"
        ),
    ),
    "Prove what was said": (
        Announced(
            "verify", "comity.receipts.commands.verify", "Say whether receipts are true; needs no node"
        ),
        Announced(
            "receipt",
            "comity.receipts.commands.receipt",
            "Write receipts of calls, messages, votes and the audit record",
        ),
    ),
    "Use it from a client": (
        Announced(
            "install",
            "comity.hosts.commands:install_app",
            "Register Comity with Claude Code, Codex, Cursor and others",
        ),
        Announced(
            "uninstall",
            "comity.hosts.commands:uninstall_app",
            "Remove the registration and restore the changed files",
        ),
    ),
    "Look after it": (
        Announced(
            "backup", "comity.node.commands.backup:backup_app", "Write the whole node to one encrypted file"
        ),
        Announced("restore", "comity.node.commands.backup:restore_app", "Restore a backup into a new folder"),
        Announced("token", "comity.node.commands.token", "Make, list or revoke tokens for programs"),
        Announced(
            "vault", "comity.node.commands.upkeep:vault_app", "Change the key that encrypts stored context"
        ),
        Announced("prune", "comity.node.commands.upkeep:prune_app", "Delete old audit entries and replies"),
    ),
    "Look inside": (
        Announced(
            "id", "comity.node.commands.identity", "Show, create, export, import or replace an identity"
        ),
        Announced(
            "context",
            "comity.extensions.commands:context_app",
            "Encode or decode a VCP context, or delete what is stored",
        ),
        Announced("csm1", "comity.vcp.commands:csm1_app", "Explain a CSM-1 constitution code"),
        Announced("chain", "comity.envelopes.commands", "Show the chains of messages with other agents"),
        Announced("audit", "comity.node.commands.audit", "Verify, show or adopt the audit record"),
        Announced("config", "comity.node.commands.settings", "Show, check or change the settings"),
        Announced("version", "comity.cli.version", "Show the version of Comity and what it runs on"),
    ),
}
COMMANDS = tuple(entry for entries in CHAPTERS.values() for entry in entries)

_OTHER_WORDS = {
    "start": "a node is started with `comity up`",
    "serve": "a node is started with `comity up`; `comity up --agent mypkg:handle` serves an agent",
    "run": "a node is started with `comity up`",
    "restart": "stop the node with `comity stop`, and start it again with `comity up`",
    "logs": "a node writes its log to standard error of `comity up`; `comity watch` shows what happens on it, and "
    "`comity audit tail` what happened before",
}
"""What people type who know other programs, and what it is called here."""

_ABOUT = (
    "One node through which AI agents of different owners find each other, agree on what they can do "
    "together, prove who said what, and share messages, files and data directly."
)
_EXAMPLES = """
comity demo  see in a minute what it does
comity up  start a node and print its address
comity up --agent echo  start a node with the echo agent
comity call http://127.0.0.1:8420 hello  call an agent
comity doctor  find problems and how to fix them
comity audit verify  verify the audit record
"""
_NEXT = """
`comity COMMAND --help` explains a command and shows examples. Settings come from config.toml in the
data folder, from COMITY_* variables and from flags. Variables override the file, and flags override both.
`comity config show` prints all settings.
"""


class LazyGroup(HelpfulGroup):
    """Holds a line of help for each command; the command itself is loaded when its name is resolved."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for entry in COMMANDS:
            self.commands[entry.name] = TyperCommand(entry.name, short_help=entry.help, rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in _OTHER_WORDS:
            raise ConfigError(f"there is no command {args[0]!r}: {_OTHER_WORDS[args[0]]}")
        name, announced, rest = super().resolve_command(ctx, args)
        return name, announced and load_command(str(name)), rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _, options = records(self, ctx)
        column = max(len(name) for name, _ in options) + 4
        parts = [paragraphs(f"Comity {__version__}. {_ABOUT}"), usage(self, ctx)]
        for chapter, entries in CHAPTERS.items():
            parts.append(section(chapter, [(entry.name, entry.help) for entry in entries], column))
        parts += [section("Options", options, column), examples(_EXAMPLES), paragraphs(_NEXT)]
        formatter.write("\n\n".join(parts) + "\n")


def load_command(name: str) -> Any:
    module, _, app = next(entry.module for entry in COMMANDS if entry.name == name).partition(":")
    return typer.main.get_command(getattr(importlib.import_module(module), app or "app"))


def run(arguments: Sequence[str]) -> int:
    """Run one command line. Failures are reported on stderr, never as a traceback."""
    as_json = "--json" in arguments
    Given.forget()
    try:
        code = _root().main(args=_asked(arguments), prog_name=PROGRAM, standalone_mode=False)
        return finish(code if isinstance(code, int) else 0)
    except Exception as failure:  # noqa: BLE001 - this is the place that catches everything
        return report(failure, as_json=as_json)


def _asked(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command line, with `comity help up` as `comity up --help`."""
    if not arguments or arguments[0] == "help":
        return [*arguments[1:], "--help"]
    return list(arguments)


def _root() -> Any:
    app = typer.Typer(
        cls=LazyGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_everywhere)
    return typer.main.get_command(app)


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


def _everywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass
