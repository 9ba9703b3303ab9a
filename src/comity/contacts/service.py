"""The contacts of a node: stored as documents, and kept in memory, so that asking for a right costs one look into a table.

- A change and its audit entry are one transaction. The folded name has a row of its own, so that no two processes give one
  name to two contacts.
- Only the owner adds contacts and raises rights: from a terminal, or with an admin token. A model may lower rights.
- One process changes contacts: the node, or a command while no node runs. Another process (`comity mcp` without a node) reads
  them again before it changes one.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from comity.contacts.protocol.contact import (
    BLOCKED,
    COLLECTION,
    CONSENTS,
    CONTACT_RIGHTS,
    MAX_HOW,
    MAX_NAME,
    NAME_KEY,
    Consent,
    Contact,
    ContactRight,
    ContactRights,
    UnknownRule,
    checked_addresses,
    checked_name,
    checked_pins,
    folded,
    raises,
)
from comity.contacts.settings import ContactsSettings
from comity.identity.protocol.keys import VacantId, id_of
from comity.requests.caller import Caller
from comity.requests.record import Act, Recorder
from comity.store.interface import Delete, DeleteDocument, Operation, Put, PutDocument, Store, StoreConflict
from comity.wire.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from comity.wire.machine import Clock

MAX_CONTACTS: Final = 2_000
OUTSIDE: Final = "outside"
"""The listener through which unknown callers of other machines come, and contacts too."""

_NAMES: Final = "contact-names"
_ATTEMPTS: Final = 4
_BY_DOOR: Final = ContactsSettings()
_ADDED: Final = ContactRights()


class _Held(NamedTuple):
    contact: Contact
    version: int


class _Change(NamedTuple):
    """What a change stores and records, and the contact before and after it."""

    operations: tuple[Operation, ...]
    result: str
    before: Contact | None
    after: Contact | None


class Contacts:
    def __init__(
        self,
        store: Store,
        record: Recorder,
        clock: Clock,
        *,
        own: VacantId,
        unknown: ContactsSettings = _BY_DOOR,
    ) -> None:
        """`own` is the id of this node, which is no contact of itself."""
        self._store = store
        self._record = record
        self._clock = clock
        self._own = own.hex()
        self._rules: dict[ContactRight, UnknownRule] = {
            right: getattr(unknown, f"unknown_{right}") for right in CONTACT_RIGHTS
        }
        self._by_id: dict[str, _Held] = {}
        self._ids: dict[str, str] = {}
        self._seen: dict[str, float] = {}
        self._one_at_a_time = asyncio.Lock()
        self.is_public: Callable[[], bool] = lambda: False
        """Returns whether the card of the agent is for everybody. Then unknown callers of the outside door are accepted."""

    async def load(self) -> None:
        """Read all contacts."""
        by_id: dict[str, _Held] = {}
        for document in await self._store.find(COLLECTION, limit=MAX_CONTACTS):
            contact = msgspec.json.decode(document.body, type=Contact)
            by_id[contact.id] = _Held(contact, document.version)
        self._by_id = by_id
        self._ids = {folded(held.contact.name): id_ for id_, held in by_id.items()}

    # What is asked for every call: one look into a table.

    def right_of(self, id_: str, right: ContactRight, listener: str = "") -> Consent:
        """Return whether somebody with this proven id may do it. `listener` is the one that the request came through."""
        held = self._by_id.get(id_)
        if held is None:
            return self._of_unknown(right, listener)
        self._seen[id_] = 0.0
        consent: Consent = getattr(held.contact.rights, right)
        return consent

    def rights_of(self, id_: str, listener: str = "") -> ContactRights:
        """Return all that somebody with this proven id may do."""
        held = self._by_id.get(id_)
        if held is not None:
            return held.contact.rights
        return ContactRights(**{right: self._of_unknown(right, listener) for right in CONTACT_RIGHTS})

    def _of_unknown(self, right: ContactRight, listener: str) -> Consent:
        rule = self._rules[right]
        if rule == "by_door":
            return "hold" if listener == OUTSIDE and not self.is_public() else "accept"
        return rule

    def touch(self, id_: str) -> None:
        """Note that a contact was seen now. `flush` stores it."""
        if id_ in self._by_id:
            self._seen[id_] = self._clock.now()

    # Reading.

    def all(self) -> list[Contact]:
        """Return the contacts in the order of their names."""
        return sorted((held.contact for held in self._by_id.values()), key=lambda each: folded(each.name))

    def find(self, name_or_id: str) -> Contact | None:
        """Return the contact of that name or id, or None."""
        named = id_of(name_or_id)
        held = self._by_id.get(self._ids.get(folded(name_or_id), "") if named is None else named.hex())
        return None if held is None else held.contact

    def require(self, name_or_id: str) -> Contact:
        """Return the contact of that name or id. Raise NotFoundError if there is none."""
        contact = self.find(name_or_id)
        if contact is None:
            raise NotFoundError(f"{name_or_id[:MAX_NAME]!r} is no contact; `comity contacts` lists them")
        return contact

    def name_of(self, id_: str) -> str | None:
        """Return the name of the contact with that id, in hexadecimal digits."""
        held = self._by_id.get(id_)
        return None if held is None else held.contact.name

    def free_name(self, wanted: str) -> str:
        """Return that name, with a number behind it if it is taken."""
        name, number = checked_name(wanted), 1
        while folded(name) in self._ids:
            number += 1
            name = f"{wanted[: MAX_NAME - 6].rstrip()}-{number}"
        return name

    # Changing.

    async def add(
        self,
        name: str,
        id_: str,
        *,
        caller: Caller,
        addresses: Iterable[str] = (),
        pins: Iterable[str] = (),
        rights: ContactRights = _ADDED,
        how: str = "added",
    ) -> Contact:
        """Add a contact. Raise ConflictError if the id or the name has one already."""
        require_owner(caller)
        if len(how) > MAX_HOW:
            raise InvalidError(f"how somebody became a contact is told in at most {MAX_HOW} characters")
        contact = Contact(
            id=VacantId.from_hex(id_).hex(),
            name=checked_name(name),
            addresses=checked_addresses(addresses),
            pins=checked_pins(pins),
            rights=rights,
            how=how,
            since=self._clock.now(),
        )
        if contact.id == self._own:
            raise InvalidError("that is the id of this node, which is no contact of itself")

        def change() -> _Change:
            if (known := self.find(contact.id)) is not None:
                raise ConflictError(
                    f"{contact.id[:12]} is a contact already: {known.name}; `comity contacts rename`"
                )
            if len(self._by_id) >= MAX_CONTACTS:
                raise InvalidError(f"there are {MAX_CONTACTS:,} contacts, which is the limit; remove some")
            return _Change((*self._name(contact), self._keep(contact)), "CONTACT_ADDED", None, contact)

        return await self._make(change, caller)

    async def rename(self, who: str, name: str, *, caller: Caller) -> Contact:
        require_owner(caller)
        name = checked_name(name)

        def change() -> _Change:
            before = self.require(who)
            after = replace(before, name=name)
            if name == before.name:
                return _Change((), "", before, after)
            names = (
                ()
                if folded(name) == folded(before.name)
                else (Delete(space=_NAMES, key=folded(before.name)), *self._name(after))
            )
            return _Change((*names, self._keep(after)), "CONTACT_RENAMED", before, after)

        return await self._make(change, caller)

    async def limit(self, who: str, rights: Mapping[str, str], *, caller: Caller) -> Contact:
        """Set some rights of a contact, as `call=hold`. Whoever is not the owner may only lower them."""
        for right, consent in rights.items():
            if right not in CONTACT_RIGHTS or consent not in CONSENTS:
                raise InvalidError(
                    f"{right}={consent} is no right; give {', '.join(CONTACT_RIGHTS)} as {', '.join(CONSENTS)}"
                )
        if not rights:
            raise InvalidError("name at least one right, as in call=hold")

        def change() -> _Change:
            before = self.require(who)
            after = replace(before, rights=replace(before.rights, **dict(rights)))
            require_owner(caller, lowers=not raises(before.rights, after.rights))
            if after == before:
                return _Change((), "", before, after)
            result = "CONTACT_BLOCKED" if after.rights == BLOCKED else "CONTACT_LIMITED"
            return _Change((self._keep(after),), result, before, after)

        return await self._make(change, caller)

    async def block(self, who: str, *, caller: Caller) -> Contact:
        """Refuse a contact everything."""
        return await self.limit(who, msgspec.structs.asdict(BLOCKED), caller=caller)

    async def reach(
        self, who: str, *, caller: Caller, addresses: Iterable[str] = (), pins: Iterable[str] = ()
    ) -> Contact:
        """Set where a contact is reached, and the pins of its certificates."""
        require_owner(caller)
        kept = checked_addresses(addresses), checked_pins(pins)

        def change() -> _Change:
            before = self.require(who)
            after = replace(before, addresses=kept[0], pins=kept[1])
            if after == before:
                return _Change((), "", before, after)
            return _Change((self._keep(after),), "CONTACT_MOVED", before, after)

        return await self._make(change, caller)

    async def follow(self, who: str, id_: str, *, caller: Caller) -> Contact:
        """Let another id take the place of a contact's: its owner has replaced the key. Name, rights and history stay."""
        require_owner(caller)
        id_ = VacantId.from_hex(id_).hex()

        def change() -> _Change:
            before = self.require(who)
            after = replace(before, id=id_)
            if after == before:
                return _Change((), "", before, after)
            if (other := self.find(id_)) is not None:
                raise ConflictError(
                    f"{id_[:12]} is the contact {other.name} already, so {before.name} cannot become it; remove one of them"
                )
            gone = DeleteDocument(collection=COLLECTION, id=before.id, expect=self._by_id[before.id].version)
            named = Put(space=_NAMES, key=folded(before.name), value=id_.encode())
            return _Change((gone, named, self._keep(after)), "CONTACT_FOLLOWED", before, after)

        return await self._make(change, caller)

    async def remove(self, who: str, *, caller: Caller) -> Contact:
        """Remove a contact, who is then an unknown caller."""
        require_owner(caller)

        def change() -> _Change:
            before = self.require(who)
            gone = (
                Delete(space=_NAMES, key=folded(before.name)),
                DeleteDocument(collection=COLLECTION, id=before.id, expect=self._by_id[before.id].version),
            )
            return _Change(gone, "CONTACT_REMOVED", before, None)

        return await self._make(change, caller)

    async def flush(self) -> None:
        """Store when contacts were last seen."""
        seen, self._seen = self._seen, {}
        now = self._clock.now()
        async with self._one_at_a_time:
            contacts = [
                replace(held.contact, last=moment or now)
                for id_, moment in seen.items()
                if (held := self._by_id.get(id_)) is not None
            ]
            if not contacts:
                return
            try:
                versions = await self._store.commit(*map(self._keep, contacts))
            except StoreConflict:  # another process changed one
                await self.load()
            else:
                for contact, version in zip(contacts, versions, strict=True):
                    self._by_id[contact.id] = _Held(contact, version)

    def _keep(self, contact: Contact) -> PutDocument:
        held = self._by_id.get(contact.id)
        return PutDocument(
            collection=COLLECTION,
            id=contact.id,
            body=msgspec.json.encode(contact),
            text=contact.name,
            keys=((NAME_KEY, folded(contact.name)),),
            expect=held.version if held else 0,
        )

    def _name(self, contact: Contact) -> tuple[Operation, ...]:
        """Return what takes the name of a contact. Raise ConflictError if another one has it."""
        other = self._ids.get(folded(contact.name))
        if other is not None:
            raise ConflictError(
                f"the contact {self._by_id[other].contact.name!r} has that name, or one that looks like it; choose another"
            )
        return (Put(space=_NAMES, key=folded(contact.name), value=contact.id.encode(), expect=0),)

    async def _make(self, change: Callable[[], _Change], caller: Caller) -> Contact:
        async with self._one_at_a_time:
            for attempt in range(1, _ATTEMPTS + 1):
                made = change()
                contact = made.after or made.before
                assert contact is not None, "a change has a contact before or after it"
                if not made.operations:
                    return contact
                try:
                    results = await self._record.commit_counted(
                        made.operations, _act(made.result, contact, caller)
                    )
                except StoreConflict:  # another process changed contacts
                    if attempt == _ATTEMPTS:
                        raise
                    await self.load()
                    continue
                self._take(made, results[-1])
                return contact
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _take(self, made: _Change, version: Any) -> None:
        if made.before is not None:
            self._ids.pop(folded(made.before.name), None)
            del self._by_id[made.before.id]
        if made.after is not None:
            self._by_id[made.after.id] = _Held(made.after, version)
            self._ids[folded(made.after.name)] = made.after.id


def _act(result: str, contact: Contact, caller: Caller) -> Act:
    """Return the entry. It names the id and the rights; the name is the owner's own affair."""
    said = ",".join(f"{right}={getattr(contact.rights, right)}" for right in CONTACT_RIGHTS)
    return Act(
        feature="contacts",
        result=result,
        caller=caller,
        about=contact.id[:12],
        hashes={"content_hash": f"contact:{contact.id}:{said}"},
    )


def require_owner(caller: Caller, *, lowers: bool = False) -> None:
    if not (caller.may("manage") or (lowers and caller.kind == "model")):
        raise ForbiddenError(
            "only the owner of this node decides about contacts: in a terminal, with `comity contacts`"
        )
