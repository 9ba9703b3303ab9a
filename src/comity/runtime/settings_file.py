"""How settings are read: TOML file < environment < flags.

- A value is converted where it comes in, and a refusal names that place: the variable, the flag, or the
  key and its file. A name that we do not know is refused with the nearest one that we do.
- Every effective value remembers where it came from.
- An empty variable counts as unset. A relative path in the file starts at the file's folder, elsewhere at
  the working folder.
"""

import difflib
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from msgspec import Struct
from msgspec.structs import fields

from comity.runtime.lazy import load_parts
from comity.runtime.settings import PATH, Kind, Settings, kinds_of
from comity.wire.errors import ConfigError

CONFIG_FILE = "config.toml"
CONFIG_VARIABLE = "COMITY_CONFIG"
DEFAULT = "default"

_PREFIX = "COMITY_"
# read when the variable of ours is not set
_PLAIN_VARIABLES = {"environment": "ENVIRONMENT", "vcp.session_ttl_seconds": "VCP_SESSION_TTL_SECONDS"}
_OTHER_VARIABLES = frozenset(
    (
        CONFIG_VARIABLE,
        "COMITY_DEBUG",
        "COMITY_SEED",
        "COMITY_VECTORS",
        "COMITY_SIM_SEEDS",
        "COMITY_TORTURE_ROUNDS",
    )
)
_FILE_LIMIT = 1024 * 1024
_SHOWN_LIMIT = 60


class Loaded(Struct, frozen=True, kw_only=True):
    """`sources` says for each dotted key: "default", the file, the variable or the flag."""

    settings: Settings
    sources: dict[str, str]
    file: Path | None


def load_settings(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """Read the settings file, the environment and flags, with the sections of all parts."""
    return read_settings(flags or {}, os.environ if environ is None else environ, sections=_of_parts())


def check_text(text: str, file: Path, flags: Mapping[str, Any]) -> None:
    """Raise ConfigError if the settings would be refused with this text in the file."""
    read_settings({**flags, "config": str(file)}, os.environ, sections=_of_parts(), text=text)


def _of_parts() -> dict[str, type[Struct]]:
    return {part.name: part.settings for part in load_parts() if part.settings is not None}


def read_settings(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    home: Path | None = None,
    platform: str = sys.platform,
    sections: Mapping[str, type[Struct]] = MappingProxyType({}),
    text: str | None = None,
) -> Loaded:
    """Read every source. A flag is named by its dotted key (`config` names the file); None is not given.
    `sections` are those that parts declare, by their names. `text` is read in place of the file.
    """
    reading = _SettingsReading(home, sections)
    _refuse_unknown_variables(environ, reading)

    given = {key: value for key, value in flags.items() if value is not None}
    chosen_file = given.pop("config", None)
    from_flags = _from_flags(given, reading)
    from_environment = _from_environment(environ, reading)

    file, explicit = _find_file(chosen_file, environ, {**from_environment, **from_flags}, reading, platform)
    from_file = _from_file(file, reading, required=explicit, text=text)
    if "data" in from_file and not explicit:
        raise ConfigError(
            f"data in {file} would move the folder that this file lies in; name the folder with --data or COMITY_DATA"
        )

    found = {**from_file, **from_environment, **from_flags}
    if "data" not in found:
        found["data"] = _Found(default_data_folder(environ, reading.home, platform), DEFAULT)
    settings = _build({key: value for key, (value, _) in found.items()}, reading)
    _refuse_missing_files(settings)
    sources = {key: found[key].source if key in found else DEFAULT for key in reading.kinds}
    return Loaded(settings=settings, sources=sources, file=file if explicit or from_file else None)


def data_folder() -> Path:
    """Return the folder of the user's own node, for programs that read no settings."""
    named = os.environ.get(f"{_PREFIX}DATA")
    return Path(named).expanduser() if named else default_data_folder(os.environ, Path.home, sys.platform)


def default_data_folder(environ: Mapping[str, str], home: Callable[[], Path], platform: str) -> Path:
    """Return where programs of the user keep their data, by the custom of each system."""
    if platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return (Path(local) if local else home() / "AppData" / "Local") / "comity"
    if platform == "darwin":
        return home() / "Library" / "Application Support" / "comity"
    shared = environ.get("XDG_DATA_HOME", "")
    # the convention says to ignore a path that is not absolute
    return (Path(shared) if shared.startswith("/") else home() / ".local" / "share") / "comity"


def values_of(settings: Settings) -> dict[str, Any]:
    """Return every effective value by its dotted key."""
    values = {name: getattr(settings, name) for name in _TOP_KINDS}
    sections = {name: getattr(settings, name) for name in _SECTIONS} | dict(settings.parts)
    for section, held in sections.items():
        values |= {f"{section}.{name}": getattr(held, name) for name in kinds_of(type(held))}
    return values


class _Found(NamedTuple):
    value: Any
    source: str


class _SettingsReading:
    """What may be set, and the home folder of the user, looked up when a path needs it."""

    def __init__(self, home: Path | None, of_parts: Mapping[str, type[Struct]]) -> None:
        self._home = home
        self.of_parts = of_parts
        self.sections = {**_SECTIONS, **of_parts}
        self.kinds = dict(_TOP_KINDS)
        for section, declared in self.sections.items():
            self.kinds |= {f"{section}.{name}": kind for name, kind in kinds_of(declared).items()}
        self.variables = {_PREFIX + key.replace(".", "_").upper(): key for key in self.kinds}

    def home(self) -> Path:
        try:
            return self._home or Path.home()
        except RuntimeError:
            raise ConfigError(
                "there is no home folder here; name the data folder with --data or COMITY_DATA"
            ) from None

    def path(self, raw: object, start: Path) -> Path:
        text = str(raw) if isinstance(raw, str | Path) else ""
        if not text or "\0" in text:
            raise ValueError
        if text == "~" or text.startswith(("~/", "~\\")):
            return self.home() / text[2:]
        return Path(os.path.abspath(start / text))  # noqa: PTH100 - Path.absolute() keeps `..`


_SECTIONS = {
    field.name: field.type
    for field in fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, Struct)
}


_TOP_KINDS = kinds_of(Settings, but=(*_SECTIONS, "parts"))


def flag_of(key: str) -> str:
    return "--" + key.replace(".", "-").replace("_", "-")


def _taken(key: str, raw: Any, place: str, source: str, reading: _SettingsReading, start: Path) -> _Found:
    kind = reading.kinds[key]
    try:
        return _Found(reading.path(raw, start) if kind.is_path else kind.take(raw), source)
    except ValueError:
        _refuse_value(place, kind, raw)


def _from_text(key: str, text: str, source: str, reading: _SettingsReading) -> _Found:
    kind = reading.kinds[key]
    try:
        value = kind.read(text.strip())
    except ValueError:
        _refuse_value(source, kind, text)
    return _taken(key, value, source, source, reading, Path.cwd())


def _from_flags(flags: Mapping[str, Any], reading: _SettingsReading) -> dict[str, _Found]:
    found = {}
    for key, raw in flags.items():
        flag = flag_of(key)
        if key not in reading.kinds:
            _refuse_name(
                f"the flag {flag} is unknown",
                flag,
                {flag_of(known): flag_of(known) for known in reading.kinds},
            )
        if isinstance(raw, str):
            found[key] = _from_text(key, raw, flag, reading)
        else:
            found[key] = _taken(key, raw, flag, flag, reading, Path.cwd())
    return found


def _from_environment(environ: Mapping[str, str], reading: _SettingsReading) -> dict[str, _Found]:
    named = {key: variable for variable, key in reading.variables.items() if environ.get(variable)}
    for key, variable in _PLAIN_VARIABLES.items():
        if key not in named and environ.get(variable):
            named[key] = variable
    return {key: _from_text(key, environ[variable], variable, reading) for key, variable in named.items()}


def _from_file(
    file: Path, reading: _SettingsReading, *, required: bool, text: str | None
) -> dict[str, _Found]:
    found = {}
    for key, raw in _dotted(_read_toml(file, required=required, text=text), file, reading):
        if key not in reading.kinds:
            refuse_unknown_key(f"{file}: the setting {key} is unknown", key, reading.kinds)
        found[key] = _taken(key, raw, f"{key} in {file}", str(file), reading, file.parent)
    return found


def _dotted(document: Mapping[str, Any], file: Path, reading: _SettingsReading) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if name in reading.sections:
            if not isinstance(value, dict):
                raise ConfigError(f"{name} in {file} must be a section that begins with [{name}]")
            for inner, held in value.items():
                yield f"{name}.{inner}", held
        elif isinstance(value, dict) and name not in reading.kinds:
            sections = {section: f"[{section}]" for section in reading.sections}
            _refuse_name(f"{file}: the section [{name}] is unknown", name, sections)
        else:
            yield name, value


def _read_toml(file: Path, *, required: bool, text: str | None) -> dict[str, Any]:
    try:
        if text is not None:
            data = text.encode()
        else:
            with file.open("rb") as opened:
                data = opened.read(_FILE_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        if not required:
            return {}
        raise ConfigError(
            f"the settings file {file} does not exist; name the right one or leave it out"
        ) from None
    except OSError as reason:
        cause = (reason.strerror or type(reason).__name__).lower()
        if required:
            raise ConfigError(
                f"the settings file {file} cannot be read: {cause}; mend its permissions"
            ) from None
        raise ConfigError(
            f"the data folder {file.parent} cannot be read: {cause}; run as its owner or name another with --data"
        ) from None
    if len(data) > _FILE_LIMIT:
        raise ConfigError(
            f"the settings file {file} is larger than {_FILE_LIMIT:,} bytes; name the right one"
        )
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"the settings file {file} is not UTF-8 text; save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as reason:
        raise ConfigError(
            f"the settings file {file} is not valid TOML: {reason or 'nested too deep'}"
        ) from None


def _find_file(
    flag: Any,
    environ: Mapping[str, str],
    found: Mapping[str, _Found],
    reading: _SettingsReading,
    platform: str,
) -> tuple[Path, bool]:
    """Return the settings file, and whether it was named explicitly."""
    for named, source in ((flag, "--config"), (environ.get(CONFIG_VARIABLE), CONFIG_VARIABLE)):
        if named:
            try:
                return reading.path(named, Path.cwd()), True
            except ValueError:
                _refuse_value(source, PATH, named)
    data = found["data"].value if "data" in found else default_data_folder(environ, reading.home, platform)
    return data / CONFIG_FILE, False


def _build(values: Mapping[str, Any], reading: _SettingsReading) -> Settings:
    def section(name: str, declared: type[Struct]) -> Struct:
        return declared(
            **{key: values[f"{name}.{key}"] for key in kinds_of(declared) if f"{name}.{key}" in values}
        )

    top = {key: value for key, value in values.items() if "." not in key}
    top |= {name: section(name, declared) for name, declared in _SECTIONS.items()}
    return Settings(
        **top, parts={name: section(name, declared) for name, declared in reading.of_parts.items()}
    )


def _refuse_missing_files(settings: Settings) -> None:
    for key, path in (("tls.cert", settings.tls.cert), ("tls.key", settings.tls.key)):
        if path is not None and not (os.access(path, os.R_OK) and path.is_file()):
            raise ConfigError(f"{key} names {path}, which is not a file that can be read; name the right one")


def _refuse_unknown_variables(environ: Mapping[str, str], reading: _SettingsReading) -> None:
    known = {*reading.variables, *_OTHER_VARIABLES}
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in known:
            _refuse_name(
                f"the variable {name} is unknown", name, {variable: variable for variable in sorted(known)}
            )


def refuse_unknown_key(fault: str, key: str, keys: Iterable[str]) -> NoReturn:
    """Refuse a key of a setting that does not exist. Raise ConfigError with the nearest one."""
    keys = tuple(keys)
    _refuse_name(fault, key, {name.rpartition(".")[2]: name for name in keys} | {name: name for name in keys})


def _refuse_name(fault: str, name: str, known: Mapping[str, str]) -> NoReturn:
    """`known` maps what may have been meant to how it is written."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    remedy = f"did you mean {known[near[0]]}?" if near else "`comity config show` lists all that exist"
    raise ConfigError(f"{fault}; {remedy}")


def _refuse_value(place: str, kind: Kind, raw: object) -> NoReturn:
    shown = repr(raw)
    if len(shown) > _SHOWN_LIMIT:
        shown = shown[:_SHOWN_LIMIT] + "…"
    raise ConfigError(f"must be {kind.wanted}, not {shown}", place=place) from None
