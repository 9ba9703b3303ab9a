"""Contacts for commands: a name wherever an id is taken, and a name beside each id that is shown."""

import asyncio

import msgspec

from comity.contacts.protocol.contact import COLLECTION, NAME_KEY, Contact, checked_name, folded
from comity.identity.protocol.keys import id_of
from comity.runtime.opening import has_database, reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Store
from comity.wire.errors import InvalidError


async def read_contact(store: Store, who: str) -> Contact | None:
    """Return the contact of that name or id."""
    named = id_of(who)
    if named is not None:
        held = await store.document(COLLECTION, named.hex())
        return None if held is None else msgspec.json.decode(held.body, type=Contact)
    try:
        name = folded(checked_name(who))
    except InvalidError:
        return None
    found = await store.find(COLLECTION, keys=[(NAME_KEY, name)], limit=1)
    return msgspec.json.decode(found[0].body, type=Contact) if found else None


async def find_contact(settings: Settings, who: str) -> Contact | None:
    """Return the contact of that name or id in the data folder, also while a node runs there."""
    if settings.store.is_volatile or not has_database(settings):
        return None
    async with reading(settings, SystemClock(), check=False) as store:
        return await read_contact(store, who)


def contact_of(settings: Settings, who: str) -> Contact | None:
    """Return the contact of that name or id in the data folder, for a command that is not asynchronous."""
    return asyncio.run(find_contact(settings, who))


async def is_contact(store: Store, id_: str) -> bool:
    return await store.document(COLLECTION, id_) is not None


def id_or_text(settings: Settings, who: str) -> str:
    """Return the id of the contact of that name, or else the text as it is."""
    if id_of(who) is not None:
        return who
    contact = contact_of(settings, who)
    return who if contact is None else contact.id


def shown(contact: Contact | None, id_: str) -> str:
    """Return an id as people see it: with the name, if it is a contact."""
    return f"vacant:{id_[:12]}" if contact is None else str(contact)
