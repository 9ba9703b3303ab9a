"""`comity doctor`: what is wrong here, and what to do."""

import os

import typer

from comity.cli.checks import findings
from comity.cli.failures import FAILED
from comity.cli.help import HelpfulApp
from comity.cli.options import HomeOptions, Json, settings_of, with_flags
from comity.cli.screen import Cell, print_json, print_line, print_table
from comity.config_reading import DEFAULT, Loaded
from comity.core.errors import ConfigError
from comity.node import load_settings
from comity.parts.part import CheckResult

app = HelpfulApp()

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@app.add("""
    comity doctor  check everything that a node here needs
    comity doctor --data /srv/node  check another data folder
    comity doctor --json  print JSON; exit code 1 if a check fails
""")
def doctor(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Check this machine: settings, folder, keys, database, disk, clock, port, extras.

    This command changes nothing. Each result is ok, warn or fail. A warning or failure says what to do.
    """
    loaded, found = _settings(home)
    if loaded is not None:
        found += findings(loaded.settings, loaded.sources)
    failed = sum(finding.mark == "fail" for finding in found)
    warned = sum(finding.mark == "warn" for finding in found)
    if as_json:
        print_json({"ok": not failed, "checks": [finding._asdict() for finding in found]})
    else:
        print_table(("", "check", "finding"), [_row(finding) for finding in found])
        print_line()
        print_line(_verdict(failed, warned))
    if failed:
        raise typer.Exit(FAILED)


def _settings(home: HomeOptions) -> tuple[Loaded | None, list[CheckResult]]:
    """Load the settings. If they are invalid, check at least the data folder with default settings."""
    try:
        loaded = settings_of(home)
    except ConfigError as refusal:
        return _without_settings(home.data), [CheckResult("settings", "fail", refusal.message)]
    where = f"read from {loaded.file}" if loaded.file else "there is no settings file, and you need none"
    changed = sum(source != DEFAULT for source in loaded.sources.values())
    count = "1 setting" if changed == 1 else f"{changed or 'no'} settings"
    return loaded, [CheckResult("settings", "ok", f"valid; {count} changed from the default; {where}")]


def _without_settings(data: str | None) -> Loaded | None:
    """Take only the data folder from flags and variables, and defaults for everything else."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if name == "COMITY_DATA" or not (name.startswith("COMITY_") or name == "ENVIRONMENT")
    }
    try:
        return load_settings({"data": data, "config": os.devnull}, environ)
    except ConfigError:
        return None


def _row(finding: CheckResult) -> tuple[Cell, ...]:
    text = f"{finding.finding}. To do: {finding.remedy}" if finding.remedy else finding.finding
    return (finding.mark, _STYLES[finding.mark]), finding.check, with_flags(text)


def _verdict(failed: int, warned: int) -> str:
    if failed:
        return f"{failed} {'check' if failed == 1 else 'checks'} failed; fix this before you start a node."
    if warned:
        return f"{warned} {'warning' if warned == 1 else 'warnings'}; a node can run."
    return "Everything is ready for a node."
