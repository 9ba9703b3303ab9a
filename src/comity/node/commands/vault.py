"""`comity vault`: the encryption of stored context.

While a node runs it does the work itself; else the folder is held, so that none starts meanwhile.
"""

import asyncio
import os
from typing import Any

from comity.identity.protocol.keys import SigningKey
from comity.identity.secrets import VAULT_KEY_FILE, VAULT_KEY_VARIABLE
from comity.node.parts import ROTATION_PATH, ROTATION_SECONDS, rotate_vault
from comity.requests.record import own_act
from comity.runtime.settings import Settings
from comity.store.claim import FolderClaim
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_key, refuse_memory, writing
from comity.terminal.options import Json, KeyOptions, settings_of
from comity.terminal.output import counted, print_json, print_line, waiting
from comity.terminal.running_node import own_node
from comity.wire.errors import NotFoundError

app = HelpfulApp(
    "Change the key of the vault. The vault is the encrypted storage for context; its keys are in vault.key."
)

VAULT_ROTATED = "VAULT_ROTATED"


@app.add("""
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
            told = asyncio.run(own.ask("POST", ROTATION_PATH, {}))
        else:
            told = asyncio.run(_rotate(settings, own_key(settings, home.passphrase_file)))
    if as_json:
        print_json(told)
        return
    sealed = counted(told["resealed"], "stored value is", "stored values are")
    print_line(f"{sealed} now encrypted with the new key.")
    if told["keys"] == VAULT_KEY_VARIABLE:
        print_line(f"The other keys in {VAULT_KEY_VARIABLE} are no longer needed.")
    else:
        print_line(f"{told['keys']} holds only the new key. Older backups contain the old key.")


async def _rotate(settings: Settings, key: SigningKey) -> dict[str, Any]:
    file = None if VAULT_KEY_VARIABLE in os.environ else settings.data / VAULT_KEY_FILE
    if file is not None and not file.exists():
        raise NotFoundError(f"there is no {file} yet; the first start of a node makes it")
    claim = FolderClaim(settings.data)
    try:
        async with writing(settings, key) as (store, record, _chain):
            told = await rotate_vault(store, file, asyncio.sleep)
            await record.commit((), own_act(VAULT_ROTATED, f"values:{told['resealed']}"))
            return told
    finally:
        claim.release()
