"""`comity install`: register Comity with the programs that people talk to."""

import difflib
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from comity.hosts.clients import (
    DEFAULT_NAME,
    PRESETS,
    SCOPES,
    SECRET_FILE,
    Computer,
    Launch,
    checked_name,
    client_named,
    entry_of,
    is_found,
    is_secure,
    join_secret,
    launch_of,
    masked,
    places_of,
    table,
    this_machine,
)
from comity.hosts.config_file import Records, real_path
from comity.hosts.install import (
    LANGUAGES,
    InstallOutcome,
    Plan,
    Target,
    aim,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
    usual_path,
)
from comity.runtime.lazy import late
from comity.terminal.help import HelpfulApp
from comity.terminal.options import (
    Data,
    HomeOptions,
    Json,
    ToolGroups,
    Yes,
    argument,
    confirm,
    one_of,
    option,
    read_groups,
    settings_of,
)
from comity.terminal.output import (
    FAILED,
    Cell,
    note,
    one_line,
    paint,
    print_answer,
    print_foreign,
    print_json,
    print_line,
    print_table,
    say,
)
from comity.wire.errors import ConfigError

if TYPE_CHECKING:
    from comity.rooms.links import webrtc
else:
    webrtc = late("comity.rooms.links.webrtc")

_WOULD: dict[str, Cell] = {
    "add": ("add", "green"),
    "change": ("change", "yellow"),
    "replace": ("replace a foreign entry", "bold yellow"),
    "keep": ("nothing, it is there", "dim"),
    "remove": ("remove", "yellow"),
    "restore": ("put the former entry back", "yellow"),
    "refuse": ("refused", "bold red"),
}
_DONE = {
    "add": "added",
    "change": "changed",
    "replace": "replaced",
    "remove": "removed",
    "restore": "put back",
}


def print_plans(plans: Sequence[Plan]) -> None:
    """Print a table of what would change, with the commands that would be run."""
    titles = ("client", "scope", "would", "file")
    rows = [
        (plan.target.about.title, plan.target.scope, _WOULD[plan.action], one_line(str(plan.target.file)))
        for plan in plans
    ]
    print_table(titles, rows, unbroken="file")
    remarks = [
        f"{plan.target.about.title}: {one_line(remark)}"
        for plan in plans
        if (remark := f"by its own command, {shlex.join(plan.call)}" if plan.call else plan.remark)
    ]
    if remarks:
        print_line()
    for remark in remarks:
        print_line(remark)


def print_diff(plan: Plan) -> None:
    """Print only the lines that change: those around them may hold secrets of other servers."""
    if plan.found is None or plan.action in {"keep", "refuse"}:
        return
    before = plan.found.text.splitlines()
    after = plan.found.encoded("") if plan.after is None else plan.after
    lines = difflib.unified_diff(
        before,
        after.decode("utf-8-sig").splitlines(),
        str(plan.target.file),
        str(plan.target.file) if plan.after is not None else "(no file)",
        n=0,
        lineterm="",
    )
    print_line()
    for line in lines:
        shown = masked(line)
        start = len(shown) - len(shown[1:].lstrip(" \t"))  # a diff keeps the blanks
        colour = {"+": "green", "-": "red", "@": "cyan"}[line[0]]
        print_line(paint(shown[:start] + one_line(shown[start:]), colour))


def snippet(target: Target, path: tuple[str, ...], launch: Launch) -> str:
    entry = entry_of(target.about.entry, target.name, launch)
    return masked(LANGUAGES[target.about.format].put("", path, entry))


def print_outcomes(outcomes: Sequence[InstallOutcome], advice: str) -> None:
    print_line()
    for outcome in outcomes:
        for text in outcome.notes:
            note(one_line(text))
        if not has_changed(outcome):
            continue
        plan = outcome.plan
        done = paint(_DONE[plan.action].ljust(9), "bold")
        how = f"by {one_line(shlex.join(outcome.call))}" if outcome.call else one_line(str(plan.target.file))
        print_line(f"{done}  {plan.target.about.title}: {how}")
        if outcome.copy is not None:
            print_line(f"{'':9}  as it was before: {one_line(str(outcome.copy))}")
    if all(outcome.plan.action == "keep" for outcome in outcomes):
        print_line("Nothing to do.")
    elif advice and any(map(has_changed, outcomes)):
        print_line(advice)


def has_changed(outcome: InstallOutcome) -> bool:
    return not outcome.fault and outcome.plan.action != "keep"


def as_data(plan: Plan, outcome: InstallOutcome | None = None) -> dict[str, Any]:
    fault = outcome.fault if outcome else plan.fault
    call = outcome.call if outcome else plan.call
    return {
        "client": plan.target.client,
        "scope": plan.target.scope,
        "name": plan.target.name,
        "file": str(plan.target.file),
        "action": "refuse" if fault else plan.action,
        "command": list(call) or None,
        "copy": str(outcome.copy) if outcome and outcome.copy else None,
        "notes": list(outcome.notes) if outcome else [],
        "error": fault or None,
    }


install_app = HelpfulApp()

Clients = Annotated[
    list[str] | None,
    argument(
        "CLIENT",
        "The clients, such as claude-code, codex or vscode. Default: all clients found on this machine.",
        autocompletion=lambda incomplete: [name for name in table().clients if name.startswith(incomplete)],
    ),
]
All = Annotated[bool, typer.Option("--all", help="All clients found on this machine.")]
Name = Annotated[str, option("--name", "NAME", "The name of the server in the client.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the lines that would change. Change nothing.")]


@install_app.add("""
    comity install  find clients, show what would change, and ask
    comity install claude-code codex  register with these two
    comity install --yes  register with all clients found, without confirmation
    comity install --all --preset core --yes  register with all clients found, with the nine core vdo_* tools
    comity install cursor --scope project  for the project in this folder
    comity install claude-code --tools actions  offer only the actions
    comity install vscode --dry-run  show the lines that would change
    comity install zed --print  print the entry to paste
    comity install codex --uninstall  remove the registration
    comity install --all --json  print JSON
""")
def install_command(
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
    rooms: ToolGroups = None,
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
        if paste or rooms is not None:
            raise ConfigError("--uninstall takes the entry out; leave --print and --tools out")
        uninstall_command(clients, everyone, scope, name, dry_run, data, yes, as_json)
        return
    checked_name(name)
    one_of("--preset", preset, PRESETS)
    scope = scope or "user"
    offered = () if rooms is None else read_groups(rooms)
    machine = this_machine()
    loaded = settings_of(HomeOptions(data))
    folder = loaded.settings.data
    one_of("--scope", scope, SCOPES)
    named = named_clients(clients, everyone=everyone, as_json=as_json, yes=yes)
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
    if not as_json and (not offered or "vdo" in offered) and not webrtc.available_libraries():
        note(
            "no WebRTC library is installed, so the vdo_* tools can only join peers on this machine; "
            f"run: {webrtc.install_command()}"
        )
    advice = "Start the client again, or let it look for its servers again."
    finish(outcomes, advice, as_json=as_json)


def named_clients(typed: list[str] | None, *, everyone: bool, as_json: bool, yes: bool = False) -> list[str]:
    """Return the named clients. An empty list stands for all of them."""
    if typed and everyone:
        raise ConfigError("give the names of clients or --all, not both")
    if not typed and not everyone and not yes and (as_json or not sys.stdin.isatty()):
        raise ConfigError("there is no terminal to ask in; name the clients, or use --all or --yes")
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
    """Print what was done. If one failed, the command fails after all others were tried."""
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
        sys.stdout.flush()
        note(f"for {target.about.title}, {one_line(str(target.file))}")
        print_foreign(snippet(target, path, launch))


def ask(plans: list[Plan], *, yes: bool) -> None:
    """Ask for confirmation at a terminal if there is something to do."""
    if not yes and sys.stdin.isatty() and any(plan.action not in {"keep", "refuse"} for plan in plans):
        print_line()
        sys.stdout.flush()
        confirm("Go on?", yes=False)


uninstall_app = HelpfulApp()


@uninstall_app.add("""
    comity uninstall  show where Comity is registered, ask, and remove it
    comity uninstall codex  remove it from one client
    comity uninstall --yes  remove it from all clients, without confirmation
    comity uninstall cursor --scope project --dry-run  show the lines that would change
    comity uninstall --all --json  print JSON
""")
def uninstall_command(
    clients: Clients = None,
    everyone: All = False,
    scope: Annotated[
        str | None,
        option("--scope", "SCOPE", "user, project or local. Default: all scopes that have the entry."),
    ] = None,
    name: Name = DEFAULT_NAME,
    dry_run: DryRun = False,
    data: Data = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove the registration of Comity from MCP clients.

    If nobody changed the settings file of the client after `comity install`, it is restored byte for byte. Otherwise only
    the entry of Comity is removed. The data folder is kept, with the join secret if there is one.
    """
    checked_name(name)
    machine = this_machine()
    folder = settings_of(HomeOptions(data)).settings.data
    records = Records(folder)
    named = named_clients(clients, everyone=everyone, as_json=as_json, yes=yes)
    wanted = named or list(table().clients)  # what is not installed is passed over
    plans = _plans(wanted, scope, name, machine, records)
    present = [plan for plan in plans if plan.action != "keep" and (clients or _concerns_us(plan, records))]
    if not dry_run:
        _forget_the_gone(plans, machine, records)
    if not present:
        said = f"There is no entry {name!r}; nothing to do."
        print_answer({"changed": False, "clients": []}, said, as_json=as_json)
        return
    if dry_run:
        show_dry(present, as_json=as_json)
        return
    if not as_json:
        print_plans(present)
        ask(present, yes=yes)
    finish([uninstall(plan.target, machine, records) for plan in present], as_json=as_json)


def _plans(
    clients: list[str], scope: str | None, name: str, machine: Computer, records: Records
) -> list[Plan]:
    """Plan each entry once, although two clients may share a file."""
    plans: dict[object, Plan] = {}
    for client in clients:
        for each in table().clients[client].scopes if scope is None else (one_of("--scope", scope, SCOPES),):
            if each not in table().clients[client].scopes and len(clients) > 1:
                continue
            plan = plan_uninstall(aim(client, each, name, machine), machine, records)
            plans.setdefault((plan.target.file, plan.path or client), plan)
    return list(plans.values())


def _forget_the_gone(plans: list[Plan], machine: Computer, records: Records) -> None:
    """Forget the records of entries that somebody else has removed."""
    for plan in plans:
        if plan.action == "keep" and records.read(real_path(plan.target.file)) is not None:
            uninstall(plan.target, machine, records)


def _concerns_us(plan: Plan, records: Records) -> bool:
    """Return whether the plan counts. A file that cannot be read and was never changed by us is skipped."""
    if plan.action != "refuse" or records.read(real_path(plan.target.file)) is not None:
        return True
    note(f"{plan.target.about.title} is skipped: {one_line(plan.fault)}")
    return False
