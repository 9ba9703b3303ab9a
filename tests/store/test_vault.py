import asyncio
import contextlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from comity.store.interface import (
    TABLES,
    Append,
    ChainKey,
    Delete,
    KeepReply,
    Put,
    PutDocument,
    Reseal,
    place_of,
)
from comity.store.vault import Resealed, Vault, reseal_all, rotate_keys, seal_plain_replies
from comity.wire.errors import ConfigError, KeyRefusedError, StoreError
from tests.waiting import eventually

OLD, NEW, LOST = Fernet.generate_key(), Fernet.generate_key(), Fernet.generate_key()


@given(st.binary(max_size=300))
def test_what_is_sealed_opens_and_does_not_show(value):
    vault = Vault([OLD])
    sealed = vault.seal(value)
    assert sealed.startswith(b"enc:")
    assert len(value) < 8 or value not in sealed
    assert vault.open(sealed) == value


def test_a_new_first_key_seals_while_the_old_one_still_opens():
    sealed = Vault([OLD]).seal(b"context")
    both = Vault([NEW, OLD])
    assert both.open(sealed) == b"context"
    assert Vault([OLD]).open(both.seal(b"newer")) is None
    assert Vault([NEW]).open(both.reseal(sealed)) == b"context"


@pytest.mark.parametrize("damage", [b"", b"enc:", b"enc:garbage", b"plain", b"ENC:x", b"enc:" + b"g" * 200])
def test_what_does_not_open_is_none_and_never_ciphertext(damage):
    assert Vault([OLD]).open(damage) is None
    assert Vault([OLD]).reseal(damage) is None


def test_every_flipped_byte_is_noticed():
    token = urlsafe_b64decode(Vault([OLD]).seal(b"context").removeprefix(b"enc:"))
    for at in range(len(token)):
        damaged = token[:at] + bytes([token[at] ^ 1]) + token[at + 1 :]
        assert Vault([OLD]).open(b"enc:" + urlsafe_b64encode(damaged)) is None


def test_with_a_key_an_unsealed_value_is_refused_even_where_plaintext_was_allowed():
    assert Vault([OLD], environment="development", plaintext=True).open(b"plain") is None


def test_without_a_key_nothing_is_stored():
    for environment in ("production", "staging", "development"):
        with pytest.raises(KeyRefusedError, match="VCP_CONTEXT_ENCRYPTION_KEY"):
            Vault([], environment=environment).seal(b"context")
    assert not Vault([]).encrypts


def test_plaintext_needs_its_own_setting_and_never_in_production():
    vault = Vault([], environment="development", plaintext=True)
    assert vault.open(vault.seal(b"context")) == b"context"
    assert vault.open(b"enc:sealed elsewhere") is None
    for environment in ("production", "prod", "staging"):
        with pytest.raises(ConfigError, match=environment):
            Vault([], environment=environment, plaintext=True)


def test_a_bad_key_is_refused_without_being_shown():
    with pytest.raises(ConfigError) as refusal:
        Vault([b"not-a-key"])
    assert "not-a-key" not in str(refusal.value)


HERE, THERE = place_of("reply", "serve", "alice", "bob", 1), place_of("reply", "serve", "alice", "bob", 2)


@given(st.binary(max_size=300))
def test_what_is_sealed_in_a_place_opens_there_and_nowhere_else(value):
    vault = Vault([OLD])
    sealed = vault.seal_in(HERE, value)
    assert sealed.startswith(b"enc:")
    assert len(sealed) == len(value) + 37
    assert vault.open_in(HERE, sealed) == value
    assert vault.open_in(THERE, sealed) is None
    assert vault.open(sealed) is None
    assert Vault([NEW]).open_in(HERE, sealed) is None


def test_a_value_of_the_older_form_opens_in_any_place():
    assert Vault([OLD]).open_in(HERE, Vault([OLD]).seal(b"reply")) == b"reply"


def test_every_flipped_byte_of_a_bound_value_is_noticed():
    sealed = Vault([OLD]).seal_in(HERE, b"context")
    for at in range(len(sealed)):
        assert Vault([OLD]).open_in(HERE, sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]) is None
        assert Vault([OLD]).open_in(HERE, sealed[:at]) is None


def test_a_bound_value_needs_a_key_too():
    with pytest.raises(KeyRefusedError, match="VCP_CONTEXT_ENCRYPTION_KEY"):
        Vault([]).seal_in(HERE, b"context")
    open_vault = Vault([], environment="development", plaintext=True)
    assert open_vault.open_in(HERE, open_vault.seal_in(HERE, b"context")) == b"context"


async def test_a_rotation_reseals_what_is_bound_to_its_place(store, keys):
    old = Vault([OLD])
    chain, value = ChainKey("serve", "alice", "bob"), place_of("value", "s", "k")
    await store.commit(
        Put(space="s", key="k", value=old.seal_in(value, b"value")),
        Put(space="s", key="moved", value=old.seal_in(value, b"value")),
        KeepReply(chain=chain, seq=1, digest=b"d", reply=old.seal_in(HERE, b"reply"), at=1.0),
    )
    assert await rotate_keys(store, [OLD], NEW, keys.keep, keys.sleep) == Resealed(2, {"value": 1})
    assert keys.kept[-1] == [NEW, OLD], "the old key went although a value does not open"
    await store.commit(Delete(space="s", key="moved"))
    assert await rotate_keys(store, [NEW, OLD], LOST, keys.keep, keys.sleep) == Resealed(2)
    assert Vault([LOST]).open_in(HERE, (await store.reply(chain, 1)).reply) == b"reply"
    assert Vault([LOST]).open_in(value, (await store.get("s", "k")).value) == b"value"


async def test_replies_of_an_earlier_release_are_sealed_where_they_are(store):
    vault, chain = Vault([OLD]), ChainKey("serve", "alice", "bob")
    old = [KeepReply(chain=chain, seq=n, digest=b"d", reply=b"{%d}" % n, at=1.0) for n in range(1, 451)]
    await store.commit(*old, KeepReply(chain=chain, seq=451, digest=b"d", reply=None, at=1.0))
    await seal_plain_replies(store, Vault([]))
    assert (await store.reply(chain, 1)).reply == b"{1}", "there was no key"
    for _ in range(2):
        await seal_plain_replies(store, vault)
    rows = [await store.reply(chain, n) for n in range(1, 451)]
    places = [place_of("reply", "serve", "alice", "bob", row.seq) for row in rows]
    assert [vault.open_in(place, row.reply) for place, row in zip(places, rows, strict=True)] == [
        b"{%d}" % n for n in range(1, 451)
    ]
    assert {(row.digest, row.at) for row in rows} == {(b"d", 1.0)}


async def test_a_crash_between_two_pages_of_replies_loses_and_repeats_nothing(store, monkeypatch):
    """It ends after each commit in turn; what is sealed stays sealed, and the rest follows."""
    monkeypatch.setattr("comity.store.vault._AT_ONCE", 2)
    vault, chain = Vault([OLD]), ChainKey("serve", "alice", "bob")
    await store.commit(
        *(KeepReply(chain=chain, seq=n, digest=b"d", reply=b"{%d}" % n, at=1.0) for n in range(1, 8))
    )

    class Ending:
        def __init__(self, left):
            self.left = left

        def __getattr__(self, name):
            return getattr(store, name)

        async def commit(self, *operations):
            if not self.left:
                raise StoreError("the process ends here")
            self.left -= 1
            return await store.commit(*operations)

    for left in range(5):
        with contextlib.suppress(StoreError):
            await seal_plain_replies(Ending(left), vault)
    for n in range(1, 8):
        place = place_of("reply", "serve", "alice", "bob", n)
        assert vault.open_in(place, (await store.reply(chain, n)).reply) == b"{%d}" % n


async def test_what_is_not_sealed_is_found_with_its_place(store):
    chain = ChainKey("serve", "alice", "bob")
    await store.commit(
        KeepReply(chain=chain, seq=1, digest=b"d", reply=b"plain", at=1.0),
        KeepReply(chain=chain, seq=2, digest=b"d", reply=Vault([OLD]).seal_in(THERE, b"x"), at=1.0),
        KeepReply(chain=chain, seq=3, digest=b"d", reply=None, at=1.0),
    )
    ((row,), after) = await store.sealed("reply", plain=True)
    assert (row.data, row.names, after) == (b"plain", ("serve", "alice", "bob", 1), None)


CHAIN = ChainKey("book", "alice", "bob")


class Keys:
    """What a rotation makes durable, and what others do whenever it has done so and while it waits."""

    def __init__(self):
        self.kept = []
        self.meanwhile = None

    def keep(self, keys):
        self.kept.append(list(keys))

    async def sleep(self, _seconds):
        if self.meanwhile is not None:
            await self.meanwhile()


@pytest.fixture
def keys():
    return Keys()


async def fill(store, vault):
    """A sealed value in every table."""
    await store.commit(
        Put(space="s", key="k", value=vault.seal(b"value")),
        KeepReply(chain=CHAIN, seq=1, digest=b"d", reply=vault.seal(b"reply"), at=1.0),
        Append(log="l", data=vault.seal(b"record")),
        PutDocument(collection="c", id="d", body=vault.seal(b"document")),
    )


async def stored(store):
    return {
        "value": (await store.get("s", "k")).value,
        "reply": (await store.reply(CHAIN, 1)).reply,
        "record": (await store.read("l"))[-1].data,
        "document": (await store.document("c", "d")).body,
    }


async def test_everything_sealed_is_resealed_and_keeps_its_expiry(store, clock):
    for number in range(450):
        await store.commit(
            Put(
                space="st"[number % 2],
                key=f"{number:03}",
                value=Vault([OLD]).seal(b"%d" % number),
                expires_at=clock.time + 60,
            )
        )
    await store.commit(Put(space="s", key="not sealed", value=b"plain"))
    await store.commit(Put(space="s", key="damaged", value=b"enc:damaged"))
    assert await reseal_all(store, Vault([NEW, OLD])) == Resealed(450, {"value": 1})
    assert await reseal_all(store, Vault([NEW, OLD])) == Resealed(0, {"value": 1})
    assert (await store.get("s", "not sealed")).value == b"plain"
    held = await store.get("t", "449")
    assert Vault([NEW]).open(held.value) == b"449"
    assert held.expires_at == clock.time + 60


async def test_a_rotation_covers_every_table_before_it_drops_the_old_key(store, keys):
    await fill(store, Vault([OLD]))
    assert await rotate_keys(store, [OLD], NEW, keys.keep, keys.sleep) == Resealed(len(TABLES))
    # first durable, then used, and alone when nothing needs the old one
    assert keys.kept == [[OLD, NEW], [NEW, OLD], [NEW]]
    found = await stored(store)
    assert {table: Vault([NEW]).open(data) for table, data in found.items()} == {
        table: table.encode() for table in TABLES
    }


@pytest.mark.parametrize("table", TABLES)
async def test_a_rotation_keeps_the_old_key_while_a_value_of_any_table_does_not_open(store, keys, table):
    await fill(store, Vault([OLD]))
    lost = Vault([LOST]).seal(b"under a key that is not here")
    (row,), _ = await store.sealed(table)
    await store.commit(Reseal(table=table, place=row.place, was=row.data, to=lost))
    assert await rotate_keys(store, [OLD], NEW, keys.keep, keys.sleep) == Resealed(
        len(TABLES) - 1, {table: 1}
    )
    assert keys.kept == [[OLD, NEW], [NEW, OLD]]
    assert (await stored(store))[table] == lost


async def test_a_process_that_sealed_before_it_knew_the_new_key_loses_nothing(store, keys):
    await fill(store, Vault([OLD]))
    late = Vault([OLD]).seal(b"late")

    async def commit_late():
        await store.commit(Append(log="l", data=late))

    keys.meanwhile = commit_late
    assert await rotate_keys(store, [OLD], NEW, keys.keep, keys.sleep) == Resealed(len(TABLES) + 1)
    assert [Vault([NEW]).open(record.data) for record in await store.read("l")] == [b"record", b"late"]


async def test_a_value_that_changes_during_a_rotation_keeps_its_newest_content(store, keys):
    """A writer that has read the version before the rotation still succeeds with it."""
    await fill(store, Vault([OLD]))
    read = await store.get("s", "k")
    commit = store.commit

    async def commit_after_a_writer(*operations):
        store.commit = commit
        await commit(Put(space="s", key="k", value=Vault([NEW, OLD]).seal(b"newer"), expect=read.version))
        return await commit(*operations)

    store.commit = commit_after_a_writer
    await rotate_keys(store, [OLD], NEW, keys.keep, keys.sleep)
    assert Vault([NEW]).open((await store.get("s", "k")).value) == b"newer"
    assert keys.kept[-1] == [NEW]


async def test_a_rotation_that_fails_half_way_drops_nothing_and_the_next_one_finishes(store, keys):
    await fill(store, Vault([OLD]))
    commit = store.commit

    async def fail(*operations):
        if operations[0].table == "record":
            raise StoreError("the disk is full")
        return await commit(*operations)

    store.commit = fail
    with pytest.raises(StoreError):
        await rotate_keys(store, [OLD], NEW, keys.keep, keys.sleep)
    assert keys.kept == [[OLD, NEW], [NEW, OLD]]
    opened = Vault(keys.kept[-1])
    assert {opened.open(data) for data in (await stored(store)).values()} == {
        table.encode() for table in TABLES
    }
    store.commit = commit
    newest = Fernet.generate_key()
    await rotate_keys(store, keys.kept[-1], newest, keys.keep, keys.sleep)
    assert keys.kept[-1] == [newest]
    assert None not in {Vault([newest]).open(data) for data in (await stored(store)).values()}


async def test_writers_go_on_during_a_rotation_and_everything_opens_with_the_new_key_alone(store, keys):
    """Each seals with the keys that are kept at that moment, and commits a little later."""
    keys.keep([OLD])
    stopped, written = asyncio.Event(), [0] * 4

    async def write(writer):
        while not stopped.is_set():
            value = Vault(keys.kept[-1]).seal(b"%d" % written[writer])
            await asyncio.sleep(0)
            await store.commit(Put(space="s", key=str(writer), value=value), Append(log="l", data=value))
            written[writer] += 1

    writers = [asyncio.create_task(write(number)) for number in range(len(written))]

    async def progress():
        before = list(written)
        await eventually(lambda: all(now > then for now, then in zip(written, before, strict=True)))

    keys.meanwhile = progress
    await progress()
    await rotate_keys(store, [OLD], NEW, keys.keep, keys.sleep)
    assert keys.kept[-1] == [NEW]
    await progress()
    stopped.set()
    await asyncio.gather(*writers)
    records = await store.read("l", limit=1_000_000)
    assert len(records) == sum(written)
    assert None not in {Vault([NEW]).open(record.data) for record in records}
    for number, count in enumerate(written):
        assert Vault([NEW]).open((await store.get("s", str(number))).value) == b"%d" % (count - 1)
