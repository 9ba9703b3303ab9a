"""`comity contacts`: who is known by which name, what each may do, and the calls that wait for your consent.

A running node is asked; while none runs, the data folder is changed, and no node can start meanwhile.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
import typer
from msgspec import to_builtins

from comity.contacts.held import HeldCalls
from comity.contacts.operations import CONTACTS_PATH, ContactRequest, perform
from comity.contacts.protocol.contact import CONSENTS, MAX_ADDRESSES, RIGHT_MEANINGS, Contact, rights_in_words
from comity.contacts.service import Contacts
from comity.contacts.settings import ContactsSettings
from comity.directory.finding import DirectoryAccess, find_card
from comity.envelopes.client.routes import doors_of, endpoints_of
from comity.identity.protocol.keys import id_of
from comity.requests.caller import OWN_PROCESS
from comity.runtime.opening import has_database
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key, own_node, own_vault, refuse_memory, writing
from comity.terminal.options import (
    Config,
    Data,
    Directory,
    Json,
    KeyOptions,
    argument,
    option,
    settings_of,
)
from comity.terminal.output import note, one_line, print_answer, print_json, print_line, print_table
from comity.wire.errors import ConfigError, NotFoundError

app = HelpfulApp()

Who = Annotated[str, argument("NAME", "The contact: its name or its id.")]
Caller = Annotated[
    str,
    argument(
        "CALLER",
        "A contact, or a caller who waits: its id, or the first digits as `comity contacts held` shows them.",
    ),
]
Name = Annotated[
    str | None,
    option("--name", "NAME", "The name to give. Only you see it. Default: caller- and some digits."),
]
Once = Annotated[
    bool,
    typer.Option("--once", help="Decide about one call only: CALLER is then the id of the call."),
]

_READING: Final = {"list": "contacts", "held": "held"}
_MEANINGS: Final = "; ".join(f"{right}: {meaning}" for right, meaning in RIGHT_MEANINGS.items())


@app.callback(
    invoke_without_command=True,
    epilog="""
    comity contacts  list the contacts
    comity contacts add https://anna.example --name anna  give a name to the agent at this address
    comity contacts held  list the calls that wait for you
    comity contacts accept 31e30ef4ca92 --name anna  let this caller in
    comity contacts limit anna call=hold room=refuse  ask me before anna calls; keep her out of rooms
    """,
)
def contacts(context: typer.Context, data: Data = None, config: Config = None, as_json: Json = False) -> None:
    """Give names to others, say what each may do, and decide about callers who wait.

    Without a command it lists the contacts.
    """
    if context.invoked_subcommand is None:
        _list(KeyOptions(data=data, config=config), as_json=as_json)
    elif data is not None or config is not None or as_json:
        raise ConfigError(f"write options after the command: comity contacts {context.invoked_subcommand} …")


@app.add("""
    comity contacts list  list the contacts
    comity contacts list --json  print JSON
""")
def list_(home: KeyOptions = KeyOptions(), as_json: Json = False) -> None:
    """List the contacts: name, id, rights, how they became one, and when they were last seen."""
    _list(home, as_json=as_json)


@app.add("""
    comity contacts add https://anna.example --name anna  the agent at this address
    comity contacts add anna.json --name anna  the agent of a card file
    comity contacts add 31e30ef4…d13d --name anna  an id; its address comes from the directory, if that has it
""")
def add(
    agent: Annotated[str, argument("AGENT", "The URL of a node or card, a card file, or an id.")],
    name: Name = None,
    directory: Directory = None,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Add a contact. It may call your agent, join rooms, send files and see the card; limit what you do not want."""
    settings = settings_of(home, **{"directory.url": directory}).settings
    id_, addresses = asyncio.run(_whom(agent, settings))
    asked = ContactRequest(do="add", who=id_, name=name or "", addresses=addresses)
    _print(ask_contacts(settings, home, asked), lambda contact: f"{contact} is a contact.", as_json=as_json)


@app.add("""
    comity contacts rename anna "Anna B."  another name for the contact
""")
def rename(
    who: Who,
    name: Annotated[str, argument("NEW", "The new name.")],
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Give a contact another name."""
    asked = ContactRequest(do="rename", who=who, name=name)
    _print(_ask_at(home, asked), lambda contact: f"The contact is {contact} now.", as_json=as_json)


@app.add("""
    comity contacts limit anna call=hold room=refuse  you are asked before anna calls; she cannot join rooms
    comity contacts limit anna wake=accept  anna may wake a model of yours
""")
def limit(
    who: Who,
    rights: Annotated[
        list[str],
        argument("RIGHT=ANSWER...", f"What to change. {_MEANINGS}. The answers are {', '.join(CONSENTS)}."),
    ],
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Say what a contact may do: accept, hold (you are asked first) or refuse."""
    wanted = {}
    for each in rights:
        right, equals, answer = each.partition("=")
        if not equals:
            raise ConfigError(f"{each[:60]!r} is no right; write it as call=hold")
        wanted[right.strip()] = answer.strip()
    asked = ContactRequest(do="limit", who=who, rights=wanted)
    _print(_ask_at(home, asked), _rights_of, as_json=as_json)


@app.add("""
    comity contacts block anna  refuse anna everything
""")
def block(who: Who, home: KeyOptions = KeyOptions(), as_json: Json = False) -> None:
    """Refuse a contact everything. It stays in the list, so it does not become an unknown caller."""
    _print(
        _ask_at(home, ContactRequest(do="block", who=who)),
        lambda contact: f"{contact} is blocked.",
        as_json=as_json,
    )


@app.add("""
    comity contacts remove anna  forget the contact
""")
def remove(who: Who, home: KeyOptions = KeyOptions(), as_json: Json = False) -> None:
    """Remove a contact. It is an unknown caller then; to keep it out, block it instead."""
    answer = _ask_at(home, ContactRequest(do="remove", who=who))
    removed = msgspec.convert(answer["removed"], Contact)
    print_answer(answer, f"{removed} is no contact any more.", as_json=as_json)


@app.add("""
    comity contacts held  list the calls that wait for you
    comity contacts held --json  print JSON
""")
def held(home: KeyOptions = KeyOptions(), as_json: Json = False) -> None:
    """List the calls that wait for your consent: who calls, when, and the first words. They are kept for a week."""
    answer = _ask_at(home, ContactRequest(do="held"))
    if as_json:
        print_json(answer)
        return
    calls = answer["held"]
    if not calls:
        print_line("No call waits for you.")
        return
    rows = [
        (
            each["sender"][:12],
            one_line(each["name"] or ""),
            each["id"][:12],
            _moment(each["at"]),
            one_line(each["words"]),
        )
        for each in calls
    ]
    print_table(("caller", "contact", "call", "when", "first words"), rows)
    note(
        f"`comity contacts accept {calls[0]['sender'][:12]} --name NAME` lets the caller in, `refuse` keeps it out"
    )


@app.add("""
    comity contacts accept 31e30ef4ca92 --name anna  let this caller in; it becomes a contact
    comity contacts accept anna  a contact whose calls were held may call
    comity contacts accept 9d61b19dca10 --once  let this one call run, and ask me again the next time
""")
def accept(
    caller: Caller,
    name: Name = None,
    once: Once = False,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Let a caller in who waits. Its calls run when it asks again, each of them once.

    An unknown caller becomes a contact that may call the agent and see its card; for rooms and files you are asked again.
    """
    answer = _decide("accept", caller, name, home, once=once)
    if once:
        print_answer(answer, "The call runs when its caller asks again.", as_json=as_json)
    else:
        _print(
            answer,
            lambda contact: f"{contact} may call. What waited runs when it asks again.",
            as_json=as_json,
        )


@app.add("""
    comity contacts refuse 31e30ef4ca92  refuse this caller, now and later
    comity contacts refuse 9d61b19dca10 --once  refuse this one call
""")
def refuse(
    caller: Caller,
    name: Name = None,
    once: Once = False,
    home: KeyOptions = KeyOptions(),
    as_json: Json = False,
) -> None:
    """Refuse a caller who waits. An unknown one is kept as a blocked contact, so that it is not asked about again."""
    answer = _decide("refuse", caller, name, home, once=once)
    if once:
        print_answer(answer, "The call is refused.", as_json=as_json)
    else:
        _print(answer, lambda contact: f"Calls of {contact} are refused.", as_json=as_json)


def _list(home: KeyOptions, *, as_json: bool) -> None:
    answer = _ask_at(home, ContactRequest(do="list"))
    if as_json:
        print_json(answer)
        return
    known = msgspec.convert(answer["contacts"], list[Contact])
    if not known:
        print_line("No contacts. Add one: `comity contacts add AGENT --name NAME`")
        return
    print_table(
        ("name", "id", "rights", "how", "last seen"),
        [
            (each.name, each.id[:12], rights_in_words(each.rights), one_line(each.how), _moment(each.last))
            for each in known
        ],
    )


async def _whom(agent: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Return the id of whoever is named, and where their node is. An id alone is enough."""
    named = id_of(agent)
    try:
        card = await find_card(agent, DirectoryAccess(settings))
    except (NotFoundError, ConfigError):
        if named is None:
            raise
        return named.hex(), ()
    urls = map(urlsplit, (*endpoints_of(card, named=True), *doors_of(card)))  # pins stand before the host
    nodes = dict.fromkeys(f"{url.scheme}://{url.netloc}" for url in urls)
    return card.vacant_id.hex(), tuple(nodes)[:MAX_ADDRESSES]


def _decide(do: Any, caller: str, name: str | None, home: KeyOptions, *, once: bool) -> dict[str, Any]:
    if once and name is not None:
        raise ConfigError("--once makes no contact; leave --name out")
    return _ask_at(home, ContactRequest(do=do, who=caller, name=name or "", once=once))


def _print(answer: dict[str, Any], sentence: Callable[[Contact], str], *, as_json: bool) -> None:
    print_answer(answer, sentence(msgspec.convert(answer["contact"], Contact)), as_json=as_json)


def _rights_of(contact: Contact) -> str:
    return f"{contact}: {rights_in_words(contact.rights)}."


def _ask_at(home: KeyOptions, asked: ContactRequest) -> dict[str, Any]:
    return ask_contacts(settings_of(home).settings, home, asked)


def ask_contacts(settings: Settings, home: KeyOptions, asked: ContactRequest) -> dict[str, Any]:
    return asyncio.run(_answer(settings, home, asked))


async def _answer(settings: Settings, home: KeyOptions, asked: ContactRequest) -> dict[str, Any]:
    """Ask the running node, or do it in the data folder."""
    own = own_node(settings)
    if own is not None:
        return await own.ask("POST", CONTACTS_PATH, to_builtins(asked))
    refuse_memory(settings, "contacts are stored")
    if asked.do in _READING and not has_database(settings):
        return {_READING[asked.do]: []}
    key, clock = own_key(settings, home.passphrase_file), SystemClock()
    async with writing(settings, key, claim=True) as (store, record, _chain):
        known = Contacts(store, record, clock, own=key.vacant_id, unknown=settings.of(ContactsSettings))
        waiting = HeldCalls(store, record, clock, own_vault(settings))
        await known.load()
        await waiting.load()
        return await perform(asked, known, waiting, OWN_PROCESS)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC" if seconds else "never"
