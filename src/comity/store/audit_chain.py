"""The rule of the audit chain: what is hashed, how entries are linked, how a chain is verified.

- An entry's hash covers fifteen fields in a fixed ASCII JSON form; `token_count`, `content_preview` and the hash itself
  stay outside (vcp 5.5).
- Positions start at 1 and grow by one. Each entry names the hash of the one before it; the first names none (stored
  null, hashed as "").
- `checks_passed` is hashed sorted and stored in the order in which the checks ran.
- Verification stops at the first bad entry and names it. It holds one entry at a time, so a chain of any length can be
  streamed through it, also in pages: each page takes the last entry of the page before as its `prior`.
- A chain does not show that its last entries are missing. So the owner of a chain signs its head (`head_bytes`), and
  for a pruned chain the entry that it now starts after (`checkpoint_bytes`). The two forms differ, so that an old head
  cannot be used as a checkpoint.
"""

import hmac
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from comity.wire import strict_json
from comity.wire.canonical import ascii_form
from comity.wire.errors import InvalidError, MalformedError

AuditLevel = Literal["minimal", "standard", "full", "diagnostic"]

NOT_APPLICABLE = "n/a"
PREVIEW_LIMIT = 100
NUMBER_LIMIT = 2**53

_MIN_PLAIN, _MAX_PLAIN = 1e-4, 1e15

_LEVELS = frozenset(("minimal", "standard", "full", "diagnostic"))
_CREATED_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")


class AuditDraft(Struct, frozen=True, kw_only=True, dict=True):
    """What a handler says about an event, before the event has a place in the chain.

    A draft checks itself when it is made, so that `link` cannot fail later, in the middle of a commit.
    """

    session_id_hash: str | None = None
    request_id_hash: str | None = None
    verification_result: str
    checks_passed: tuple[str, ...] = ()
    failed_step: str | None = None
    duration_ms: int | float = 0
    bundle_id_hash: str = NOT_APPLICABLE
    content_hash: str = NOT_APPLICABLE
    issuer_hash: str = NOT_APPLICABLE
    bundle_version: str = NOT_APPLICABLE
    manifest_signature: str = NOT_APPLICABLE
    audit_level: AuditLevel = "standard"
    token_count: int | None = None
    content_preview: str | None = None
    created_at: str

    def __post_init__(self) -> None:
        if not _CREATED_AT.fullmatch(self.created_at):
            raise InvalidError(
                "created_at must look like 2026-01-31T08:15:00.000000Z; make it with timestamp()"
            )
        try:
            "".join(self.checks_passed)
        except TypeError:
            raise InvalidError("checks_passed must hold the names of checks") from None
        if self.audit_level not in _LEVELS:
            raise InvalidError("audit_level must be minimal, standard, full or diagnostic")
        # `not (a <= b)` also catches NaN, and a bool is no duration
        if type(self.duration_ms) is bool or not 0 <= self.duration_ms <= NUMBER_LIMIT:
            raise InvalidError(f"duration_ms must be a number from 0 to {NUMBER_LIMIT}")
        if self.token_count is not None and not 0 <= self.token_count <= NUMBER_LIMIT:
            raise InvalidError(f"token_count must be a number from 0 to {NUMBER_LIMIT}")
        if self.content_preview is not None:
            if self.audit_level != "diagnostic":
                raise InvalidError("content_preview belongs to audit_level diagnostic only; leave it out")
            if len(self.content_preview) > PREVIEW_LIMIT:
                raise InvalidError(f"content_preview is limited to {PREVIEW_LIMIT} characters; cut it")
        try:
            self.__dict__["form"] = _encoder.encode(self)
        except UnicodeEncodeError:
            raise InvalidError("an audit field holds half a surrogate pair; give whole characters") from None


class AuditEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A draft with its place in a chain: what is stored."""

    session_id_hash: str | None
    request_id_hash: str | None
    verification_result: str
    checks_passed: tuple[str, ...]
    failed_step: str | None
    duration_ms: int | float
    bundle_id_hash: str
    content_hash: str
    issuer_hash: str
    bundle_version: str
    manifest_signature: str
    audit_level: AuditLevel
    token_count: int | None
    content_preview: str | None
    created_at: str
    chain_position: int
    previous_hash: str | None
    entry_hash: str


class AuditHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a chain stood at a moment. As a checkpoint: the last entry that was pruned.

    `size` and `root` are those of the tree over its entries, `log` names the tree (empty: the first). Heads of earlier
    releases, and checkpoints, have none of them.
    """

    chain: str
    position: int
    entry_hash: str
    at: str
    log: str | None = None
    size: int | None = None
    root: str | None = None


class LogBeginning(Struct, frozen=True, kw_only=True):
    """Why a chain began a new tree after the entry at `position`: `former` says which one it had until then."""

    chain: str
    at: str
    reason: Literal["restored", "adopted", "rebuilt"]
    position: int
    entry_hash: str
    former: AuditHead | None


class ChainVerdict(NamedTuple):
    """`message` is None for a sound chain, else it names the first bad position and its fault."""

    ok: bool
    message: str | None


def timestamp(seconds: float) -> str:
    """Write seconds since 1970 in the form of RFC 3339, in UTC with microseconds and Z."""
    try:
        whole = math.floor(seconds)
        fraction = round((seconds - whole) * 1_000_000)
        if fraction == 1_000_000:
            whole, fraction = whole + 1, 0
        return f"{_to_the_second(whole)}.{fraction:06}Z"
    except (OverflowError, OSError, ValueError):
        raise InvalidError("a timestamp must lie in the years 1 to 9999") from None


@lru_cache(2)  # many are written within the same one
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


def privacy_hash(value: str, key: bytes | None = None) -> str:
    """Return a stand-in for an id that must not be stored. Without a key, short or known ids can be guessed."""
    data = value.encode("utf-8", "surrogatepass")
    digest = sha256(data).hexdigest() if key is None else hmac.digest(key, data, "sha256").hex()
    return f"sha256:{digest[:32]}"


def link(draft: AuditDraft, *, position: int, previous_hash: str | None) -> AuditEntry:
    """Give a draft its place: after the entry whose hash is `previous_hash`."""
    if position < 1 or (position == 1) != (previous_hash is None):
        raise InvalidError("position starts at 1, and only the entry at 1 has no previous_hash")
    return AuditEntry(
        **asdict(draft),
        chain_position=position,
        previous_hash=previous_hash,
        entry_hash=_hash(draft, position, previous_hash),
    )


def chained(draft: AuditDraft, *, position: int, previous_hash: str | None) -> tuple[bytes, str]:
    """Return `encode(link(draft, …))` and the hash of that entry, by a shorter way: the fields of a draft are the first
    ones of an entry.
    """
    entry_hash = _hash(draft, position, previous_hash)
    before = "null" if previous_hash is None else f'"{previous_hash}"'
    place = f',"chain_position":{position},"previous_hash":{before},"entry_hash":"{entry_hash}"}}'
    form: bytes = draft.__dict__["form"]
    return form[:-1] + place.encode(), entry_hash


def entry_hash(entry: AuditEntry) -> str:
    """Return the hash that the entry's fields demand, whatever it claims itself."""
    return _hash(entry, entry.chain_position, entry.previous_hash)


def verify(
    entries: Iterable[AuditEntry], *, prior: AuditEntry | AuditHead | None = None, first_position: int = 1
) -> ChainVerdict:
    """Check a chain, or a part of one.

    A part starts after `prior` when that is known; otherwise at `first_position`, and then its first
    link cannot be checked.
    """
    previous: str | None = None
    position = first_position
    if prior is not None:
        previous = prior.entry_hash
        position = 1 + (prior.position if isinstance(prior, AuditHead) else prior.chain_position)
    unlinked = prior is None and first_position > 1
    for entry in entries:
        if entry.chain_position != position:
            return ChainVerdict(
                False, f"audit entry {position}: position is {entry.chain_position}, expected {position}"
            )
        if unlinked:
            unlinked = False
            if entry.previous_hash is None:
                return ChainVerdict(False, f"audit entry {position}: link is missing, only entry 1 has none")
        elif entry.previous_hash != previous:
            return ChainVerdict(
                False, f"audit entry {position}: link does not match the hash of the entry before it"
            )
        if _hash(entry, position, entry.previous_hash) != entry.entry_hash:
            return ChainVerdict(False, f"audit entry {position}: hash does not match its fields")
        previous = entry.entry_hash
        position += 1
    return ChainVerdict(True, None)


def encode(entry: AuditEntry) -> bytes:
    return _encoder.encode(entry)


def decode(data: bytes, *, exact: bool = False) -> AuditEntry:
    """Read a stored entry; a missing, unknown, repeated or ill-typed field is refused. `exact`: so is an entry that says
    the same in other bytes.
    """
    try:
        entry = _decoder.decode(data)
        # what we wrote ourselves comes back byte for byte and cannot hide a repeated field
        as_written = _encoder.encode(entry) == data
        if not as_written:
            strict_json.loads(data, unique_keys=True)
    except (msgspec.MsgspecError, MalformedError, UnicodeDecodeError, RecursionError) as reason:
        raise MalformedError(f"an audit entry cannot be read: {reason}") from None
    if exact and not as_written:
        raise MalformedError("an audit entry cannot be read: its bytes are not the ones that were written")
    return entry


def head_bytes(head: AuditHead) -> bytes:
    """Return what is signed to vouch for the last entry of a chain."""
    return b"comity audit head 1\n" + _signed_form(head)


def checkpoint_bytes(head: AuditHead) -> bytes:
    """Return what is signed to vouch for the last entry that was pruned from the front of a chain."""
    return b"comity audit checkpoint 1\n" + _signed_form(head)


def beginning_bytes(beginning: LogBeginning) -> bytes:
    """Return what is signed to say that a chain begins a new log."""
    return b"comity audit log 1\n" + ascii_form(msgspec.to_builtins(beginning))


def log_name(beginning: LogBeginning) -> str:
    """Return the name of the log that begins so: no other beginning has it."""
    return sha256(beginning_bytes(beginning)).hexdigest()[:32]


def _signed_form(head: AuditHead) -> bytes:
    return ascii_form({name: value for name, value in asdict(head).items() if value is not None})


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AuditEntry)


class _Hashed(Struct, frozen=True):
    """The fields that are hashed, in the order of the form."""

    audit_level: str
    bundle_id_hash: str
    bundle_version: str
    chain_position: int
    checks_passed: list[str]
    content_hash: str
    created_at: str
    duration_ms: int | float
    failed_step: str | None
    issuer_hash: str
    manifest_signature: str
    previous_hash: str
    request_id_hash: str | None
    session_id_hash: str | None
    verification_result: str


def _hash(fields: AuditDraft | AuditEntry, position: int, previous_hash: str | None) -> str:
    hashed = _Hashed(
        fields.audit_level,
        fields.bundle_id_hash,
        fields.bundle_version,
        position,
        sorted(fields.checks_passed),
        fields.content_hash,
        fields.created_at,
        fields.duration_ms,
        fields.failed_step,
        fields.issuer_hash,
        fields.manifest_signature,
        previous_hash or "",
        fields.request_id_hash,
        fields.session_id_hash,
        fields.verification_result,
    )
    form = _encoder.encode(hashed)
    if not (form.isascii() and _plain(fields.duration_ms)) or b"\\" in form or b"\x7f" in form:
        form = ascii_form(asdict(hashed))  # escapes and exponents are not the same everywhere
    return sha256(form).hexdigest()


def _plain(number: float) -> bool:
    """Return whether both of our encoders write it alike: without an exponent."""
    return type(number) is int or number == 0 or _MIN_PLAIN <= number < _MAX_PLAIN
