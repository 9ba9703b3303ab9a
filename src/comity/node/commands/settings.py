"""`comity config`: the effective settings and where each came from, and changes of the settings file.

A secret is never shown. A change is made only if the file is valid with it; everything else in the file stays.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from comity.identity.key_files import IDENTITY_FILE
from comity.identity.private_files import ensure_private_folder, sync_folder
from comity.identity.secrets import TOKEN_FILE, VAULT_KEY_FILE, VAULT_KEY_VARIABLE
from comity.runtime.settings_file import (
    CONFIG_FILE,
    CONFIG_VARIABLE,
    DEFAULT,
    Loaded,
    check_text,
    flag_of,
    load_settings,
    refuse_unknown_key,
    values_of,
)
from comity.runtime.toml_edit import drop, put_value
from comity.store.claim import running_node
from comity.terminal.help import HelpfulApp
from comity.terminal.options import HomeOptions, Json, argument, settings_of
from comity.terminal.output import follow_up, note, print_json, print_line, print_table
from comity.wire.errors import ComityError, ConfigError, MalformedError

app = HelpfulApp(
    "Show, check or change the settings. COMITY_* variables override config.toml, and flags override both."
)

MASKED = "********"


def _complete_setting(incomplete: str) -> list[str]:
    try:
        names = settings_of(HomeOptions()).sources
    except ComityError:  # broken settings may be what the user is about to repair
        return []
    return [name for name in names if name.startswith(incomplete)]


@app.add("""
    comity config show  show the settings that a node would use
    COMITY_PORT=9000 comity config show  with a value from a variable
    comity config show --config my.toml --json  from another file; print JSON
""")
def show(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Show every effective setting and where it came from.

    A setting section.key is written in the file as key under [section], and in the environment as
    COMITY_SECTION_KEY.
    """
    loaded = settings_of(home)
    values = values_of(loaded.settings)
    secrets = _secrets(loaded.settings.data)
    if as_json:
        hidden = {name: {"value": value, "source": source} for name, (value, source) in secrets.items()}
        shown = _with_sources(loaded, values)
        print_json({"file": _plain(loaded.file), "settings": shown, "secrets": hidden})
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


@app.add("""
    comity config set port 9000  write it to config.toml in your data folder
    comity config set audit.retention_days 365  change retention_days in the section [audit]
    comity config set http.allowed_hosts node.example,other.example  set a list; separate the values with commas
    comity config set tls.cert cert.pem tls.key key.pem  change two settings that must fit together
""")
def set_(
    pairs: Annotated[
        list[str],
        argument(
            "KEY VALUE",
            "The name of a setting and its value. Several pairs are written together.",
            autocompletion=_complete_setting,
        ),
    ],
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Write settings to the settings file. The file is created if it does not exist.

    Nothing is written if a value is not valid, or does not fit the other settings. The rest of the file stays as it is.
    """
    if len(pairs) % 2:
        raise ConfigError(f"{pairs[-1][:60]} has no value; write a value after each setting")
    _change(dict(zip(pairs[::2], pairs[1::2], strict=True)), home, as_json=as_json)


@app.add("""
    comity config unset port  use the default again
""")
def unset(
    keys: Annotated[list[str], argument("KEY", "The name of a setting.", autocompletion=_complete_setting)],
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Remove settings from the settings file, so that their defaults apply again."""
    _change(dict.fromkeys(keys), home, as_json=as_json)


@app.add("""
    comity config validate  check the settings that a node would use
    comity config validate --config my.toml  check another file before you use it
""")
def validate(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Check the settings without starting a node. The exit code is 2 if they are not valid."""
    loaded = settings_of(home)
    changed = sum(source != DEFAULT for source in loaded.sources.values())
    if as_json:
        print_json({"valid": True, "file": _plain(loaded.file), "changed": changed})
        return
    where = loaded.file or f"the defaults, for there is no {loaded.settings.data / CONFIG_FILE}"
    print_line(f"Valid: {where}. {changed} of {len(loaded.sources)} settings differ from the default.")


def _change(changes: Mapping[str, str | None], home: HomeOptions, *, as_json: bool) -> None:
    """Write the values into the file, or remove them; then print what counts now."""
    before = settings_of(home)
    file = _file_of(before, home.config)
    given = {key: value for key, value in changes.items() if value is not None}
    for key in changes:
        if key not in before.sources:
            refuse_unknown_key(f"the setting {key[:60]} is unknown", key, before.sources)
    wanted = values_of(_with(given, home).settings)
    if "data" in changes and file == before.settings.data / CONFIG_FILE:
        raise ConfigError(
            f"data in {file} would move the folder that this file lies in; name the folder with --data or COMITY_DATA"
        )

    def change(text: str) -> str:
        for key, value in changes.items():
            path = tuple(key.split("."))
            text = drop(text, path) if value is None else put_value(text, path, _written(wanted[key]))
        return text

    _rewrite(file, change, home.data)
    after = settings_of(home)
    values = values_of(after.settings)
    if as_json:
        print_json({"file": str(file), "settings": _with_sources(after, changes)})
        return
    for key in changes:
        source = after.sources[key]
        print_line(
            f"{key} = {_shown(values[key])} ({'the default' if source == DEFAULT else f'from {source}'})"
        )
        if key in given and source != str(file):
            note(f"{source} overrides what {file} says")
    if running_node(before.settings.data) is not None:
        again = f"{follow_up('comity stop')}, then {follow_up('comity up')}"
        note(f"the running node uses it after a restart: {again}")


def _written(value: Any) -> Any:
    """Return a value as it is written in the file."""
    return list(value) if isinstance(value, tuple) else _plain(value)


def _with(given: Mapping[str, str], home: HomeOptions) -> Loaded:
    """Return the settings with these values. Refusals name the setting."""
    try:
        return load_settings({"data": home.data, "config": home.config, **given})
    except ConfigError as refusal:
        settings = {flag_of(key): key for key in given}
        if refusal.place not in settings:
            raise
        raise refusal.called(settings[refusal.place]) from None


def _file_of(loaded: Loaded, config: str | None) -> Path:
    if loaded.file is not None and (config is not None or os.environ.get(CONFIG_VARIABLE)):
        return loaded.file
    return loaded.settings.data / CONFIG_FILE


def _rewrite(file: Path, change: Callable[[str], str], data: str | None) -> None:
    """Replace the file with the changed text, if the settings are valid with it."""
    try:
        text = file.read_text("utf-8") if file.exists() else ""
        new = change(text)
    except UnicodeDecodeError:
        raise ConfigError(f"the settings file {file} is not UTF-8 text; save it as UTF-8") from None
    except MalformedError as fault:
        raise ConfigError(f"{file}: {fault.message}") from None
    check_text(new, file, {"data": data})
    if not file.parent.exists():
        ensure_private_folder(file.parent)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}.new")
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    try:
        with os.fdopen(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
        ) as out:
            out.write(new)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
        sync_folder(file.parent)
    finally:
        draft.unlink(missing_ok=True)


def _secrets(data: Path) -> dict[str, tuple[str | None, str]]:
    """Return each secret that a node uses, masked or None if it does not exist yet, and where it is."""
    secrets = {}
    for name, file in (("identity", IDENTITY_FILE), ("token", TOKEN_FILE), ("vault key", VAULT_KEY_FILE)):
        path = data / file
        secrets[name] = (MASKED if os.path.lexists(path) else None, str(path))
    if os.environ.get(VAULT_KEY_VARIABLE):
        secrets["vault key"] = (MASKED, VAULT_KEY_VARIABLE)
    return secrets


def _with_sources(loaded: Loaded, keys: Iterable[str]) -> dict[str, Any]:
    values = values_of(loaded.settings)
    return {key: {"value": _plain(values[key]), "source": loaded.sources[key]} for key in keys}


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
