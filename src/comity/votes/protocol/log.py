r"""The log of a vote between nodes: entries, their two signatures, their chain, and the messages about it (ruling 50a).

- An actor signs `comity-delib-v1\n` and the RFC 8785 form of delib_id, number, prev, actor, on_behalf, action and
  time. The hash of an entry is SHA-256 of those bytes and the signature; the next entry names it as `prev`. The
  first entry has number 1, prev null, and opens the vote.
- The host (on the wire: keeper) signs `comity-keep-v1\n` and the RFC 8785 form of delib_id, number and hash. With that it
  says: this entry and no other has this number. Two of its signatures for one number are conflicting records, and prove
  that it cheated.
- Signatures are written in base64url without padding, hashes and ids in lower-case hex.
- A host calls `admit` with an act, every reader calls `follow` with an entry. Neither changes the head that it gets.
- A phase is closed at its deadline. A reader refuses an entry that closes one more than five minutes earlier than its own
  clock allows (ruling 67). Five minutes is how much clocks may differ (ruling 71).
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
from comity.votes.protocol.acts import CLOSE, OpenArguments, after_act, open_vote
from comity.votes.protocol.rules import END_OF_TIME, deadline_text
from comity.votes.protocol.vote import MAX_ENTRIES, Voice, Vote
from comity.wire import strict_json
from comity.wire.canonical import jcs
from comity.wire.errors import MalformedError
from comity.wire.machine import SKEW_SECONDS, clock_words

OPEN: Final = "consensus.open"
MAX_ENTRY_BYTES: Final = 1024 * 1024

_ACTOR_HEADING: Final = b"comity-delib-v1\n"
_HOST_HEADING: Final = b"comity-keep-v1\n"


class LoggedAct(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    op: str
    args: dict[str, Any]


class VoteEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`keeper_signature`, that of the host, is empty until the host has accepted the entry."""

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


class SignedTip(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The statement of the host which entry has a number. Every message has the last one that its sender knows."""

    delib_id: str
    number: int
    hash: str
    keeper_signature: str

    def signed_bytes(self) -> bytes:
        return _HOST_HEADING + jcs({"delib_id": self.delib_id, "number": self.number, "hash": self.hash})

    def is_signed_by(self, host: str) -> bool:
        try:
            return signature_holds(host, self.signed_bytes(), self.keeper_signature)
        except MalformedError:
            return False


class LogHead(Struct, frozen=True, kw_only=True, rename={"vote": "deliberation"}):
    """The state after the last entry of a log, and the tip for that entry."""

    vote: Vote
    tip: SignedTip


class ConflictingRecord(Struct, frozen=True, kw_only=True, rename={"host": "keeper"}):
    """Two entries with one number, both signed by the host."""

    host: str
    first: SignedTip
    second: SignedTip


def propose(
    head: LogHead | None,
    delib_id: str,
    op: str,
    args: dict[str, Any],
    key: SigningKey,
    now: float,
    *,
    on_behalf: str | None = None,
) -> VoteEntry:
    """Return the next entry as an actor signs it. The host decides whether to accept it."""
    entry = VoteEntry(
        delib_id=delib_id,
        number=1 if head is None else head.tip.number + 1,
        prev=None if head is None else head.tip.hash,
        actor=key.vacant_id.hex(),
        on_behalf=on_behalf,
        action=LoggedAct(op=op, args=args),
        time=timestamp(now),
    )
    return replace(entry, signature=signature_of(entry.signed_bytes(), key))


def admit(head: LogHead | None, entry: VoteEntry, host: SigningKey, now: float) -> tuple[LogHead, VoteEntry]:
    """Accept an act as the host: return the new head, and the entry with both signatures."""
    time = read_moment(entry.time, "time")
    if time > now + SKEW_SECONDS:
        raise _wrong_clock(entry, now, "more than five minutes ahead of")
    state = _state_after(head, entry)
    starts = head is not None and len(state.phase_history) > len(head.vote.phase_history)
    if starts and state.deadline is not None and time < now - SKEW_SECONDS:
        # the time of the phase would have begun before anybody knew
        raise _wrong_clock(entry, now, "more than five minutes behind")
    if state.host != host.vacant_id.hex():
        raise ExtensionError("FORBIDDEN", "another node hosts this vote; send the act to that one")
    unsigned = SignedTip(delib_id=entry.delib_id, number=entry.number, hash=entry.hash(), keeper_signature="")
    tip = replace(unsigned, keeper_signature=signature_of(unsigned.signed_bytes(), host))
    return LogHead(vote=state, tip=tip), replace(entry, keeper_signature=tip.keeper_signature)


def _wrong_clock(entry: VoteEntry, now: float, how: str) -> ExtensionError:
    return invalid(
        f"time is {entry.time}, {how} the clock of the host, {timestamp(now)}; set your clock", "time"
    )


class EarlyCloseError(ExtensionError):
    """The host has closed a phase before its deadline, by the clock of the reader."""

    def __init__(self, vote: Vote, entry: VoteEntry, now: float) -> None:
        super().__init__(
            "PRECONDITION_FAILED",
            f"the host closed the phase {vote.phase} before its deadline {deadline_text(vote)}: it signed the time "
            f"{entry.time}, and the clock here says {clock_words(now)}",
            "time",
        )
        self.entry = entry


def follow(head: LogHead | None, entry: VoteEntry, now: float | None = None) -> LogHead:
    """Return the head after an entry that the host has accepted. All signatures and rules are checked; `now` is the clock
    of the reader, None if it has none.
    """
    state = _state_after(head, entry)
    tip = tip_of(entry)
    if not tip.is_signed_by(state.host):
        raise ExtensionError("BAD_SIGNATURE", "the signature of the host is not valid", "keeper_signature")
    if now is not None and head is not None and entry.action.op == CLOSE:
        deadline = head.vote.deadline
        if deadline is not None and deadline > now + SKEW_SECONDS:
            raise EarlyCloseError(head.vote, entry, now)
    return LogHead(vote=state, tip=tip)


def tip_of(entry: VoteEntry) -> SignedTip:
    return SignedTip(
        delib_id=entry.delib_id,
        number=entry.number,
        hash=entry.hash(),
        keeper_signature=entry.keeper_signature,
    )


def conflict_between(host: str, first: SignedTip, second: SignedTip) -> ConflictingRecord | None:
    """Return the proof that the host gave one number to two entries, or None."""
    same_number = (first.delib_id, first.number) == (second.delib_id, second.number)
    if same_number and first.hash != second.hash and first.is_signed_by(host) and second.is_signed_by(host):
        return ConflictingRecord(host=host, first=first, second=second)
    return None


def read_entry(value: Any) -> VoteEntry:
    """Return the entry that a decoded JSON object holds."""
    return shaped(value, VoteEntry)


def write_entry(entry: VoteEntry) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(entry)
    return members


def _state_after(head: LogHead | None, entry: VoteEntry) -> Vote:
    """Check the position in the log, then the signature, then the act itself."""
    _check_position(head, entry)
    time = read_moment(entry.time, "time")
    if not 0 <= time < END_OF_TIME:
        raise invalid("time must lie in the years 1970 to 9999", "time")
    _check_signature(entry)
    if head is not None:
        return after_act(head.vote, entry.voice, entry.action.op, entry.action.args, time)
    if entry.action.op != OPEN:
        raise invalid(f"the first entry must be {OPEN}", "action.op")
    return open_vote(entry.delib_id, entry.voice, shaped(entry.action.args, OpenArguments), time)


def _check_position(head: LogHead | None, entry: VoteEntry) -> None:
    number, prev = (0, None) if head is None else (head.tip.number, head.tip.hash)
    if head is not None and entry.delib_id != head.vote.id:
        raise refused("delib_id", "names another vote")
    if entry.number != number + 1:
        raise ExtensionError(
            "CONFLICT", f"the log ends at entry {number}; the next entry has number {number + 1}", "number"
        )
    if entry.prev != prev:
        raise ExtensionError(
            "CONFLICT", f"prev must be the hash of entry {number}; read the log and try again", "prev"
        )
    if entry.number > MAX_ENTRIES and entry.action.op != CLOSE:  # nobody keeps a vote open by filling its log
        raise limit_exceeded(f"a vote has at most {MAX_ENTRIES:,} entries")


def _check_signature(entry: VoteEntry) -> None:
    if not is_key(entry.actor):
        raise invalid("actor must be the id of a key, in lower-case hex", "actor")
    if entry.on_behalf == entry.actor:
        raise invalid("on_behalf must be another name than the actor's own; leave it null", "on_behalf")
    signed = entry.signed_bytes()
    if len(signed) > MAX_ENTRY_BYTES:
        raise limit_exceeded(f"an entry has at most {MAX_ENTRY_BYTES:,} bytes", "action")
    if not signature_holds(entry.actor, signed, entry.signature):
        raise ExtensionError("BAD_SIGNATURE", "the signature of the actor is not valid", "signature")


# Messages between a party and a host: an act or a read request, and the reply with the tip of its sender.


VOTES_PATH: Final = "/v1/deliberations"
READ: Final = "read"
MAX_PAGE_ENTRIES: Final = 256
MAX_PAGE_BYTES: Final = 64 * 1024


class ActRequest(Struct, frozen=True, kw_only=True):
    entry: VoteEntry
    tip: SignedTip | None

    @property
    def delib_id(self) -> str:
        return self.entry.delib_id


class ReadRequest(Struct, frozen=True, kw_only=True):
    """Asks for the entries after number `after`."""

    delib_id: str
    after: int
    tip: SignedTip | None


class _ReadArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: int = 0


class _Refusal(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    field: str | None = None


class HostReply(Struct, frozen=True, kw_only=True):
    """Exactly one of `entry`, `entries` and `error` is set."""

    entry: VoteEntry | None = None
    entries: tuple[VoteEntry, ...] | None = None
    more: bool = False
    error: _Refusal | None = None
    tip: SignedTip | None = None


def write_act(entry: VoteEntry, tip: SignedTip | None) -> bytes:
    members = write_entry(entry)
    del members["keeper_signature"]
    return strict_json.dumps({**members, "tip": to_builtins(tip)})


def write_read(delib_id: str, after: int, tip: SignedTip | None) -> bytes:
    action = {"op": READ, "args": {"after": after}}
    return strict_json.dumps({"delib_id": delib_id, "action": action, "tip": to_builtins(tip)})


def read_request(text: bytes) -> ActRequest | ReadRequest:
    """Decode an act or a read request. Raise ExtensionError for anything else."""
    value = _object(text)
    tip = value.pop("tip", None)
    tip = None if tip is None else shaped(tip, SignedTip, "tip")
    action = value.get("action")
    if type(action) is dict and action.get("op") == READ:
        args = shaped(action.get("args", {}), _ReadArguments, "action.args")
        delib_id = value.get("delib_id")
        if type(delib_id) is not str or value.keys() != {"delib_id", "action"}:
            raise invalid("a read request has delib_id, action and tip, and nothing else", "delib_id")
        if args.after < 0:
            raise invalid("after must be 0 or more", "action.args.after")
        return ReadRequest(delib_id=delib_id, after=args.after, tip=tip)
    if "keeper_signature" in value:
        raise invalid("keeper_signature is added by the host; leave it out", "keeper_signature")
    return ActRequest(entry=read_entry(value), tip=tip)


def admit_request(
    head: LogHead,
    request: ActRequest,
    sender: str,
    host: SigningKey,
    now: float,
    threshold: Severity = "medium",
) -> tuple[LogHead, VoteEntry]:
    """Accept an act that another node sent. A vote is opened at its host, not by a message."""
    if request.entry.actor != sender:
        raise ExtensionError("FORBIDDEN", "an act is sent by the node that signed it", "actor")
    refuse_injection(request.entry.action.args, threshold, "action.args")
    return admit(head, request.entry, host, now)


def refuse_reader(vote: Vote, sender: str) -> None:
    """Raise FORBIDDEN unless the sender is a stakeholder or a node that signs for one."""
    if not any(sender in {one.id, one.node} for one in vote.stakeholders.values()):
        raise ExtensionError("FORBIDDEN", "only stakeholders read this vote; ask its author")


def reply_with_entry(entry: VoteEntry, tip: SignedTip) -> bytes:
    return _reply({"entry": write_entry(entry)}, tip)


def reply_with_page(following: Iterable[VoteEntry], tip: SignedTip) -> bytes:
    """Encode as many of the entries as one message holds, and at least one if there is one."""
    page: list[dict[str, Any]] = []
    size, more = 0, False
    for entry in following:
        members = write_entry(entry)
        size += len(strict_json.dumps(members))
        if page and (len(page) == MAX_PAGE_ENTRIES or size > MAX_PAGE_BYTES):
            more = True
            break
        page.append(members)
    return _reply({"entries": page, "more": more}, tip)


def reply_with_refusal(refusal: ExtensionError, tip: SignedTip | None) -> bytes:
    error = {"code": refusal.wire_code, "message": refusal.message, "field": refusal.field}
    return _reply({"error": error}, tip)


def _reply(members: dict[str, Any], tip: SignedTip | None) -> bytes:
    return strict_json.dumps({**members, "tip": to_builtins(tip)})


def read_reply(text: bytes) -> HostReply:
    """Decode the reply of a host. Raise ExtensionError if it is none. Nothing in it is verified yet."""
    reply = shaped(_object(text), HostReply)
    if sum(member is not None for member in (reply.entry, reply.entries, reply.error)) != 1:
        raise invalid("a reply holds an entry, entries or an error", None)
    return reply


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = strict_json.loads(text, unique_keys=True)
    except MalformedError as fault:
        raise invalid(fault.message, None) from None
    if type(value) is not dict:
        raise invalid("a message about a vote is one JSON object", None)
    return value
