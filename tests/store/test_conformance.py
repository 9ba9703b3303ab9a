"""What every engine does, word for word the same."""

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comity.store.audit_log import verify_chain
from comity.store.interface import (
    TABLES,
    Acquire,
    Append,
    Delete,
    DeleteDocument,
    DropReply,
    Fence,
    KeepReply,
    PruneReplies,
    Put,
    PutDocument,
    Release,
    Reseal,
    StoreConflict,
    Trim,
    Versioned,
)
from comity.store.memory import MemoryStore
from comity.store.sqlite import SqliteStore
from comity.wire.errors import StoreUnavailableError
from tests.store.chain_steps import BACK, CHAIN, answer, step, tip
from tests.store.samples import KEY, HandClock, draft


async def all_sealed(store, table):
    rows, after = await store.sealed(table)
    while after is not None:
        page, after = await store.sealed(table, after)
        rows += page
    return rows


class TestSealedValues:
    async def fill(self, store, clock, number, data):
        """One row in every table. What began otherwise, or has expired, is not among the sealed ones."""
        await store.commit(
            Put(space="s", key=f"k{number}", value=data, expires_at=clock.time + 60),
            Put(space="s", key=f"gone{number}", value=data, expires_at=clock.time - 1),
            KeepReply(chain=CHAIN, seq=number, digest=b"d", reply=data, at=1.0),
            Append(log="l", data=data),
            PutDocument(collection="c", id=f"d{number}", body=data, text="word", keys=(("k", "v"),)),
        )

    async def test_they_are_found_in_every_table_and_only_they(self, store, clock):
        for number in (1, 2, 3):
            await self.fill(store, clock, number, b"enc:%d" % number if number != 2 else b"plain")
        await store.commit(KeepReply(chain=BACK, seq=1, digest=b"d", reply=None, at=1.0))
        for table in TABLES:
            rows = await all_sealed(store, table)
            assert sorted(row.data for row in rows) == [b"enc:1", b"enc:3"], table

    async def test_many_come_some_at_a_time_and_each_once(self, store):
        for first in range(0, 5000, 500):
            await store.commit(
                *(Put(space="s", key=f"{n:04}", value=b"enc:%d" % n) for n in range(first, first + 500))
            )
        rows, after = await store.sealed("value")
        assert rows
        assert after is not None
        found = [row.data for row in await all_sealed(store, "value")]
        assert found == [b"enc:%d" % n for n in range(5000)]

    async def test_large_ones_come_few_at_a_time(self, store):
        large = b"enc:" + bytes(3 * 1024 * 1024)
        for _ in range(3):
            await store.commit(Append(log="l", data=large))
        assert len(await all_sealed(store, "record")) == 3

    async def test_one_is_written_again_where_it_is_and_only_over_what_was_read(self, store, clock):
        await self.fill(store, clock, 1, b"enc:old")
        before = await store.get("s", "k1"), await store.held("replies")
        for table in TABLES:
            (row,) = await all_sealed(store, table)
            stale = Reseal(table=table, place=row.place, was=b"enc:other", to=b"enc:lost")
            assert await store.commit(stale) == (False,)
            assert await store.commit(
                Reseal(table=table, place=row.place, was=b"enc:old", to=b"enc:new")
            ) == (True,)
            (row,) = await all_sealed(store, table)
            assert row.data == b"enc:new"
        held, quota = before
        assert await store.get("s", "k1") == msgspec.structs.replace(held, value=b"enc:new")
        assert await store.held("replies") == quota
        assert (await store.reply(CHAIN, 1)).reply == b"enc:new"
        assert [record.data for record in await store.read("l")] == [b"enc:new"]
        assert (await store.find("c", words="word", keys=[("k", "v")]))[0].body == b"enc:new"

    async def test_what_is_gone_is_not_written_again(self, store, clock):
        await self.fill(store, clock, 1, b"enc:old")
        (row,) = await all_sealed(store, "value")
        await store.commit(Delete(space="s", key="k1"))
        assert await store.commit(Reseal(table="value", place=row.place, was=row.data, to=b"enc:n")) == (
            False,
        )
        assert await store.get("s", "k1") is None


class TestValues:
    async def test_a_value_comes_back_with_its_version(self, store):
        (version,) = await store.commit(Put(space="s", key="k", value=b"v"))
        assert await store.get("s", "k") == Versioned(b"v", version)
        assert await store.get("s", "other") is None
        assert await store.get("other", "k") is None

    async def test_a_wrong_version_conflicts_and_shows_the_current_value(self, store):
        (first,) = await store.commit(Put(space="s", key="k", value=b"1", expect=0))
        (second,) = await store.commit(Put(space="s", key="k", value=b"2", expect=first))
        assert second > first
        for stale in (first, 0, second + 1):
            with pytest.raises(StoreConflict) as conflict:
                await store.commit(Put(space="s", key="k", value=b"3", expect=stale))
            assert conflict.value.current == Versioned(b"2", second)

    async def test_a_version_never_comes_back_after_a_deletion(self, store):
        (first,) = await store.commit(Put(space="s", key="k", value=b"1"))
        assert await store.commit(Delete(space="s", key="k", expect=first)) == (True,)
        (again,) = await store.commit(Put(space="s", key="k", value=b"1"))
        assert again > first
        with pytest.raises(StoreConflict):
            await store.commit(Delete(space="s", key="k", expect=first))
        assert await store.commit(Delete(space="s", key="none")) == (False,)

    async def test_an_expired_value_is_gone_for_every_purpose(self, store, clock):
        await store.commit(Put(space="s", key="k", value=b"v", expires_at=clock.time + 10))
        clock.time += 9.9
        assert await store.get("s", "k")
        clock.time += 0.1
        assert await store.get("s", "k") is None
        assert await store.scan("s") == []
        await store.commit(Put(space="s", key="k", value=b"w", expect=0))
        assert (await store.get("s", "k")).value == b"w"

    async def test_a_scan_is_ordered_bounded_and_can_go_on(self, store):
        for key in ("b", "a/2", "a/1", "a/3", "a0", "é"):
            await store.commit(Put(space="s", key=key, value=key.encode()))
        await store.commit(Put(space="t", key="a/9", value=b""))
        assert [key for key, _ in await store.scan("s", prefix="a/")] == ["a/1", "a/2", "a/3"]
        assert [key for key, _ in await store.scan("s", limit=2)] == ["a/1", "a/2"]
        assert [key for key, _ in await store.scan("s", after="a/2")] == ["a/3", "a0", "b", "é"]

    async def test_one_counter_under_many_writers_loses_nothing(self, store):
        async def increment() -> None:
            while True:
                held = await store.get("s", "n")
                count, version = (int(held.value), held.version) if held else (0, 0)
                try:
                    await store.commit(Put(space="s", key="n", value=b"%d" % (count + 1), expect=version))
                except StoreConflict:
                    continue
                return

        await asyncio.gather(*(increment() for _ in range(20)))
        assert (await store.get("s", "n")).value == b"20"


class TestLogs:
    async def test_positions_count_from_one(self, store):
        assert await store.end("l") == 0
        assert await store.commit(Append(log="l", data=b"a"), Append(log="l", data=b"b")) == (1, 2)
        assert [(r.position, r.data) for r in await store.read("l")] == [(1, b"a"), (2, b"b")]
        assert [r.position for r in await store.read("l", after=1)] == [2]
        assert [r.position for r in await store.read("l", limit=1)] == [1]
        assert await store.end("l") == 2

    async def test_an_expected_end_is_checked(self, store):
        await store.commit(Append(log="l", data=b"a", expect_end=0))
        with pytest.raises(StoreConflict) as conflict:
            await store.commit(Append(log="l", data=b"b", expect_end=0))
        assert conflict.value.current == 1

    async def test_trimming_forgets_the_front_and_never_reuses_a_position(self, store):
        await store.commit(*(Append(log="l", data=b"%d" % n) for n in range(1, 6)))
        assert await store.commit(Trim(log="l", through=3)) == (3,)
        assert [r.position for r in await store.read("l")] == [4, 5]
        assert await store.commit(Trim(log="l", through=99)) == (2,)
        assert await store.commit(Append(log="l", data=b"6")) == (6,)
        assert await store.commit(Trim(log="none", through=3)) == (0,)

    async def test_logs_are_listed_by_prefix(self, store):
        await store.commit(
            Append(log="x:1", data=b""), Append(log="y:1", data=b""), Append(log="x:2", data=b"")
        )
        assert await store.logs("x:") == ["x:1", "x:2"]


class TestDocuments:
    async def put(self, store, id_, text, **keys):
        (version,) = await store.commit(
            PutDocument(collection="c", id=id_, body=id_.encode(), text=text, keys=tuple(keys.items()))
        )
        return version

    async def test_a_document_is_read_replaced_and_deleted(self, store):
        version = await self.put(store, "a", "hello")
        assert (await store.document("c", "a")).version == version
        newer = await self.put(store, "a", "goodbye")
        assert newer > version
        assert await store.find("c", words="hello") == []
        assert [d.id for d in await store.find("c", words="goodbye")] == ["a"]
        assert await store.commit(DeleteDocument(collection="c", id="a")) == (True,)
        assert await store.commit(DeleteDocument(collection="c", id="a")) == (False,)
        assert await store.find("c", words="goodbye") == []
        assert await store.document("c", "a") is None

    async def test_versions_are_compared(self, store):
        version = await self.put(store, "a", "x")
        for operation in (
            PutDocument(collection="c", id="a", body=b"", expect=0),
            PutDocument(collection="c", id="b", body=b"", expect=version),
            DeleteDocument(collection="c", id="a", expect=version + 1),
        ):
            with pytest.raises(StoreConflict):
                await store.commit(operation)
        assert (await store.document("c", "a")).body == b"a"

    async def test_words_are_found_folded_as_beginnings_and_all_of_them(self, store):
        await self.put(store, "fr", "Traduction de Café en anglais")
        await self.put(store, "en", "English café guide")
        await self.put(store, "other", "weather")
        assert {d.id for d in await store.find("c", words="CAFE")} == {"fr", "en"}
        assert [d.id for d in await store.find("c", words="cafe eng")] == ["en"]
        assert [d.id for d in await store.find("c", words="traduc")] == ["fr"]
        assert await store.find("c", words="café nothing") == []

    async def test_the_better_match_comes_first(self, store):
        await self.put(store, "passing", "a long text about many things and one translation among the others")
        await self.put(store, "subject", "translation translation")
        assert [d.id for d in await store.find("c", words="translation")] == ["subject", "passing"]

    async def test_keys_narrow_and_the_oldest_comes_first(self, store):
        await self.put(store, "1", "echo", family="a", state="up")
        await self.put(store, "2", "echo", family="b", state="up")
        await self.put(store, "3", "else", family="a", state="down")
        assert [d.id for d in await store.find("c", keys=[("family", "a")])] == ["1", "3"]
        assert [d.id for d in await store.find("c", keys=[("family", "a"), ("state", "up")])] == ["1"]
        assert [d.id for d in await store.find("c", words="echo", keys=[("family", "b")])] == ["2"]
        assert [d.id for d in await store.find("c", limit=2)] == ["1", "2"]
        assert await store.find("d") == []

    @pytest.mark.parametrize(
        "words", ['"', "'", "a AND", "NEAR(", "*", "text:", "x OR y", "-", "\0", "(", "a:b^2"]
    )
    async def test_query_syntax_is_only_words(self, store, words):
        await self.put(store, "a", "nothing of it")
        assert await store.find("c", words=words) == []


class TestLeases:
    async def test_one_holder_at_a_time_and_a_growing_token(self, store, clock):
        (lease,) = await store.commit(Acquire(name="l", holder="a", ttl=10))
        with pytest.raises(StoreConflict) as conflict:
            await store.commit(Acquire(name="l", holder="b", ttl=10))
        assert conflict.value.current == lease
        clock.time += 5
        (extended,) = await store.commit(Acquire(name="l", holder="a", ttl=10))
        assert (extended.token, extended.expires_at) == (lease.token, clock.time + 10)
        clock.time += 10
        assert await store.lease("l") is None
        (taken,) = await store.commit(Acquire(name="l", holder="b", ttl=10))
        assert taken.token > lease.token
        assert await store.lease("l") == taken

    async def test_a_fence_stops_the_former_holder(self, store, clock):
        (lease,) = await store.commit(Acquire(name="l", holder="a", ttl=10))
        await store.commit(Fence(name="l", token=lease.token), Put(space="s", key="k", value=b"a"))
        clock.time += 11
        with pytest.raises(StoreConflict):
            await store.commit(Fence(name="l", token=lease.token), Put(space="s", key="k", value=b"late"))
        (newer,) = await store.commit(Acquire(name="l", holder="b", ttl=10))
        with pytest.raises(StoreConflict) as conflict:
            await store.commit(Put(space="s", key="k", value=b"late"), Fence(name="l", token=lease.token))
        assert conflict.value.current == newer
        assert (await store.get("s", "k")).value == b"a"

    async def test_a_released_lease_is_free_and_its_token_spent(self, store):
        (lease,) = await store.commit(Acquire(name="l", holder="a", ttl=10))
        assert await store.commit(Release(name="l", token=lease.token + 1)) == (False,)
        assert await store.commit(Release(name="l", token=lease.token)) == (True,)
        assert await store.commit(Release(name="l", token=lease.token)) == (False,)
        (again,) = await store.commit(Acquire(name="l", holder="a", ttl=10))
        assert again.token > lease.token


class TestTransactions:
    async def test_all_or_nothing(self, store):
        await store.commit(step(1))
        everything = (
            Put(space="s", key="k", value=b"v"),
            Append(log="l", data=b"x"),
            PutDocument(collection="c", id="d", body=b"", text="word"),
            KeepReply(chain=CHAIN, seq=1, digest=b"", reply=b"r", at=1.0),
            Acquire(name="lease", holder="h", ttl=5),
        )
        with pytest.raises(StoreConflict):
            await store.commit(*everything, step(1), audit=[draft()])
        assert await store.get("s", "k") is None
        assert await store.end("l") == 0
        assert await store.find("c", words="word") == []
        assert await store.reply(CHAIN, 1) is None
        assert await store.lease("lease") is None
        assert await store.end("audit:main") == 0
        await store.commit(*everything, step(2), audit=[draft()])
        assert (await store.get("s", "k")).value == b"v"
        assert await store.end("audit:main") == 1

    async def test_operations_on_replies_happen_in_their_order(self, store):
        keep = [KeepReply(chain=CHAIN, seq=seq, digest=b"d", reply=b"r", at=float(seq)) for seq in (1, 2, 3)]
        prune = PruneReplies(chain=CHAIN, keep=1, before=0.0)
        assert await store.commit(step(1), *keep, prune) == (tip(1), None, None, None, 2)
        assert await store.commit(DropReply(chain=CHAIN, seq=3), keep[0], prune, keep[1]) == (
            True,
            None,
            0,
            None,
        )
        assert [seq for seq in (1, 2, 3) if await store.reply(CHAIN, seq)] == [1, 2]

    async def test_two_steps_of_one_chain_in_one_batch_follow_each_other(self, store):
        await store.commit(step(1))
        works = [store.submit([step(2)]), store.submit([step(3)]), store.submit([step(4), step(5)])]
        assert [await work for work in works] == [(tip(2),), (tip(3),), (tip(4), tip(5))]
        assert await store.tip(CHAIN) == tip(5)

    async def test_a_refused_one_leaves_its_neighbours_alone(self, store):
        works = [store.submit([step(1)]), store.submit([step(7)]), store.submit([step(2)])]
        outcomes = await asyncio.gather(*works, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [tuple, StoreConflict, tuple]
        assert await store.tip(CHAIN) == tip(2)

    async def test_what_was_acknowledged_is_there_after_reopening(self, open_store, clock):
        store = await open_store()
        await store.commit(step(1), Put(space="s", key="k", value=b"v"), audit=[draft()])
        store = await open_store()
        assert await store.tip(CHAIN) == tip(1)
        assert (await store.get("s", "k")).value == b"v"
        await store.commit(step(2), audit=[draft()])
        assert await store.end("audit:main") == 2

    async def test_a_closed_store_refuses_with_a_sentence(self, store):
        await store.close()
        with pytest.raises(StoreUnavailableError, match="closed"):
            await store.commit(step(1))

    async def test_writes_submitted_before_closing_are_finished(self, open_store):
        store = await open_store()
        works = [store.submit([Append(log="l", data=b"%d" % n)]) for n in range(600)]
        await store.close()
        assert [work.result() for work in works] == [(n,) for n in range(1, 601)]
        assert await (await open_store()).end("l") == 600


class TestAudit:
    async def test_entries_stand_in_commit_order_in_a_chain_that_verifies(self, store):
        await asyncio.gather(
            *(
                store.commit(Append(log="l", data=b""), audit=[draft(f"N{n}", checks_passed=("size",))])
                for n in range(40)
            )
        )
        report = await verify_chain(store, "main", KEY.vacant_id.public)
        assert (report.ok, report.entries) == (True, 40)

    async def test_an_audit_entry_alone_is_a_transaction(self, store):
        assert await store.commit(audit=[draft(), draft()]) == ()
        assert await store.end("audit:main") == 2


operations = st.one_of(
    st.builds(step, st.integers(1, 4)),
    st.builds(
        lambda k, v, e: Put(space="s", key=k, value=v, expect=e),
        st.sampled_from("abc"),
        st.binary(max_size=3),
        st.sampled_from([None, None, 0, 1, 2, 3]),
    ),
    st.builds(
        lambda k, e: Delete(space="s", key=k, expect=e), st.sampled_from("abc"), st.sampled_from([None, 1, 2])
    ),
    st.builds(
        lambda d, e: Append(log="l", data=d, expect_end=e),
        st.binary(max_size=2),
        st.sampled_from([None, 0, 1]),
    ),
    st.builds(lambda t: Trim(log="l", through=t), st.integers(0, 4)),
    st.builds(
        lambda i, t, e: PutDocument(
            collection="c", id=i, body=t.encode(), text=t, keys=(("k", t),), expect=e
        ),
        st.sampled_from("xy"),
        st.sampled_from(["one", "two"]),
        st.sampled_from([None, 0]),
    ),
    st.builds(
        lambda n, h, t: Acquire(name=n, holder=h, ttl=t),
        st.sampled_from("lm"),
        st.sampled_from("pq"),
        st.sampled_from([1.0, 5.0]),
    ),
    st.builds(lambda n, t: Release(name=n, token=t), st.sampled_from("lm"), st.integers(1, 2)),
    st.builds(lambda n, t: Fence(name=n, token=t), st.sampled_from("lm"), st.integers(1, 2)),
    st.builds(
        lambda s, r: KeepReply(chain=CHAIN, seq=s, digest=b"d", reply=r, at=float(s)),
        st.integers(1, 3),
        st.sampled_from([None, b"r"]),
    ),
    st.builds(
        lambda s, r, b, k: msgspec.structs.replace(answer(s, r, b), keep=k, before=float(b)),
        st.integers(1, 3),
        st.sampled_from([b"r", b"s"]),
        st.integers(1, 2),
        st.sampled_from([None, 0, 1]),
    ),
    st.builds(lambda k, b: PruneReplies(chain=CHAIN, keep=k, before=b), st.integers(0, 2), st.floats(0, 4)),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(st.lists(operations, min_size=1, max_size=4), max_size=4), max_size=8))
def test_two_engines_never_differ_in_an_answer(tmp_path_factory, batches):
    async def answers() -> None:
        clock = HandClock()
        path = tmp_path_factory.mktemp("differ") / "comity.db"
        memory, sqlite = MemoryStore(clock), await SqliteStore.open(path, clock)
        for batch in batches:
            clock.time += 1.0
            shown = [
                await asyncio.gather(
                    *(store.commit(*transaction) for transaction in batch), return_exceptions=True
                )
                for store in (memory, sqlite)
            ]
            plain = [
                [
                    ("conflict", one.operation, one.current) if isinstance(one, StoreConflict) else one
                    for one in outcomes
                ]
                for outcomes in shown
            ]
            assert plain[0] == plain[1]
        for question in (
            lambda s: s.tip(CHAIN),
            lambda s: s.tip(BACK),
            lambda s: s.scan("s"),
            lambda s: s.read("l"),
            lambda s: s.end("l"),
            lambda s: s.find("c", words="on"),
            lambda s: s.find("c", keys=[("k", "two")]),
            lambda s: s.lease("l"),
            lambda s: s.reply(CHAIN, 1),
        ):
            assert await question(memory) == await question(sqlite)
        await memory.close()
        await sqlite.close()

    asyncio.run(answers())
