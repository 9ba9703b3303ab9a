"""What the owner of this node has revoked: one signed list in the data folder, for `comity id token revoke`.

- The list is a CRL in the signed shape, signed by the node's own key: it can be published as it is, and
  on this node it is the denylist, which counts also after its `next_update`.
- It is replaced as a whole, durably, by one process at a time; what is on it stays on it.
- A list that does not carry our signature is refused, never overlooked: somebody has changed it.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from comity.core.errors import ComityError, StoreCorruptError, StoreUnavailableError, TooLargeError
from comity.core.identity.keys import SigningKey, VacantId
from comity.core.revocation.crl import CRL, CRLEntry, read_crl, sign_crl
from comity.core.revocation.decision import Denylist
from comity.core.revocation.signature import PublicKey, signature_holds
from comity.core.wire import strict_json

try:
    import fcntl
except ImportError:  # Windows: nothing to lock with; two who revoke in the same moment are on their own
    fcntl = None  # type: ignore[assignment]

LIST_FILE: Final = "revocations.json"
LIST_LIMIT: Final = 1024 * 1024
VALID_SECONDS: Final = 7 * 86_400

_LOCK_FILE: Final = ".revocations.lock"
_NOTHING: Final = Denylist()


class OwnRevocations:
    """The list of one data folder, read again whenever it has changed."""

    def __init__(self, folder: Path, owner: VacantId) -> None:
        self._folder = folder
        self._owner = owner
        self._seen: tuple[int, ...] | None = None
        self._denylist = _NOTHING

    @property
    def path(self) -> Path:
        return self._folder / LIST_FILE

    def denylist(self) -> Denylist:
        """Raises StoreCorruptError for a list that is not ours: then nobody can tell what is revoked."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._seen, self._denylist = None, _NOTHING
            return _NOTHING
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._denylist = _denied(self.read())
            self._seen = seen
        return self._denylist

    def read(self) -> tuple[CRLEntry, ...]:
        try:
            with self.path.open("rb") as file:
                data = file.read(LIST_LIMIT + 1)
        except FileNotFoundError:
            return ()
        if len(data) > LIST_LIMIT:
            raise self._corrupt(f"it is larger than {LIST_LIMIT:,} bytes")
        try:
            received = strict_json.loads(data, unique_keys=True)
            crl = read_crl(received)
        except ComityError as fault:
            raise self._corrupt(fault.message) from None
        if crl.issuer_id != self._owner.hex() or not signature_holds(received, PublicKey(self._owner.public)):
            raise self._corrupt("it is not signed by this node")
        return crl.entries

    def revoke(self, entry: CRLEntry, key: SigningKey, now: int) -> bool:
        """Put it on the list and sign the list anew. False when it is there already."""
        with self._alone():
            entries = self.read()
            if any((known.jti, known.bundle_id) == (entry.jti, entry.bundle_id) for known in entries):
                return False
            self._replace(
                sign_crl(
                    key,
                    issuer_id=self._owner.hex(),
                    published_at=now,
                    next_update=now + VALID_SECONDS,
                    entries=(*entries, entry),
                )
            )
            return True

    def _replace(self, crl: CRL) -> None:
        data = msgspec.json.format(msgspec.json.encode(crl), indent=1) + b"\n"
        if len(data) > LIST_LIMIT:
            raise TooLargeError("the list of revocations", LIST_LIMIT)
        draft = self.path.with_name(f".{LIST_FILE}.{secrets.token_hex(8)}.new")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            _sync(self._folder)
        finally:
            draft.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            file = os.open(self._folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as reason:
            raise StoreUnavailableError(
                f"{self._folder} cannot be written ({reason.strerror}); check the folder's permissions"
            ) from None
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def _corrupt(self, why: str) -> StoreCorruptError:
        return StoreCorruptError(f"{self.path} cannot be used: {why}; put the true list back")


def _denied(entries: tuple[CRLEntry, ...]) -> Denylist:
    """An entry about a single token says nothing of its subject's others."""
    return Denylist(
        frozenset(entry.jti for entry in entries if entry.jti),
        frozenset(entry.bundle_id for entry in entries if entry.bundle_id),
    )


def _sync(folder: Path) -> None:
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
