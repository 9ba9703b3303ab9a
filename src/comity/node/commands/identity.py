"""`comity id`: who this node is.

A secret leaves the data folder only on purpose: into a new file of mode 0600, or to stdout when that is
asked for by name.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from comity.identity.key_files import (
    KeptHere,
    KeptInKeyring,
    KeptSealed,
    create_identity,
    has_identity,
    identity_file,
    identity_path,
    load_identity,
    needs_passphrase,
    read_identity,
    stored_vacant_id,
    write_identity,
)
from comity.identity.protocol.keys import VacantId
from comity.node.commands import key_replacement
from comity.runtime.lazy import late
from comity.runtime.settings_file import CONFIG_FILE
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key
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
from comity.terminal.output import one_line, paint, print_fields, print_json, print_line
from comity.vcp.commands import app as token_app
from comity.wire.errors import ConfigError, ConflictError, KeyRefusedError, NotFoundError

if TYPE_CHECKING:
    from comity.envelopes import vacant_import
    from comity.node.commands import identity_import
    from comity.node.commands.identity_import import Takeover
else:
    vacant_import = late("comity.envelopes.vacant_import")
    identity_import = late("comity.node.commands.identity_import")

app = HelpfulApp(
    "Show, create, export or import the identity of a node: an Ed25519 key. The id is its public key."
)
app.add_typer(token_app, name="token")

_KEPT = {
    KeptHere: "in this file, readable only by its owner",
    KeptSealed: "in this file, encrypted with a passphrase",
    KeptInKeyring: "in the keyring of the operating system",
}


@app.add("""
    comity id show  show the identity of your data folder
    comity id show --data /srv/node  show that of another data folder
    comity id show --json  print JSON
""")
def show(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Show the id of this node in each format, and where its key is stored."""
    folder = settings_of(home).settings.data
    _refuse_missing(folder)
    _print_identity(folder, as_json=as_json)


@app.add("""
    comity id new  create an identity in your data folder
    comity id new --passphrase  encrypt the key; ask for the passphrase
    comity id new --data /srv/node --passphrase-file pass.txt  encrypt the key, from a script
""")
def new(
    home: HomeOptions = HomeOptions(),
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Encrypt the key with a passphrase; the command asks for it.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    keyring: Annotated[
        bool, typer.Option("--keyring", help="Store the key in the keyring of the operating system.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create an identity in a data folder that has none. An existing identity is never overwritten.

    `comity up` does this at the first start. Use this command if you want a passphrase or the keyring, or need the id
    before the node runs.
    """
    folder = settings_of(home).settings.data
    if has_identity(folder):
        raise KeyRefusedError(
            f"{identity_path(folder)} exists and is never overwritten; move it away or name another data folder"
        )
    if sum((passphrase, passphrase_file is not None, keyring)) > 1:
        raise ConfigError("--passphrase, --passphrase-file and --keyring cannot be combined; choose one")
    words = (
        read_passphrase(passphrase_file) if passphrase_file else ask_new_passphrase() if passphrase else None
    )
    create_identity(folder, passphrase=words, in_keyring=keyring)
    _print_identity(folder, as_json=as_json)


@app.add("""
    comity id export  print the public card, to give to others
    comity id export --secret --to backup.json  write the secret key to a new file of mode 0600
    comity id export --secret --to backup.json --passphrase-file pass.txt  the same, encrypted with a passphrase
""")
def export(
    home: HomeOptions = HomeOptions(),
    secret: Annotated[bool, typer.Option("--secret", help="Export the secret key, not only the id.")] = False,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="The new file to write. Required with --secret, unless you use --stdout.",
        ),
    ] = None,
    stdout: Annotated[
        bool, typer.Option("--stdout", help="Print the secret key instead of writing a file.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Export the public card of this node, or its secret key.

    The exported file has the format of identity.json. A data folder with this file is the same node again. If you give a
    passphrase, the command encrypts the copy with it, and also uses it to decrypt the identity if needed.
    """
    folder = settings_of(home).settings.data
    _refuse_missing(folder)
    if secret:
        _export_secret(folder, to, passphrase_file, stdout=stdout, yes=yes, as_json=as_json)
        return
    if stdout or yes or passphrase_file is not None:
        raise ConfigError(
            "--stdout, --yes and --passphrase-file are only for a secret key; add --secret or remove them"
        )
    vacant_id = stored_vacant_id(folder)
    card = _identity_facts(vacant_id)
    if to is None:
        print_json(card)
        return
    _write_card(Path(to).expanduser(), card)
    if as_json:
        print_json({"exported": "public", "file": to})
    else:
        print_line(f"the public card of {vacant_id} is in {to}")


@app.add("""
    comity id import ~/.vacant/alice  import into your data folder, which must have no identity yet
    comity id import ~/.vacant/alice --data ~/alice  import into another data folder
    comity id import ~/.vacant/alice --passphrase-file pass.txt  and encrypt the key
    comity id import ~/.vacant/alice --replay replay.db  and import which messages its server accepted
    comity id import --replay replay.db  import only the accepted messages, for the identity of this data folder
""")
def import_(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="The identity folder, such as ~/.vacant/alice.")
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            help="The replay database of the server of that identity. This node refuses the messages that the server accepted.",
        ),
    ] = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Import an identity of vacant, the reference implementation: its key, state, name, offer and chains.

    The folder is not changed. An existing identity is never overwritten; if it is the same one, missing data is added.
    Afterwards use only one of the two programs, because both would write to the same chains.
    """
    loaded = settings_of(home)
    settings = loaded.settings
    tips = None if replay is None else Path(replay).expanduser()
    if folder is None:
        if tips is None:
            raise ConfigError("missing argument 'FOLDER'; name the identity folder, --replay FILE, or both")
        key = own_key(settings, home.passphrase_file)
        report = asyncio.run(identity_import.take_replay(settings, key, tips))
        if as_json:
            print_json({"vacant_id": key.vacant_id.hex(), "data": str(settings.data), **report.as_json()})
        else:
            _print_takeover(report)
        return
    source = vacant_import.read_vacant_folder(Path(folder).expanduser())
    words = None if home.passphrase_file is None else read_passphrase(home.passphrase_file)
    may_configure = loaded.file in {None, settings.data / CONFIG_FILE}
    report = asyncio.run(
        identity_import.take_over(
            settings, source, replay=tips, passphrase=words, may_configure=may_configure
        )
    )
    vacant_id = source.key.vacant_id
    if as_json:
        facts = {"vacant_id": vacant_id.hex(), "name": source.name, "data": str(settings.data)}
        logbook = {"entries": source.logbook_entries, "fault": source.logbook_fault}
        print_json({**facts, **report.as_json(), "logbook": logbook})
        return
    print_line(f"{vacant_id}, called {one_line(source.name)}, is the identity of {settings.data}.")
    print_line()
    _print_takeover(report)
    print_line()
    print_line("From now on use only one of the two programs, because both would write to the same chains.")


app.registered_commands += key_replacement.app.registered_commands


def _print_takeover(report: "Takeover") -> None:
    shown = [
        (title, facts) for title, facts in (("Taken", report.taken), ("Not taken", report.left)) if facts
    ]
    for number, (title, facts) in enumerate(shown):
        if number:
            print_line()
        print_line(paint(title, "bold"))
        print_fields(facts, indent="  ")


def _export_secret(
    folder: Path, to: str | None, passphrase_file: str | None, *, stdout: bool, yes: bool, as_json: bool
) -> None:
    if (to is None) == (not stdout):
        raise ConfigError("a secret key is written to a new file or to stdout; give --to FILE or --stdout")
    passphrase = passphrase_for(folder, passphrase_file)
    sealed = "" if passphrase else " It will not be encrypted."
    confirm(f"Anyone who has the exported key can act as this node.{sealed} Export it?", yes=yes)
    key = load_identity(folder, passphrase=passphrase if needs_passphrase(folder) else None)
    if to is None:
        print_line(msgspec.json.encode(identity_file(key, passphrase=passphrase)).decode())
        return
    write_identity(Path(to).expanduser(), key, passphrase=passphrase)
    if as_json:
        print_json({"exported": "secret", "file": to, "sealed": passphrase is not None})
    else:
        print_line(f"the secret key of {key.vacant_id} is in {to}; keep it where nobody else can read it")


def _identity_facts(vacant_id: VacantId) -> dict[str, str]:
    return {
        "vacant_id": vacant_id.hex(),
        "short": vacant_id.short(),
        "did_key": vacant_id.did_key(),
        "key_type": "Ed25519",
    }


def _write_card(path: Path, card: dict[str, str]) -> None:
    try:
        with path.open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")
    except FileExistsError:
        raise ConflictError(f"{path} exists and is never overwritten; name another file") from None


def _print_identity(folder: Path, *, as_json: bool) -> None:
    path = identity_path(folder)
    file = read_identity(path)
    vacant_id = VacantId.from_hex(file.public)
    if as_json:
        kept = str(type(file.secret).__struct_config__.tag)
        print_json({**_identity_facts(vacant_id), "key_file": str(path), "kept": kept})
        return
    print_fields(
        (
            ("vacant id", vacant_id.hex()),
            ("short", vacant_id.short()),
            ("did:key", vacant_id.did_key()),
            ("key file", str(path)),
            ("key kept", _KEPT[type(file.secret)]),
            ("recovery", key_replacement.recovery_state(folder)),
        )
    )


def _refuse_missing(folder: Path) -> None:
    if not has_identity(folder):
        raise NotFoundError(
            f"there is no identity in {folder}; make one with `comity id new`, or `comity up` does it at the first start"
        )
