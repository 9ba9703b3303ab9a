r"""The log of a deliberation between nodes: entries, their two signatures, and their chain (ruling 50a).

- An actor signs `comity-delib-v1\n` and the RFC 8785 form of delib_id, number, prev, actor, on_behalf, action and
  time. The hash of an entry is SHA-256 of those bytes and the signature; the next entry names it as `prev`. The
  first entry has number 1, prev null, and opens the deliberation.
- The keeper signs `comity-keep-v1\n` and the RFC 8785 form of delib_id, number and hash. With that it says: this
  entry and no other has this number. Two of its signatures for one number are proof that it lied.
- Signatures are written in base64url without padding, hashes and ids in lower-case hex.
- `admit` is what a keeper does with an act, `follow` what everybody does with an entry. Neither changes the head
  that it is given; a refusal leaves everything as it was.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from comity.extensions.protocol.texts import read_moment, refuse_injection
from comity.identity.protocol.keys import SigningKey, is_key, signature_bytes, signature_holds, signature_of
from comity.store.audit_chain import timestamp
from comity.vcp.protocol.extension_calls import ExtensionError, invalid, limit_exceeded, refused, shaped
from comity.vcp.protocol.injection import Severity
from comity.votes.protocol.acts import OpenArguments, after_act, open_deliberation
from comity.votes.protocol.vote import MAX_ENTRIES, Deliberation, Voice
from comity.wire import strict_json
from comity.wire.canonical import jcs
from comity.wire.errors import MalformedError

OPEN: Final = "consensus.open"
MAX_SECONDS_AHEAD: Final = 60.0
MAX_ENTRY_BYTES: Final = 1024 * 1024

_END_OF_TIME: Final = 253_402_300_800.0
_ACTOR_HEADING: Final = b"comity-delib-v1\n"
_KEEPER_HEADING: Final = b"comity-keep-v1\n"


class LoggedAct(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    op: str
    args: dict[str, Any]


class DeliberationEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`keeper_signature` is empty until the keeper has taken the entry."""

    delib_id: str
    number: int
    prev: str | None
    actor: str
    on_behalf: str | None
    action: LoggedAct
    time: str
    signature: str = ""
    keeper_signature: str = ""

    @property
    def voice(self) -> Voice:
        return Voice(self.actor, self.on_behalf)

    def signed_bytes(self) -> bytes:
        members = {
            "delib_id": self.delib_id,
            "number": self.number,
            "prev": self.prev,
            "actor": self.actor,
            "on_behalf": self.on_behalf,
            "action": {"op": self.action.op, "args": self.action.args},
            "time": self.time,
        }
        try:
            return _ACTOR_HEADING + jcs(members)
        except MalformedError as fault:
            raise invalid(fault.message, "action") from None

    def hash(self) -> str:
        signature = signature_bytes(self.signature)
        if signature is None:
            raise ExtensionError("BAD_SIGNATURE", "a signature is 86 characters of base64url", "signature")
        return hashlib.sha256(self.signed_bytes() + signature).hexdigest()


class KeptTip(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keeper's word on which entry has a number. Every message between parties carries the sender's last."""

    delib_id: str
    number: int
    hash: str
    keeper_signature: str

    def signed_bytes(self) -> bytes:
        return _KEEPER_HEADING + jcs({"delib_id": self.delib_id, "number": self.number, "hash": self.hash})

    def is_signed_by(self, keeper: str) -> bool:
        try:
            return signature_holds(keeper, self.signed_bytes(), self.keeper_signature)
        except MalformedError:
            return False


class LogHead(Struct, frozen=True, kw_only=True):
    """Where a log stands: the state it adds up to, and its last entry."""

    deliberation: Deliberation
    tip: KeptTip


class ConflictingRecord(Struct, frozen=True, kw_only=True):
    """Two entries with one number, both under the keeper's signature."""

    keeper: str
    first: KeptTip
    second: KeptTip


def propose(
    head: LogHead | None,
    delib_id: str,
    op: str,
    args: dict[str, Any],
    key: SigningKey,
    now: float,
    *,
    on_behalf: str | None = None,
) -> DeliberationEntry:
    """The next entry as an actor signs it; the keeper decides whether it becomes one."""
    entry = DeliberationEntry(
        delib_id=delib_id,
        number=1 if head is None else head.tip.number + 1,
        prev=None if head is None else head.tip.hash,
        actor=key.vacant_id.hex(),
        on_behalf=on_behalf,
        action=LoggedAct(op=op, args=args),
        time=timestamp(now),
    )
    return replace(entry, signature=signature_of(entry.signed_bytes(), key))


def admit(
    head: LogHead | None, entry: DeliberationEntry, keeper: SigningKey, now: float
) -> tuple[LogHead, DeliberationEntry]:
    """The keeper takes the act: the new head, and the entry under both signatures."""
    if read_moment(entry.time, "time") > now + MAX_SECONDS_AHEAD:
        raise invalid(f"time lies more than {MAX_SECONDS_AHEAD:.0f} s in the future; set your clock", "time")
    state = _state_after(head, entry)
    if state.keeper != keeper.vacant_id.hex():
        raise ExtensionError("FORBIDDEN", "another node keeps this deliberation; send the act to that one")
    unsigned = KeptTip(delib_id=entry.delib_id, number=entry.number, hash=entry.hash(), keeper_signature="")
    tip = replace(unsigned, keeper_signature=signature_of(unsigned.signed_bytes(), keeper))
    return LogHead(deliberation=state, tip=tip), replace(entry, keeper_signature=tip.keeper_signature)


def follow(head: LogHead | None, entry: DeliberationEntry) -> LogHead:
    """The head after an entry that the keeper has taken. Everything is checked, nobody is believed."""
    state = _state_after(head, entry)
    tip = tip_of(entry)
    if not tip.is_signed_by(state.keeper):
        raise ExtensionError("BAD_SIGNATURE", "the keeper's signature does not hold", "keeper_signature")
    return LogHead(deliberation=state, tip=tip)


def tip_of(entry: DeliberationEntry) -> KeptTip:
    return KeptTip(
        delib_id=entry.delib_id,
        number=entry.number,
        hash=entry.hash(),
        keeper_signature=entry.keeper_signature,
    )


def fraud_between(keeper: str, first: KeptTip, second: KeptTip) -> ConflictingRecord | None:
    """Proof that the keeper gave one number to two entries; None where there is none.

    A node that receives a tip compares it with the entry of that number in its own log.
    """
    same_place = (first.delib_id, first.number) == (second.delib_id, second.number)
    if not same_place or first.hash == second.hash:
        return None
    if not first.is_signed_by(keeper) or not second.is_signed_by(keeper):
        return None
    return ConflictingRecord(keeper=keeper, first=first, second=second)


def is_proven(fraud: ConflictingRecord) -> bool:
    """Whether a proof from another node is valid."""
    return fraud_between(fraud.keeper, fraud.first, fraud.second) is not None


def read_entry(value: Any) -> DeliberationEntry:
    """An entry as it was sent: an object that JSON made."""
    return shaped(value, DeliberationEntry)


def write_entry(entry: DeliberationEntry) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(entry)
    return told


def _state_after(head: LogHead | None, entry: DeliberationEntry) -> Deliberation:
    """Place, then signature, then the act itself."""
    _refuse_place(head, entry)
    time = read_moment(entry.time, "time")
    if not 0 <= time < _END_OF_TIME:
        raise invalid("time must lie in the years 1970 to 9999", "time")
    _refuse_signature(entry)
    if head is not None:
        return after_act(head.deliberation, entry.voice, entry.action.op, entry.action.args, time)
    if entry.action.op != OPEN:
        raise invalid(f"the first entry must be {OPEN}", "action.op")
    return open_deliberation(entry.delib_id, entry.voice, shaped(entry.action.args, OpenArguments), time)


def _refuse_place(head: LogHead | None, entry: DeliberationEntry) -> None:
    number, prev = (0, None) if head is None else (head.tip.number, head.tip.hash)
    if head is not None and entry.delib_id != head.deliberation.id:
        raise refused("delib_id", "names another deliberation")
    if entry.number != number + 1:
        raise ExtensionError(
            "CONFLICT", f"the log stands at {number}; the next entry has number {number + 1}", "number"
        )
    if entry.prev != prev:
        raise ExtensionError(
            "CONFLICT", f"prev must be the hash of entry {number}; read the log and try again", "prev"
        )
    if entry.number > MAX_ENTRIES:
        raise limit_exceeded(f"a deliberation has at most {MAX_ENTRIES:,} entries")


def _refuse_signature(entry: DeliberationEntry) -> None:
    if not is_key(entry.actor):
        raise invalid("actor must be the id of a key, in lower-case hex", "actor")
    if entry.on_behalf == entry.actor:
        raise invalid("on_behalf must be another name than the actor's own; leave it null", "on_behalf")
    signed = entry.signed_bytes()
    if len(signed) > MAX_ENTRY_BYTES:
        raise limit_exceeded(f"an entry has at most {MAX_ENTRY_BYTES:,} bytes", "action")
    if not signature_holds(entry.actor, signed, entry.signature):
        raise ExtensionError("BAD_SIGNATURE", "the actor's signature does not hold", "signature")


# What parties of a deliberation say to its keeper, and what it answers (ruling 50a).


READ: Final = "read"
MAX_PAGE_ENTRIES: Final = 256
MAX_PAGE_BYTES: Final = 64 * 1024


class ActPost(Struct, frozen=True, kw_only=True):
    entry: DeliberationEntry
    tip: KeptTip | None


class ReadPost(Struct, frozen=True, kw_only=True):
    """Asks for the entries behind number `after`."""

    delib_id: str
    after: int
    tip: KeptTip | None


class EntryPage(Struct, frozen=True, kw_only=True):
    entries: tuple[DeliberationEntry, ...]
    more: bool


class _ReadArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: int = 0


class _Refusal(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    field: str | None = None


class HostAnswer(Struct, frozen=True, kw_only=True):
    """What a party reads of any answer. Exactly one of `entry`, `entries` and `error` is there."""

    entry: DeliberationEntry | None = None
    entries: tuple[DeliberationEntry, ...] | None = None
    more: bool = False
    error: _Refusal | None = None
    tip: KeptTip | None = None


def write_act(entry: DeliberationEntry, tip: KeptTip | None) -> bytes:
    told = write_entry(entry)
    del told["keeper_signature"]
    return strict_json.dumps({**told, "tip": to_builtins(tip)})


def write_question(delib_id: str, after: int, tip: KeptTip | None) -> bytes:
    action = {"op": READ, "args": {"after": after}}
    return strict_json.dumps({"delib_id": delib_id, "action": action, "tip": to_builtins(tip)})


def read_post(text: bytes) -> ActPost | ReadPost:
    """An act or a question. Raises ExtensionError for anything else."""
    value = _object(text)
    tip = value.pop("tip", None)
    tip = None if tip is None else shaped(tip, KeptTip, "tip")
    action = value.get("action")
    if type(action) is dict and action.get("op") == READ:
        args = shaped(action.get("args", {}), _ReadArguments, "action.args")
        delib_id = value.get("delib_id")
        if type(delib_id) is not str or value.keys() != {"delib_id", "action"}:
            raise invalid("a question has delib_id, action and tip, and nothing else", "delib_id")
        if args.after < 0:
            raise invalid("after must be 0 or more", "action.args.after")
        return ReadPost(delib_id=delib_id, after=args.after, tip=tip)
    if "keeper_signature" in value:
        raise invalid("keeper_signature is the keeper's to add; leave it out", "keeper_signature")
    return ActPost(entry=read_entry(value), tip=tip)


def keep(
    head: LogHead | None,
    post: ActPost,
    sender: str,
    keeper: SigningKey,
    now: float,
    threshold: Severity = "medium",
) -> tuple[LogHead, DeliberationEntry]:
    """The keeper takes an act that somebody posted. A deliberation is opened at its keeper, not by post."""
    if post.entry.actor != sender:
        raise ExtensionError("FORBIDDEN", "an act is posted by whoever signed it", "actor")
    if head is None:
        raise ExtensionError("NOT_FOUND", "there is no such deliberation here", "delib_id")
    refuse_injection(post.entry.action.args, threshold, "action.args")
    return admit(head, post.entry, keeper, now)


def refuse_reader(deliberation: Deliberation, sender: str) -> None:
    """Stakeholders read, and nodes that sign for one; nobody else."""
    if not any(sender in {one.id, one.node} for one in deliberation.stakeholders.values()):
        raise ExtensionError("FORBIDDEN", "only stakeholders read this deliberation; ask its author")


def page_of(following: Iterable[DeliberationEntry]) -> EntryPage:
    """As many of the entries as one message holds; at least one, if there is one."""
    page: list[DeliberationEntry] = []
    size = 0
    for entry in following:
        size += len(strict_json.dumps(write_entry(entry)))
        if page and (len(page) == MAX_PAGE_ENTRIES or size > MAX_PAGE_BYTES):
            return EntryPage(entries=tuple(page), more=True)
        page.append(entry)
    return EntryPage(entries=tuple(page), more=False)


def answer_entry(entry: DeliberationEntry, tip: KeptTip) -> bytes:
    return strict_json.dumps({"entry": write_entry(entry), "tip": to_builtins(tip)})


def answer_page(page: EntryPage, tip: KeptTip) -> bytes:
    entries = [write_entry(entry) for entry in page.entries]
    return strict_json.dumps({"entries": entries, "more": page.more, "tip": to_builtins(tip)})


def answer_refusal(refusal: ExtensionError, tip: KeptTip | None) -> bytes:
    error = {"code": refusal.wire_code, "message": refusal.message, "field": refusal.field}
    return strict_json.dumps({"error": error, "tip": to_builtins(tip)})


def read_answer(text: bytes) -> HostAnswer:
    """Raises ExtensionError for what is no answer of a keeper. Nothing in it is verified yet."""
    answer = shaped(_object(text), HostAnswer)
    if sum(part is not None for part in (answer.entry, answer.entries, answer.error)) != 1:
        raise invalid("an answer holds an entry, entries or an error", None)
    return answer


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = strict_json.loads(text, unique_keys=True)
    except MalformedError as fault:
        raise invalid(fault.message, None) from None
    if type(value) is not dict:
        raise invalid("a message about a deliberation is one JSON object", None)
    return value
