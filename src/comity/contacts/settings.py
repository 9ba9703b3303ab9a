"""The section `contacts` of the settings."""

from msgspec import Struct

from comity.contacts.protocol.contact import UnknownRule


class ContactsSettings(Struct, frozen=True, kw_only=True):
    """What callers may do who are no contacts. `by_door`: accept where only this machine comes in; at the outside door
    accept if the card of the agent is public, else hold.
    """

    unknown_call: UnknownRule = "by_door"
    unknown_room: UnknownRule = "by_door"
    unknown_file: UnknownRule = "by_door"
    unknown_see: UnknownRule = "by_door"
    unknown_wake: UnknownRule = "refuse"
