from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from comity.core.errors import ConfigError, KeyRefusedError
from comity.store.memory import MemoryStore
from comity.store.operations import Put
from comity.store.vault import Resealed, Vault, reseal_all, rotate_keys
from tests.store.samples import HandClock

OLD, NEW = Fernet.generate_key(), Fernet.generate_key()


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


async def test_everything_sealed_is_resealed_and_keeps_its_expiry():
    clock = HandClock()
    store = MemoryStore(clock)
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
    assert await reseal_all(store, Vault([NEW, OLD])) == Resealed(450, 1)
    assert await reseal_all(store, Vault([NEW, OLD])) == Resealed(0, 1)
    assert (await store.get("s", "not sealed")).value == b"plain"
    held = await store.get("t", "449")
    assert Vault([NEW]).open(held.value) == b"449"
    assert held.expires_at == clock.time + 60


async def test_a_rotation_drops_the_old_key_when_nothing_needs_it_any_more():
    store = MemoryStore(HandClock())
    await store.commit(Put(space="s", key="k", value=Vault([OLD]).seal(b"context")))
    kept = []
    assert await rotate_keys(store, [OLD], NEW, kept.append) == Resealed(1, 0)
    assert kept == [[NEW, OLD], [NEW]]  # at first both, for others may be sealing with the old one
    assert Vault([NEW]).open((await store.get("s", "k")).value) == b"context"


async def test_a_rotation_keeps_the_old_key_while_something_does_not_open():
    store = MemoryStore(HandClock())
    await store.commit(Put(space="s", key="k", value=b"enc:damaged"))
    kept = []
    assert await rotate_keys(store, [OLD], NEW, kept.append) == Resealed(0, 1)
    assert kept == [[NEW, OLD]]


async def test_what_is_sealed_with_the_old_key_during_a_rotation_is_found_by_the_next_look():
    store = MemoryStore(HandClock())
    await store.commit(Put(space="s", key="a", value=Vault([OLD]).seal(b"a")))
    kept = []

    class Slow(MemoryStore):
        """Somebody writes under the old key after the first page was read."""

        async def scan(self, space, prefix="", after="", limit=100):
            page = await store.scan(space, prefix, after, limit)
            if page and await store.get("s", "0") is None:
                await store.commit(Put(space="s", key="0", value=Vault([OLD]).seal(b"b")))
            return page

        spaces, submit, commit = store.spaces, store.submit, store.commit

    assert await rotate_keys(Slow(HandClock()), [OLD], NEW, kept.append) == Resealed(2, 0)
    assert Vault([NEW]).open((await store.get("s", "0")).value) == b"b"
