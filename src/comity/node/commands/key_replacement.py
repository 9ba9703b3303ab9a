"""`comity id recovery`, `replace`, `recover`, `history` and `follow`: the recovery key, and a new key in the place of the old one.

Only somebody at the data folder can do this: there is no route, tool or operation for it. No process may use the folder
meanwhile. Killed at any moment, a replacement leaves either the old or the new identity working (`succession_files`).
"""

import asyncio
import contextlib
import getpass
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from comity.agents.commands.contacts import ask_contacts
from comity.contacts.lookup import contact_of, id_or_text
from comity.contacts.operations import ContactRequest
from comity.contacts.protocol.contact import Contact
from comity.envelopes.successions import in_words, keep_line, known_lines, read_known_line
from comity.identity.key_files import (
    IdentityFile,
    KeptInKeyring,
    KeptSealed,
    has_identity,
    has_recovery,
    identity_path,
    keep_recovery_public,
    load_identity,
    new_signing_key,
    open_recovery,
    read_identity,
    read_recovery,
    recovery_public,
    stored_vacant_id,
)
from comity.identity.private_files import ensure_private_folder, read_private
from comity.identity.protocol.keys import SigningKey, VacantId, id_of
from comity.identity.protocol.succession import (
    MAX_REASON,
    KnownLine,
    Succession,
    accept_line,
    choose_conflicting,
    make_succession,
)
from comity.identity.protocol.written_key import read_key, write_key
from comity.identity.succession_files import OwnLine, read_own_line, replace_identity
from comity.requests.record import own_act
from comity.runtime.opening import has_database, reading
from comity.runtime.replaced_keys import record_replaced_keys
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import timestamp
from comity.store.audit_trail import HeadFile
from comity.store.claim import FolderClaim
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key, writing
from comity.terminal.options import (
    HomeOptions,
    Json,
    KeyOptions,
    PassphraseFile,
    Yes,
    ask_new_passphrase,
    confirm,
    passphrase_for,
    read_passphrase,
    settings_of,
)
from comity.terminal.output import (
    Cell,
    follow_up,
    one_line,
    print_fields,
    print_json,
    print_line,
    print_table,
)
from comity.wire.errors import (
    ConfigError,
    ConflictError,
    KeyRefusedError,
    NotFoundError,
    StoreUnavailableError,
)

app = HelpfulApp()

RECOVERY_KEPT: Final = "still in the data folder; print it: `comity id recovery`"
RECOVERY_PRINTED: Final = "printed, and deleted here"
_GROUPS_IN_A_LINE: Final = 7

Reason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", help="Why; part of the signed statement, so everybody can read it."
    ),
]


@app.add("""
    comity id recovery  print the recovery key, then delete it here
""")
def recovery(home: KeyOptions = KeyOptions()) -> None:
    """Print the recovery key of this node once, at a terminal, to be written down on paper.

    The recovery key can replace a key that is lost or stolen, and takes an identity back from a thief. It is deleted here
    only after you typed its last group. If you stop before that, or the command is killed, it is still here.
    """
    folder = settings_of(home).settings.data
    if not has_recovery(folder):
        raise NotFoundError(
            f"there is no recovery key in {folder}; the next start of the node makes one: `comity up`"
        )
    file = read_recovery(folder)
    if file.secret is None:
        raise KeyRefusedError(
            f"the recovery key of {folder} was printed before and then deleted here; only your paper has it"
        )
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise ConfigError(
            "the recovery key is shown at a terminal only; run this there, without a pipe or a program"
        )
    sealed = isinstance(file.secret, KeptSealed)
    key = open_recovery(folder, passphrase_for(folder, home.passphrase_file) if sealed else None)
    groups = write_key(key.seed).split()
    print_line("The recovery key. Write it down and keep it apart from this machine:")
    print_line()
    for at in range(0, len(groups), _GROUPS_IN_A_LINE):
        print_line("    " + " ".join(groups[at : at + _GROUPS_IN_A_LINE]))
    print_line()
    print_line("Whoever has it can take over this identity. Without it, a lost key stays lost.")
    sys.stdout.write("Type its last group to delete it here, or press Enter to keep it: ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().upper() != groups[-1]:
        print_line("Nothing was deleted. The recovery key is still in the data folder.")
        return
    keep_recovery_public(folder, key.vacant_id)
    print_line("Deleted. From now on only your paper has it.")


@app.add("""
    comity id replace  make a new key, signed by the old one
    comity id replace --reason "new machine" --yes  without confirmation
""")
def replace(
    reason: Reason = "planned", home: KeyOptions = KeyOptions(), yes: Yes = False, as_json: Json = False
) -> None:
    """Replace the key of this node, and with it its id. The old key signs that the new one takes its place.

    Stop the node first. The new key is kept as the old one was. The old one is deleted; its public part stays, so that
    everything it signed can be verified. If the old key is lost or somebody else has it, use `comity id recover`.
    """
    settings = settings_of(home).settings
    folder = settings.data
    if not has_identity(folder):
        raise NotFoundError(f"there is no identity in {folder}; make one: `comity id new`")
    _check_reason(reason)
    with _alone(settings):
        kept = read_identity(identity_path(folder)).secret
        passphrase = passphrase_for(folder, home.passphrase_file)
        old = load_identity(folder, passphrase=passphrase)
        confirm(
            f"{old.vacant_id} gets a new key and a new id; the old key is deleted. This cannot be undone. Replace it?",
            yes=yes,
        )
        line = read_own_line(folder, old.vacant_id).statements
        new = new_signing_key()
        statement = _statement(line, old.vacant_id, new, old, reason)
        replace_identity(
            folder,
            (*line, statement),
            new,
            passphrase=passphrase,
            in_keyring=isinstance(kept, KeptInKeyring),
        )
        asyncio.run(_record(settings, new))
    _print_replaced(statement, as_json=as_json)


@app.add("""
    comity id recover  ask for the recovery key, and make a new key
    comity id recover --key-file paper.txt  read the recovery key from a file of mode 0600
    comity id recover --old 31e30ef4…  in a new data folder; all 64 digits of the lost id
""")
def recover(
    key_file: Annotated[
        str | None,
        typer.Option(
            "--key-file", metavar="FILE", help="A file with the recovery key, or - for standard input."
        ),
    ] = None,
    old: Annotated[
        str | None,
        typer.Option(
            "--old",
            metavar="ID",
            help="The lost id, if the data folder does not know it or its file is damaged.",
        ),
    ] = None,
    reason: Reason = "the old key is lost",
    home: HomeOptions = HomeOptions(),
    passphrase_file: PassphraseFile = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Replace a key that is lost or stolen: the recovery key signs that a new key takes its place.

    Stop the node first. What the recovery key signs outranks everything that the old key signs, also what a thief of it
    signed before. The recovery key stays the same, so keep the paper. --passphrase-file encrypts the new key.
    """
    settings = settings_of(home).settings
    folder = settings.data
    _check_reason(reason)
    lost = _lost_id(folder, old)
    paper = SigningKey.from_seed(read_key(_read_recovery_key(key_file)))
    known = recovery_public(folder)
    if known is not None and known != paper.vacant_id:
        raise KeyRefusedError(f"this is not the recovery key of {lost}; look for the right paper")
    ensure_private_folder(folder)
    with _alone(settings):
        kept = _kept_identity(folder, old)
        secret = None if kept is None else kept.secret
        passphrase = None
        if passphrase_file is not None:
            passphrase = read_passphrase(passphrase_file)
        elif isinstance(secret, KeptSealed):
            passphrase = ask_new_passphrase()
        confirm(
            f"{lost} gets a new key and a new id; the old key is given up. This cannot be undone. Recover it?",
            yes=yes,
        )
        line = read_own_line(folder, lost).statements
        new = new_signing_key()
        statement = _statement(line, lost, new, paper, reason)
        if known is None:
            keep_recovery_public(folder, paper.vacant_id)
        replace_identity(
            folder,
            (*line, statement),
            new,
            passphrase=passphrase,
            in_keyring=isinstance(secret, KeptInKeyring) and passphrase is None,
        )
        asyncio.run(_record(settings, new))
    _print_replaced(statement, as_json=as_json)


@app.add("""
    comity id history  show the keys that this node has had
    comity id history --json  print JSON, with the signed statements
""")
def history(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Show the keys of this node, oldest first, and where its recovery key is. Old signatures stay valid."""
    folder = settings_of(home).settings.data
    if not has_identity(folder):
        raise NotFoundError(f"there is no identity in {folder}; make one: `comity id new`")
    line = read_own_line(folder, stored_vacant_id(folder))
    if as_json:
        print_json(
            {
                "vacant_id": line.current.hex(),
                "line": [each.as_json() for each in line.statements],
                "recovery_hash": line.recovery or None,
                "recovery_kept": recovery_state(folder) == RECOVERY_KEPT,
            }
        )
        return
    if line.statements:
        print_table(("number", "key", "since", "signed by", "reason"), _rows(line))
        print_line()
    else:
        print_line(f"{line.current} has its first key.")
    print_fields([("recovery key", recovery_state(folder))])


@app.add("""
    comity id follow  show which other identities replaced a key
    comity id follow 31e30ef4ca92  follow what waits, after you asked its owner
    comity id follow 31e30ef4ca92 --new 9f02…  decide a conflict; all digits of the true new id
""")
def follow(
    old: Annotated[
        str | None,
        typer.Argument(metavar="OLD", help="The old id of the other identity, or a unique beginning of it."),
    ] = None,
    new: Annotated[
        str | None,
        typer.Option("--new", metavar="ID", help="The new id that is the true one, in a conflict."),
    ] = None,
    home: KeyOptions = KeyOptions(),
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Show other identities that replaced a key, or decide about one that waits for you or is in conflict.

    A new key is followed by itself if this node knows the recovery key of the identity, because its owner can then take
    back what a thief says. Ask the owner over another channel before you decide. The node may be running.
    """
    settings = settings_of(home).settings
    if settings.store.engine == "memory" or not has_database(settings):
        raise NotFoundError(f"{settings.data} knows no other identity yet")
    lines = asyncio.run(_known_lines(settings))
    if old is None:
        _print_lines(lines, as_json=as_json)
        return
    chosen = _chosen(lines, id_or_text(settings, old))
    wanted = None if new is None else id_of(new)
    if new is not None and wanted is None:
        raise ConfigError("--new must be a whole id: 64 hexadecimal digits or did:key:…")
    decided = _decided(chosen, None if wanted is None else wanted.hex())
    if decided is not chosen:
        confirm(
            f"From then on {decided.current} counts as {chosen.root[:12]} here. Did its owner say so?",
            yes=yes,
        )
        asyncio.run(_keep_line(settings, own_key(settings, home.passphrase_file), chosen, decided))
    contact = _follow_contact(settings, home, decided)
    if as_json:
        print_json({**_line_facts(decided), "contact": None if contact is None else contact.name})
    else:
        print_line(f"{decided.root[:12]} {in_words(decided)}")
        if contact is not None:
            print_line(f"Your contact {contact.name} has that id now.")


def recovery_state(folder: Path) -> str:
    if not has_recovery(folder):
        return "none yet; the next start of the node makes one"
    return RECOVERY_PRINTED if read_recovery(folder).secret is None else RECOVERY_KEPT


def _rows(line: OwnLine) -> list[list[Cell]]:
    first = line.statements[0].old
    rows: list[list[Cell]] = [["0", first, "", "", "the first key"]]
    for each in line.statements:
        signer = "the recovery key" if each.by_recovery else "the key before it"
        rows.append([str(each.number), each.new, each.time[:19], signer, one_line(each.reason)])
    return rows


def _follow_contact(settings: Settings, home: KeyOptions, line: KnownLine) -> Contact | None:
    """Let a contact that has a former key of the line have the one that counts now; return it."""
    if line.state != "followed":
        return None
    known = (contact_of(settings, each) for each in line.ids() if each != line.current)
    contact = next((each for each in known if each is not None), None)
    if contact is not None:
        ask_contacts(settings, home, ContactRequest(do="follow", who=contact.id, id=line.current))
    return contact


async def _known_lines(settings: Settings) -> list[KnownLine]:
    async with reading(settings, SystemClock(), check=False) as store:
        line = read_own_line(settings.data, stored_vacant_id(settings.data))
        own = {each.hex() for each in (line.current, *line.former)}
        return [each for each in await known_lines(store) if each.root not in own]


async def _keep_line(settings: Settings, key: SigningKey, before: KnownLine, after: KnownLine) -> None:
    async with writing(settings, key) as (store, record, _chain):
        held, version = await read_known_line(store, before.root)
        if held != before:
            raise ConflictError(
                f"what is known of {before.root[:12]} has changed; look again: `comity id follow`"
            )
        said = f"succession:{after.root}:{after.current}"
        await record.commit_counted((keep_line(after, version),), own_act("SUCCESSION_ACCEPTED", said))


def _chosen(lines: list[KnownLine], old: str) -> KnownLine:
    named = id_of(old)
    wanted = old.removeprefix("vacant:").lower() if named is None else named.hex()
    found = [line for line in lines if wanted and any(each.startswith(wanted) for each in line.ids())]
    if len(found) != 1:
        what = f"{len(found)} identities have" if found else "no other identity here has"
        raise NotFoundError(f"{what} a replaced key that begins with {old[:80]!r}; see `comity id follow`")
    return found[0]


def _decided(line: KnownLine, new: str | None) -> KnownLine:
    if line.conflict is None:
        if new is not None and new != line.steps[-1].new:
            raise ConfigError(f"nobody says that {new[:12]} takes the place of {line.root[:12]}")
        return line if line.state == "followed" else accept_line(line)
    mine = next(each for each in line.steps if each.old == line.conflict.old)
    if new == line.conflict.new:
        return choose_conflicting(line)
    if new in {each.new for each in line.steps}:
        return accept_line(line)
    raise ConfigError(
        f"two statements replace {mine.old[:12]}; say which is true: --new {mine.new} or --new {line.conflict.new}"
    )


def _print_lines(lines: list[KnownLine], *, as_json: bool) -> None:
    if as_json:
        print_json({"lines": [_line_facts(each) for each in lines]})
    elif lines:
        print_table(("old id", "now"), [[each.root[:12], one_line(in_words(each))] for each in lines])
    else:
        print_line("No other identity that this node knows has replaced a key.")


def _line_facts(line: KnownLine) -> dict[str, Any]:
    return {
        "old": line.root,
        "state": line.state,
        "current": line.current,
        "line": [each.as_json() for each in line.steps],
        "conflict": None if line.conflict is None else line.conflict.as_json(),
        "recovery_hash": line.recovery or None,
    }


def _statement(
    line: tuple[Succession, ...], old: VacantId, new: SigningKey, signer: SigningKey, reason: str
) -> Succession:
    time = timestamp(SystemClock().now())
    return make_succession(line, old=old, new=new, signer=signer, time=time, reason=reason)


def _check_reason(reason: str) -> None:
    if len(reason) > MAX_REASON:
        raise ConfigError(f"--reason has at most {MAX_REASON} characters; this one has {len(reason):,}")


@contextlib.contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Keep other processes away from the folder; refuse if one works there."""
    claim = FolderClaim(settings.data)
    try:
        for head in sorted(settings.audit_heads.glob("*.head")):
            try:
                HeadFile(head).close()
            except StoreUnavailableError:
                raise ConflictError(
                    f"another process uses {settings.data}, such as a `comity mcp` of a client; end it and try again"
                ) from None
        yield
    finally:
        claim.release()


async def _record(settings: Settings, key: SigningKey) -> None:
    if settings.store.engine == "memory" or not has_database(settings):
        return
    async with writing(settings, key) as (store, record, _chain):
        await record_replaced_keys(store, record, read_own_line(settings.data, key.vacant_id))


def _lost_id(folder: Path, old: str | None) -> VacantId:
    named = None if old is None else id_of(old)
    if old is not None and named is None:
        raise ConfigError("--old must be the whole lost id: 64 hexadecimal digits or did:key:…")
    kept = _kept_identity(folder, old)
    held = None if kept is None else VacantId.from_hex(kept.public)
    if held is not None and named is not None and held != named:
        raise ConfigError(f"{folder} holds the identity {held}, not {named}; name another folder with --data")
    lost = held or named
    if lost is None:
        raise ConfigError(f"there is no identity in {folder}, so name the lost one: --old ID")
    return lost


def _kept_identity(folder: Path, old: str | None) -> IdentityFile | None:
    """Return the identity file. One that cannot be read does not matter where the lost id is named."""
    if not has_identity(folder):
        return None
    try:
        return read_identity(identity_path(folder))
    except KeyRefusedError:
        if old is None:
            raise
        return None


def _read_recovery_key(file: str | None) -> str:
    if file == "-":
        return sys.stdin.read(4096)
    if file is not None:
        return read_private(Path(file).expanduser()).decode("utf-8", "replace")
    if not sys.stdin.isatty():
        raise ConfigError(
            "the recovery key is needed and there is no terminal to ask for it; use --key-file FILE"
        )
    return getpass.getpass("Recovery key (14 groups, not shown): ")


def _print_replaced(statement: Succession, *, as_json: bool) -> None:
    if as_json:
        print_json({"old": statement.old, "new": statement.new, "statement": statement.as_json()})
        return
    print_line(f"{VacantId.from_hex(statement.old)} is replaced.")
    print_fields(
        (
            ("new id", statement.new),
            ("number", str(statement.number)),
            ("reason", one_line(statement.reason)),
        ),
        indent="  ",
    )
    print_line()
    print_line(
        f"Next: {follow_up('comity up')}. The card and the first call to each agent that knows the old key carry the "
        "statement. Publish again (`comity card publish`), issue tokens and invites again, and make a new backup."
    )
