"""`comity uninstall`: take the registration back."""

from typing import Annotated

from comity.hosts.act import uninstall
from comity.hosts.clients import SCOPES, Computer, table, this_machine
from comity.hosts.commands import All, Clients, DryRun, Name, ask, finish, named_clients, show_dry
from comity.hosts.config_file import real_path
from comity.hosts.launch import DEFAULT_NAME, checked_name
from comity.hosts.plan import Plan, aim, plan_uninstall
from comity.hosts.records import Records
from comity.hosts.show import print_plans
from comity.terminal.help import HelpfulApp
from comity.terminal.options import Data, HomeOptions, Json, Yes, one_of, option, settings_of
from comity.terminal.output import note, one_line, print_answer

app = HelpfulApp()


@app.add("""
    comity uninstall  show where Comity is registered, ask, and remove it
    comity uninstall codex  remove it from one client
    comity uninstall --all --yes  remove it from all clients, without confirmation
    comity uninstall cursor --scope project --dry-run  show the lines that would change
    comity uninstall --all --json  print JSON
""")
def command(
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
    named = named_clients(clients, everyone=everyone, as_json=as_json)
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
    """One for each entry, though two clients may share a file."""
    plans: dict[object, Plan] = {}
    for client in clients:
        for each in table().clients[client].scopes if scope is None else (one_of("--scope", scope, SCOPES),):
            if each not in table().clients[client].scopes and len(clients) > 1:
                continue
            plan = plan_uninstall(aim(client, each, name, machine), machine, records)
            plans.setdefault((plan.target.file, plan.path or client), plan)
    return list(plans.values())


def _forget_the_gone(plans: list[Plan], machine: Computer, records: Records) -> None:
    """An entry that another hand took out leaves a record, which goes too."""
    for plan in plans:
        if plan.action == "keep" and records.read(real_path(plan.target.file)) is not None:
            uninstall(plan.target, machine, records)


def _concerns_us(plan: Plan, records: Records) -> bool:
    """A file that we cannot use and never touched is passed over when nobody named its client."""
    if plan.action != "refuse" or records.read(real_path(plan.target.file)) is not None:
        return True
    note(f"{plan.target.about.title} is skipped: {one_line(plan.fault)}")
    return False
