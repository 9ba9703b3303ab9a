"""What this node has revoked: signed lists in the data folder, one for each name that it issues tokens under.

- A list is a CRL in the signed shape, signed by the node's own key, for the issuer name that the tokens carry. The
  node publishes it as it is; on this node all lists together are the denylist, which counts also after `next_update`.
- The list of the node's own id is there from the start, and another name's from the first token on. An empty list is
  a list. Tokens of issuers that are not this node are revoked for this node alone, on the list of its own id.
- A list is signed again at every change, and once a day while the node runs: long before its `next_update`.
- It is replaced as a whole, durably, by one process at a time; what is on it stays on it.
- A list that does not carry our signature is refused, never overlooked: somebody has changed it.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from comity.identity.private_files import alone, replace_whole
from comity.identity.protocol.decision import Denylist
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.identity.protocol.revocation import CRL, CRLEntry, read_crl, read_moment, sign_crl
from comity.identity.protocol.signature import PublicKey, signature_holds
from comity.identity.protocol.signed_token import is_issuer_name
from comity.wire import strict_json
from comity.wire.errors import ComityError, StoreCorruptError, StoreUnavailableError, TooLargeError

LIST_FILE: Final = "revocations.json"
LISTS_FOLDER: Final = "revocations"
LIST_LIMIT: Final = 1024 * 1024
VALID_SECONDS: Final = 7 * 86_400
RENEW_SECONDS: Final = 86_400

_LOCK_FILE: Final = ".revocations.lock"
_SUFFIX: Final = ".json"

_Seen = tuple[int, int, int]


class _HeldList(NamedTuple):
    seen: _Seen
    crl: CRL


class OwnRevocations:
    """The lists of one data folder, each read again whenever it has changed."""

    def __init__(self, folder: Path, owner: VacantId) -> None:
        self._folder = folder
        self._owner = owner
        self._own = owner.hex()
        self._held: dict[str, _HeldList] = {}
        self._denylist: tuple[tuple[_Seen, ...], Denylist] = ((), Denylist())

    def path(self, issuer: str | None = None) -> Path:
        """Of the list of that issuer; None: of this node's own id."""
        if issuer is None or issuer == self._own:
            return self._folder / LIST_FILE
        return self._folder / LISTS_FOLDER / f"{issuer}{_SUFFIX}"

    def issuers(self) -> tuple[str, ...]:
        """The names that this node issues tokens under, its own id first."""
        try:
            files = sorted(path.name for path in (self._folder / LISTS_FOLDER).iterdir())
        except FileNotFoundError:
            files = []
        names = (name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX))
        return (self._own, *(name for name in names if is_issuer_name(name)))

    def denylist(self) -> Denylist:
        """Raises StoreCorruptError if this node did not sign the list, because the revoked tokens are then unknown."""
        held = [found for issuer in self.issuers() if (found := self._hold(issuer)) is not None]
        seen = tuple(each.seen for each in held)
        if seen != self._denylist[0]:
            entries = [entry for each in held for entry in each.crl.entries]
            self._denylist = (seen, _denied(entries))
        return self._denylist[1]

    def read(self, issuer: str | None = None) -> tuple[CRLEntry, ...]:
        held = self._hold(issuer or self._own)
        return () if held is None else held.crl.entries

    def current(self, issuer: str, key: SigningKey, now: int) -> CRL | None:
        """The list as it is published, signed again if that is due; None where this node issues nothing under
        the name.
        """
        if issuer not in self.issuers():
            return None
        held = self._hold(issuer)
        if held is None or _is_due(held.crl, now):
            self.open_list(issuer, key, now)
            held = self._hold(issuer)
        return None if held is None else held.crl

    def renew(self, key: SigningKey, now: int) -> None:
        """Have all lists, and sign those again for which it is time."""
        for issuer in self.issuers():
            self.current(issuer, key, now)

    def open_list(self, issuer: str | None, key: SigningKey, now: int) -> None:
        """Have a list for the name, with all that is on it, signed not long ago."""
        issuer = issuer or self._own
        with self._alone():
            held = self._hold(issuer)
            if held is None or _is_due(held.crl, now):
                self._write(issuer, key, now, () if held is None else held.crl.entries)

    def revoke(self, entry: CRLEntry, key: SigningKey, now: int, issuer: str | None = None) -> bool:
        """Put it on the issuer's list and sign the list anew. False when it is there already."""
        issuer = issuer or self._own
        with self._alone():
            entries = self.read(issuer)
            if any((known.jti, known.bundle_id) == (entry.jti, entry.bundle_id) for known in entries):
                return False
            self._write(issuer, key, now, (*entries, entry))
            return True

    def _hold(self, issuer: str) -> _HeldList | None:
        """The list as it is now; None where there is none."""
        path = self.path(issuer)
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_ino, status.st_mtime_ns, status.st_size)
                known = self._held.get(issuer)
                if known is not None and known.seen == seen:
                    return known
                data = file.read(LIST_LIMIT + 1)
        except FileNotFoundError:
            return None
        if len(data) > LIST_LIMIT:
            raise _corrupt(path, f"it is larger than {LIST_LIMIT:,} bytes")
        try:
            received = strict_json.loads(data, unique_keys=True)
            crl = read_crl(received)
        except ComityError as fault:
            raise _corrupt(path, fault.message) from None
        if crl.issuer_id != issuer or not signature_holds(received, PublicKey(self._owner.public)):
            raise _corrupt(path, "it is not signed by this node")
        self._held[issuer] = held = _HeldList(seen, crl)
        return held

    def _write(self, issuer: str, key: SigningKey, now: int, entries: tuple[CRLEntry, ...]) -> None:
        crl = sign_crl(
            key, issuer_id=issuer, published_at=now, next_update=now + VALID_SECONDS, entries=entries
        )
        data = msgspec.json.format(msgspec.json.encode(crl), indent=1) + b"\n"
        if len(data) > LIST_LIMIT:
            raise TooLargeError("the list of revocations", LIST_LIMIT)
        path = self.path(issuer)
        try:
            if path.parent != self._folder:
                path.parent.mkdir(mode=0o700, exist_ok=True)
            replace_whole(path, data)
        except OSError as reason:
            raise _unwritable(path.parent, reason) from None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(alone(self._folder / _LOCK_FILE))
            except OSError as reason:
                raise _unwritable(self._folder, reason) from None
            yield


def _corrupt(path: Path, why: str) -> StoreCorruptError:
    return StoreCorruptError(f"{path} cannot be used: {why}; put the true list back")


def _unwritable(folder: Path, reason: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{folder} cannot be written ({reason.strerror}); check the folder's permissions"
    )


def _is_due(crl: CRL, now: int) -> bool:
    return now >= read_moment("published_at", crl.published_at) + RENEW_SECONDS


def _denied(entries: Iterable[CRLEntry]) -> Denylist:
    """An entry about a single token says nothing of its subject's others."""
    entries = tuple(entries)
    return Denylist(
        frozenset(entry.jti for entry in entries if entry.jti),
        frozenset(entry.bundle_id for entry in entries if entry.bundle_id),
    )
