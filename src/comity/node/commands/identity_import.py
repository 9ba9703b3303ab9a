"""Import an identity of the reference implementation: its key, its state, what it offers, and its chains.

The key comes first and never replaces another. The rest may be repeated: a chain only moves forwards, and an existing
settings file is not changed.
"""

import os
import tempfile
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from comity.agents.residence import SPACE, STATE_KEY, store_state
from comity.envelopes.client.pair import CALL_BOOK
from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.protocol.envelope import HASH_BYTES, LAST_SEQUENCE_NO
from comity.envelopes.queues import SERVE_BOOK, chain_of, state_of, tip_of
from comity.envelopes.vacant_import import VacantFolder
from comity.http.addresses import read_url
from comity.identity.key_files import create_identity, has_identity, identity_path, stored_vacant_id
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.requests.record import own_act
from comity.runtime.opening import read_foreign
from comity.runtime.settings import Settings
from comity.runtime.settings_file import CONFIG_FILE, load_settings
from comity.runtime.toml_edit import put_value
from comity.store.claim import running_node
from comity.store.interface import Advance, Operation, Store
from comity.system import is_loopback
from comity.terminal.open_target import refuse_memory, writing
from comity.terminal.output import counted, one_line
from comity.wire.errors import (
    ComityError,
    ConfigError,
    ConflictError,
    KeyRefusedError,
    MalformedError,
    StoreError,
)

IMPORTED: Final = "IDENTITY_IMPORTED"
REPLAY_IMPORTED: Final = "REPLAY_IMPORTED"

_REPLAY_TIPS: Final = """
    SELECT from_vid_hex, to_vid_hex, max(sequence_no), chain_tip FROM replay_protect
    WHERE from_vid_hex = :own OR to_vid_hex = :own GROUP BY from_vid_hex, to_vid_hex
"""


class Takeover(Struct, frozen=True):
    """What was imported and what was not, each with a short explanation."""

    taken: list[tuple[str, str]]
    left: list[tuple[str, str]]

    def as_json(self) -> dict[str, Any]:
        return {
            name: [{"what": what, "note": note} for what, note in facts]
            for name, facts in (("taken", self.taken), ("left", self.left))
        }


async def take_over(
    settings: Settings,
    source: VacantFolder,
    *,
    replay: Path | None,
    passphrase: str | None,
    may_configure: bool,
) -> Takeover:
    """Import a folder. `may_configure`: no other settings file is named, so that of the data folder may be made."""
    _refuse_running(settings)
    tips = None if replay is None else read_replay_tips(replay, source.key.vacant_id)
    report = Takeover([], [])
    _take_key(settings, source, passphrase, report)
    _take_profile(settings, source, report, may_configure=may_configure)
    async with writing(settings, source.key) as (store, record, _chain):
        operations = [
            *await _state(store, source, report),
            *await _chains(store, source, report),
            *(await _served(store, tips, source.key.vacant_id, report) if tips is not None else ()),
        ]
        fact = f"identity:{source.key.vacant_id.hex()}"
        await record.commit(operations, own_act(IMPORTED, fact))
    report.left.extend(_rest(source))
    return report


async def take_replay(settings: Settings, key: SigningKey, replay: Path) -> Takeover:
    """Import the places in the chains of answered calls, for an identity that exists here already."""
    _refuse_running(settings)
    tips = read_replay_tips(replay, key.vacant_id)
    report = Takeover([], [])
    async with writing(settings, key) as (store, record, _chain):
        operations = await _served(store, tips, key.vacant_id, report)
        if operations:
            fact = f"identity:{key.vacant_id.hex()}"
            await record.commit(operations, own_act(REPLAY_IMPORTED, fact))
    return report


def read_replay_tips(file: Path, own: VacantId) -> dict[PairKey, ReplayState]:
    """Read the last number of each pair of `own` from a replay database of the reference. The file is only read."""
    if not file.is_file():
        raise ConfigError(f"{file} is not a file; name the replay database, such as replay.db")
    try:
        rows = read_foreign(file, _REPLAY_TIPS, {"own": own.hex()})
    except StoreError as fault:
        raise MalformedError(
            f"{file} is not a replay database of the reference release, which has a table replay_protect; "
            "name the right file"
        ) from fault
    try:
        return {
            PairKey(VacantId.from_hex(sender), VacantId.from_hex(receiver)): _sound(seq, tip)
            for sender, receiver, seq, tip in rows
        }
    except (ComityError, TypeError, ValueError) as fault:
        raise MalformedError(f"{file} holds a row that cannot be read ({fault}); nothing was taken") from None


def _sound(seq: Any, tip: Any) -> ReplayState:
    if (
        type(seq) is not int
        or not 1 <= seq <= LAST_SEQUENCE_NO
        or type(tip) is not bytes
        or len(tip) != HASH_BYTES
    ):
        raise ValueError(f"number {seq!r} with a tip that is not {HASH_BYTES} bytes")
    return ReplayState(seq, tip)


async def _served(
    store: Store, tips: dict[PairKey, ReplayState], own: VacantId, report: Takeover
) -> list[Operation]:
    """Return the operations that set the chains of accepted requests and of replies."""
    operations: list[Operation] = []
    taken: set[VacantId] = set()
    for pair, state in tips.items():
        moves = await _forwards(store, pair, state, SERVE_BOOK)
        operations += moves
        taken |= {pair.from_vid, pair.to_vid} if moves else set()
    callers = {vid for pair in tips for vid in (pair.from_vid, pair.to_vid)} - {own}
    taken -= {own}
    if taken:
        report.taken.append(
            ("replay", f"chains with {counted(len(taken), 'caller', 'callers')}, as the agent")
        )
    if callers - taken:
        known = len(callers - taken)
        report.left.append(
            ("replay", f"chains with {known} of {len(callers)}: known here, as far or farther")
        )
    if not callers:
        report.left.append(("replay", f"no chain with {own} is in it"))
    return operations


def _refuse_running(settings: Settings) -> None:
    refuse_memory(settings, "chains would be lost")
    running = running_node(settings.data)
    if running is not None:
        raise ConflictError(f"a node is running on {settings.data} at {running.url}; stop it first")


def _take_key(settings: Settings, source: VacantFolder, passphrase: str | None, report: Takeover) -> None:
    path = identity_path(settings.data)
    if has_identity(settings.data):
        if stored_vacant_id(settings.data) != source.key.vacant_id:
            raise KeyRefusedError(
                f"{path} is another identity and is never overwritten; name another folder with --data"
            )
        report.left.append(("key", f"is in {path} already"))
        return
    in_keyring = source.kept_in_keyring and passphrase is None  # not less protected than it was
    create_identity(settings.data, key=source.key, passphrase=passphrase, in_keyring=in_keyring)
    kept = "sealed with the passphrase" if passphrase else "open to its owner only"
    where = "the keyring of the operating system" if in_keyring else f"{path}, {kept}"
    report.taken.append(("key", f"now in {where}"))


def _take_profile(settings: Settings, source: VacantFolder, report: Takeover, *, may_configure: bool) -> None:
    """Write name and capability into a new settings file, never into an existing one."""
    file = settings.data / CONFIG_FILE
    written = ""
    for setting, text in (("name", source.name), ("capability", source.capability)):
        if text is None:
            continue
        if not _fits(put_value("", ("agent", setting), text)):
            report.left.append((setting, f"{one_line(text)} cannot be agent.{setting}"))
        elif not may_configure or os.path.lexists(file):
            report.left.append((setting, f"{one_line(text)}: set it as agent.{setting}, if you want it"))
        else:
            written = put_value(written, ("agent", setting), text)
            report.taken.append((setting, f"{one_line(text)}, as agent.{setting} in {CONFIG_FILE}"))
    if written:
        file.write_text(written, "utf-8")


def _fits(written: str) -> bool:
    """Return whether a settings file with this text is valid; an invalid one would stop every command."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / CONFIG_FILE
        try:
            draft.write_text(written, "utf-8")
            load_settings({"data": folder, "config": draft}, environ={})
        except (ConfigError, UnicodeEncodeError):
            return False
    return True


async def _state(store: Store, source: VacantFolder, report: Takeover) -> list[Operation]:
    if source.state is None:
        return []
    if await store.get(SPACE, STATE_KEY) is not None:
        report.left.append(("state", f"{source.state.value}: this folder has one of its own"))
        return []
    report.taken.append(("state", source.state.value))
    return [store_state(source.state)]


async def _chains(store: Store, source: VacantFolder, report: Takeover) -> list[Operation]:
    """Return the operations that set the chains of calls and of the replies to them."""
    own = source.key.vacant_id
    operations: list[Operation] = []
    taken = 0
    for target, chains in source.chains.items():
        moves = [
            *await _forwards(store, PairKey(own, target), chains.requests, CALL_BOOK),
            *await _forwards(store, PairKey(target, own), chains.replies, CALL_BOOK),
        ]
        operations += moves
        taken += bool(moves)
    if taken:
        report.taken.append(("chains", f"with {counted(taken, 'target', 'targets')}, as the caller"))
    if taken < len(source.chains):
        known = len(source.chains) - taken
        report.left.append(("chains", f"with {known} of {len(source.chains)}: known here, as far or farther"))
    return operations


async def _forwards(store: Store, pair: PairKey, to: ReplayState, book: str) -> list[Operation]:
    chain = chain_of(pair, book)
    tip = await store.tip(chain)
    if to.last_sequence_no <= state_of(tip).last_sequence_no:
        return []
    return [Advance(chain=chain, expected=tip, to=tip_of(to))]


def _rest(source: VacantFolder) -> list[tuple[str, str]]:
    rest = []
    if source.endpoint is not None:
        rest.append(("endpoint", one_line(f"{source.endpoint}{_how_to_serve(source.endpoint)}")))
    if source.logbook_fault is not None:
        rest.append(("logbook", f"BROKEN: {one_line(source.logbook_fault)}; it stays where it is"))
    elif source.logbook_entries:
        rest.append(("logbook", f"{source.logbook_entries:,} entries, all verified; it stays where it is"))
    if source.parent is not None:
        rest.append(("parent", f"{source.parent.hex()}: a directory knows it"))
    rest += [(name, "is not read") for name in source.left]
    return rest + [("damaged", one_line(fault)) for fault in source.faults]


def _how_to_serve(endpoint: str) -> str:
    try:
        url = read_url(endpoint)
    except ComityError:
        return ""
    if is_loopback(url.host):
        return f"; --port {url.port} serves it again"
    return "; this node has its own"
