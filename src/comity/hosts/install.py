"""Plan what would change in the file of a client, then do it, and remember how the file was before.

- A plan is made from the file as it is and says what to do: `add`, `change` (our entry, with other words), `replace` (a
  foreign entry with our name), `keep`, or `refuse` with the reason; to uninstall: `remove`, `restore`, `keep`, `refuse`.
- `install` and `uninstall` make the plan again under the lock, because the file may have changed since it was shown.
- The record is stored before a file is written, so that everything can be restored after a crash in between.
- The command of a client is run without a shell, with the exact words that were shown and a deadline, and its result is
  checked in the file.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

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

DEADLINE_SECONDS = 60.0
_EXPOSING = "by its file, because the words of a command can be read by every user of the machine"

Action = Literal["add", "change", "replace", "keep", "remove", "restore", "refuse"]


class ConfigLanguage(Protocol):
    """Finds, puts and drops one key of a text."""

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
    """If `after` is None, the file is removed. `call` is the command of the client, which is tried first. If `sure`, the
    file is as we left it, and the copy of what was before can take its place.
    """

    target: Target
    action: Action
    path: KeyPath = ()
    found: ConfigFile | None = None
    after: bytes | None = None
    mode: int = 0o600
    call: tuple[str, ...] = ()
    installed: InstalledEntry | None = None
    entry: Any = None
    sure: bool = False
    fault: str = ""
    remark: str = ""


class InstallOutcome(Struct, frozen=True, kw_only=True):
    """`call` is the command of the client if it did the work, `copy` how the file was before."""

    plan: Plan
    call: tuple[str, ...] = ()
    copy: Path | None = None
    notes: tuple[str, ...] = ()
    fault: str = ""


def found_program(program: Program | None, scope: str, machine: Computer) -> str | None:
    """Return the path of the command of a client if it exists and can be used in this scope."""
    if program is None or scope not in program.scopes:
        return None
    path = shutil.which(program.name, path=machine.environ.get("PATH", ""))
    if path is not None and machine.system == "windows" and not path.lower().endswith(".exe"):
        return None  # a batch file is run by a shell, which reads our words in its own way
    return path


def add_call(path: str, program: Program, name: str, scope: str, launch: Launch) -> tuple[str, ...]:
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
    return (path, *(part for word in program.add for part in filled.get(word, [word])))


def remove_call(path: str, program: Program, name: str, scope: str) -> tuple[str, ...]:
    filled = {"{name}": name, "{scope}": scope}
    return (path, *(filled.get(word, word) for word in program.remove))


def run_program(call: Sequence[str], machine: Computer) -> str:
    """Run a command. Return an empty text if it succeeded, else the reason."""
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
    output = " ".join(ended.stdout.decode("utf-8", "replace").split())[:300]
    return f"it ended with {ended.returncode}{': ' + output if output else ''}" if ended.returncode else ""


def same_entry(have: Any, want: Any) -> bool:
    """Return whether an entry does what ours would. Other members are allowed, and an empty one may be missing."""
    if not isinstance(have, dict):
        return False
    return all(have.get(key, type(value)()) == value for key, value in want.items())


def aim(client: str, scope: str, name: str, machine: Computer) -> Target:
    """Return the file that has the entry; if there is none the first one that exists, else the first in the table."""
    about = table().clients[client]
    if scope not in about.scopes:
        raise ConfigError(
            f"{about.title} has no {scope} scope; use --scope {' or --scope '.join(about.scopes)}"
        )
    listed = places(about, scope, machine)
    targets = [
        Target(client=client, scope=scope, name=name, file=file)
        for file in [file for file in listed if file.exists()] or listed[:1]
    ]
    for target in targets:
        try:
            if _path_of_ours(target, config_file.look(target.file).text, machine):
                return target
        except (ComityError, OSError):
            continue
    return targets[0]


def plan_install(target: Target, launch: Launch, machine: Computer, records: Records) -> Plan:
    return _planned(target, lambda: _plan_install(target, launch, machine, records))


def plan_uninstall(target: Target, machine: Computer, records: Records) -> Plan:
    return _planned(target, lambda: _plan_uninstall(target, machine, records))


def _planned(target: Target, plan: Callable[[], Plan]) -> Plan:
    try:
        return plan()
    except (ComityError, OSError) as refusal:
        return Plan(target=target, action="refuse", fault=_fault(target, refusal))


def _fault(target: Target, refusal: ComityError | OSError) -> str:
    if isinstance(refusal, MalformedError) and str(target.file) not in refusal.message:
        return f"{target.file}: {refusal.message}; it is left as it is"
    if isinstance(refusal, ComityError):
        return refusal.message
    return f"{refusal.filename or target.file}: {str(refusal.strerror or refusal).lower()}"


def _plan_install(target: Target, launch: Launch, machine: Computer, records: Records) -> Plan:
    if launch.secret and target.scope == "project":
        raise ConfigError(
            f"{target.file} is a project's file, which others share, and the join secret would be in it; "
            "use --scope user, or a preset without a secret"
        )
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
    own = target.about.program
    program = found_program(own, target.scope, machine)
    return Plan(
        target=target,
        action="add" if have is None else "change" if known else "replace",
        path=path,
        found=found,
        after=found.encoded(language.put(text, path, entry)),
        mode=mode,
        call=add_call(program, own, target.name, target.scope, launch)
        if program and own and not launch.secret
        else (),
        installed=InstalledEntry(
            client=target.client,
            scope=target.scope,
            path=path,
            made=ours.made
            if ours
            else sum(language.find(text, path[:n]) is None for n in range(1, len(path))),
            replaced=ours.replaced if ours else have,
        ),
        entry=entry,
        remark=_EXPOSING if program and launch.secret else "",
    )


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
        left = _without_entry(language, text, ours or InstalledEntry(client="", scope="", path=path))
        goes = record is not None and last and not record.existed and _is_bare(language, left)
        after, mode = None if goes else found.encoded(left), found.mode
    own = target.about.program
    program = found_program(own, target.scope, machine)
    return Plan(
        target=target,
        action="restore" if ours is not None and ours.replaced is not None else "remove",
        path=path,
        found=found,
        after=after,
        mode=mode,
        call=remove_call(program, own, target.name, target.scope) if program and own and own.remove else (),
        sure=sure,
    )


def _without_entry(language: ConfigLanguage, text: str, entry: InstalledEntry) -> str:
    if entry.replaced is not None:
        return language.put(text, entry.path, entry.replaced)
    return language.drop(text, entry.path, entry.made)


def _holder(target: Target, text: str, machine: Computer) -> KeyPath:
    """Return the keys above the servers in this file, in the newer form if the file has it already."""
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


def _is_bare(language: ConfigLanguage, text: str) -> bool:
    return not text.strip() or (language is json_text and "".join(text.split()) == "{}")


def install(target: Target, launch: Launch, machine: Computer, records: Records) -> InstallOutcome:
    return _locked(
        target, records, lambda: _install(plan_install(target, launch, machine, records), machine, records)
    )


def uninstall(target: Target, machine: Computer, records: Records) -> InstallOutcome:
    return _locked(
        target, records, lambda: _uninstall(plan_uninstall(target, machine, records), machine, records)
    )


def _locked(target: Target, records: Records, act: Callable[[], InstallOutcome]) -> InstallOutcome:
    try:
        # the folder above: a running node has locked the data folder itself
        with config_file.locked(records.data.parent, config_file.real_path(target.file).parent):
            return act()
    except (ComityError, OSError) as refusal:
        fault = _fault(target, refusal)
        return InstallOutcome(plan=Plan(target=target, action="refuse"), fault=fault)


def _install(plan: Plan, machine: Computer, records: Records) -> InstallOutcome:
    if plan.action in {"keep", "refuse"}:
        return InstallOutcome(plan=plan, fault=plan.fault)
    assert plan.found is not None
    assert plan.after is not None
    former = records.read(plan.found.path)
    made = config_file.missing_folders(plan.found.path.parent)
    now = plan.found
    notes: tuple[str, ...] = ()
    if plan.call:
        fault = _add_by_program(plan, machine)
        now = config_file.look(plan.target.file)
        if not fault and same_entry(_entry_in(plan, now), plan.entry):
            copy = _remember(plan, now.data, former, made, records)
            return InstallOutcome(plan=plan, call=plan.call, copy=copy)
        notes = _fell_back(plan, fault or "it ended well, but its file does not have the entry")
    copy = _remember(plan, plan.after, former, made, records)
    try:
        config_file.replace(now, plan.after, mode=plan.mode)
    except BaseException:
        if former is None:
            records.forget(plan.found.path)
        else:
            records.keep(former)
        raise
    return InstallOutcome(plan=plan, copy=copy, notes=notes)


def _uninstall(plan: Plan, machine: Computer, records: Records) -> InstallOutcome:
    if plan.action == "refuse":
        return InstallOutcome(plan=plan, fault=plan.fault)
    assert plan.found is not None
    record = records.read(plan.found.path)
    if plan.action == "keep":
        _forget_entry(plan, record, records)
        return InstallOutcome(plan=plan)
    now = plan.found
    call: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if plan.call:
        fault = run_program(plan.call, machine)
        now = config_file.look(plan.target.file)
        if not fault and _entry_in(plan, now, unreadable=True) is None:
            call = plan.call
        else:
            notes = _fell_back(plan, fault or "it ended well, but its file still has the entry")
    if not call or plan.sure or plan.after is None or plan.action == "restore":
        if plan.after is None:
            config_file.remove(now, [Path(each) for each in record.folders] if record else [])
        else:
            config_file.replace(now, plan.after, mode=plan.mode)
    if record is not None:
        after = record.after
        if after == fingerprint(plan.found.data):
            after = fingerprint(config_file.look(plan.target.file).data)
        records.keep_entries(replace(record, entries=record.without(plan.path), after=after))
    return InstallOutcome(plan=plan, call=call, notes=notes)


def _remember(
    plan: Plan, after: bytes | None, former: Record | None, made: list[Path], records: Records
) -> Path | None:
    """Store the record. Return the copy of the file before our first change, or None if there was no file."""
    assert plan.found is not None
    assert plan.installed is not None
    found = plan.found
    if former is None or found.data is None:
        record = Record(
            file=str(found.path),
            existed=found.data is not None,
            mode=found.mode,
            folders=tuple(map(str, made)),
            before="",
            after=fingerprint(after),
            entries=(plan.installed,),
        )
        records.keep(record, found.data or b"")
    else:
        entries = (*former.without(plan.path), plan.installed)
        record = replace(former, after=fingerprint(after), entries=entries)
        if former.after == fingerprint(found.data):
            records.keep(record)
        else:
            before, existed = _baseline(plan, former)
            record = replace(record, existed=existed)
            records.keep(record, before)
    return records.copy_of(found.path) if record.existed else None


def _baseline(plan: Plan, record: Record) -> tuple[bytes, bool]:
    """Return what a changed file would be without our entries, and whether there would be a file at all."""
    assert plan.found is not None
    text, language = plan.found.text, plan.target.language
    for entry in record.entries:
        if language.find(text, entry.path) is not None:
            text = _without_entry(language, text, entry)
    there = record.existed or not _is_bare(language, text)
    return (plan.found.encoded(text) if there else b""), there


def _add_by_program(plan: Plan, machine: Computer) -> str:
    """Run the command of the client. It adds and does not change, so an entry that is there is removed first."""
    own = plan.target.about.program
    if plan.action != "add" and own is not None and own.remove:
        run_program(remove_call(plan.call[0], own, plan.target.name, plan.target.scope), machine)
    return run_program(plan.call, machine)


def _entry_in(plan: Plan, now: ConfigFile, unreadable: Any = None) -> Any:
    """Return the entry in the file as it is now. Return `unreadable` if the file cannot be read."""
    try:
        return plan.target.language.find(now.text, plan.path)
    except ComityError:
        return unreadable


def _forget_entry(plan: Plan, record: Record | None, records: Records) -> None:
    """Remove the record of an entry that somebody else has removed."""
    if record is None:
        return
    target = plan.target
    left = tuple(
        entry
        for entry in record.entries
        if (entry.client, entry.scope, entry.path[-1]) != (target.client, target.scope, target.name)
    )
    if left != record.entries or not left:
        records.keep_entries(replace(record, entries=left))


def _fell_back(plan: Plan, fault: str) -> tuple[str, ...]:
    title, command = plan.target.about.title, plan.call[0]
    return (f"{title}: {command} could not be used ({fault}); the file was changed instead",)
