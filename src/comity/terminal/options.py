"""The options that several commands share, and how they become settings and secrets."""

import getpass
import importlib
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from comity.runtime.lazy import late, load_parts
from comity.terminal.output import Given
from comity.wire.errors import ConfigError, KeyRefusedError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

    from comity.identity import key_files, private_files
    from comity.runtime import settings_file
    from comity.runtime.settings_file import Loaded
else:
    key_files = late("comity.identity.key_files")
    private_files = late("comity.identity.private_files")
    settings_file = late("comity.runtime.settings_file")


def option(flag: str, value: str, help_text: str, **more: Any) -> Any:
    """Return an option of a command. `value` is what the help calls the value of the flag."""
    return typer.Option(flag, metavar=value, help=help_text, **more)


def argument(value: str, help_text: str, **more: Any) -> Any:
    return typer.Argument(metavar=value, help=help_text, **more)


Json = Annotated[bool, typer.Option("--json", help="Print JSON, for use by programs.")]
Data = Annotated[
    str | None,
    option(
        "--data",
        "DIR",
        "The data folder of the node. Default: COMITY_DATA, else comity in your user data folder.",
    ),
]
Config = Annotated[
    str | None,
    option(
        "--config",
        "FILE",
        "The settings file. Default: COMITY_CONFIG, else config.toml in the data folder if it exists.",
    ),
]
PassphraseFile = Annotated[
    str | None,
    option(
        "--passphrase-file",
        "FILE",
        "A file with the passphrase in its first line. Only you may have access to it. - reads standard input.",
    ),
]
Directory = Annotated[
    str | None,
    option(
        "--directory",
        "URL",
        "The directory to use. Default: the setting directory.url, else the directory of your running node.",
    ),
]
ToolGroups = Annotated[
    str | None,
    typer.Option(
        "--tools",
        "--rooms",
        metavar="A,B",
        help="The groups of tools to offer: agents, vcp, vacant, actions, vdo. Default: all.",
    ),
]
RoomOption = Annotated[
    str | None,
    option("--room", "ROOM", "The name of the room, or a session id. Default: the only open room."),
]
TlsCert = Annotated[str | None, option("--tls-cert", "FILE", "The TLS certificate, with its chain.")]
TlsKey = Annotated[str | None, option("--tls-key", "FILE", "The private key of the certificate.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True)  # lighter to load than a Struct
class HomeOptions:
    """The options that lead to a node: each stands on the command line, and a command gets them as one argument."""

    data: Data = None
    config: Config = None


@dataclass(frozen=True)
class KeyOptions(HomeOptions):
    """For a command that signs or writes: also the passphrase of the key."""

    passphrase_file: PassphraseFile = None


# flags that have a shorter name than their setting
_TYPED = {
    "--agent-behaviour": "--agent",
    "--agent-capability": "--capability",
    "--agent-name": "--name",
    "--agent-endpoint": "--endpoint",
    "--directory-url": "--directory",
    "--dispatch-timeout-seconds": "--timeout",
}


def settings_of(home: HomeOptions, **flags: Any) -> "Loaded":
    Given.data, Given.config = (
        "" if value is None else f" {flag} {shlex.quote(os.path.abspath(Path(value).expanduser()))}"  # noqa: PTH100 - keeps links
        for flag, value in (("--data", home.data), ("--config", home.config))
    )
    try:
        return settings_file.load_settings({"data": home.data, "config": home.config, **flags})
    except ConfigError as refusal:
        if refusal.place not in _TYPED:
            raise
        raise refusal.called(_TYPED[refusal.place]) from None


def fast_loop() -> "Callable[[], asyncio.AbstractEventLoop] | None":
    """Return the faster event loop if there is one, else None for the usual one."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


def read_groups(text: str) -> tuple[str, ...]:
    """Read groups of MCP tools with commas between them."""
    known = list(dict.fromkeys(part.tool_group for part in load_parts() if part.tool_group))
    chosen = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in chosen:
        if name not in known:
            raise ConfigError(
                f"--tools must name groups of tools among {', '.join(known)}, not {name[:60]!r}"
            )
    return chosen


def one_of(name: str, text: str, words: "Collection[str]") -> str:
    if text not in words:
        raise ConfigError(f"{name} must be one of {', '.join(words)}, not {text[:60]!r}")
    return text


def whole_number(name: str, text: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18 and low <= int(text) <= high):
        raise ConfigError(f"{name} must be a whole number from {low} to {high}, not {text[:60]!r}")
    return int(text)


def read_passphrase(file: str) -> str:
    if file == "-":
        text = sys.stdin.readline()
    else:
        try:
            text = private_files.read_private(Path(file).expanduser()).decode("utf-8").partition("\n")[0]
        except UnicodeDecodeError:
            raise KeyRefusedError(
                f"{file} is not UTF-8 text; write the passphrase into its first line"
            ) from None
    passphrase = text.rstrip("\r\n")
    if not passphrase:
        raise KeyRefusedError(f"the first line of {file} is empty; write the passphrase there")
    return passphrase


def ask_new_passphrase() -> str:
    _refuse_without_terminal("a passphrase is needed", "--passphrase-file FILE")
    passphrase = getpass.getpass("New passphrase: ")
    if getpass.getpass("Once more: ") != passphrase:
        raise ConfigError("the two passphrases differ; start again")
    return passphrase


def ask_passphrase(of: str, option: str = "--passphrase-file") -> str:
    _refuse_without_terminal(f"the passphrase of {of} is needed", f"{option} FILE")
    return getpass.getpass(f"Passphrase of {of}: ")


def passphrase_for(data: Path, file: str | None) -> str | None:
    """Return the passphrase of the identity in that folder; None if it is not encrypted."""
    if file is not None:
        return read_passphrase(file)
    if not key_files.needs_passphrase(data):
        return None
    _refuse_without_terminal(
        f"{key_files.identity_path(data)} is encrypted with a passphrase", "--passphrase-file FILE"
    )
    return getpass.getpass("Passphrase: ")


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation at a terminal. Without one, require --yes."""
    if yes:
        return
    _refuse_without_terminal("this needs a confirmation", "--yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Abort


def _refuse_without_terminal(fault: str, remedy: str) -> None:
    if not sys.stdin.isatty():
        raise ConfigError(f"{fault} and there is no terminal to ask for it; use {remedy}")
