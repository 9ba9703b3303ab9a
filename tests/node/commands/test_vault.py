"""`comity vault rotate`: a new key for all that is stored, while a node runs and without one."""

import asyncio
import json
import stat

import pytest

from comity.identity.secrets import keep_vault_keys, read_vault_keys
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Append, ChainKey, KeepReply, Put
from comity.store.sqlite import SqliteStore
from comity.store.vault import Vault
from comity.terminal.open_target import own_vault


def keep(data, values):
    async def write():
        store = await SqliteStore.open(data / "comity.db", SystemClock())
        for key, value in values.items():
            await store.commit(Put(space="vcp:session", key=key, value=value))
        await store.close()

    asyncio.run(write())


def kept(data, key):
    async def read():
        store = await SqliteStore.open_for_reading(data / "comity.db", SystemClock())
        held = await store.get("vcp:session", key)
        await store.close()
        return held.value

    return asyncio.run(read())


CHAIN = ChainKey("deliberation", "alice", "bob")


def keep_vote(data, vault):
    """The sealed reply to a vote, and a sealed message of a room."""

    async def write():
        store = await SqliteStore.open(data / "comity.db", SystemClock())
        reply = KeepReply(chain=CHAIN, seq=1, digest=b"d", reply=vault.seal(b"the vote counts"), at=1.0)
        await store.commit(reply, Append(log="rooms:signed", data=vault.seal(b"hello")))
        await store.close()

    asyncio.run(write())


def kept_vote(data, vault):
    async def read():
        store = await SqliteStore.open_for_reading(data / "comity.db", SystemClock())
        reply, (message,) = await store.reply(CHAIN, 1), await store.read("rooms:signed")
        await store.close()
        return vault.open(reply.reply), vault.open(message.data)

    return asyncio.run(read())


@pytest.fixture
def node(data, neighbourhood):
    return neighbourhood.node(data)


def test_a_running_node_reseals_what_is_stored_and_goes_on_with_the_new_key(comity, node, data):
    (old,) = read_vault_keys(data / "vault.key")
    keep(data, {"a": Vault([old]).seal(b"context")})
    said = comity("vault", "rotate")
    assert said.code == 0, said.err
    assert said.out.startswith("1 stored value is now encrypted with the new key.\n")
    (new,) = read_vault_keys(data / "vault.key")
    assert new != old
    assert stat.S_IMODE((data / "vault.key").stat().st_mode) == 0o600
    assert Vault([new]).open(kept(data, "a")) == b"context"
    assert Vault([new]).open(node.runtime.current_vault().seal(b"later")) == b"later"


def test_a_running_node_reseals_replies_to_votes_and_messages_of_rooms(comity, node, data):
    old = read_vault_keys(data / "vault.key")
    keep_vote(data, Vault(old))
    said = comity("vault", "rotate")
    assert said.code == 0, said.err
    (new,) = read_vault_keys(data / "vault.key")
    assert kept_vote(data, Vault([new])) == (b"the vote counts", b"hello")


def test_the_old_keys_stay_while_a_value_does_not_open(comity, node, data):
    old = read_vault_keys(data / "vault.key")
    keep(data, {"a": b"enc:damaged", "b": Vault(old).seal(b"context")})
    lost = Vault([b"C" * 42 + b"A="])
    keep_vote(data, lost)
    said = comity("vault", "rotate")
    assert said.code == 1
    assert (
        "3 of the stored values could not be decrypted with any key (1 in value, 1 in reply, 1 in record), so no key "
        f"was removed; all others are encrypted with the first key. Add the key of those values to {data / 'vault.key'} "
        "after the others, and rotate again"
    ) in " ".join(said.err.split())
    new, *others = read_vault_keys(data / "vault.key")
    assert others == old
    assert Vault([new]).open(kept(data, "b")) == b"context"
    assert kept_vote(data, lost) == (b"the vote counts", b"hello")


def test_without_a_node_the_command_does_it_and_writes_it_down(comity, program, data):
    assert program("state", "set", "active").code == 1  # there is no identity yet
    assert program("id", "new").code == 0
    said = comity("vault", "rotate")
    assert said.code == 1
    assert "vault.key yet; the first start of a node makes it" in said.err
    key = b"A" * 43 + b"="
    (data / "vault.key").write_bytes(key + b"\n")
    (data / "vault.key").chmod(0o600)
    assert program("state", "set", "active").code == 0
    keep(data, {"a": Vault([key]).seal(b"context")})
    keep_vote(data, Vault([key]))
    assert json.loads(comity("vault", "rotate", "--json").out) == {
        "resealed": 3,
        "unreadable": 0,
        "keys": str(data / "vault.key"),
    }
    assert Vault(read_vault_keys(data / "vault.key")).open(kept(data, "a")) == b"context"
    assert kept_vote(data, Vault(read_vault_keys(data / "vault.key"))) == (b"the vote counts", b"hello")
    assert "VAULT_ROTATED" in comity("audit", "tail").out


def test_keys_of_the_environment_are_not_changed_and_the_first_is_used(comity, program, data, monkeypatch):
    old, new = b"A" * 43 + b"=", b"B" * 42 + b"A="
    monkeypatch.setenv("VCP_CONTEXT_ENCRYPTION_KEY", f"{new.decode()},{old.decode()}")
    assert program("id", "new").code == 0
    assert program("state", "set", "active").code == 0
    keep(data, {"a": Vault([old]).seal(b"context")})
    keep_vote(data, Vault([old]))
    said = comity("vault", "rotate")
    assert said.code == 0, said.err
    assert kept_vote(data, Vault([new])) == (b"the vote counts", b"hello")
    assert "The other keys in VCP_CONTEXT_ENCRYPTION_KEY are no longer needed." in said.out
    assert Vault([new]).open(kept(data, "a")) == b"context"
    assert not (data / "vault.key").exists()


def test_keys_of_the_environment_that_open_not_everything_are_all_still_needed(
    comity, program, data, monkeypatch
):
    old, new = b"A" * 43 + b"=", b"B" * 42 + b"A="
    monkeypatch.setenv("VCP_CONTEXT_ENCRYPTION_KEY", new.decode())
    assert program("id", "new").code == 0
    assert program("state", "set", "active").code == 0
    keep_vote(data, Vault([old]))
    said = comity("vault", "rotate")
    assert said.code == 1
    assert "no longer needed" not in said.out
    assert "Add the key of those values to VCP_CONTEXT_ENCRYPTION_KEY" in " ".join(said.err.split())
    assert kept_vote(data, Vault([old])) == (b"the vote counts", b"hello")


def test_a_command_that_has_opened_the_vault_seals_with_a_key_that_came_later(comity, program, data):
    assert program("id", "new").code == 0
    vault = own_vault(Settings(data=data))
    (old,) = read_vault_keys(data / "vault.key")
    keep_vault_keys(data / "vault.key", [b"B" * 42 + b"A=", old])
    assert Vault([b"B" * 42 + b"A="]).open(vault().seal(b"later")) == b"later"
