"""Witnessing: nodes hold signed heads of each other's audit record, so that nobody can rewrite theirs unseen (ruling 68).

- A witness is `{head, sig, seen, proof, began}`: the newest signed head of the sender's chain `main`; the newest of the
  receiver's that the sender holds; the proof that the sender's record continues the one of which the receiver said that it
  had seen it; the signed statements with which logs began since.
  A caller without a record of its own sends no head, to announce that it takes one.
- Everything that counts is signed by the record's owner: heads, statements, and the proof with the size and root that it
  starts from. So whoever carries a witness can drop it, and cannot make anybody look forked.
- Two signed heads, or a head and the start of a proof, of one log and size with different roots: the record was rewritten.
  So was it where a signed proof does not connect. An older head is no fork; a head without a proof is not believed.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from comity.identity.protocol.keys import SigningKey, VacantId, verify
from comity.store.audit_chain import AuditHead, LogBeginning, beginning_bytes, head_bytes, log_name, timestamp
from comity.wire.canonical import ascii_form
from comity.wire.errors import InvalidError
from comity.wire.merkle import PROOF_LIMIT, consistency_holds

CHAIN: Final = "main"
POLICY: Final = "witness"
"""The member of a card's policy, 1 where its owner gives and keeps heads."""
SKEW_SECONDS: Final = 300.0
_SIZE_LIMIT: Final = 2**53

_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_Signature = Annotated[str, Meta(pattern="^[0-9a-f]{128}$")]
_Size = Annotated[int, Meta(ge=0, le=_SIZE_LIMIT)]


class Seen(Struct, frozen=True, kw_only=True):
    """A place in a record: the root of that log when it had that size."""

    log: Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")]
    size: _Size
    root: _Hash


class SignedPlace(Struct, frozen=True, kw_only=True):
    """A head as it is kept."""

    head: AuditHead
    sig: _Signature

    @property
    def place(self) -> Seen:
        head = self.head
        return Seen(log=head.log or "", size=head.size or 0, root=head.root or "")


class Proof(Struct, frozen=True, kw_only=True):
    """That the head continues `start`, whose root is the signer's own word. `nonce` is that of a challenge, else empty."""

    start: Seen
    hashes: Annotated[tuple[_Hash, ...], Meta(max_length=PROOF_LIMIT)]
    sig: _Signature
    nonce: Annotated[str, Meta(max_length=64)] = ""


class Began(Struct, frozen=True, kw_only=True):
    beginning: LogBeginning
    signature: _Signature


class Witness(Struct, frozen=True, kw_only=True):
    head: AuditHead
    sig: _Signature
    seen: Seen | None = None
    proof: Proof | None = None
    began: Annotated[tuple[Began, ...], Meta(max_length=4)] = ()

    @property
    def signed_place(self) -> SignedPlace:
        return SignedPlace(head=self.head, sig=self.sig)


def read_witness(value: Any, *, peer: VacantId, receiver: VacantId, now: float) -> Witness:
    """Return the witness of `peer` for `receiver`, with every signature in it checked."""
    try:
        witness = msgspec.convert(value, Witness)
    except msgspec.ValidationError as fault:
        raise InvalidError(f"the witness of {peer.short()} cannot be read: {fault}") from None
    _check_head(witness.signed_place, peer)
    stamp, latest = witness.head.at, timestamp(now + SKEW_SECONDS)
    if stamp > latest:
        raise InvalidError(
            f"the head of {peer.short()} is of {stamp}, and this node's clock says {timestamp(now)}; set the clocks right"
        )
    proof = witness.proof
    if proof is not None:
        form = proof_bytes(witness.head, proof, receiver)
        if not verify(peer.public, form, bytes.fromhex(proof.sig)):
            raise InvalidError(
                f"the proof beside the head is not signed by {peer.short()} for this node; it is ignored"
            )
    for each in witness.began:
        if not verify(peer.public, beginning_bytes(each.beginning), bytes.fromhex(each.signature)):
            raise InvalidError(
                f"the statement about a new log is not signed by {peer.short()}; it is ignored"
            )
    return witness


class _Head(Struct):
    entry_hash: _Hash
    at: Annotated[str, Meta(pattern="^[0-9TZ:.-]{27}$")]


def read_seen(value: Any, *, peer: VacantId) -> Seen | None:
    """Return what a peer without a record of its own says it holds of ours."""
    try:
        return msgspec.convert(value.get("seen"), Seen | None)
    except msgspec.ValidationError as fault:
        raise InvalidError(f"what {peer.short()} has seen cannot be read: {fault}") from None


def _check_head(kept: SignedPlace, peer: VacantId) -> None:
    head = kept.head
    try:
        place = msgspec.convert({"log": head.log, "size": head.size, "root": head.root}, Seen)
        msgspec.convert({"entry_hash": head.entry_hash, "at": head.at}, _Head)
    except msgspec.ValidationError as fault:
        raise InvalidError(
            f"the head of {peer.short()} must have log, size and root of a tree, a hash and a time: {fault}"
        ) from None
    if head.chain != CHAIN or not place.size <= head.position <= _SIZE_LIMIT:
        raise InvalidError(
            f"the head of {peer.short()} is not of a chain {CHAIN!r} with as many entries as its tree"
        )
    if not verify(peer.public, head_bytes(head), bytes.fromhex(kept.sig)):
        raise InvalidError(f"the head is not signed by {peer.short()}; it is ignored")


def proof_bytes(head: AuditHead, proof: Proof, receiver: VacantId) -> bytes:
    """Return what is signed to vouch for a proof."""
    start, hashes, nonce = proof.start, list(proof.hashes), proof.nonce
    named = {
        "hashes": hashes,
        "head": head_bytes(head).hex(),
        "nonce": nonce,
        "start": {"log": start.log, "root": start.root, "size": start.size},
        "to": receiver.hex(),
    }
    return b"comity audit proof 1\n" + ascii_form(named)


def signed_proof(
    head: AuditHead,
    start: Seen,
    hashes: Sequence[bytes],
    *,
    receiver: VacantId,
    key: SigningKey,
    nonce: str = "",
) -> Proof:
    proof = Proof(start=start, hashes=tuple(each.hex() for each in hashes), sig="0" * 128, nonce=nonce)
    return replace(proof, sig=key.sign(proof_bytes(head, proof, receiver)).hex())


# What a witness says of the head that is kept.

Verdict = Literal["first", "same", "older", "continued", "restored", "unproven", "rewritten"]


class Judgement(NamedTuple):
    verdict: Verdict
    sentence: str


def judge(kept: SignedPlace | None, given: Witness) -> Judgement:
    """Say whether the record that `given` is of still contains what was signed with the head that is kept."""
    if kept is None:
        return Judgement("first", "the first head of this peer")
    if (contradiction := _contradiction(kept.head, given)) is not None:
        return Judgement("rewritten", contradiction)
    old, new = kept.head, given.head
    if old.log != new.log:
        if _begins_after(old.log or "", given):
            reason = given.began[-1].beginning.reason
            return Judgement(
                "restored", f"a new log began after entry {given.began[-1].beginning.position:,}: {reason}"
            )
        return Judgement("unproven", "the head is of another log, without the statement that it began")
    old_size, new_size = old.size or 0, new.size or 0
    if new_size < old_size:
        return Judgement(
            "older", f"the head of {new_size:,} entries is older than the one that is kept, of {old_size:,}"
        )
    if new_size == old_size:
        return Judgement("same", "the head that is kept")
    proof = given.proof
    if proof is None or (proof.start.log, proof.start.size) != (old.log, old.size):
        return Judgement(
            "unproven", f"no proof that {new_size:,} entries continue the {old_size:,} that are kept"
        )
    if consistency_holds(
        old_size,
        bytes.fromhex(old.root or ""),
        new_size,
        bytes.fromhex(new.root or ""),
        [bytes.fromhex(each) for each in proof.hashes],
    ):
        return Judgement("continued", f"{new_size:,} entries continue the {old_size:,} that were kept")
    return Judgement("rewritten", f"its signed proof does not connect {old_size:,} entries with {new_size:,}")


def _contradiction(old: AuditHead, given: Witness) -> str | None:
    new, place = given.head, (old.log, old.size)
    formers = [each.beginning.former for each in given.began if each.beginning.former is not None]
    places = [(each.log, each.size, each.root) for each in (new, *formers)]
    if given.proof is not None:
        start = given.proof.start
        places.append((start.log, start.size, start.root))
    if any((log, size) == place and root != old.root for log, size, root in places):
        return f"it signed two different records of {old.size:,} entries"
    if (new.log, new.position) == (old.log, old.position) and new.entry_hash != old.entry_hash:
        return f"it signed two different entries {old.position:,}"
    return None


def _begins_after(log: str, given: Witness) -> bool:
    for each in given.began:
        former = each.beginning.former
        if former is None or (former.log or "") != log:
            return False
        log = log_name(each.beginning)
    return log == given.head.log


# A proof of rewriting, for anybody.

REWRITING: Final = "comity_audit_proof"


class Rewriting(Struct, frozen=True, kw_only=True):
    """The head that was kept, and the witness that contradicts it. `receiver` is for whom the proof in it was signed."""

    peer: str
    receiver: str
    found: str
    sentence: str
    kept: SignedPlace
    given: Witness


def rewriting_json(found: Rewriting) -> dict[str, Any]:
    return {REWRITING: 1, **msgspec.to_builtins(found)}


def check_rewriting(value: Any) -> Judgement:
    """Judge a file that says that a record was rewritten, by the signatures in it alone. Raise if it does not show that."""
    if not isinstance(value, dict) or value.get(REWRITING) != 1:
        raise InvalidError(f"this is no proof of a rewritten record; it must have {REWRITING!r}: 1")
    try:
        found = msgspec.convert(value, Rewriting)
        peer, receiver = VacantId.from_hex(found.peer), VacantId.from_hex(found.receiver)
    except (msgspec.ValidationError, InvalidError) as fault:
        raise InvalidError(f"the proof cannot be read: {fault}") from None
    _check_head(found.kept, peer)
    given = read_witness(msgspec.to_builtins(found.given), peer=peer, receiver=receiver, now=4e9)
    judgement = judge(found.kept, given)
    if judgement.verdict != "rewritten":
        raise InvalidError(f"the file does not show that the record was rewritten: {judgement.sentence}")
    return judgement


# A challenge: the question whether a record still contains a place, asked at any time.

CHALLENGE_PATH: Final = "/a2a/witness"
CHALLENGE_LIMIT: Final = 4096
CHALLENGE_SECONDS: Final = 300.0


class Challenge(Struct, frozen=True, kw_only=True):
    """`asked` and `to` are ids; `nonce` comes back in the proof."""

    asked: _Hash
    to: _Hash
    at: Annotated[float, Meta(ge=0, le=1e11)]
    nonce: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    seen: Seen
    sig: _Signature

    def signed_bytes(self) -> bytes:
        named = msgspec.to_builtins(self)
        del named["sig"]
        named["at"] = timestamp(self.at)
        return b"comity audit challenge 1\n" + ascii_form(named)


def signed_challenge(key: SigningKey, to: VacantId, seen: Seen, *, now: float, nonce: str) -> Challenge:
    asked = Challenge(asked=key.vacant_id.hex(), to=to.hex(), at=now, nonce=nonce, seen=seen, sig="0" * 128)
    return replace(asked, sig=key.sign(asked.signed_bytes()).hex())


def read_challenge(value: Any, *, own: VacantId, now: float) -> tuple[VacantId, Challenge]:
    """Return a challenge to this node, and who signed it."""
    try:
        asked = msgspec.convert(value, Challenge)
    except msgspec.ValidationError as fault:
        raise InvalidError(f"the challenge cannot be read: {fault}") from None
    peer = VacantId.from_hex(asked.asked)
    if asked.to != own.hex():
        raise InvalidError(f"the challenge is to {asked.to[:12]}, and this node is {own.short()}")
    if abs(now - asked.at) > CHALLENGE_SECONDS:
        raise InvalidError(
            f"the challenge is of {timestamp(asked.at)}, and this node's clock says {timestamp(now)}; set the clocks right"
        )
    if not verify(peer.public, asked.signed_bytes(), bytes.fromhex(asked.sig)):
        raise InvalidError(f"the challenge is not signed by {peer.short()}")
    return peer, asked
