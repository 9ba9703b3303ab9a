"""A vacant as its own node holds it: identity, logbook, behaviour, substrate, state and card."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from comity.envelopes.protocol.card import SEPARATOR, CapabilityCard, RuntimeState, SubstrateSpec
from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH, HASH_BYTES, digest
from comity.envelopes.protocol.errors import (
    EnvelopeFormatError,
    HashChainError,
    SignatureVerificationError,
    TypeIntegrityError,
)
from comity.envelopes.protocol.message import hex_bytes, read_time, shaped, utc, utc_iso
from comity.identity.protocol.keys import AnySigningKey, VacantId, own_key, verify
from comity.wire import strict_json
from comity.wire.canonical import envelope_form
from comity.wire.errors import MalformedError

# The logbook: what a vacant says of itself, entry by entry, each signed and each naming the last.


class LogEntry(Struct, frozen=True, kw_only=True):
    kind: str
    payload: dict[str, Any]
    ts: datetime
    prev_hash: bytes = EMPTY_PREV_HASH
    signature: bytes = b""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not self.kind.strip():
            raise EnvelopeFormatError("the kind of a log entry must be a string that is not blank")
        if not isinstance(self.payload, dict):
            raise EnvelopeFormatError("the payload of a log entry must be a JSON object")
        if type(self.prev_hash) is not bytes or len(self.prev_hash) != HASH_BYTES:
            raise EnvelopeFormatError(f"the prev_hash of a log entry must be exactly {HASH_BYTES} bytes")
        force_setattr(self, "ts", utc(self.ts))

    def signing_payload(self) -> bytes:
        try:
            kind, payload = self.kind.encode(), envelope_form(self.payload)
        except (MalformedError, TypeError, UnicodeEncodeError) as reason:
            raise EnvelopeFormatError(f"the log entry cannot be signed: {reason}") from None
        return SEPARATOR.join((kind, utc_iso(self.ts).encode(), payload, self.prev_hash))

    def compute_hash(self) -> bytes:
        return digest(self.signing_payload())

    def signed(self, signing_key: AnySigningKey) -> Self:
        return replace(self, signature=own_key(signing_key).sign(self.signing_payload()))

    def verify(self, owner: VacantId) -> bool:
        return verify(owner.public, self.signing_payload(), self.signature)

    def to_line(self) -> str:
        """Return one line of `logbook.jsonl`, without its end."""
        members = {
            "kind": self.kind,
            "payload": self.payload,
            "prev_hash": self.prev_hash.hex(),
            "signature": self.signature.hex(),
            "ts": utc_iso(self.ts),
        }
        try:
            return json.dumps(members, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as reason:
            raise EnvelopeFormatError(f"the log entry cannot be written: {reason}") from None

    @classmethod
    def from_line(cls, line: str | bytes) -> Self:
        try:
            value = strict_json.loads(line.encode() if isinstance(line, str) else line, unique_keys=True)
        except (MalformedError, UnicodeEncodeError) as reason:
            raise EnvelopeFormatError(f"invalid line of the logbook: {reason}") from None
        wire = shaped(value, _Line, "line of the logbook")
        return cls(
            kind=wire.kind,
            payload=wire.payload,
            ts=read_time(wire.ts),
            prev_hash=hex_bytes(wire.prev_hash, "prev_hash"),
            signature=hex_bytes(wire.signature, "signature"),
        )


class _Line(Struct):
    kind: str
    payload: dict[str, Any]
    prev_hash: str
    signature: str
    ts: str


class Logbook:
    """The entries of one vacant, in order. What is given to it is not verified until `verify` is asked."""

    def __init__(self, entries: Iterable[LogEntry] = ()) -> None:
        self._entries = list(entries)

    def append(self, kind: str, payload: dict[str, Any], *, ts: datetime, key: AnySigningKey) -> LogEntry:
        """Write and sign the next entry."""
        entry = LogEntry(kind=kind, payload=payload, ts=ts, prev_hash=self.tip()).signed(key)
        self._entries.append(entry)
        return entry

    def tip(self) -> bytes:
        """Return the hash that the next entry has to name."""
        return self._entries[-1].compute_hash() if self._entries else EMPTY_PREV_HASH

    def verify(self, owner: VacantId) -> bool:
        try:
            self.verify_or_raise(owner)
        except HashChainError:
            return False
        return True

    def verify_or_raise(self, owner: VacantId) -> None:
        """Refuse a chain that is broken, and name its first bad entry, counted from 1."""
        tip = EMPTY_PREV_HASH
        for number, entry in enumerate(self._entries, start=1):
            if entry.prev_hash != tip:
                raise HashChainError(f"log entry {number} does not follow from the one before it")
            if not entry.verify(owner):
                raise HashChainError(f"log entry {number} is not signed by {owner.short()}")
            tip = entry.compute_hash()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self._entries)


class BehaviorBundle(Struct, frozen=True, kw_only=True):
    """The instructions of a vacant: prompt, policy and tools, under one hash (envelope 1.6). The hash is filled in when it
    is left empty, and checked when it is given.
    """

    system_prompt: str = ""
    policy_dsl: str = ""
    tool_whitelist: tuple[str, ...] = ()
    bundle_hash: bytes = b""

    def __post_init__(self) -> None:
        force_setattr(self, "tool_whitelist", tuple(self.tool_whitelist))
        found = self.compute_hash()
        if not self.bundle_hash:
            force_setattr(self, "bundle_hash", found)
        elif self.bundle_hash != found:
            raise TypeIntegrityError(
                "bundle_hash does not fit prompt, policy and tools; leave it out or take the bundle it came with"
            )

    def compute_hash(self) -> bytes:
        """Return the hash of prompt, policy and tools, in whatever order the tools are."""
        try:
            members = {
                "policy_dsl": self.policy_dsl,
                "system_prompt": self.system_prompt,
                "tool_whitelist": sorted(self.tool_whitelist),
            }
            return digest(envelope_form(members))
        except (MalformedError, TypeError) as reason:
            raise EnvelopeFormatError(f"the behaviour bundle cannot be hashed: {reason}") from None


class ResidentForm(Struct, kw_only=True):
    """Not frozen: a resident lives. Its state and its card change while it is served."""

    identity: VacantId
    logbook: Logbook
    behavior_bundle: BehaviorBundle
    substrate_spec: SubstrateSpec
    runtime_state: RuntimeState = RuntimeState.LOCAL
    capability_card: CapabilityCard | None = None
    parent_id: VacantId | None = None

    def check(self) -> None:
        """Refuse a form that contradicts itself, and say where."""
        self.logbook.verify_or_raise(self.identity)
        card = self.capability_card
        if card is None:
            return
        if card.vacant_id != self.identity:
            raise TypeIntegrityError(
                f"the card is of {card.vacant_id.short()}, the resident is {self.identity.short()}"
            )
        if not card.verify():
            raise SignatureVerificationError(
                f"the card of {card.vacant_id.short()} is not signed by it; sign it again"
            )
