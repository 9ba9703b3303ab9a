"""`comity receipt`: files that prove to anybody what was said, made from what this node has stored."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from comity.contacts.lookup import id_or_text, read_contact
from comity.envelopes.pairs import OpenVault, read_pairs
from comity.identity.protocol.keys import VacantId, id_of
from comity.identity.succession_files import read_own_line
from comity.receipts import service
from comity.receipts.files import STDIN, write_file
from comity.receipts.protocol.format import Receipt, hash_of, write_receipt
from comity.receipts.protocol.making import receipt_of_messages, receipt_of_vote, without_text
from comity.rooms.commands.target import RoomAccess, run_in_rooms
from comity.runtime.opening import has_database, open_vault, reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Store
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_id, refuse_memory, work_with
from comity.terminal.options import (
    HomeOptions,
    Json,
    KeyOptions,
    argument,
    option,
    settings_of,
    whole_number,
)
from comity.terminal.output import print_answer, print_line
from comity.votes.commands.target import LocalVotes, open_local_votes
from comity.votes.protocol.log import write_entry
from comity.wire.errors import ConfigError, NotFoundError

app = HelpfulApp("Write receipts: files that prove what was said, to people who trust neither side.")

Out = Annotated[str | None, option("--out", "FILE", "The new file to write. Default: print the receipt.")]
WithoutText = Annotated[
    bool,
    typer.Option("--without-text", help="Write hashes instead of texts. Nobody can verify such a receipt."),
]


@app.add("""
    comity receipt call 31e30ef4ca92 --out call.json  the last call to an agent; the beginning of the id is enough
    comity receipt call 31e30ef4ca92 7 --out call.json  the call with this number, while its texts are stored
    comity call 31e30ef4ca92 hello --save call.json  better: save the receipt when you call
""")
def call(
    peer: Annotated[str, argument("PEER", "The agent: its name, its id, or a unique beginning of that.")],
    number: Annotated[
        str | None, argument("NUMBER", "The number of the call. Default: the last one.")
    ] = None,
    out: Out = None,
    bare: WithoutText = False,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Write the receipt of a call to an agent and of its signed reply. The node may be running."""
    wanted = None if number is None else whole_number("NUMBER", number, 1, 2**53)

    async def make(store: Store, settings: Settings) -> Receipt:
        own = own_id(settings)
        vault = open_vault(settings, create=False)
        contact = await read_contact(store, peer)
        target = await _peer(store, vault, own, peer if contact is None else contact.id)
        return await service.stored_call(store, vault, own, target, wanted)

    _write(_from_store(home, make), out, bare=bare, as_json=as_json)


@app.add("""
    comity receipt messages --out talk.json  all signed messages of rooms, yours and those of others
    comity receipt messages --with 31e30ef4ca92 --out talk.json  only those from and to this node
""")
def messages(
    peer: Annotated[
        str | None,
        option(
            "--with", "PEER", "Only messages from and to this node: its name, its id, or a beginning of that."
        ),
    ] = None,
    out: Out = None,
    bare: WithoutText = False,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Write the receipt of signed messages of rooms: those that were said with `comity room send --signed`."""
    peer = id_or_text(settings_of(home).settings, peer) if peer else None
    named = id_of(peer) if peer else None
    wanted = (named.hex() if named else (peer or "").lower()).removeprefix("vacant:")

    async def run(rooms: RoomAccess) -> Receipt:
        found, after = [], 0
        while True:
            page = await rooms.ask("export", {"after": after})
            found += [message for message in page["messages"] if _concerns(message, wanted)]
            after = page["after"]
            if not after:
                break
        if not found:
            raise NotFoundError("this node has no such signed message; `comity room export` prints all")
        return receipt_of_messages(found)

    _write(run_in_rooms(home, run), out, bare=bare, as_json=as_json)


@app.add("""
    comity receipt vote dlb_5a0c --out rules.json  a vote with all its acts; an agreement once it is active
""")
def vote(
    which: Annotated[str, argument("ID", "The id of the vote, or a unique beginning of it.")],
    out: Out = None,
    bare: WithoutText = False,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Write the receipt of a vote: every signed act, in the order that its host gave them."""

    async def make(own: LocalVotes) -> Receipt:
        stored = await own.newest(which)
        entries = [write_entry(entry) for entry in await own.party.ledger.all_entries(stored.id)]
        return receipt_of_vote(entries, active=stored.vote.phase == "active")

    _write(work_with(open_local_votes, home, make), out, bare=bare, as_json=as_json)


@app.add("""
    comity receipt range --out record.json  the last 100 entries of the node's audit record, with its signed head
    comity receipt range --chain cli --from 1 --out record.json  a whole chain
    comity receipt range --from 40 --to 42 --out entry.json  a few entries, proven to be in the record that the head names
""")
def range_(
    chain: Annotated[str, option("--chain", "NAME", "The chain of the audit record.")] = "main",
    first: Annotated[str | None, option("--from", "NUMBER", "The first entry. Default: 100 entries.")] = None,
    last: Annotated[
        str | None,
        option("--to", "NUMBER", "The last entry. Default: the newest, which needs no proof of its own."),
    ] = None,
    out: Out = None,
    bare: WithoutText = False,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Write the receipt of a part of the audit record, with the head that the node has signed. The node may be running."""
    begin = None if first is None else whole_number("--from", first, 1, 2**53)
    end = None if last is None else whole_number("--to", last, 1, 2**53)

    async def make(store: Store, settings: Settings) -> Receipt:
        publics = read_own_line(settings.data, own_id(settings)).publics
        return await service.audit_range(store, publics, chain, begin, end, 100)

    _write(_from_store(home, make), out, bare=bare, as_json=as_json)


def _from_store(home: HomeOptions, make: Callable[[Store, Settings], Awaitable[Receipt]]) -> Receipt:
    settings = settings_of(home).settings
    refuse_memory(settings, "nothing is stored to make a receipt of")
    own_id(settings)
    if not has_database(settings):
        raise NotFoundError(f"{settings.data} has no record yet; start with `comity call` or `comity up`")

    async def run() -> Receipt:
        async with reading(settings, SystemClock(), check=False) as store:
            return await make(store, settings)

    return asyncio.run(run())


async def _peer(store: Store, vault: OpenVault, own: VacantId, text: str) -> VacantId:
    named = id_of(text)
    wanted = named.hex() if named is not None else text.removeprefix("vacant:").lower()
    known = [each.vacant_id for each in await read_pairs(store, own.hex(), vault)]
    found = [vacant_id for vacant_id in known if wanted and vacant_id.startswith(wanted)]
    if not found:
        raise NotFoundError(f"there is no chain with {text[:80]!r}; `comity chain show` lists all chains")
    if len(found) > 1:
        raise ConfigError(f"{len(found)} ids begin with {text[:80]!r}; give more digits")
    return VacantId.from_hex(found[0])


def _concerns(message: dict[str, object], wanted: str) -> bool:
    metadata = message.get("metadata")
    about = metadata.get("urn:vacant:v1") if isinstance(metadata, dict) else None
    if not isinstance(about, dict):
        return False
    ends = (str(about.get("from_vacant_id")), str(about.get("to_vacant_id")))
    return not wanted or any(end.startswith(wanted) for end in ends)


def _write(receipt: Receipt, out: str | None, *, bare: bool, as_json: bool) -> None:
    data = write_receipt(without_text(receipt) if bare else receipt)
    if out is None or out == STDIN:
        print_line(data.decode())
        return
    write_file(out, data)
    facts = {
        "file": out,
        "kind": str(receipt.__struct_config__.tag),
        "sha256": hash_of(data),
        "bytes": len(data),
    }
    print_answer(facts, f"{out}: written. Anybody can check it: comity verify {out}", as_json=as_json)
