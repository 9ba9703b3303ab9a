"""`comity actions`: the actions on stdin and stdout for programs, and one at a time for people.

Without a sub-command it serves until its input ends. `list` and `run` are for people and use the enhanced mode. `schemas`
writes the schemas that the contract names.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from comity.release import __version__
from comity.runtime.lazy import late
from comity.terminal.help import HelpfulApp, HelpfulCommand, paragraphs, section
from comity.terminal.options import HomeOptions, Json, settings_of
from comity.terminal.output import (
    colour_wanted,
    note,
    one_line,
    paint,
    print_fields,
    print_foreign,
    print_json,
    print_line,
    print_table,
)
from comity.wire import strict_json
from comity.wire.errors import ConfigError, ConflictError, MalformedError

if TYPE_CHECKING:
    from comity.actions import client, doors, library, runner
    from comity.actions.protocol import calls
    from comity.actions.protocol.action import Mode
else:
    calls = late("comity.actions.protocol.calls")
    client = late("comity.actions.client")
    doors = late("comity.actions.doors")
    library = late("comity.actions.library")
    runner = late("comity.actions.runner")

app = HelpfulApp()

COMPAT: Final = "1.0"
_TYPED: Final = "comity.actions.typed"

Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="A Python module with your own actions. You can repeat this option.",
    ),
]
OwnLines = Annotated[
    str | None,
    typer.Option(
        "--lines",
        metavar="FILE",
        help="A file with your own crisis lines, by country. They replace the lines of Comity for these countries.",
    ),
]
Private = Annotated[
    bool,
    typer.Option("--allow-private-pages", help="Also fetch pages from private networks and this machine."),
]


@app.callback(
    invoke_without_command=True,
    epilog="""
    comity actions  answer requests, one per line, as the server of Humanity4AI 0.1.1 did
    comity actions --enhanced  the same, with an id in every error and evidence in every answer
    comity actions --jsonrpc --enhanced  the same as JSON-RPC 2.0
    comity actions list  list the actions
    comity actions lines --country PT  show which crisis lines the replies contain
    comity actions run supportive_reply --input '{"message":"hello","risk_level":"low"}'  call an action
    comity actions schemas .  write the JSON schemas of the actions
    """,
)
def actions(
    context: typer.Context,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Use the message format of Humanity4AI 0.1.1. This is the default."),
    ] = False,
    compat: Annotated[
        str | None,
        typer.Option(
            "--compat", metavar=COMPAT, help="Use the message format and the texts of Humanity4AI 1.0.8."
        ),
    ] = None,
    enhanced: Annotated[
        bool,
        typer.Option(
            "--enhanced", help="Use the format of Comity: ids in errors, evidence, plugins, describe_action."
        ),
    ] = False,
    jsonrpc: Annotated[
        bool,
        typer.Option(
            "--jsonrpc", help="Use JSON-RPC 2.0, one message per line or with Content-Length headers."
        ),
    ] = False,
    plugin: Plugins = None,
    lines: OwnLines = None,
    allow_private_pages: Private = False,
) -> None:
    """Serve the actions on standard input and output, or list and run them.

    An action checks or rewrites a text: it finds signs of a crisis, rewrites a message in kinder words, or checks a page for
    accessibility. Without a sub-command, each line of standard input is one request in JSON, and each line of standard
    output is one reply. The process ends at the end of its input.
    """
    flags = [strict, compat is not None, enhanced]
    if context.invoked_subcommand is not None:
        if any((*flags, jsonrpc, plugin, lines, allow_private_pages)):
            raise ConfigError(f"put the options after {context.invoked_subcommand}")
        return
    mode = _mode(compat, strict=strict, enhanced=enhanced)
    serving = _runner(_library(mode, plugin, lines), allow_private=allow_private_pages)
    doors.serve_stdio(serving, __version__, jsonrpc=jsonrpc)


@app.add("""
    comity actions list  the names and what they are for
    comity actions list --json  with their schemas, for programs
""")
def list_(plugin: Plugins = None, as_json: Json = False) -> None:
    """List the actions, with their input and their purpose."""
    registry = _library("enhanced", plugin).registry
    if as_json:
        print_json({"actions": registry.descriptions()})
        return
    rows = [
        (
            entry.name,
            _needs(entry.contract.input_schema),
            one_line(entry.contract.description or entry.contract.boundary),
        )
        for entry in registry.entries()
    ]
    print_table(("action", "needs", "what it is for"), rows, unbroken="action")


def _needs(schema: Mapping[str, Any]) -> str:
    """Return the required members of the input, or else those without a default, of which one is needed."""
    required = schema.get("required") or ()
    choices = [name for name, member in schema.get("properties", {}).items() if "default" not in member]
    return ", ".join(required) or " or ".join(choices)


class _RunCommand(HelpfulCommand):
    """Its help also shows the fields of the action that is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = tuple(args)
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        typed = ctx.meta.get(_TYPED, ())
        plugins = [value for option, value in pairwise(typed) if option == "--plugin"]
        registry = _library("enhanced", plugins).registry
        for entry in filter(None, map(registry.entry, typed)):
            formatter.write(f"\n{paragraphs(f'{entry.name}: {entry.contract.description}')}\n\n")
            formatter.write(section("Fields of the input", _fields(entry.contract.input_schema)) + "\n")


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name of each member of the input, and what it may be."""
    required = schema.get("required", ())
    return [
        (name, _field(member, required=name in required)) for name, member in schema["properties"].items()
    ]


def _field(member: Mapping[str, Any], *, required: bool) -> str:
    choices = ", ".join(map(str, member.get("enum", ())))
    kind = f"One of {choices}" if choices else f"A value of type {member.get('type', 'any')}"
    default = f"Default: {json.dumps(member['default'])}." if member.get("default") not in {None, ""} else ""
    told = (str(member.get("description", "")), f"{kind}{'; required' if required else ''}.", default)
    return " ".join(filter(None, told))


@app.add(
    """
    comity actions run empathetic_reframe --input '{"message":"We cannot refund you"}'  call an action
    comity actions run empathetic_reframe --help  show the fields of its input
    comity actions run cognitive_accessibility_audit --input - < input.json  read the input from a file
    """,
    _RunCommand,
)
def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name of the action; `comity actions list` shows all names.",
            autocompletion=lambda incomplete: [name for name in calls.NAMES if name.startswith(incomplete)],
        ),
    ],
    given: Annotated[
        str,
        typer.Option(
            "--input", metavar="JSON", help="The input of the action, a JSON object; - reads standard input."
        ),
    ],
    plugin: Plugins = None,
    lines: OwnLines = None,
    allow_private_pages: Private = False,
    as_json: Json = False,
) -> None:
    """Call one action and print its result."""
    running = _runner(_library("enhanced", plugin, lines), allow_private=allow_private_pages)
    data = asyncio.run(_call(running, name, _input(given)))
    if as_json:
        print_json(data)
    else:
        _print(data)


@app.add("""
    comity actions schemas .  write to schemas/… in this folder, the paths that `list_actions` returns
    comity actions schemas build --enhanced  write the schemas of the enhanced mode, with the plugins
""")
def schemas(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="The folder to write to. It is created if it does not exist.")
    ],
    compat: Annotated[
        str | None, typer.Option("--compat", metavar=COMPAT, help="Write the schemas of Humanity4AI 1.0.8.")
    ] = None,
    enhanced: Annotated[
        bool, typer.Option("--enhanced", help="Write the schemas of the enhanced mode.")
    ] = False,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Write the JSON schemas of the actions to files, with the file names that `list_actions` returns.

    The default is the strict mode. If a file already exists with other content, the command fails and writes nothing.
    """
    mode = _mode(compat, strict=False, enhanced=enhanced)
    registry = _library(mode, plugin).registry
    files: dict[Path, bytes] = {}
    for listed, described in zip(registry.listing(), registry.descriptions(), strict=True):
        for kind in ("input", "output"):
            path = Path(folder).expanduser() / listed[f"{kind}SchemaPath"]
            schema = json.dumps(described[f"{kind}Schema"], indent=2, ensure_ascii=False).encode() + b"\n"
            if files.setdefault(path, schema) != schema:
                note(
                    f"{listed['action']} has the skill of another action; its {kind} schema has no name of its own"
                )
    for path, content in files.items():
        if path.exists() and path.read_bytes() != content:
            raise ConflictError(f"{path} exists with other content; move it away, or use another folder")
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if as_json:
        print_json({"files": [str(path) for path in files]})
    else:
        print_line(f"{len(files)} schemas are in {Path(folder).expanduser() / 'schemas'}.")


@app.add("""
    comity actions lines  show all countries, with their emergency numbers
    comity actions lines --country PT  show the crisis lines of one country
""")
def lines(
    country: Annotated[
        str | None, typer.Option("--country", metavar="CODE", help="Two letters (ISO 3166), such as PT.")
    ] = None,
    lines: OwnLines = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Show the emergency numbers and crisis lines that replies name, and whether somebody has checked them.

    If the data folder has a file crisis-lines.json, its countries replace those of Comity, here and in the replies of the
    node.
    """
    own = _path(lines) or library.own_lines_of(settings_of(home).settings.data)
    known = library.crisis_lines(own)
    if country is None:
        if as_json:
            print_json(known)
            return
        rows = [
            (code, one_line(entry["name"]), entry["emergency"], str(len(entry["lines"])), _checked(entry))
            for code, entry in known["countries"].items()
        ]
        print_table(("code", "country", "emergency", "lines", "checked"), rows, unbroken="code")
        return
    entry = known["countries"].get(country.upper())
    if entry is None:
        raise ConfigError(
            f"there are no crisis lines for {country[:20]!r}; `comity actions lines` lists the countries"
        )
    if as_json:
        print_json(entry)
        return
    print_fields(
        [("country", entry["name"]), ("emergency", entry["emergency"]), ("checked", _checked(entry))]
    )
    listed = [
        (one_line(line["name"]), one_line(line["contact"]), line.get("hours", ""), one_line(line["source"]))
        for line in entry["lines"]
    ]
    print_line()
    print_table(("line", "contact", "hours", "source"), listed, unbroken="contact")


def _path(named: str | None) -> Path | None:
    return None if named is None else Path(named).expanduser()


def _checked(entry: dict[str, Any]) -> str:
    checked = entry["checked"] or "not checked"
    return f"{checked}, incomplete" if entry.get("incomplete") else checked


async def _call(running: "runner.Runner", name: str, given: dict[str, Any]) -> dict[str, Any]:
    try:
        return await running.call(name, given)
    finally:
        _show_progress("")
        await running.aclose()


def _mode(compat: str | None, *, strict: bool, enhanced: bool) -> "Mode":
    if sum([strict, compat is not None, enhanced]) > 1:
        raise ConfigError("--strict, --compat and --enhanced cannot be combined; choose one")
    if compat not in {None, COMPAT}:
        raise ConfigError(f"--compat knows {COMPAT} only, not {str(compat)[:40]!r}")
    return "enhanced" if enhanced else "compat" if compat else "strict"


def _library(mode: "Mode", plugins: list[str] | None, lines: str | None = None) -> "library.Library":
    named = library.load_plugins(plugins or ())
    announced = library.announced_plugins(note, named) if mode == "enhanced" else ()
    return library.Library(mode, (*named, *announced), lines=_path(lines))


def _runner(of: "library.Library", *, allow_private: bool) -> "runner.Runner":
    return runner.Runner(of, client.Pages(allow_private=allow_private, report=_show_progress))


def _show_progress(doing: str) -> None:
    """Overwrite one line of a terminal. A program gets nothing."""
    if colour_wanted(sys.stderr):
        sys.stderr.write("\r\x1b[K" + paint(one_line(doing)[:79], "dim", wanted=True))
        sys.stderr.flush()


def _input(written: str) -> dict[str, Any]:
    text = sys.stdin.read() if written == "-" else written
    try:
        value = strict_json.loads(text.encode(errors="surrogatepass"), lone_surrogates=True)
    except MalformedError as fault:
        remedy = "; `--input - < FILE` reads a file" if written != "-" else ""
        raise ConfigError(f"--input is not JSON: {fault.message}{remedy}") from None
    if not isinstance(value, dict):
        raise ConfigError('--input must be a JSON object, such as {"message": "hello"}')
    return value


def _print(data: dict[str, Any]) -> None:
    print_fields(
        [
            ("action", data["action"]),
            ("boundary", one_line(data["boundaryNotice"])),
            ("uncertainty", data["uncertainty"]),
        ]
    )
    for name, value in (("assumptions", data["assumptions"]), *data["output"].items()):
        print_line()
        print_line(paint(one_line(name), "bold"))
        if isinstance(value, str):
            print_foreign(value)
        else:
            _print_tree(value, "")


def _print_tree(value: Any, indent: str) -> None:
    """Print lists as bullets and objects as names and values, each level indented."""
    if isinstance(value, dict):
        branches = [(f"{one_line(name)}: ", item) for name, item in value.items()]
    elif isinstance(value, list):
        branches = [("- ", item) for item in value]
    else:
        branches = [("", value)]
    for label, item in branches:
        if isinstance(item, dict | list) and item:
            print_line(f"{indent}{label}".rstrip())
            _print_tree(item, f"{indent}  ")
        else:
            text = item if isinstance(item, str) else strict_json.dumps(item).decode()
            print_line(f"{indent}{label}{one_line(text)}".rstrip())
