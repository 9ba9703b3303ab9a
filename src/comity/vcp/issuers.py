"""Revocation lists and issuers: lists of others, fetched; our own, signed; and whose tokens a node believes.

- A list of another issuer is also stored as it was received, one file for each address in the settings. After a restart it
  counts as if it had just come, once it is verified again: an issuer that cannot be reached then locks nobody out.
- Our lists are CRLs in the signed shape, one file for each name that this node issues tokens under. The node publishes
  them as they are. Together they are the denylist of this node, which counts also after `next_update`.
- The list of the node's own id exists from the start, that of another name from its first token on; it may be empty.
  Tokens of other issuers are revoked for this node alone, on the list of its own id.
- A list is signed again at every change, and once a day while the node runs, long before its `next_update`.
- It is replaced as a whole, durably, by one process at a time; entries are never removed.
- A list without our signature is refused: it was altered. One that a former key of this node signed is signed again.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.http.client import HttpCarrier
from comity.identity.private_files import alone, read_private, replace_whole
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.identity.protocol.revocation import (
    CRL,
    CRLEntry,
    CrlSource,
    Denylist,
    PublicKey,
    RevocationList,
    SharedSecret,
    TrustKey,
    Unavailable,
    read_crl,
    read_list,
    read_moment,
    sign_crl,
    signature_holds,
)
from comity.identity.protocol.tokens import Issuer, IssuerRegistry, SharedKey, SignatureKey, is_issuer_name
from comity.identity.succession_files import read_own_line
from comity.requests.record import wait_uncancelled
from comity.runtime.settings import Settings
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    InvalidError,
    KeyRefusedError,
    StoreCorruptError,
    StoreUnavailableError,
    TooLargeError,
)
from comity.wire.machine import Clock

# Revocation lists of other issuers (vcp 5.4).


log = logging.getLogger("comity.crl")

CRL_LIMIT: Final = 1024 * 1024
CRL_TIMEOUT: Final = 5.0
MAX_LISTS: Final = 100
STALE_GRACE: Final = 300.0
PAUSE: Final = 10.0


class _CachedSource(Struct):
    """The state of one source. Times are of the monotonic clock."""

    found: RevocationList | None = None
    fresh_until: float = 0.0
    ask_again: float = 0.0
    pause_until: float = 0.0
    failure: str = ""


class CrlFetcher:
    def __init__(
        self,
        http: HttpCarrier,
        clock: Clock,
        *,
        https_only: bool = True,
        kept: int = MAX_LISTS,
        refresh: float = 3600.0,
        stored: "StoredLists | None" = None,
    ) -> None:
        """`http` is the guarded client, made with `CRL_TIMEOUT` and `CRL_LIMIT`. A list is fetched again after `refresh`
        seconds, when it is next needed.
        """
        self._http = http
        self._clock = clock
        self._https_only = https_only
        self._kept = kept
        self._refresh = refresh
        self._stored = stored
        self._held: OrderedDict[CrlSource, _CachedSource] = OrderedDict()
        self._fetching: dict[CrlSource, asyncio.Task[RevocationList | Unavailable]] = {}
        self._closed = False

    async def current(self, source: CrlSource) -> RevocationList | Unavailable:
        """The list of `source`. One that is out of date comes only within the grace; ask
        `revocation_status` with `STALE_GRACE`.
        """
        if self._closed:
            return Unavailable("the fetcher is closed")
        if self._https_only and not source.is_https:
            return Unavailable(f"the list of {source.issuer_id} is not at an https:// address")
        held = self._held.get(source)
        if held is not None:
            self._held.move_to_end(source)
            found = self._usable(held)
            if found is not None:
                if self._is_due(held, found):
                    self._fetch(source)
                return found
            if self._clock.monotonic() < held.pause_until:
                return Unavailable(held.failure)
        task = self._fetch(source)
        if task is None:
            return Unavailable("too many lists are being fetched at once")
        # not awaited itself: cancelling one caller must not cancel it for the others
        await asyncio.wait([task])
        return Unavailable("the fetcher was closed") if task.cancelled() else task.result()

    async def restore(self, sources: Iterable[CrlSource]) -> None:
        """Take the stored lists of these sources that still count. Each is fetched again when it is first needed."""
        if self._stored is None:
            return
        sources = [*sources][: self._kept]
        now = self._clock.now()
        found = await asyncio.to_thread(self._stored.read, sources, now - STALE_GRACE)
        monotonic = self._clock.monotonic()
        for source, each in found.items():
            self._keep(source, _CachedSource(each, monotonic + each.next_update - now, monotonic))

    def held(self, source: CrlSource) -> RevocationList | None:
        """Return the list at hand, if it still counts. Nothing is fetched."""
        held = self._held.get(source)
        return None if held is None else self._usable(held)

    async def aclose(self) -> None:
        self._closed = True
        fetching = list(self._fetching.values())
        for task in fetching:
            task.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)

    def _usable(self, held: _CachedSource) -> RevocationList | None:
        found = held.found
        if found is None or self._clock.monotonic() >= held.fresh_until + STALE_GRACE:
            return None
        return found if found.is_fresh(self._clock.now(), STALE_GRACE) else None

    def _is_due(self, held: _CachedSource, found: RevocationList) -> bool:
        now = self._clock.monotonic()
        stale = now >= held.fresh_until or not found.is_fresh(self._clock.now())
        return (stale or now >= held.ask_again) and now >= held.pause_until

    def _fetch(self, source: CrlSource) -> asyncio.Task[RevocationList | Unavailable] | None:
        """Return the running attempt, or a new one; None when there are too many."""
        task = self._fetching.get(source)
        if task is None and len(self._fetching) < self._kept:
            task = self._fetching[source] = asyncio.create_task(self._attempt(source))
        return task

    async def _attempt(self, source: CrlSource) -> RevocationList | Unavailable:
        try:
            found, body = await self._ask(source)
        except TimeoutError:
            return self._failed(source, f"no answer within {CRL_TIMEOUT:g} seconds")
        except ComityError as reason:
            return self._failed(source, reason.message)
        except Exception:
            log.exception("fetching the revocation list of %s broke", source.issuer_id)
            return self._failed(source, "fetching it broke")
        finally:
            self._fetching.pop(source, None)
        now = self._clock.monotonic()
        fresh_until = now + found.next_update - self._clock.now()
        self._keep(source, _CachedSource(found, fresh_until, now + self._refresh))
        if self._stored is not None:
            await self._stored.write(source, body)
        return found

    async def _ask(self, source: CrlSource) -> tuple[RevocationList, bytes]:
        async with asyncio.timeout(CRL_TIMEOUT):
            answer = await self._http.request("GET", source.uri)
        if answer.status != 200:
            raise InvalidError(f"the address answers with status {answer.status}")
        if len(answer.body) > CRL_LIMIT:
            raise TooLargeError("the list", CRL_LIMIT)
        found = read_list(answer.body, source, now=self._clock.now())
        known = self.held(source)
        if known is not None and found.published_at < known.published_at:
            raise InvalidError("the address gives an older list than before")
        return found, answer.body

    def _failed(self, source: CrlSource, reason: str) -> Unavailable:
        failure = f"the list of {source.issuer_id} could not be fetched: {reason}"
        log.warning("%s", failure)
        held = self._held.get(source) or _CachedSource()
        held.failure = failure
        held.pause_until = self._clock.monotonic() + PAUSE
        self._keep(source, held)
        return Unavailable(failure)

    def _keep(self, source: CrlSource, held: _CachedSource) -> None:
        self._held[source] = held
        while len(self._held) > self._kept:
            self._held.popitem(last=False)


class StoredLists:
    """The lists of others as they were received, in files that only this node reads. Nothing in them is believed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, sources: Iterable[CrlSource], now: float) -> dict[CrlSource, RevocationList]:
        """Return those that count now, and remove all other files."""
        found = {}
        files = {self._file(source): source for source in sources}
        for path in self._folder.glob("*" + _SUFFIX) if self._folder.is_dir() else ():
            source = files.get(path)
            try:
                if source is None:
                    raise InvalidError("the settings name no such list any more")
                with path.open("rb") as file:
                    body = file.read(CRL_LIMIT + 1)
                if len(body) > CRL_LIMIT:
                    raise TooLargeError("the list", CRL_LIMIT)
                found[source] = read_list(body, source, now=now)
            except (ComityError, OSError) as reason:
                log.info("the stored revocation list %s is not used: %s", path.name, reason)
                with contextlib.suppress(OSError):
                    path.unlink()
        return found

    async def write(self, source: CrlSource, body: bytes) -> None:
        """Store a list. If that is not possible, it is only missing after the next restart."""
        writing = asyncio.ensure_future(asyncio.to_thread(self._write, source, body))
        try:
            await asyncio.shield(writing)
        finally:  # a node that has stopped writes nothing to its folder
            await wait_uncancelled(writing)

    def _write(self, source: CrlSource, body: bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_whole(self._file(source), body)
        except OSError as reason:
            log.warning("the revocation list of %s could not be stored: %s", source.issuer_id, reason)

    def _file(self, source: CrlSource) -> Path:
        name = hashlib.sha256(f"{source.issuer_id}\n{source.uri}".encode()).hexdigest()
        return self._folder / f"{name}{_SUFFIX}"


LIST_FILE: Final = "revocations.json"
LISTS_FOLDER: Final = "revocations"
FETCHED_FOLDER: Final = "revocations/fetched"
LIST_LIMIT: Final = 1024 * 1024
VALID_SECONDS: Final = 7 * 86_400
RENEW_SECONDS: Final = 86_400

_LOCK_FILE: Final = ".revocations.lock"
_SUFFIX: Final = ".json"

_Stamp = tuple[int, int, int]


class _LoadedList(NamedTuple):
    """`current` is False where a former key of this node signed: the list is then signed again."""

    stamp: _Stamp
    crl: CRL
    current: bool

    def is_due(self, now: int) -> bool:
        return not self.current or _is_due(self.crl, now)


class OwnRevocations:
    """The lists of one data folder, each read again whenever it has changed."""

    def __init__(self, folder: Path, owner: VacantId) -> None:
        self._folder = folder
        line = read_own_line(folder, owner)
        self._signers = [PublicKey(public) for public in line.publics]
        self._former = {former.hex() for former in line.former}
        self._own = owner.hex()
        self._held: dict[str, _LoadedList] = {}
        self._denylist: tuple[tuple[_Stamp, ...], Denylist] = ((), Denylist())

    def path(self, issuer: str | None = None) -> Path:
        """Return the file of the list of that issuer; None: of this node's own id."""
        if issuer is None or issuer == self._own:
            return self._folder / LIST_FILE
        return self._folder / LISTS_FOLDER / f"{issuer}{_SUFFIX}"

    def issuers(self) -> tuple[str, ...]:
        """Return the names that this node issues tokens under, its own id first."""
        try:
            files = sorted(path.name for path in (self._folder / LISTS_FOLDER).iterdir())
        except FileNotFoundError:
            files = []
        names = (name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX))
        return (self._own, *(name for name in names if is_issuer_name(name)))

    def denylist(self) -> Denylist:
        """Raises StoreCorruptError if this node did not sign a list: the revoked tokens are then unknown."""
        held = [found for issuer in self.issuers() if (found := self._load(issuer)) is not None]
        stamp = tuple(each.stamp for each in held)
        if stamp != self._denylist[0]:
            entries = [entry for each in held for entry in each.crl.entries]
            self._denylist = (stamp, _denied(entries))
        return self._denylist[1]

    def read(self, issuer: str | None = None) -> tuple[CRLEntry, ...]:
        held = self._load(issuer or self._own)
        return () if held is None else held.crl.entries

    def current(self, issuer: str, key: SigningKey, now: int) -> CRL | None:
        """The list as it is published, signed again if that is due; None where this node issues nothing under
        the name.
        """
        if issuer not in self.issuers():
            return None
        held = self._load(issuer)
        if held is None or held.is_due(now):
            self.open_list(issuer, key, now)
            held = self._load(issuer)
        return None if held is None else held.crl

    def renew(self, key: SigningKey, now: int) -> None:
        """Create missing lists, and sign those again whose time has come."""
        for issuer in self.issuers():
            self.current(issuer, key, now)

    def open_list(self, issuer: str | None, key: SigningKey, now: int) -> None:
        """Create the list of the name, or sign it again if its time has come."""
        issuer = issuer or self._own
        with self._locked():
            held = self._load(issuer)
            if held is None or held.is_due(now):
                self._write(issuer, key, now, () if held is None else held.crl.entries)

    def revoke(self, entry: CRLEntry, key: SigningKey, now: int, issuer: str | None = None) -> bool:
        """Add an entry to the issuer's list and sign it. Return False if it is there already."""
        issuer = issuer or self._own
        with self._locked():
            entries = self.read(issuer)
            if any((known.jti, known.bundle_id) == (entry.jti, entry.bundle_id) for known in entries):
                return False
            self._write(issuer, key, now, (*entries, entry))
            return True

    def _load(self, issuer: str) -> _LoadedList | None:
        """Return the list as it is now; None where there is none."""
        path = self.path(issuer)
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                known = self._held.get(issuer)
                if known is not None and known.stamp == stamp:
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
        former = issuer == self._own and crl.issuer_id in self._former
        if not (former or crl.issuer_id == issuer) or not any(
            signature_holds(received, signer) for signer in self._signers
        ):
            raise _corrupt(path, "it is not signed by this node")
        current = not former and signature_holds(received, self._signers[0])
        self._held[issuer] = held = _LoadedList(stamp, crl, current)
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
    def _locked(self) -> Iterator[None]:
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
    """Return the denylist of these entries. An entry about one token does not affect others of its subject."""
    entries = tuple(entries)
    return Denylist(
        frozenset(entry.jti for entry in entries if entry.jti),
        frozenset(entry.bundle_id for entry in entries if entry.bundle_id),
    )


# The issuers whose tokens a node believes, from its settings and its data folder.


SECRETS_FOLDER: Final = "issuers"


class NodeIssuers(IssuerRegistry):
    """The issuers that the settings name, and this node under each name that it has issued tokens under."""

    def __init__(self, issuers: Iterable[Issuer], own: VacantId, lists: OwnRevocations) -> None:
        super().__init__(issuers)
        self._own = own
        self._lists = lists

    def get(self, name: str) -> Issuer | None:
        found = super().get(name)
        if (found is not None and found.signature_keys) or name not in self._lists.issuers():
            return found
        keys = (SignatureKey(self._own.public),)
        return (
            Issuer(name=name, signature_keys=keys) if found is None else replace(found, signature_keys=keys)
        )


def issuers_of(settings: Settings, own: VacantId | None) -> IssuerRegistry:
    vcp = settings.vcp
    keys = {name: bytes.fromhex(key) for name, key in _pairs(vcp.issuers).items()}
    secrets = {name: read_secrets(secret_file(settings.data, name)) for name in vcp.secret_issuers}
    addresses = _pairs(vcp.crls)
    issuers = []
    for name in (*keys, *(name for name in secrets if name not in keys)):
        shared = secrets.get(name, ())
        source = None
        if name in addresses:
            trusted: TrustKey = PublicKey(keys[name]) if name in keys else SharedSecret(shared[0].secret)
            source = CrlSource(
                issuer_id=name, uri=addresses[name], key=trusted, accept_unsigned=name in vcp.unsigned_crls
            )
        issuers.append(
            Issuer(
                name=name,
                signature_keys=(SignatureKey(keys[name]),) if name in keys else (),
                shared_keys=shared,
                crl=source,
            )
        )
    if own is None:
        return IssuerRegistry(issuers)
    return NodeIssuers(issuers, own, OwnRevocations(settings.data, own))


def own_names(settings: Settings, own: VacantId) -> tuple[str, ...]:
    """Return the names to which the settings give this node's own key."""
    return tuple(name for name, key in _pairs(settings.vcp.issuers).items() if key == own.hex())


def foreign_key(settings: Settings, name: str, own: VacantId) -> bool:
    """Return whether the settings give another key to the name."""
    return _pairs(settings.vcp.issuers).get(name, own.hex()) != own.hex()


def secret_file(data: Path, name: str) -> Path:
    return data / SECRETS_FOLDER / f"{name}.secret"


def read_secrets(path: Path) -> tuple[SharedKey, ...]:
    """Read the secrets, one on each line. All verify; the first one also issues, so that a new one goes on top."""
    lines = [line.rstrip(b"\r") for line in read_private(path).split(b"\n")]
    try:
        secrets = tuple(SharedKey(line) for line in lines if line)
    except ComityError as fault:
        raise KeyRefusedError(f"{path} cannot be used: {fault.message}") from None
    if not secrets:
        raise KeyRefusedError(f"{path} is empty; put the shared secret of the issuer into its first line")
    return secrets


def _pairs(entries: tuple[str, ...]) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in entries)
