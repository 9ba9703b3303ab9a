"""Calls that wait for the owner's consent: who called, when, and the first words.

- What is kept is bounded in number for each caller, for each address of unknown callers, for all unknown callers and in
  all. What exceeds that is answered in the same way and not kept, so a flood takes no place from contacts.
- Only the hash of a call is kept, so a call that was allowed runs when its sender asks again with the same envelope. That it
  runs once is the work of the chain, as for any other call.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.contacts.protocol.contact import Consent
from comity.requests.caller import Caller
from comity.requests.record import Act, Recorder
from comity.store.interface import Delete, Operation, Put, Store, place_of, scan_all
from comity.store.vault import Vault
from comity.wire.errors import InvalidError, NotFoundError, printable
from comity.wire.machine import Clock

HELD_SECONDS: Final = 7 * 86_400.0
MAX_HELD: Final = 256
MAX_OF_UNKNOWN: Final = 128
MAX_OF_ADDRESS: Final = 16
MAX_OF_CALLER: Final = 4
MAX_OF_CONTACT: Final = 16
MAX_WORDS: Final = 160
MIN_DIGITS: Final = 8

HeldState = Literal["waits", "allowed", "refused"]

_SPACE: Final = "held-calls"
_CONSENT_OF: Final[dict[HeldState, Consent]] = {"waits": "hold", "allowed": "accept", "refused": "refuse"}


class HeldCall(Struct, frozen=True, kw_only=True):
    """`id` is the hash of the envelope, `words` are the first ones of its text, `known` says whether the sender was a
    contact.
    """

    id: str
    sender: str
    words: str
    size: int
    at: float
    address: str = ""
    listener: str = ""
    known: bool = False
    state: HeldState = "waits"


class HeldCalls:
    def __init__(self, store: Store, record: Recorder, clock: Clock, vault: Callable[[], Vault]) -> None:
        self._store = store
        self._record = record
        self._clock = clock
        self._vault = vault
        self._calls: dict[str, HeldCall] = {}
        self._one_at_a_time = asyncio.Lock()

    async def load(self) -> None:
        """Read all held calls. One that cannot be decrypted is not shown, and its sender is asked to wait again."""
        calls = {}
        async for key, held in scan_all(self._store, _SPACE):
            value = self._vault().open_in(place_of("value", _SPACE, key), held.value)
            if value is not None:
                calls[key] = msgspec.json.decode(value, type=HeldCall)
        self._calls = calls

    def consent_to(self, sender: str, digest: bytes) -> Consent:
        """Return what the owner said of one call: `hold` if nothing yet."""
        held = self._calls.get(digest.hex())
        return "hold" if held is None or held.sender != sender else _CONSENT_OF[held.state]

    def waiting(self) -> list[HeldCall]:
        """Return the calls that wait, the oldest first."""
        self._forget_old()
        return sorted(
            (each for each in self._calls.values() if each.state == "waits"), key=lambda each: each.at
        )

    async def hold(self, call: HeldCall, caller: Caller) -> None:
        """Keep a call for the owner, if there is room. Keep what is there already."""
        async with self._one_at_a_time:
            self._forget_old()
            if call.id in self._calls or not self._has_room(call):
                return
            call = replace(call, words=printable(call.words[:MAX_WORDS]))
            await self._record.commit_counted((self._keep(call),), _act("CALL_HELD", call, caller))
            self._calls[call.id] = call

    async def decide(self, id_: str, state: Literal["allowed", "refused"], caller: Caller) -> HeldCall:
        """Allow or refuse one call, named by the first digits of its id."""
        async with self._one_at_a_time:
            before = self._one(id_)
            after = replace(before, state=state)
            result = "CALL_ALLOWED" if state == "allowed" else "CALL_REFUSED"
            await self._record.commit_counted((self._keep(after),), _act(result, after, caller))
            self._calls[after.id] = after
            return after

    async def forget(self, sender: str) -> list[HeldCall]:
        """Forget what is held of a caller, about whom the owner decided. Return the calls that waited."""
        async with self._one_at_a_time:
            gone = [each for each in self._calls.values() if each.sender == sender]
            if gone:
                await self._store.commit(*_deletions(gone))
                for each in gone:
                    del self._calls[each.id]
            return [each for each in gone if each.state == "waits"]

    async def tidy(self) -> None:
        """Forget calls that are too old."""
        async with self._one_at_a_time:
            self._forget_old()  # the rows of the store expire by themselves

    def sender_of(self, beginning: str) -> str | None:
        """Return the one caller of a waiting call whose id begins so; None if there is none."""
        wanted = beginning.lower().removeprefix("vacant:")
        if len(wanted) < MIN_DIGITS:
            return None
        senders = {each.sender for each in self.waiting() if each.sender.startswith(wanted)}
        return senders.pop() if len(senders) == 1 else None

    def _one(self, beginning: str) -> HeldCall:
        wanted = beginning.lower()
        if len(wanted) < MIN_DIGITS:
            raise InvalidError(
                f"give at least {MIN_DIGITS} digits of the call, as `comity contacts held` shows them"
            )
        found = [each for each in self.waiting() if each.id.startswith(wanted)]
        if len(found) != 1:
            raise NotFoundError(
                f"no call {beginning[:64]!r} waits; `comity contacts held` lists those that do"
            )
        return found[0]

    def _has_room(self, call: HeldCall) -> bool:
        calls = self._calls.values()
        own = sum(1 for each in calls if each.sender == call.sender)
        if len(calls) >= MAX_HELD or own >= (MAX_OF_CONTACT if call.known else MAX_OF_CALLER):
            return False
        if call.known:
            return True
        unknown = [each for each in calls if not each.known]
        there = sum(1 for each in unknown if each.address == call.address)
        return len(unknown) < MAX_OF_UNKNOWN and there < MAX_OF_ADDRESS

    def _forget_old(self) -> None:
        before = self._clock.now() - HELD_SECONDS
        self._calls = {id_: each for id_, each in self._calls.items() if each.at > before}

    def _keep(self, call: HeldCall) -> Put:
        value = self._vault().seal_in(place_of("value", _SPACE, call.id), msgspec.json.encode(call))
        return Put(space=_SPACE, key=call.id, value=value, expires_at=call.at + HELD_SECONDS)


def _deletions(calls: Iterable[HeldCall]) -> list[Operation]:
    return [Delete(space=_SPACE, key=each.id) for each in calls]


def _act(result: str, call: HeldCall, caller: Caller) -> Act:
    return Act(
        feature="contacts",
        result=result,
        caller=caller,
        about=f"{call.sender[:12]} {call.id[:12]}",
        hashes={"request_id_hash": f"blake2b:{call.id}"},
    )
