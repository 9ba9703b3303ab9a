"""`comity install`: register Comity with the programs that people talk to."""

import sys
from typing import Annotated

import typer

from comity.actions import completion
from comity.hosts.act import InstallOutcome, install
from comity.hosts.clients import SCOPES, Computer, client_named, is_found, table, this_machine
from comity.hosts.launch import (
    DEFAULT_NAME,
    PRESETS,
    SECRET_FILE,
    Launch,
    checked_name,
    is_secure,
    join_secret,
    launch_of,
    places_of,
)
from comity.hosts.plan import Plan, aim, plan_install, usual_path
from comity.hosts.records import Records
from comity.hosts.show import (
    as_data,
    has_changed,
    print_diff,
    print_outcomes,
    print_plans,
    print_snippet,
    snippet,
)
from comity.terminal.failures import FAILED, say
from comity.terminal.help import HelpfulApp
from comity.terminal.options import (
    Data,
    HomeOptions,
    Json,
    Rooms,
    Yes,
    argument,
    confirm,
    one_of,
    option,
    read_rooms,
    settings_of,
)
from comity.terminal.output import note, one_line, print_json, print_line
from comity.wire.errors import ConfigError

app = HelpfulApp()

Clients = Annotated[
    list[str] | None,
    argument(
        "CLIENT",
        "The clients, such as claude-code, codex or vscode. Default: all clients found on this machine.",
        autocompletion=completion.clients,
    ),
]
All = Annotated[bool, typer.Option("--all", help="All clients found on this machine.")]
Name = Annotated[str, option("--name", "NAME", "The name of the server in the client.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the lines that would change. Change nothing.")]


@app.add("""
    comity install  find clients, show what would change, and ask
    comity install claude-code codex  register with these two
    comity install --all --preset core --yes  register with all clients found, with the nine core vdo_* tools
    comity install cursor --scope project  for the project in this folder
    comity install claude-code --rooms actions  offer only the actions
    comity install vscode --dry-run  show the lines that would change
    comity install zed --print  print the entry to paste
    comity install codex --uninstall  remove the registration
    comity install --all --json  print JSON
""")
def command(
    clients: Clients = None,
    everyone: All = False,
    preset: Annotated[
        str,
        option(
            "--preset",
            "PRESET",
            "Which vdo_* tools to offer: full, core, file, state or extended. secure-core, secure-full and "
            "secure-extended also require join tokens and authenticated messages.",
        ),
    ] = "full",
    rooms: Rooms = None,
    scope: Annotated[
        str | None,
        option(
            "--scope",
            "SCOPE",
            "Where to register: user (default), project (the file in this folder, which others may share) or local (Claude Code only: this folder, only for you).",
        ),
    ] = None,
    name: Name = DEFAULT_NAME,
    dry_run: DryRun = False,
    take_back: Annotated[
        bool, typer.Option("--uninstall", help="Remove the registration, as `comity uninstall` does.")
    ] = False,
    paste: Annotated[
        bool,
        typer.Option("--print", help="Print the entry, so that you can paste it yourself. Change nothing."),
    ] = False,
    data: Data = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Register Comity as an MCP server with Claude Code, Codex, Cursor, VS Code and others.

    The command shows what would change and asks first. If the client has its own command for this, Comity runs that
    command. Otherwise Comity changes one key of the settings file of the client; comments and layout stay as they are.
    `comity uninstall` restores the file byte for byte.
    """
    if take_back:
        from comity.hosts.uninstall import command as uninstall

        if paste or rooms is not None:
            raise ConfigError("--uninstall takes the entry out; leave --print and --rooms out")
        uninstall(clients, everyone, scope, name, dry_run, data, yes, as_json)
        return
    checked_name(name)
    one_of("--preset", preset, PRESETS)
    scope = scope or "user"
    offered = () if rooms is None else read_rooms(rooms)
    machine = this_machine()
    loaded = settings_of(HomeOptions(data))
    folder = loaded.settings.data
    one_of("--scope", scope, SCOPES)
    named = named_clients(clients, everyone=everyone, as_json=as_json)
    wanted = named or _found_clients(machine, scope)
    targets = [aim(client, scope, name, machine) for client in wanted]
    records = Records(folder)
    secret = join_secret(folder, make=False) if is_secure(preset) else ""
    launch = launch_of(preset, places_of(loaded), secret=secret, rooms=offered)
    plans = [plan_install(target, launch, machine, records) for target in targets]
    if paste:
        _show_entries(plans, launch, machine, as_json=as_json)
        return
    if dry_run:
        show_dry(plans, as_json=as_json)
        return
    if not as_json:
        print_plans(plans)
        ask(plans, yes=yes)
    if is_secure(preset) and any(plan.action not in {"keep", "refuse"} for plan in plans):
        secret = join_secret(folder, make=True)
        launch = launch_of(preset, places_of(loaded), secret=secret, rooms=offered)
    outcomes = [install(target, launch, machine, records) for target in targets]
    if secret and not as_json and any(has_changed(outcome) for outcome in outcomes):
        note(f"the join secret is in {folder / SECRET_FILE}; only you can read the files that contain it")
    if not as_json and (not offered or "vdo" in offered):
        _note_missing_library()
    advice = "Start the client again, or let it look for its servers again."
    finish(outcomes, advice, as_json=as_json)


def _note_missing_library() -> None:
    from comity.rooms.links.webrtc import available_libraries, install_command

    if not available_libraries():
        note(
            "no WebRTC library is installed, so the vdo_* tools can only join peers on this machine; "
            f"run: {install_command()}"
        )


def named_clients(typed: list[str] | None, *, everyone: bool, as_json: bool) -> list[str]:
    """The clients that are named; an empty list stands for all of them."""
    if typed and everyone:
        raise ConfigError("give the names of clients or --all, not both")
    if not typed and not everyone and (as_json or not sys.stdin.isatty()):
        raise ConfigError("there is no terminal to ask in; name the clients or use --all")
    return list(dict.fromkeys(map(client_named, typed or [])))


def _found_clients(machine: Computer, scope: str) -> list[str]:
    found = [key for key, client in table().clients.items() if is_found(client, machine)]
    fitting = [key for key in found if scope in table().clients[key].scopes]
    if not fitting:
        raise ConfigError(
            f"no client with a {scope} scope was found; name one of {', '.join(table().clients)}"
        )
    for key in found:
        if key not in fitting:
            note(f"{table().clients[key].title} has no {scope} scope and is skipped")
    return fitting


def finish(outcomes: list[InstallOutcome], advice: str = "", *, as_json: bool) -> None:
    """Say what was done; one that failed fails the command, after all the others were tried."""
    if as_json:
        rows = [as_data(outcome.plan, outcome) for outcome in outcomes]
        print_json({"changed": any(map(has_changed, outcomes)), "clients": rows})
    else:
        print_outcomes(outcomes, advice)
    _fail([outcome.fault for outcome in outcomes], as_json=as_json)


def show_dry(plans: list[Plan], *, as_json: bool) -> None:
    if as_json:
        print_json({"changed": False, "clients": [as_data(plan) for plan in plans]})
    else:
        print_plans(plans)
        for plan in plans:
            print_diff(plan)
        print_line()
        print_line("Nothing was changed.")
    _fail([plan.fault for plan in plans], as_json=as_json)


def _fail(faults: list[str], *, as_json: bool) -> None:
    faults = [fault for fault in faults if fault]
    sys.stdout.flush()
    for fault in faults if not as_json else ():
        say("refused", one_line(fault), as_json=False)
    if faults:
        raise typer.Exit(FAILED)


def _show_entries(plans: list[Plan], launch: Launch, machine: Computer, *, as_json: bool) -> None:
    # a file that cannot be read has no path in its plan
    pasted = [(plan.target, plan.path or usual_path(plan.target, machine)) for plan in plans]
    if as_json:
        rows = [
            {"client": target.client, "file": str(target.file), "text": snippet(target, path, launch)}
            for target, path in pasted
        ]
        print_json({"changed": False, "clients": rows})
        return
    for target, path in pasted:
        print_snippet(target, path, launch)


def ask(plans: list[Plan], *, yes: bool) -> None:
    """At a terminal, and when there is something to do."""
    if not yes and sys.stdin.isatty() and any(plan.action not in {"keep", "refuse"} for plan in plans):
        print_line()
        sys.stdout.flush()
        confirm("Go on?", yes=False)
