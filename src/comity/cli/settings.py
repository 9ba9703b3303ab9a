"""`comity config`: the effective settings and where each came from. A secret is never shown."""

import os
from pathlib import Path
from typing import Any

from comity.cli.help import HelpfulCommand, new_app
from comity.cli.options import Config, Data, Json, settings_of
from comity.cli.screen import print_json, print_line, print_table
from comity.config import DEFAULT, values_of
from comity.keys.identity import IDENTITY_FILE
from comity.keys.tokens import TOKEN_FILE
from comity.keys.vault_key import VAULT_KEY_FILE, VAULT_KEY_VARIABLE

app = new_app("Show the settings. COMITY_* variables override config.toml, and flags override both.")

MASKED = "********"


@app.command(
    cls=HelpfulCommand,
    epilog="""
    comity config show  show the settings that a node would use
    COMITY_PORT=9000 comity config show  with a value from a variable
    comity config show --config my.toml --json  from another file; print JSON
    """,
)
def show(data: Data = None, config: Config = None, as_json: Json = False) -> None:
    """Show every effective setting and where it came from.

    A setting section.key is written in the file as key under [section], and in the environment as
    COMITY_SECTION_KEY.
    """
    loaded = settings_of(data, config)
    values = values_of(loaded.settings)
    secrets = _secrets(loaded.settings.data)
    if as_json:
        print_json(
            {
                "file": None if loaded.file is None else str(loaded.file),
                "settings": {
                    key: {"value": _plain(value), "source": loaded.sources[key]}
                    for key, value in values.items()
                },
                "secrets": {
                    name: {"value": value, "source": source} for name, (value, source) in secrets.items()
                },
            }
        )
        return
    rows = [(key, _shown(value), loaded.sources[key]) for key, value in values.items()]
    rows += [(name, value or "not made yet", source) for name, (value, source) in secrets.items()]
    print_table(
        ("setting", "value", "from"),
        [(key, value, (source, "dim" if source == DEFAULT else "cyan")) for key, value, source in rows],
    )
    if loaded.file is None:
        print_line()
        print_line(f"There is no settings file; {loaded.settings.data / 'config.toml'} would be read.")


def _secrets(data: Path) -> dict[str, tuple[str | None, str]]:
    """Each secret that a node uses: masked, or None when it is not there yet, and where it lives."""
    secrets = {}
    for name, file in (("identity", IDENTITY_FILE), ("token", TOKEN_FILE), ("vault key", VAULT_KEY_FILE)):
        path = data / file
        secrets[name] = (MASKED if os.path.lexists(path) else None, str(path))
    if os.environ.get(VAULT_KEY_VARIABLE):
        secrets["vault key"] = (MASKED, VAULT_KEY_VARIABLE)
    return secrets


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _shown(value: Any) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case tuple():
            return ", ".join(value) or "none"
        case _:
            return str(value)
