"""What would change, before anything does.

A plan is made from the file as it lies there and says what to do: `add`, `change` (ours, with other words),
`replace` (somebody else's under our name), `keep`, or `refuse` with the reason. The same for taking back:
`remove`, `restore`, `keep`, `refuse`.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from comity.hosts import config_file, json_text, yaml_text
from comity.hosts.clients import (
    Computer,
    Launch,
    McpClient,
    Program,
    entry_of,
    holder_of,
    places,
    starts_comity,
    table,
)
from comity.hosts.config_file import ConfigFile, InstalledEntry, Record, Records, fingerprint
from comity.runtime import toml_edit as toml_text
from comity.runtime.toml_edit import KeyPath
from comity.wire.errors import ComityError, ConfigError, MalformedError

# A client's own command: no shell, the exact words shown, a deadline, and nothing believed without looking.


DEADLINE_SECONDS = 60.0


def found_program(program: Program | None, scope: str, machine: Computer) -> str | None:
    """The path of the command, when it is there and of use in this scope."""
    if program is None or scope not in program.scopes:
        return None
    path = shutil.which(program.name, path=machine.environ.get("PATH", ""))
    if path is not None and machine.system == "windows" and not path.lower().endswith(".exe"):
        return None  # a batch file is run by a shell, which reads our words in its own way
    return path


def add_call(path: str, program: Program, name: str, scope: str, launch: Launch) -> list[str]:
    plain = {"name": name, "command": launch.command, "args": list(launch.args), "env": dict(launch.env)}
    pairs = [f"{key}={value}" for key, value in launch.env.items()]
    filled: dict[str, Sequence[str]] = {
        "{name}": [name],
        "{scope}": [scope],
        "{env...}": [part.replace("{pair}", pair) for pair in pairs for part in program.env],
        "{call...}": launch.call,
        "{args...}": launch.args,
        "{command}": [launch.command],
        "{json}": [json.dumps(plain)],
    }
    return [path, *(part for word in program.add for part in filled.get(word, [word]))]


def remove_call(path: str, program: Program, name: str, scope: str) -> list[str]:
    filled = {"{name}": name, "{scope}": scope}
    return [path, *(filled.get(word, word) for word in program.remove)]


def run_program(call: Sequence[str], machine: Computer) -> str:
    """An empty text if the program succeeded, else its error output."""
    try:
        ended = subprocess.run(  # noqa: S603 - the words come from our table and the command line's own checks
            call,
            cwd=machine.project,
            env=dict(machine.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {DEADLINE_SECONDS:g} seconds"
    except OSError as fault:
        return str(fault.strerror or fault).lower()
    said = " ".join(ended.stdout.decode("utf-8", "replace").split())[:300]
    return f"it ended with {ended.returncode}{': ' + said if said else ''}" if ended.returncode else ""


def same_entry(have: Any, want: Any) -> bool:
    """Whether an entry does what ours would: more members are its owner's, an empty one may be missing."""
    if not isinstance(have, dict):
        return False
    return all(have.get(key, type(value)()) == value for key, value in want.items())


Action = Literal["add", "change", "replace", "keep", "remove", "restore", "refuse"]


_EXPOSING = "by its file, because the words of a command can be read by every user of the machine"


class ConfigLanguage(Protocol):
    """How one key of a text is found, put in and taken out."""

    def find(self, text: str, path: KeyPath, /) -> Any: ...
    def put(self, text: str, path: KeyPath, value: Any, /) -> str: ...
    def drop(self, text: str, path: KeyPath, made: int = 0, /) -> str: ...


LANGUAGES: dict[str, ConfigLanguage] = {"json": json_text, "toml": toml_text, "yaml": yaml_text}


class Target(Struct, frozen=True, kw_only=True):
    """One entry in one file of one client."""

    client: str
    scope: str
    name: str
    file: Path

    @property
    def about(self) -> McpClient:
        return table().clients[self.client]

    @property
    def language(self) -> ConfigLanguage:
        return LANGUAGES[self.about.format]


class Plan(Struct, frozen=True, kw_only=True):
    """`after` None: the file goes. `call`: the client's own command, which is tried first. `sure`: the file is
    as we left it, so that the copy of what was before can take its place.
    """

    target: Target
    action: Action
    path: KeyPath = ()
    found: ConfigFile | None = None
    after: bytes | None = None
    mode: int = 0o600
    call: tuple[str, ...] = ()
    made: int = 0
    replaced: Any = None
    entry: Any = None
    sure: bool = False
    fault: str = ""
    remark: str = ""


def aim(client: str, scope: str, name: str, machine: Computer) -> Target:
    """The file of that scope; of several that exist, the one with our entry, else the first."""
    about = table().clients[client]
    if scope not in about.scopes:
        raise ConfigError(
            f"{about.title} has no {scope} scope; use --scope {' or --scope '.join(about.scopes)}"
        )
    listed = places(about, scope, machine)
    there = [file for file in listed if file.exists()] or listed[:1]
    for file in there:
        target = Target(client=client, scope=scope, name=name, file=file)
        try:
            if _path_of_ours(target, config_file.look(file).text, machine):
                return target
        except (ComityError, OSError):
            continue
    return Target(client=client, scope=scope, name=name, file=there[0])


def plan_install(target: Target, launch: Launch, machine: Computer, records: Records) -> Plan:
    try:
        if launch.secret and target.scope == "project":
            raise ConfigError(
                f"{target.file} is a project's file, which others share, and the join secret would be in it; "
                "use --scope user, or a preset without a secret"
            )
        return _plan_install(target, launch, machine, records)
    except (ComityError, OSError) as refusal:
        return Plan(target=target, action="refuse", fault=_named(target, refusal))


def _plan_install(target: Target, launch: Launch, machine: Computer, records: Records) -> Plan:
    found = config_file.look(target.file)
    text, language = found.text, target.language
    path = _path_of_ours(target, text, machine) or (*_holder(target, text, machine), target.name)
    entry = entry_of(target.about.entry, target.name, launch)
    have = language.find(text, path)
    record = records.read(found.path)
    ours = record.entry(path) if record and have is not None else None
    mode = found.mode & ~0o077 if launch.secret else found.mode
    if same_entry(have, entry) and mode == found.mode:
        return Plan(target=target, action="keep", path=path, found=found)
    known = ours is not None or starts_comity(have)
    if have is not None and known and isinstance(have, dict):
        entry = {**entry, **{key: value for key, value in have.items() if key not in entry}}
    config_file.refuse_read_only(found)
    if found.data is None:
        mode = 0o600 if target.scope != "project" else 0o644
    new = language.put(text, path, entry)
    program = found_program(target.about.program, target.scope, machine)
    return Plan(
        target=target,
        action="add" if have is None else "change" if known else "replace",
        path=path,
        found=found,
        after=found.encoded(new),
        mode=mode,
        call=_add_call(target, program, launch),
        made=ours.made if ours else _missing(language, text, path),
        replaced=ours.replaced if ours else have,
        entry=entry,
        remark=_EXPOSING if program and launch.secret else "",
    )


def plan_uninstall(target: Target, machine: Computer, records: Records) -> Plan:
    try:
        return _plan_uninstall(target, machine, records)
    except (ComityError, OSError) as refusal:
        return Plan(target=target, action="refuse", fault=_named(target, refusal))


def _plan_uninstall(target: Target, machine: Computer, records: Records) -> Plan:
    found = config_file.look(target.file)
    text, language = found.text, target.language
    path = _path_of_ours(target, text, machine)
    if path is None:
        return Plan(target=target, action="keep", found=found)
    record = records.read(found.path)
    ours = record.entry(path) if record else None
    if ours is None and not starts_comity(language.find(text, path)):
        raise ConfigError(
            f"{target.file} has an entry {target.name!r} that does not start Comity and was not made by it; "
            "remove it by hand or give the right --name"
        )
    config_file.refuse_read_only(found)
    last = record is not None and not record.without(path)
    before = records.before(record) if record is not None and last else None
    sure = record is not None and before is not None and record.after == fingerprint(found.data)
    if sure and record is not None:
        after, mode = before if record.existed else None, record.mode
    else:
        left = without_entry(language, text, ours or InstalledEntry(client="", scope="", path=path))
        goes = record is not None and last and not record.existed and _is_bare(language, left)
        after, mode = None if goes else found.encoded(left), found.mode
    program = found_program(target.about.program, target.scope, machine)
    own = target.about.program
    return Plan(
        target=target,
        action="restore" if ours is not None and ours.replaced is not None else "remove",
        path=path,
        found=found,
        after=after,
        mode=mode,
        call=tuple(remove_call(program, own, target.name, target.scope))
        if program and own and own.remove
        else (),
        sure=sure,
    )


def without_entry(language: ConfigLanguage, text: str, entry: InstalledEntry) -> str:
    if entry.replaced is not None:
        return language.put(text, entry.path, entry.replaced)
    return language.drop(text, entry.path, entry.made)


def baseline(plan: Plan, record: Record) -> tuple[bytes, bool]:
    """What a changed file would be without anything of ours, and whether it would be there at all."""
    assert plan.found is not None
    text, language = plan.found.text, plan.target.language
    for entry in record.entries:
        if language.find(text, entry.path) is not None:
            text = without_entry(language, text, entry)
    there = record.existed or not _is_bare(language, text)
    return (plan.found.encoded(text) if there else b""), there


def _holder(target: Target, text: str, machine: Computer) -> KeyPath:
    """Where servers stand in this file: a newer form counts where the file has it already."""
    newer = target.about.newer_holder
    if newer:
        held = target.language.find(text, newer)
        if isinstance(held, dict) and not isinstance(held.get("type"), str):
            return newer
    return holder_of(target.about, target.scope, machine)


def usual_path(target: Target, machine: Computer) -> KeyPath:
    return (*holder_of(target.about, target.scope, machine), target.name)


def _path_of_ours(target: Target, text: str, machine: Computer) -> KeyPath | None:
    for path in ((*_holder(target, text, machine), target.name), usual_path(target, machine)):
        if target.language.find(text, path) is not None:
            return path
    return None


def _missing(language: ConfigLanguage, text: str, path: KeyPath) -> int:
    return sum(language.find(text, path[:depth]) is None for depth in range(1, len(path)))


def _is_bare(language: ConfigLanguage, text: str) -> bool:
    return not text.strip() or (language is json_text and "".join(text.split()) == "{}")


def _add_call(target: Target, program: str | None, launch: Launch) -> tuple[str, ...]:
    own = target.about.program
    if program is None or own is None or launch.secret:
        return ()
    return tuple(add_call(program, own, target.name, target.scope, launch))


def _named(target: Target, refusal: ComityError | OSError) -> str:
    if isinstance(refusal, MalformedError) and str(target.file) not in refusal.message:
        return f"{target.file}: {refusal.message}; it is left as it is"
    if isinstance(refusal, ComityError):
        return refusal.message
    return f"{target.file}: {str(refusal.strerror or refusal).lower()}; it is left as it is"
