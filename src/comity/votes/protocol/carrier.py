"""What parties of a deliberation say to its keeper, and what it answers (ruling 50a).

Each message is one JSON object, the text part of a signed envelope; who signed the envelope is known before it is
read here.

| message | members |
|---|---|
| an act | the entry without `keeper_signature`, and `tip` |
| a question for entries | `delib_id`, `action` = `{"op": "read", "args": {"after": N}}`, and `tip` |
| the answer to an act | `entry`, `tip` |
| the answer to a question | `entries` that follow number N, `more`, `tip` |
| a refusal | `error` = `{"code", "message", "field"}`, and the keeper's `tip` once the sender may know it |

`tip` is the last entry that the sender knows, under the keeper's signature, or null. Whoever hears one compares it
with the entry of that number in its own log (`log.fraud_between`).
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, to_builtins

from comity.extensions.protocol.texts import refuse_injection
from comity.identity.protocol.keys import SigningKey
from comity.vcp.protocol.extension_calls import ExtensionError, invalid, shaped
from comity.vcp.protocol.injection import Severity
from comity.votes.protocol.log import DeliberationEntry, KeptTip, LogHead, admit, read_entry, write_entry
from comity.votes.protocol.vote import Deliberation
from comity.wire import strict_json
from comity.wire.errors import MalformedError

READ: Final = "read"
MOST_PAGE_ENTRIES: Final = 256
MOST_PAGE_BYTES: Final = 64 * 1024


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


class KeeperAnswer(Struct, frozen=True, kw_only=True):
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
        if page and (len(page) == MOST_PAGE_ENTRIES or size > MOST_PAGE_BYTES):
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


def read_answer(text: bytes) -> KeeperAnswer:
    """Raises ExtensionError for what is no answer of a keeper. Nothing in it is verified yet."""
    answer = shaped(_object(text), KeeperAnswer)
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
