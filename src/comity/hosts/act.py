"""Doing what a plan says, and remembering how it was before.

Each act plans again under the lock, because the file may have changed since the plan was shown. The record is
stored before we write a file: whoever is stopped in between can still take everything back.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace as changed

from comity.hosts import config_file
from comity.hosts.clients import Computer, Launch
from comity.hosts.config_file import (
    ConfigFile,
    InstalledEntry,
    Record,
    Records,
    fingerprint,
    locked,
    look,
    missing_folders,
    real_path,
)
from comity.hosts.plan import (
    Plan,
    Target,
    baseline,
    plan_install,
    plan_uninstall,
    remove_call,
    run_program,
    same_entry,
)
from comity.wire.errors import ComityError


class InstallOutcome(Struct, frozen=True, kw_only=True):
    """`call` is the client's own command when it did the work, `copy` how the file was before."""

    plan: Plan
    call: tuple[str, ...] = ()
    copy: Path | None = None
    notes: tuple[str, ...] = ()
    fault: str = ""


def install(target: Target, launch: Launch, machine: Computer, records: Records) -> InstallOutcome:
    def act() -> InstallOutcome:
        return _install(plan_install(target, launch, machine, records), machine, records)

    return _alone(target, records, act)


def uninstall(target: Target, machine: Computer, records: Records) -> InstallOutcome:
    def act() -> InstallOutcome:
        return _uninstall(plan_uninstall(target, machine, records), machine, records)

    return _alone(target, records, act)


def _alone(target: Target, records: Records, act: Callable[[], InstallOutcome]) -> InstallOutcome:
    try:
        # the folder above: a running node has the data folder itself locked
        with locked(records.data.parent, real_path(target.file).parent):
            return act()
    except ComityError as refusal:
        fault = refusal.message
    except OSError as refusal:
        fault = f"{refusal.filename or target.file}: {str(refusal.strerror or refusal).lower()}"
    return InstallOutcome(plan=Plan(target=target, action="refuse"), fault=fault)


def _install(plan: Plan, machine: Computer, records: Records) -> InstallOutcome:
    if plan.action in {"keep", "refuse"}:
        return InstallOutcome(plan=plan, fault=plan.fault)
    assert plan.found is not None
    assert plan.after is not None
    former = records.read(plan.found.path)
    made = missing_folders(plan.found.path.parent)
    now = plan.found
    notes: tuple[str, ...] = ()
    if plan.call:
        fault = _add_by_program(plan, machine)
        now = look(plan.target.file)
        if not fault and _has_entry(plan, now):
            copy = _remember(plan, now.data, former, made, records)
            return InstallOutcome(plan=plan, call=plan.call, copy=copy)
        notes = (_fell_back(plan, fault or "it ended well, but its file does not have the entry"),)
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
    notes: tuple[str, ...] = ()
    call: tuple[str, ...] = ()
    if plan.call:
        fault = run_program(plan.call, machine)
        now = look(plan.target.file)
        if not fault and not _has_key(plan, now):
            call = plan.call
        else:
            notes = (_fell_back(plan, fault or "it ended well, but its file still has the entry"),)
    if not call or plan.sure or plan.after is None or plan.action == "restore":
        if plan.after is None:
            config_file.remove(now, [Path(each) for each in record.folders] if record else [])
        else:
            config_file.replace(now, plan.after, mode=plan.mode)
    if record is not None:
        left = record.without(plan.path)
        if not left:
            records.forget(plan.found.path)
        elif record.after == fingerprint(plan.found.data):
            after = fingerprint(look(plan.target.file).data)
            records.keep(changed(record, entries=left, after=after))
        else:
            records.keep(changed(record, entries=left))
    return InstallOutcome(plan=plan, call=call, notes=notes)


def _remember(
    plan: Plan, after: bytes | None, former: Record | None, made: list[Path], records: Records
) -> Path | None:
    """How the file was before anything of ours; None when it was not there."""
    assert plan.found is not None
    found = plan.found
    entry = InstalledEntry(
        client=plan.target.client,
        scope=plan.target.scope,
        path=plan.path,
        made=plan.made,
        replaced=plan.replaced,
    )
    if former is None or found.data is None:
        record = Record(
            file=str(found.path),
            existed=found.data is not None,
            mode=found.mode,
            folders=tuple(map(str, made)),
            before="",
            after=fingerprint(after),
            entries=(entry,),
        )
        before = found.data or b""
    else:
        entries = (*former.without(plan.path), entry)
        record = changed(former, after=fingerprint(after), entries=entries)
        if former.after == fingerprint(found.data):
            records.keep(record)
            return records.copy_of(found.path) if record.existed else None
        before, existed = baseline(plan, former)
        record = changed(record, existed=existed)
    records.keep(record, before)
    return records.copy_of(found.path) if record.existed else None


def _add_by_program(plan: Plan, machine: Computer) -> str:
    """Their commands add; they do not change. What is there goes first, and comes back with the file."""
    own = plan.target.about.program
    if plan.action != "add" and own is not None and own.remove:
        run_program(remove_call(plan.call[0], own, plan.target.name, plan.target.scope), machine)
    return run_program(plan.call, machine)


def _has_entry(plan: Plan, now: ConfigFile) -> bool:
    try:
        return same_entry(plan.target.language.find(now.text, plan.path), plan.entry)
    except ComityError:
        return False


def _has_key(plan: Plan, now: ConfigFile) -> bool:
    try:
        return plan.target.language.find(now.text, plan.path) is not None
    except ComityError:
        return True


def _forget_entry(plan: Plan, record: Record | None, records: Records) -> None:
    """The entry is gone already, by another hand."""
    if record is None:
        return
    target = plan.target
    left = tuple(
        entry
        for entry in record.entries
        if (entry.client, entry.scope, entry.path[-1]) != (target.client, target.scope, target.name)
    )
    if not left:
        records.forget(Path(record.file))
    elif left != record.entries:
        records.keep(changed(record, entries=left))


def _fell_back(plan: Plan, fault: str) -> str:
    return (
        f"{plan.target.about.title}: {plan.call[0]} could not be used ({fault}); the file was changed instead"
    )
