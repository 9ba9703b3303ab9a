"""Issue, verify and revoke VCP/I tokens, for `comity id token`."""

import asyncio
import contextlib
import os
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import typer

from comity.identity.key_files import has_identity
from comity.identity.private_files import read_private
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.identity.protocol.revocation import (
    CRLEntry,
    PublicKey,
    Revocable,
    RevocationReason,
    read_trust_key,
    write_moment,
)
from comity.identity.protocol.tokens import (
    IdentityMode,
    Issuer,
    IssuerRegistry,
    SharedKey,
    SignatureKey,
    StampedToken,
    TokenRefusal,
    TokenVerdict,
    issue_a,
    issue_b,
    parse_identity,
    subject_id,
    token_id,
    verify_identity,
)
from comity.identity.protocol.uvc import UvcToken
from comity.requests.record import own_act
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import privacy_hash
from comity.terminal.open_target import own_id, own_key, refuse_memory, writing
from comity.terminal.options import one_of
from comity.terminal.output import (
    FAILED,
    note,
    one_line,
    print_answer,
    print_fields,
    print_json,
    print_line,
    say,
)
from comity.vcp.issuers import OwnRevocations, foreign_key, issuers_of, own_names, read_secrets
from comity.wire.errors import ComityError, ConfigError, ConflictError, KeyRefusedError, MalformedError
from comity.wire.machine import clock_words

FROM_FILE: Final = "@"
_STDIN: Final = "-"
_MAX_BYTES: Final = 65_536


def read_token(written: str) -> str:
    """Read a token to be checked: TOKEN, @FILE, or @- for standard input. Its file may be readable for others, because tokens are
    shown and saved with `>`; then there is a warning.
    """
    return _read(written, _read_shown)


def read_credential(written: str) -> str:
    """Read a token that proves our own identity: its file must be private. A typed token can be seen by other users of the
    machine while the command runs.
    """
    return _read(written, read_private)


def _read(written: str, read: Callable[[Path], bytes]) -> str:
    if not written.startswith(FROM_FILE):
        return written.strip()
    name = written.removeprefix(FROM_FILE)
    data = sys.stdin.buffer.read(_MAX_BYTES) if name == _STDIN else read(Path(name).expanduser())
    words = data.decode("ascii", "replace").split()
    if len(words) != 1:
        raise KeyRefusedError(f"{one_line(written)} holds no VCP/I token; put one there and nothing else")
    return words[0]


def _read_shown(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_MAX_BYTES)
    except (OSError, ValueError) as why:
        reason = str(getattr(why, "strerror", None) or why).lower()
        raise KeyRefusedError(f"{path} cannot be read: {reason}; give the path of another file") from None
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
        note(
            f"others can read {path}; everyone who has the token can use it: chmod 600 {shlex.quote(str(path))}"
        )
    return data


REVOKED: Final = "TOKEN_REVOKED"

_FORMS: Final = {"signed_a": "signed", "signed_b": "stamped", "uvc": "value"}
_WHY: Final = {
    TokenRefusal.MALFORMED: "it is not a VCP/I token; check that it is complete",
    TokenRefusal.UNKNOWN_ISSUER: "this node has no key of its issuer; give --key or --secret-file, or set vcp.issuers",
    TokenRefusal.BAD_SIGNATURE: "its signature does not fit the key of the issuer; check the key and the token",
    TokenRefusal.EXPIRED: "it is too old; issue a new one",
    TokenRefusal.NOT_YET_VALID: "its time is in the future; check the clocks of both machines",
    TokenRefusal.LIST_UNAVAILABLE: "the revocation list of its issuer is not available; try again later",
    TokenRefusal.REVOKED: "it is revoked; issue another under a new subject or kind",
}


def issue_token(
    settings: Settings,
    subject: str,
    kind: str,
    issuer: str | None,
    secret_file: str | None,
    passphrase_file: str | None,
    *,
    as_json: bool,
) -> None:
    own, now = own_id(settings), int(SystemClock().now())
    name = issuer or own.hex()
    if foreign_key(settings, name, own):
        raise ConfigError(f"vcp.issuers gives {name} another key than this node's; choose another --issuer")
    if secret_file is None:
        key = own_key(settings, passphrase_file)
        token = issue_a(key, issuer=name, kind=kind, subject=subject)
        details: dict[str, Any] = {"form": "signed", "kind": kind, "key": own.hex()}
    else:
        token = issue_b(_secret(secret_file).secret, issuer=name, subject=subject, issued_at=now)
        details = {"form": "stamped", "issued_at": write_moment(now)}
    if _is_revoked(settings, Revocable((token_id(token),), subject_id(name, subject))):
        raise ConflictError(
            f"this token of {subject} is revoked here for good; choose another subject or kind"
        )
    revocations = OwnRevocations(settings.data, own)
    if name not in revocations.issuers():
        revocations.open_list(name, own_key(settings, passphrase_file), now)
    about = {"issuer": name, "subject": subject, **details}
    print_answer({"token": token, "token_id": token_id(token), **about}, token, as_json=as_json)


def verify_token(
    settings: Settings, token: str, key: str | None, secret_file: str | None, *, as_json: bool
) -> None:
    now = SystemClock().now()
    written = read_token(token)
    if key is not None:
        issuers = _issuer_of_token(written, signature_keys=(SignatureKey(_public(key)),))
    elif secret_file is not None:
        issuers = _issuer_of_token(written, shared_keys=(_secret(secret_file),))
    else:
        issuers = _trusted_issuers(settings)
    verdict = verify_identity(written, mode=IdentityMode.VERIFIED, issuers=issuers, now=now)
    if verdict.ok and _is_revoked(settings, verdict.revocable):
        verdict = verdict.refused(TokenRefusal.REVOKED)
    stamp = written.issued_at if isinstance(written, StampedToken) else None
    clocks = (
        "" if stamp is None else f" (issued at {clock_words(stamp)}, the clock here says {clock_words(now)})"
    )
    _tell(verdict, clocks, as_json=as_json)


def revoke_token(
    settings: Settings,
    token: str | None,
    subject: str | None,
    reason: str,
    passphrase_file: str | None,
    *,
    as_json: bool,
) -> None:
    refuse_memory(settings, "a revocation needs to be on record")
    now = int(SystemClock().now())
    written = None if token is None else read_token(token)
    about = _subject(subject) if subject is not None else ""
    listed = CRLEntry(
        bundle_id=about,
        jti="" if written is None else _revocable_id(written),
        revoked_at=write_moment(now),
        reason=RevocationReason(one_of("--reason", reason, list(RevocationReason))),
    )
    key = own_key(settings, passphrase_file)
    revocations = OwnRevocations(settings.data, key.vacant_id)
    issuer = _issued_here_as(settings, revocations, written, about, key)
    new = asyncio.run(_revoke(settings, revocations, listed, issuer, key, now))
    path = revocations.path(issuer)
    if as_json:
        print_json(
            {
                "revoked": listed.bundle_id or listed.jti,
                "new": new,
                "reason": listed.reason.value,
                "issuer": issuer,
                "list": str(path),
            }
        )
        return
    what = f"all tokens of {listed.bundle_id} are" if listed.bundle_id else f"the token {listed.jti[:8]} is"
    print_line(f"{what} {'now' if new else 'already'} revoked, in {path}")
    if issuer is None:
        sys.stdout.flush()
        note(
            "only this node refuses it: it is not a token that this node issued, so its issuer has to revoke it"
        )


def _issued_here_as(
    settings: Settings, revocations: OwnRevocations, token: str | None, about: str, key: SigningKey
) -> str | None:
    """Return the name of this node on the token, or of the subject's issuer; None if it is another's."""
    if token is None:
        name = about.partition(":")[0]
        mine = (*revocations.issuers(), *own_names(settings, key.vacant_id))
        return name if name in mine else None
    parsed = parse_identity(token)
    if isinstance(parsed, UvcToken):
        return None
    if isinstance(parsed, StampedToken):
        return parsed.issuer if parsed.issuer in revocations.issuers() else None
    own = IssuerRegistry([Issuer(name=parsed.issuer, signature_keys=(SignatureKey(key.vacant_id.public),))])
    verdict = verify_identity(token, mode=IdentityMode.VERIFIED, issuers=own, now=0.0)
    return parsed.issuer if verdict.ok else None


async def _revoke(
    settings: Settings,
    revocations: OwnRevocations,
    listed: CRLEntry,
    issuer: str | None,
    key: SigningKey,
    now: int,
) -> bool:
    async with writing(settings, key) as (_store, record, _chain):
        new = revocations.revoke(listed, key, now, issuer)
        if new:
            about = privacy_hash(listed.bundle_id or listed.jti)
            await record.commit((), own_act(REVOKED, about))
        return new


def _is_revoked(settings: Settings, revocable: Revocable) -> bool:
    if not has_identity(settings.data):
        return False
    return OwnRevocations(settings.data, own_id(settings)).denylist().names(revocable)


def _trusted_issuers(settings: Settings) -> IssuerRegistry:
    """Return the issuers that the node of this folder trusts."""
    return issuers_of(settings, own_id(settings) if has_identity(settings.data) else None)


def _issuer_of_token(written: str, **keys: Any) -> IssuerRegistry:
    """Return a registry with the issuer that the token names and the given key."""
    with contextlib.suppress(MalformedError):
        token = parse_identity(written)
        if not isinstance(token, UvcToken):
            return IssuerRegistry([Issuer(name=token.issuer, **keys)])
    return IssuerRegistry()


def _tell(verdict: TokenVerdict, clocks: str, *, as_json: bool) -> None:
    form = None if verdict.kind is None else _FORMS[verdict.kind.value]
    if as_json:
        print_json(
            {
                "ok": verdict.ok,
                "reason": None if verdict.refusal is None else verdict.refusal.value,
                "form": form,
                "issuer": verdict.issuer,
                "subject": verdict.subject,
                "owner": verdict.owner,
                "token_id": verdict.token_id,
            }
        )
    else:
        fields = [("token", verdict.token_id[:8]), ("form", form or "unknown")]
        if verdict.issuer is not None and verdict.subject is not None:
            fields += [("issuer", verdict.issuer), ("subject", verdict.subject)]
        print_fields([*fields, ("verdict", "valid" if verdict.ok else "NOT VALID")])
        if verdict.refusal is not None:
            sys.stdout.flush()
            late = clocks if verdict.refusal in (TokenRefusal.EXPIRED, TokenRefusal.NOT_YET_VALID) else ""
            say(
                verdict.refusal.value, f"the token is not valid: {_WHY[verdict.refusal]}{late}", as_json=False
            )
    if not verdict.ok:
        raise typer.Exit(FAILED)


def _secret(file: str) -> SharedKey:
    return read_secrets(Path(file).expanduser())[0]


def _public(written: str) -> bytes:
    if written.startswith(FROM_FILE):
        written = (
            Path(written.removeprefix(FROM_FILE)).expanduser().read_bytes()[:4096].decode("ascii", "replace")
        )
    written = written.strip()
    for read in (VacantId.from_hex, VacantId.from_did_key):
        with contextlib.suppress(MalformedError):
            return read(written).public
    with contextlib.suppress(ComityError):
        found = read_trust_key(written)
        assert isinstance(found, PublicKey)
        return found.public
    raise ConfigError("--key must be an Ed25519 public key: 64 hexadecimal digits, did:key, base64 or PEM")


def _revocable_id(token: str) -> str:
    parse_identity(token)  # revoking something else than a token would have no effect
    return token_id(token)


def _subject(written: str) -> str:
    issuer, mark, subject = written.partition(":")
    if not (issuer and mark and subject) or ":" in subject:
        raise ConfigError("--subject must be ISSUER:SUBJECT, as in the token")
    return subject_id(issuer, subject)
