"""State of the extensions: sealed, owned, written once, applied again where another process was first, and gone."""

import asyncio
from types import SimpleNamespace

import pytest
from cryptography.fernet import Fernet

from comity.extensions.protocol.operations import ExtensionRules
from comity.extensions.state import MAX_ANONYMOUS_BYTES, owner_key, session_key
from comity.requests.caller import OWN_PROCESS
from comity.store.interface import Put
from comity.store.vault import Vault
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.signals import CATEGORIES
from comity.wire.errors import ForbiddenError, NotFoundError
from tests.extensions.scene import ALL, KEY, Processes, session_of
from tests.requests.pipelines import simulated
from tests.vcp.extension_scene import CONSENSUS, NORM, PAIN

DAY = 86_400.0


async def refused(awaited):
    with pytest.raises(ExtensionError) as result:
        await awaited
    return result.value


class TestSeveralProcesses:
    @simulated
    async def test_lose_none_of_sixty_four_sets_over_five_dimensions(self):
        world = Processes(4)
        dimensions = list(CATEGORIES)

        def call(number):
            dimension = dimensions[number % 5]
            category = CATEGORIES[dimension][number // 5 % 4]
            signals = {dimension: {"category": category, "extended": str(number)}}
            return world.call("personal.set", service=world.services[number % 4], signals=signals)

        await asyncio.gather(*map(call, range(64)))
        result = await world.call("personal.get")
        assert set(result.signals) == set(dimensions)

    @simulated
    async def test_lose_none_of_five_that_change_one_session_at_once(self):
        world = Processes(5)
        for number in range(13):
            session = session_of(id_=f"ses_{number}")
            result = {dimension: {"category": categories[1]} for dimension, categories in CATEGORIES.items()}
            await asyncio.gather(
                *(
                    world.call("personal.set", session, service=service, signals={dimension: signal})
                    for service, (dimension, signal) in zip(world.services, result.items(), strict=True)
                )
            )
            assert set((await world.call("personal.get", session)).signals) == set(CATEGORIES)

    @simulated
    async def test_lose_none_of_many_norms(self):
        world = Processes(4)
        await asyncio.gather(
            *(
                world.call("relational.norm", service=world.services[n % 4], norm=NORM | {"norm_id": f"n{n}"})
                for n in range(64)
            )
        )
        assert len((await world.call("relational.get")).established_norms) == 64

    @simulated
    async def test_see_what_the_other_has_written(self):
        one, other = (world := Processes(2)).services
        await world.call("personal.set", service=one, signals=PAIN)
        await world.call("personal.purge", service=other)
        assert (await world.call("personal.get", service=one)).signals == {}


class TestTheVault:
    @simulated
    async def test_holds_nothing_in_clear_and_no_owner_in_a_key(self):
        world = Processes()
        await world.call("personal.set", signals=PAIN)
        await world.call("relational.norm", norm=NORM)
        stored = await world.stored()
        assert stored.keys() == {session_key("ses_1"), owner_key("creed:user:alice")}
        assert all(value.startswith(b"enc:") for value in stored.values())
        assert "alice" not in repr(stored)

    @simulated
    async def test_may_get_another_key_while_sessions_live(self):
        world = Processes()
        old = Fernet.generate_key()
        world.vault = Vault([old])
        await world.call("personal.set", signals=PAIN)
        new = Fernet.generate_key()
        world.vault = Vault([new, old])
        assert (await world.call("personal.get")).signals.keys() == {"body_signals"}
        await world.call("personal.pin", dimension="body_signals", pinned=True)
        for space in ("vcp:session", "vcp:owner"):
            for key, held in await world.store.scan(space):
                await world.store.commit(
                    Put(space=space, key=key, value=world.vault.reseal(held.value), expect=held.version)
                )
        world.vault = Vault([new])
        result = await world.call("personal.get")
        assert result.signals["body_signals"].pinned

    @pytest.mark.parametrize("keys", [[], [Fernet.generate_key()]])
    @simulated
    async def test_that_lost_its_key_refuses_and_writes_nothing(self, keys):
        world = Processes()
        await world.call("personal.set", signals=PAIN)
        before, world.vault = await world.stored(), Vault(keys)
        for op, args in (
            ("personal.get", {}),
            ("personal.set", {"signals": PAIN}),
            ("personal.purge", {}),
            ("torch.generate", {}),
        ):
            assert (await refused(world.call(op, **args))).wire_code in {"FORBIDDEN", "CONFLICT"}
        assert await world.stored() == before

    @simulated
    async def test_without_a_key_keeps_nothing_of_a_new_session(self):
        world = Processes()
        world.vault = Vault([])
        await refused(world.call("personal.set", signals=PAIN))
        assert await world.stored() == {}

    @pytest.mark.parametrize("value", [b"{}", b"enc:", b'{"owner":"creed:user:alice","state":{}}'])
    @simulated
    async def test_refuses_what_was_written_past_it(self, value):
        world = Processes()
        await world.store.commit(Put(space="vcp:session", key=session_key("ses_1"), value=value))
        assert (await refused(world.call("personal.get"))).wire_code == "FORBIDDEN"

    @simulated
    async def test_refuses_a_state_of_another_shape(self):
        world = Processes()
        sealed = world.vault.seal(b'{"owner":"creed:user:alice","state":7}')
        await world.store.commit(Put(space="vcp:session", key=session_key("ses_1"), value=sealed))
        assert (await refused(world.call("personal.get"))).wire_code == "FORBIDDEN"

    @simulated
    async def test_gives_back_all_that_was_told(self):
        world = Processes()
        await world.call("personal.set", signals=PAIN)
        await world.call("personal.pin", dimension="body_signals", pinned=True)
        await world.call("relational.norm", norm=NORM)
        await world.call("relational.selfmodel", model={"valence": {"value": 7, "uncertain": True}})
        await world.call("intent.correct", category="learning")
        await world.call("torch.receive", torch=await world.call("torch.generate"))
        known = [
            await world.call(op) for op in ("personal.get", "relational.get", "torch.lineage", "intent.infer")
        ]
        [other] = Processes().services  # one that has opened nothing yet
        other.states._store, other.states._vault = world.store, lambda: world.vault
        read = [
            await world.call(op, service=other)
            for op in ("personal.get", "relational.get", "torch.lineage", "intent.infer")
        ]
        assert read == known


class TestAnOwner:
    @simulated
    async def test_is_not_served_from_a_session_of_somebody_else(self):
        world = Processes()
        await world.call("personal.set", signals=PAIN)
        bob = session_of("creed:user:bob")
        before = await world.stored()
        for op, args in (("personal.get", {}), ("personal.purge", {}), ("personal.set", {"signals": PAIN})):
            assert (await refused(world.call(op, bob, **args))).wire_code == "FORBIDDEN"
        assert await world.stored() == before

    @simulated
    async def test_does_not_get_a_state_that_was_moved_to_its_key(self):
        world = Processes()
        await world.call("relational.norm", norm=NORM)
        stored = await world.stored()
        moved = Put(
            space="vcp:owner", key=owner_key("creed:user:bob"), value=stored[owner_key("creed:user:alice")]
        )
        await world.store.commit(moved)
        bob = session_of("creed:user:bob", "ses_2")
        assert (await refused(world.call("relational.get", bob))).wire_code == "FORBIDDEN"

    @simulated
    async def test_is_forgotten_whole_or_by_session(self):
        world = Processes()
        own = KEY.vacant_id.hex()
        mine, other, bob = session_of(own), session_of(own, "ses_2"), session_of("creed:user:bob", "ses_3")
        for session in (mine, other, bob):
            await world.call("personal.set", session, signals=PAIN)
        await world.call("relational.norm", mine, norm=NORM)
        assert await world.service.forget("ses_1", OWN_PROCESS, "test") == 1
        assert (await world.call("personal.get", mine)).signals == {}
        assert (await world.call("personal.get", other)).signals
        for session_id, fault in (("ses_3", ForbiddenError), ("ses_9", NotFoundError)):
            with pytest.raises(fault):
                await world.service.forget(session_id, OWN_PROCESS, "test")
        await world.service.forget(None, OWN_PROCESS, "test")
        assert set(await world.stored()) == {session_key("ses_3"), owner_key("creed:user:bob")}
        assert not (await world.call("relational.get", mine)).established_norms

    @pytest.mark.parametrize(
        ("owner", "standing"), [(None, "none"), ("creed:user:alice", "none"), ("own", "bilateral")]
    )
    @simulated
    async def test_grants_standing_by_a_setting_of_its_own_alone(self, owner, standing):
        world = Processes(standing="bilateral")
        session = session_of(KEY.vacant_id.hex() if owner == "own" else owner)
        assert (await world.call("relational.get", session)).standing == standing


class TestAStranger:
    @simulated
    async def test_keeps_no_more_than_its_share(self):
        world = Processes()
        stranger = session_of(None)
        text = "x" * 8000

        async def fill():
            for number in range(200):
                norm = NORM | {"norm_id": f"n{number}", "description": text}
                await world.call("relational.norm", stranger, norm=norm)

        assert (await refused(fill())).wire_code == "LIMIT_EXCEEDED"
        kept = len((await world.call("relational.get", stranger)).established_norms)
        assert kept * 8000 < MAX_ANONYMOUS_BYTES
        world.service.end("ses_1")
        assert not (await world.call("relational.get", stranger)).established_norms
        assert await world.stored() == {}


class TestTime:
    @simulated
    async def test_purges_expired_signals_and_leaves_pinned_ones(self):
        world = Processes()
        stranger = session_of(None, "ses_9")
        for session in (session_of(), stranger):
            await world.call(
                "personal.set", session, signals=PAIN | {"emotional_tone": {"category": "tense"}}
            )
            await world.call("personal.pin", session, dimension="body_signals", pinned=True)
        for _ in range(20):  # a session that is used lives on
            await asyncio.sleep(600)
            await world.call("personal.get")
        sealed = (await world.stored())[session_key("ses_1")]
        assert b"tense" in world.vault.open(sealed)
        await world.service.purge()
        sealed = (await world.stored())[session_key("ses_1")]
        assert b"tense" not in world.vault.open(sealed)
        assert b"pain" in world.vault.open(sealed)
        for session in (session_of(), stranger):
            assert (await world.call("personal.get", session)).signals.keys() == {"body_signals"}

    @simulated
    async def test_ends_a_session_that_nobody_uses(self):
        world = Processes()
        await world.call("personal.set", signals=PAIN)
        await asyncio.sleep(901)
        assert (await world.call("personal.get")).signals == {}

    @simulated
    async def test_counts_a_session_once_and_an_owner_once_an_hour(self):
        world = Processes()
        for number in range(30):
            await world.call("personal.get", session_of(id_=f"ses_{number}"))
            await asyncio.sleep(300)
        assert (await world.call("relational.get", session_of(id_="ses_99"))).continuity_depth == 2

    @simulated
    async def test_does_not_count_without_relational(self):
        world = Processes()
        await world.call("personal.get", session_of(extensions=("VCP-X-Personal",)))
        assert await world.stored() == {}


class TestARefusal:
    @simulated
    async def test_of_anything_else_has_a_code_of_the_table(self):
        world = Processes(rules=ExtensionRules())
        fault = await refused(world.call("consensus.list", session_of(extensions=("VCP-X-Personal",))))
        assert fault.wire_code == "EXTENSION_INACTIVE"

        async def broken(*_):
            raise RuntimeError("as it should")

        world.service.states.load = broken
        assert (await refused(world.call("personal.get"))).wire_code == "CONFLICT"


class TestRegistrations:
    @simulated
    async def test_are_those_that_are_switched_on_and_work(self):
        def names(world):
            return [extension.id for extension in world.service.registrations()]

        assert names(Processes()) == list(ALL)  # nobody keeps deliberations here
        world = Processes(names=frozenset(("VCP-X-Torch", CONSENSUS)))
        assert names(world) == ["VCP-X-Torch"]
        world.service.run_by(SimpleNamespace(extension=CONSENSUS))
        assert names(world) == [CONSENSUS, "VCP-X-Torch"]
