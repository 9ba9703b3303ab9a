"""The succession of keys: a signed statement says that a new key takes the place of an old one (ruling 69).

- A statement is signed by the new key, and by the old key or by the recovery key. An id is a key, so ids, chains and old
  signatures stay what they are. Only the line of keys becomes longer.
- A line is all statements from the first key of an identity on. The statement at place n has the number n, so a line that
  was cut, repeated, turned around or put together of two lines is refused.
- What the recovery key says outranks what an old key says. The recovery key stays the same for the whole line. A reader
  believes the recovery key whose hash it saw first, so a thief of an old key cannot name another one.
- Two different statements of one key about one old key are a conflict. A conflict stops the line at that place, until the
  recovery key or the owner of the reading node decides.
- `take_line` is the only place that decides what a reader does with a line.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from msgspec import Meta, Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from comity.identity.protocol.keys import (
    SigningKey,
    VacantId,
    is_key,
    signature_holds,
    signature_of,
)
from comity.wire.canonical import jcs
from comity.wire.errors import InvalidError

DOMAIN: Final = b"vacant-succession-v1\n"
CONTINUES_DOMAIN: Final = b"vacant-continues-v1\n"
MAX_LINE: Final = 32
MAX_REASON: Final = 200
_MAX_NUMBER: Final = 2**63 - 1

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_HASH = re.compile("[0-9a-f]{64}")

_Hex = Annotated[str, Meta(min_length=64, max_length=64)]
_Signature = Annotated[str, Meta(min_length=86, max_length=86)]
LineState = Literal["followed", "waits", "conflict"]


class SuccessionRefusedError(InvalidError):
    """A statement or a line of statements that is not believed. Nothing is stored of it."""

    code = "succession_refused"


class Succession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`signer` is the old key, or the recovery key. All keys are written as 64 lower-case hexadecimal digits."""

    old: _Hex
    new: _Hex
    number: Annotated[int, Meta(ge=1, le=_MAX_NUMBER)]
    time: Annotated[str, Meta(max_length=27)]
    reason: Annotated[str, Meta(max_length=MAX_REASON)]
    signer: _Hex
    signature: _Signature
    new_signature: _Signature

    @property
    def by_recovery(self) -> bool:
        return self.signer != self.old

    def signed_bytes(self) -> bytes:
        return statement_bytes(self.old, self.new, self.number, self.time, self.reason)

    def says(self) -> tuple[str, str, int, str, str, str]:
        """Return what it says and who says it. Two statements that say the same are the same."""
        return self.old, self.new, self.number, self.time, self.reason, self.signer

    def as_json(self) -> dict[str, Any]:
        members: dict[str, Any] = to_builtins(self)
        return members


class Continues(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the chain of the old key to one peer ended, signed by the new key: the new chain begins at 1."""

    seq: Annotated[int, Meta(ge=1, le=_MAX_NUMBER)]
    tip: _Hex
    signature: _Signature

    @classmethod
    def signed(cls, key: SigningKey, *, old: str, peer: str, seq: int, tip: str) -> Self:
        said = _continues_bytes(old, key.vacant_id.hex(), peer, seq, tip)
        return cls(seq=seq, tip=tip, signature=signature_of(said, key))

    def verify(self, *, old: str, new: str, peer: str) -> bool:
        return signature_holds(new, _continues_bytes(old, new, peer, self.seq, self.tip), self.signature)


def statement_bytes(old: str, new: str, number: int, time: str, reason: str) -> bytes:
    said = {"old": old, "new": new, "number": number, "time": time, "reason": reason}
    return DOMAIN + jcs(said)


def _continues_bytes(old: str, new: str, peer: str, seq: int, tip: str) -> bytes:
    return CONTINUES_DOMAIN + jcs({"old": old, "new": new, "peer": peer, "seq": seq, "tip": tip})


def recovery_hash(public: bytes) -> str:
    """Return what a card names of the recovery key."""
    return sha256(public).hexdigest()


def make_succession(
    line: Sequence[Succession], *, old: VacantId, new: SigningKey, signer: SigningKey, time: str, reason: str
) -> Succession:
    """Return the next statement of a line that ends at `old`, checked as a reader would check it."""
    if len(line) >= MAX_LINE:
        raise SuccessionRefusedError(
            f"the key of this identity was replaced {MAX_LINE} times, which is the limit; create a new identity"
        )
    number = len(line) + 1
    said = statement_bytes(old.hex(), new.vacant_id.hex(), number, time, reason)
    statement = Succession(
        old=old.hex(),
        new=new.vacant_id.hex(),
        number=number,
        time=time,
        reason=reason,
        signer=signer.vacant_id.hex(),
        signature=signature_of(said, signer),
        new_signature=signature_of(said, new),
    )
    check_line((*line, statement))
    return statement


def read_line(value: Any) -> tuple[Succession, ...]:
    """Return the line in a JSON value, each signature and each place checked."""
    if not isinstance(value, list) or not value:
        raise SuccessionRefusedError("succession must be a list of at least one statement")
    if len(value) > MAX_LINE:
        raise SuccessionRefusedError(f"succession has {len(value):,} statements; at most {MAX_LINE} are read")
    try:
        line = convert(value, tuple[Succession, ...])
    except ValidationError as reason:
        raise SuccessionRefusedError(f"succession cannot be read: {str(reason)[:200]}") from None
    check_line(line)
    return line


def check_line(line: Sequence[Succession]) -> None:
    """Refuse a line in which a statement is false or at a wrong place."""
    for statement in line:
        _check_form(statement)
    ids = [line[0].old] if line else []
    for place, statement in enumerate(line, start=1):
        if statement.old != ids[-1]:
            raise SuccessionRefusedError(
                f"statement {place} of the succession replaces {statement.old[:12]}, but the one before it ended at {ids[-1][:12]}"
            )
        if statement.number != place:
            raise SuccessionRefusedError(
                f"statement {place} of the succession has the number {statement.number:,}; numbers count from 1 without gaps"
            )
        if statement.new in ids:
            raise SuccessionRefusedError(
                f"statement {place} of the succession returns to {statement.new[:12]}, a key that was replaced before"
            )
        ids.append(statement.new)
    for place, statement in enumerate(line, start=1):  # last, because it costs most
        _check_signatures(statement, place)


def _check_form(statement: Succession) -> None:
    if not all(map(is_key, (statement.old, statement.new, statement.signer))):
        raise SuccessionRefusedError(
            "old, new and signer of a succession must be 64 lower-case hexadecimal digits"
        )
    if statement.signer == statement.new:
        raise SuccessionRefusedError(
            "a succession is signed by the old key or the recovery key, not by the new key alone"
        )
    if not _TIME.fullmatch(statement.time):
        raise SuccessionRefusedError("time of a succession must look like 2026-01-31T08:15:00.000000Z")
    if _CONTROL.search(statement.reason):
        raise SuccessionRefusedError("reason of a succession contains a control character")


def _check_signatures(statement: Succession, place: int) -> None:
    said = statement.signed_bytes()
    for who, signer, signature in (
        (
            "the recovery key" if statement.by_recovery else "the old key",
            statement.signer,
            statement.signature,
        ),
        ("the new key", statement.new, statement.new_signature),
    ):
        if not signature_holds(signer, said, signature):
            raise SuccessionRefusedError(
                f"statement {place} of the succession is not signed by {who} {signer[:12]}"
            )


class KnownLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reader keeps of another identity: the oldest key that it knows, and the statements from there on.

    The first `followed` statements are followed, later ones wait for the owner of the reading node. `recovery` is the hash
    that was seen first. `conflict` holds the statement that contradicts one of `steps`.
    """

    root: str
    steps: tuple[Succession, ...] = ()
    followed: int = 0
    recovery: str = ""
    conflict: Succession | None = None
    seq: int = 0
    tip: str = ""

    @property
    def state(self) -> LineState:
        if self.conflict is not None:
            return "conflict"
        return "followed" if self.followed == len(self.steps) else "waits"

    @property
    def current(self) -> str:
        """Return the key that speaks for the identity, as far as the reader follows."""
        return self.steps[self.followed - 1].new if self.followed else self.root

    def ids(self) -> Iterator[str]:
        """Return every key of the line, also those that are not followed."""
        yield self.root
        for step in self.steps:
            yield step.new


def take_line(known: KnownLine, line: Sequence[Succession], *, ask: bool = False) -> KnownLine:
    """Return what is known after a line that `read_line` or `check_line` accepted. Raise if it is not believed.

    A statement is followed at once if the recovery key of the identity is known, since its owner can then take back what
    a thief of the old key says. Otherwise, and with `ask`, it waits for the owner of the reading node.
    """
    said = _from(known.root, line)
    place = 0
    while place < min(len(said), len(known.steps)) and said[place].says() == known.steps[place].says():
        place += 1
    more = said[place:]
    if not more:
        return known
    for statement in more:
        _refuse_unknown_recovery(known, statement)
    if place == len(known.steps):
        if known.conflict is not None and not _has_recovery(more):
            raise SuccessionRefusedError(
                f"the succession of {known.root[:12]} is in conflict; only its recovery key or the owner of this node decides"
            )
        return _followed(replace(known, conflict=None), said, ask=ask)
    return _decide(known, said, place, ask=ask)


def accept_line(known: KnownLine) -> KnownLine:
    """Return the line after the owner of the reading node said yes to all of it."""
    return replace(known, followed=len(known.steps), conflict=None)


def choose_conflicting(known: KnownLine) -> KnownLine:
    """Return the line after the owner said yes to the statement that contradicts it."""
    if known.conflict is None:
        raise SuccessionRefusedError(f"the succession of {known.root[:12]} is not in conflict")
    at = next(place for place, step in enumerate(known.steps) if step.old == known.conflict.old)
    steps = (*known.steps[:at], known.conflict)
    return replace(known, steps=steps, followed=len(steps), conflict=None)


def _from(root: str, line: Sequence[Succession]) -> tuple[Succession, ...]:
    """Return the part of a line that begins at the oldest key that is known."""
    for place, statement in enumerate(line):
        if statement.old == root:
            return tuple(line[place:])
    raise SuccessionRefusedError(f"the succession does not replace {root[:12]}, the key that is known here")


def _refuse_unknown_recovery(known: KnownLine, statement: Succession) -> None:
    if statement.by_recovery and recovery_hash(bytes.fromhex(statement.signer)) != known.recovery:
        seen = "another recovery key" if known.recovery else "no recovery key"
        raise SuccessionRefusedError(
            f"the succession of {statement.old[:12]} is signed by {statement.signer[:12]}, and {seen} of it was seen in its card"
        )


def _decide(known: KnownLine, said: Sequence[Succession], place: int, *, ask: bool) -> KnownLine:
    """Decide between two statements that replace the same key. What the recovery key says, here or later in one of the two
    lines, decides. If it says neither or both, they are a conflict.
    """
    held, other = known.steps[place], said[place]
    recovers = _Recovers(other.by_recovery, _has_recovery(said[place:]))
    recovered = _Recovers(held.by_recovery, _has_recovery(known.steps[place:]))
    if recovers > recovered:
        kept = replace(known, steps=known.steps[:place], followed=min(known.followed, place), conflict=None)
        return _followed(kept, said, ask=ask)
    if recovered > recovers:
        raise SuccessionRefusedError(
            f"{other.old[:12]} was replaced by its recovery key; what it signs itself is not followed any more"
        )
    return known if known.conflict is not None else replace(known, conflict=other)


class _Recovers(NamedTuple):
    """Whether the recovery key signed the statement, and whether it signed any from there on."""

    here: bool
    at_all: bool


def _has_recovery(line: Iterable[Succession]) -> bool:
    return any(statement.by_recovery for statement in line)


def _followed(known: KnownLine, said: Sequence[Succession], *, ask: bool) -> KnownLine:
    waits = ask or not known.recovery or known.followed < len(known.steps)
    return replace(known, steps=tuple(said), followed=known.followed if waits else len(said))


def read_recovery_hash(policy: dict[str, Any]) -> str:
    """Return the recovery hash that a card policy names; empty for none."""
    value = policy.get("recovery")
    return value if isinstance(value, str) and _HASH.fullmatch(value) else ""
