"""Identity folders of the reference release, `~/.vacant/<name>`, read and left as they are (envelope 6).

- `key.json` holds the seed, or says that the keyring of the operating system does, under the folder's name.
  The seed must belong to the public key that the folder names, wherever it names one.
- `meta.json`, `envelope_state.json` and `logbook.jsonl` may be missing. What cannot be read in them is not
  taken, and `faults` says why; only the key is needed.
- The logbook is verified. A bad one does not stand in the way of the key: it is reported.
"""

import os
import stat
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.envelopes.protocol.card import RuntimeState
from comity.envelopes.protocol.chain import ReplayState
from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH, HASH_BYTES, LAST_SEQUENCE_NO
from comity.envelopes.protocol.resident import Logbook, LogEntry
from comity.identity import key_files
from comity.identity.private_files import read_private
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.wire import strict_json
from comity.wire.errors import ComityError, KeyRefusedError, MalformedError

KEY_FILE: Final = "key.json"
META_FILE: Final = "meta.json"
CHAINS_FILE: Final = "envelope_state.json"
LOGBOOK_FILE: Final = "logbook.jsonl"
KEYRING_SERVICE: Final = "vacant.cli"

_FILE_LIMIT: Final = 64 * 1024 * 1024
_ELSEWHERE: Final = ("attestations_issued.jsonl", "reviews_received.jsonl")


class CallChains(Struct, frozen=True):
    """Where the folder's owner stood with one target, as its caller."""

    requests: ReplayState
    replies: ReplayState


class VacantFolder(Struct, frozen=True, kw_only=True):
    """`kept_in_keyring` says where the key came from. `left` names the files that are not read;
    `logbook_fault` is None for a logbook that verifies.
    """

    name: str
    key: SigningKey
    kept_in_keyring: bool
    capability: str | None
    endpoint: str | None
    state: RuntimeState | None
    parent: VacantId | None
    chains: dict[VacantId, CallChains]
    logbook_entries: int
    logbook_fault: str | None
    left: tuple[str, ...]
    faults: tuple[str, ...]


class _KeyFile(Struct):
    key_storage: str = "plaintext"
    pubkey_hex: str = ""
    seed_hex: str = ""


class _Meta(Struct):
    vacant_id_hex: str = ""
    state: str | None = None
    capability_text: str | None = None
    endpoint: str | None = None
    parent_id_hex: str | None = None


class _Link(Struct):
    last_seq: int = 0
    last_hash_hex: str = EMPTY_PREV_HASH.hex()


class _Target(Struct):
    request: _Link = msgspec.field(default_factory=_Link)
    response: _Link = msgspec.field(default_factory=_Link)


def read_vacant_folder(folder: Path) -> VacantFolder:
    """Read everything that can be taken from the folder. Raise KeyRefusedError if it holds no usable key."""
    name = folder.resolve().name
    if not _is_file(folder / KEY_FILE):
        raise KeyRefusedError(_no_key(folder))
    kept = _key_file(folder / KEY_FILE)
    faults: list[str] = []
    meta = _meta(folder / META_FILE, faults)
    key = _key(folder, name, kept)
    for file, claimed in ((KEY_FILE, kept.pubkey_hex), (META_FILE, meta.vacant_id_hex)):
        if claimed and claimed.lower() != key.vacant_id.hex():
            raise KeyRefusedError(
                f"{folder / file} names another identity than its key has; restore the folder from a copy"
            )
    entries, fault = _logbook(folder / LOGBOOK_FILE, key.vacant_id)
    return VacantFolder(
        name=name,
        key=key,
        kept_in_keyring=kept.key_storage == "keyring",
        capability=meta.capability_text or None,
        endpoint=meta.endpoint or None,
        state=_state(meta.state, faults),
        parent=_parent(meta.parent_id_hex, faults),
        chains=_chains(folder / CHAINS_FILE, faults),
        logbook_entries=entries,
        logbook_fault=fault,
        left=tuple(file for file in _ELSEWHERE if _is_file(folder / file)),
        faults=tuple(faults),
    )


def _names(folder: Path) -> list[str]:
    """Return the identity folders in a folder, by name."""
    try:
        return sorted(each.name for each in folder.iterdir() if _is_file(each / KEY_FILE))
    except OSError:
        return []


def _key_file(path: Path) -> _KeyFile:
    try:
        return msgspec.json.decode(read_private(path), type=_KeyFile)
    except msgspec.MsgspecError:
        raise KeyRefusedError(f"{path} is not the key file of a vacant; restore it from a copy") from None


def _key(folder: Path, name: str, kept: _KeyFile) -> SigningKey:
    match kept.key_storage:
        case "plaintext":
            seed, where = kept.seed_hex, str(folder / KEY_FILE)
        case "keyring":
            seed, where = _from_keyring(name), f"the keyring entry {KEYRING_SERVICE}/{name}"
        case other:
            raise KeyRefusedError(
                f"{folder / KEY_FILE} keeps its key in {other[:40]!r}; only plaintext and keyring can be read"
            )
    try:
        return SigningKey.from_seed(bytes.fromhex(seed))
    except (ComityError, ValueError):
        raise KeyRefusedError(
            f"{where} holds no seed of 64 hexadecimal digits; restore it from a copy"
        ) from None


def _from_keyring(name: str) -> str:
    seed = key_files.read_entry(KEYRING_SERVICE, name)
    if not isinstance(seed, str):
        raise KeyRefusedError(
            f"the keyring holds nothing for {KEYRING_SERVICE}/{name}; "
            "the folder must have the name under which its identity was made"
        )
    return seed


def _meta(path: Path, faults: list[str]) -> _Meta:
    data = _read(path, faults)
    try:
        return _Meta() if data is None else msgspec.json.decode(data, type=_Meta)
    except msgspec.MsgspecError as reason:
        faults.append(f"{META_FILE} cannot be read: {reason}")
        return _Meta()


def _state(text: str | None, faults: list[str]) -> RuntimeState | None:
    if text is None:
        return None
    if text not in RuntimeState.__members__:
        faults.append(f"{META_FILE} has a state that nobody knows: {text[:40]!r}")
        return None
    return RuntimeState(text)


def _parent(text: str | None, faults: list[str]) -> VacantId | None:
    try:
        return VacantId.from_hex(text) if text else None
    except MalformedError:
        faults.append(f"{META_FILE} has a parent_id_hex that is no id")
        return None


def _chains(path: Path, faults: list[str]) -> dict[VacantId, CallChains]:
    data = _read(path, faults)
    if data is None:
        return {}
    try:
        members = strict_json.loads(data, unique_keys=True)
    except MalformedError as reason:
        faults.append(f"{CHAINS_FILE} cannot be read: {reason.message}")
        return {}
    if not isinstance(members, dict):
        faults.append(f"{CHAINS_FILE} cannot be read: it is not a JSON object")
        return {}
    chains = {}
    for target, held in members.items():
        try:
            chains[VacantId.from_hex(target)] = _call_chains(held)
        except (ComityError, ValueError, msgspec.ValidationError) as reason:
            faults.append(f"{CHAINS_FILE} has a chain that cannot be used ({target[:12]!r}): {reason}")
    return chains


def _call_chains(held: Any) -> CallChains:
    link = msgspec.convert(held, _Target)
    return CallChains(_link(link.request), _link(link.response))


def _link(link: _Link) -> ReplayState:
    tip = bytes.fromhex(link.last_hash_hex)
    if not 0 <= link.last_seq <= LAST_SEQUENCE_NO or len(tip) != HASH_BYTES:
        raise MalformedError(f"a number up to {LAST_SEQUENCE_NO} and a hash of {HASH_BYTES} bytes are needed")
    if (link.last_seq == 0) != (tip == EMPTY_PREV_HASH):
        raise MalformedError("number and hash contradict each other")
    return ReplayState(link.last_seq, tip)


def _logbook(path: Path, owner: VacantId) -> tuple[int, str | None]:
    """Return how many entries it has, and its first fault."""
    faults: list[str] = []
    data = _read(path, faults)
    if data is None:
        return 0, faults[0] if faults else None
    lines = [line for line in data.splitlines() if line.strip()]
    try:
        logbook = Logbook(map(LogEntry.from_line, lines))
        logbook.verify_or_raise(owner)
    except ComityError as reason:
        return len(lines), reason.message
    return len(logbook), None


def _read(path: Path, faults: list[str]) -> bytes | None:
    """Return a file that holds no secret; None when it is missing, or too large or not to be read, which is a fault."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            faults.append(f"{path.name} is not a file")
            return None
        with path.open("rb") as file:
            data = file.read(_FILE_LIMIT + 1)
    except FileNotFoundError:
        return None
    except OSError as reason:
        faults.append(f"{path.name} cannot be read: {(reason.strerror or type(reason).__name__).lower()}")
        return None
    if len(data) > _FILE_LIMIT:
        faults.append(f"{path.name} is larger than {_FILE_LIMIT:,} bytes")
        return None
    return data


def _no_key(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a folder; name one such as ~/.vacant/alice"
    names = _names(folder)
    if names:
        return f"{folder} holds several identities; name one of them: {', '.join(names[:10])}"
    return f"{folder} holds no {KEY_FILE}; name the folder of an identity, such as ~/.vacant/alice"


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - never raises
