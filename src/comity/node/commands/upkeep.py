"""`comity prune` deletes old audit entries and stored replies; `comity vault` changes the key of stored context.

The chains of the audit record stay verifiable: a signed checkpoint says what each starts from now. The node does the
same by itself once an hour for its own chain, where audit.retention_days is set.
"""

import asyncio
import contextlib
import os
from typing import Annotated, Any, Final

from comity.identity.protocol.keys import SigningKey
from comity.identity.secrets import VAULT_KEY_FILE, VAULT_KEY_VARIABLE
from comity.node.parts import ROTATION_PATH, ROTATION_SECONDS, rotate_vault
from comity.requests.record import own_act
from comity.runtime.opening import compact_store, has_database
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_log import chains, pruning
from comity.store.claim import FolderClaim
from comity.store.interface import REPLIES, ForgetReplies
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key, own_node, refuse_memory, writing
from comity.terminal.options import Json, KeyOptions, Yes, confirm, option, settings_of, whole_number
from comity.terminal.output import counted, print_fields, print_json, print_line, waiting
from comity.wire.errors import ConfigError, NotFoundError, StoreUnavailableError
from comity.wire.machine import size_words

prune_app = HelpfulApp()

AUDIT_PRUNED: Final = "AUDIT_PRUNED"
REPLY_SECONDS: Final = 24 * 3600.0
"""How long the contract keeps a reply for a repeated envelope (ruling 10)."""


@prune_app.add("""
    comity prune --days 90  delete audit entries that are older than 90 days
    comity prune  delete audit entries that are older than the setting audit.retention_days
    comity prune --days 90 --yes  without confirmation
""")
def prune(
    days: Annotated[
        str | None,
        option(
            "--days",
            "DAYS",
            "Delete audit entries that are older than this number of days. Default: the setting audit.retention_days. "
            "If that is 0, this option is required.",
        ),
    ] = None,
    home: KeyOptions = KeyOptions(),
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete old audit entries, and replies that were stored for more than a day. The node may be running.

    The audit record can still be verified: a signed checkpoint takes the place of the deleted entries. The database file
    becomes smaller only if no node runs. While a node runs, the file keeps its size, and the node uses the free space again.
    """
    settings = settings_of(home).settings
    refuse_memory(settings, "there is nothing old")
    if not has_database(settings):
        raise NotFoundError(f"there is no database at {settings.database}; there is nothing to delete")
    keep = settings.audit.retention_days if days is None else whole_number("--days", days, 1, 36_500)
    if not keep:
        raise ConfigError(
            "audit.retention_days is 0, which keeps every entry; name a number with --days DAYS"
        )
    confirm(
        f"Audit entries older than {keep:,} days will be deleted. This cannot be undone. Delete them?",
        yes=yes,
    )
    key = own_key(settings, home.passphrase_file)
    with waiting("deleting what is old"):
        entries, reply_bytes = asyncio.run(_delete(settings, key, keep))
        compacted = _compact(settings)
    file_bytes = settings.database.stat().st_size
    if as_json:
        freed = {"audit_entries": entries, "reply_bytes": reply_bytes, "compacted": compacted}
        print_json({**freed, "file_bytes": file_bytes})
        return
    print_fields(
        (
            ("audit entries", f"{entries:,} deleted"),
            ("replies", f"{size_words(reply_bytes)} deleted"),
            ("database", size_words(file_bytes)),
        )
    )
    if not compacted:
        print_line("The file keeps its size while a node runs; the free space in it is used again.")


async def _delete(settings: Settings, key: SigningKey, days: int) -> tuple[int, int]:
    """Delete old entries and replies. Return how many entries and how many bytes of replies."""
    now = SystemClock().now()
    async with writing(settings, key) as (store, record, _chain):
        deleted = 0
        for chain in await chains(store):
            if operations := await pruning(store, chain, key, now, days):
                deleted += (await record.commit(operations, own_act(AUDIT_PRUNED, f"chain:{chain}")))[1]
        held = await store.held(REPLIES)
        after: int | None = 0
        while after is not None:
            (after,) = await store.commit(ForgetReplies(before=now - REPLY_SECONDS, after=after))
        return deleted, held - await store.held(REPLIES)


def _compact(settings: Settings) -> bool:
    """Give unused space back. False while a node, or another process, has the database open."""
    with contextlib.suppress(StoreUnavailableError), contextlib.ExitStack() as held:
        held.callback(FolderClaim(settings.data).release)
        compact_store(settings)
        return True
    return False


# `comity vault`: the encryption of stored context.


vault_app = HelpfulApp(
    "Change the key of the vault. The vault is the encrypted storage for context; its keys are in vault.key."
)

VAULT_ROTATED = "VAULT_ROTATED"


@vault_app.add("""
    comity vault rotate  make a new key and encrypt everything with it
    comity vault rotate --json  print JSON
""")
def rotate(home: KeyOptions = KeyOptions(), as_json: Json = False) -> None:
    """Make a new key, encrypt all stored context with it, and remove the old key. The node may be running.

    If a value cannot be decrypted, the command fails and the old keys are kept. If the keys come from the variable
    VCP_CONTEXT_ENCRYPTION_KEY, put a new key in front of the others, restart the node, and then run this command. It
    encrypts everything with the first key.
    """
    settings = settings_of(home).settings
    refuse_memory(settings, "nothing stored needs another key")
    own = own_node(settings, ROTATION_SECONDS)
    with waiting("encrypting what is stored with the new key"):
        if own is not None:
            result = asyncio.run(own.ask("POST", ROTATION_PATH, {}))
        else:
            result = asyncio.run(_rotate(settings, own_key(settings, home.passphrase_file)))
    if as_json:
        print_json(result)
        return
    sealed = counted(result["resealed"], "stored value is", "stored values are")
    print_line(f"{sealed} now encrypted with the new key.")
    if result["keys"] == VAULT_KEY_VARIABLE:
        print_line(f"The other keys in {VAULT_KEY_VARIABLE} are no longer needed.")
    else:
        print_line(f"{result['keys']} holds only the new key. Older backups contain the old key.")


async def _rotate(settings: Settings, key: SigningKey) -> dict[str, Any]:
    file = None if VAULT_KEY_VARIABLE in os.environ else settings.data / VAULT_KEY_FILE
    if file is not None and not file.exists():
        raise NotFoundError(f"there is no {file} yet; the first start of a node makes it")
    async with writing(settings, key, claim=True) as (store, record, _chain):
        result = await rotate_vault(store, file, asyncio.sleep)
        await record.commit((), own_act(VAULT_ROTATED, f"values:{result['resealed']}"))
        return result
