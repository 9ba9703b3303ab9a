"""How a client is to start Comity: the command, its flags by preset, its variables.

- The interpreter is named by its absolute path, as it was started: the link of a virtual environment is not
  followed, it is what leads to the packages. `-P` keeps a project's own folder `comity` from being taken for
  ours when a client starts us there.
- The secure presets need a join secret. It is made once, kept in the data folder with mode 0600, handed to
  the server in a variable, and never shown.
"""

import itertools
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from comity.identity.private_files import ensure_private_folder
from comity.identity.tokens import load_or_create_token, read_token
from comity.runtime.settings_file import CONFIG_FILE, CONFIG_VARIABLE, DEFAULT, Loaded
from comity.wire.errors import ConfigError

PRESETS = (
    "full",
    "core",
    "file",
    "state",
    "extended",
    "secure-core",
    "secure-full",
    "secure-extended",
)
DEFAULT_NAME = "comity"
SECRET_FILE = "join-secret"  # noqa: S105 - the name of a file
SECRET_VARIABLE = "VDON_MCP_JOIN_TOKEN_SECRET"  # noqa: S105 - the name of a variable
MASK = "(join secret, not shown)"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SECURE = ("--enforce-join-token", "true", "--require-session-mac", "true")
_SECRET_VALUE = re.compile(rf"""({SECRET_VARIABLE}["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,}}]+)""")
# where uvx puts an environment that it may throw away
_PASSING = re.compile(r"[/\\]uv[/\\](?:cache[/\\])?(?:archive|environments|builds)-v\d+[/\\]")


class Launch(Struct, frozen=True, kw_only=True):
    """`secret` is what must not be shown, or empty."""

    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    secret: str = ""

    @property
    def call(self) -> tuple[str, ...]:
        return (self.command, *self.args)


def launch_of(
    preset: str, places: Mapping[str, str], *, secret: str = "", rooms: Sequence[str] = ()
) -> Launch:
    """`places` are variables that lead the server to the folder and the settings that are meant; `rooms` are those
    that are offered, all when none is named.
    """
    args = ["mcp", "--tool-profile", preset.removeprefix("secure-")]
    if rooms:
        args += ["--rooms", ",".join(rooms)]
    env = dict(places)
    if is_secure(preset):
        args += _SECURE
        env[SECRET_VARIABLE] = secret
    command, *before = own_call()
    for word in (command, *before, *env.values()):
        if (
            not word.isprintable()
        ):  # a path may hold bytes that are no text; no file of a client could spell it
            raise ConfigError(f"{word!r} has characters that a client's file cannot hold; use another path")
    return Launch(command=command, args=(*before, *args), env=env, secret=secret)


def places_of(loaded: Loaded) -> dict[str, str]:
    """The variables that the server needs, because its data folder or settings file is not the default one."""
    data, file = loaded.settings.data, loaded.file
    places = {} if loaded.sources["data"] == DEFAULT else {"COMITY_DATA": str(data)}
    if file is not None and file != data / CONFIG_FILE:
        places[CONFIG_VARIABLE] = str(file)
    return places


def own_call() -> list[str]:
    """What starts this program again, from anywhere."""
    if _PASSING.search(sys.prefix + os.sep):
        return [shutil.which("uvx") or "uvx", "comity"]
    if not sys.executable:
        raise ConfigError(
            "the path of this Python is not known; start comity by the full path of its command"
        )
    return [os.path.abspath(sys.executable), "-P", "-m", "comity"]  # noqa: PTH100 - Path.resolve() follows the link


def is_secure(preset: str) -> bool:
    return preset.startswith("secure-")


def join_secret(data: Path, *, make: bool) -> str:
    """The stored one. With `make` it is made when it is missing; else a word that stands for it."""
    path = data / SECRET_FILE
    if make:
        ensure_private_folder(data)
        return load_or_create_token(path)
    return read_token(path) if path.exists() else MASK


def masked(text: str) -> str:
    """Without any join secret, whoever wrote it there."""
    return _SECRET_VALUE.sub(rf'\g<1>"{MASK}"', text)


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"--name must be 1 to 64 letters, digits, dashes or underscores and begin with a letter or digit, "
            f"not {name[:60]!r}"
        )
    return name


def entry_of(template: Any, name: str, launch: Launch) -> Any:
    """A client's entry with our words in it."""
    filled = {
        "{name}": name,
        "{command}": launch.command,
        "{args}": list(launch.args),
        "{call}": list(launch.call),
        "{env}": dict(launch.env),
    }
    if isinstance(template, Mapping):
        return {key: entry_of(each, name, launch) for key, each in template.items()}
    return filled.get(template, template) if isinstance(template, str) else template


def starts_comity(entry: Any) -> bool:
    """Whether an entry, whoever wrote it, starts our server."""
    if not isinstance(entry, Mapping):
        return False
    words: list[Any] = []
    for key in ("command", "cmd", "args"):
        value = entry.get(key, [])
        words += value if isinstance(value, list) else [value]
    names = [PurePath(str(word).replace("\\", "/")).name.removesuffix(".exe") for word in words]
    return any(one == "comity" and other == "mcp" for one, other in itertools.pairwise(names))
