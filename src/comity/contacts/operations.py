"""What the owner can do about contacts and held calls: one table for the commands, the node and tools.

A command asks the running node at `/v1/contacts`; while none runs, it does the same on the open store.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from comity.contacts.held import HeldCall, HeldCalls
from comity.contacts.protocol.contact import BLOCKED, Consent, Contact, ContactRights
from comity.contacts.service import Contacts, require_owner
from comity.identity.protocol.keys import id_of
from comity.requests.caller import Caller
from comity.wire.errors import InvalidError, NotFoundError

CONTACTS_PATH: Final = "/v1/contacts"

_FROM_CALL: Final = ContactRights(room="hold", file="hold")
"""Of somebody who was admitted because of a call: to call and to see the card."""


class ContactRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`who` is a name or an id, `id` the one that takes its place in `follow`; in `accept` and `refuse` also the first digits of the id of a held caller, or with `once` of a
    held call.
    """

    do: Literal["list", "held", "add", "rename", "limit", "block", "remove", "accept", "refuse", "follow"]
    who: str = ""
    id: str = ""
    name: str = ""
    rights: dict[str, str] = {}
    addresses: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    once: bool = False


def read_request(body: bytes) -> ContactRequest:
    try:
        return msgspec.json.decode(body, type=ContactRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise InvalidError(f"the request about contacts cannot be read: {fault}") from None


async def perform(
    asked: ContactRequest, contacts: Contacts, held: HeldCalls, caller: Caller
) -> dict[str, Any]:
    """Do what is asked in the name of `caller`, and return the objects that it is about."""
    match asked.do:
        case "list":
            await contacts.flush()
            return {"contacts": [contact_json(each) for each in contacts.all()]}
        case "held":
            return {"held": [held_json(each, contacts) for each in held.waiting()]}
        case "add":
            name = asked.name or contacts.free_name(_default_name(asked.who))
            added = await contacts.add(
                name, asked.who, caller=caller, addresses=asked.addresses, pins=asked.pins
            )
            await held.forget(added.id)
            return _changed(added)
        case "rename":
            return _changed(await contacts.rename(asked.who, asked.name, caller=caller))
        case "limit":
            return _changed(await contacts.limit(asked.who, asked.rights, caller=caller))
        case "block":
            contact = await contacts.block(asked.who, caller=caller)
            await held.forget(contact.id)
            return _changed(contact)
        case "follow":
            return _changed(await contacts.follow(asked.who, asked.id, caller=caller))
        case "remove":
            return {"removed": contact_json(await contacts.remove(asked.who, caller=caller))}
        case "accept" | "refuse":
            return await _decide(asked, contacts, held, caller)


async def _decide(
    asked: ContactRequest, contacts: Contacts, held: HeldCalls, caller: Caller
) -> dict[str, Any]:
    accept = asked.do == "accept"
    if asked.once:
        require_owner(caller, lowers=not accept)
        call = await held.decide(asked.who, "allowed" if accept else "refused", caller)
        return {"call": held_json(call, contacts)}
    contact = contacts.find(asked.who)
    if contact is not None:
        wanted: Consent = "accept" if accept else "refuse"
        contact = await contacts.limit(contact.id, {"call": wanted}, caller=caller)
        if asked.name:
            contact = await contacts.rename(contact.id, asked.name, caller=caller)
    else:
        sender = held.sender_of(asked.who)
        if sender is None:
            raise NotFoundError(
                f"{asked.who[:64]!r} is no contact and no caller who waits; `comity contacts held` lists those who do"
            )
        name = asked.name or contacts.free_name(_default_name(sender))
        rights = _FROM_CALL if accept else BLOCKED
        contact = await contacts.add(name, sender, caller=caller, rights=rights, how="held call")
    waited = await held.forget(contact.id)
    return {**_changed(contact), "calls": [held_json(each, contacts) for each in waited]}


def contact_json(contact: Contact) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(contact)
    return shown


def held_json(call: HeldCall, contacts: Contacts) -> dict[str, Any]:
    """Return a held call for the owner, with the name of its sender."""
    shown: Mapping[str, Any] = msgspec.to_builtins(call)
    return {**shown, "name": contacts.name_of(call.sender)}


def _changed(contact: Contact) -> dict[str, Any]:
    return {"contact": contact_json(contact)}


def _default_name(id_: str) -> str:
    vacant_id = id_of(id_)
    return f"caller-{(id_ if vacant_id is None else vacant_id.hex())[:8]}"
