"""Consent to calls: whether a proven caller may call the agent now, and what happens if not.

The check stands after the signature and before the chain, so a call that is held or refused changes nothing of its pair.
"""

from collections.abc import Callable
from typing import NoReturn

from comity.contacts.held import HeldCall, HeldCalls
from comity.contacts.protocol.contact import Consent
from comity.contacts.protocol.errors import RefusedByOwnerError, WaitsForConsentError
from comity.contacts.service import Contacts
from comity.requests.caller import Caller
from comity.wire.machine import Clock


class CallConsent:
    def __init__(self, contacts: Contacts, held: HeldCalls, clock: Clock) -> None:
        self._contacts = contacts
        self._held = held
        self._clock = clock

    def to_call(self, sender: str, listener: str, digest: Callable[[], bytes]) -> Consent:
        """Return whether this call may run: one look into a table, and a second one where it may not without the owner.
        `digest` returns the hash of its envelope.
        """
        consent = self._contacts.right_of(sender, "call", listener)
        return consent if consent != "hold" else self._held.consent_to(sender, digest())

    async def turn_away(
        self, consent: Consent, caller: Caller, *, digest: bytes, words: str, size: int, listener: str
    ) -> NoReturn:
        """Refuse a call; if the owner is to be asked, keep it for that."""
        if consent == "refuse":
            raise RefusedByOwnerError
        known = self._contacts.name_of(caller.id) is not None
        call = HeldCall(
            id=digest.hex(),
            sender=caller.id,
            words=words,
            size=size,
            at=self._clock.now(),
            address="" if known else caller.address,
            listener=listener,
            known=known,
        )
        await self._held.hold(call, caller)
        raise WaitsForConsentError
