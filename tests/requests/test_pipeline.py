"""The pipeline, step by step: what comes before what, what is stored, and what the caller gets."""

import asyncio
import logging

import pytest

from comity.requests.budget import Budget, Figures
from comity.requests.caller import anonymous
from comity.requests.handler import Admission, HandlerResult, Request, begin_request, current_request
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_chain import privacy_hash
from comity.store.interface import Put, StoreConflict
from comity.testing import SimulatedClock
from comity.wire.errors import (
    ComityError,
    ConflictError,
    DeadlineError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    StoreFullError,
    UnauthenticatedError,
)
from tests.callers import OWNER, STRANGER, signer
from tests.requests.pipelines import ANN, ARRIVAL, NodeRuntime, Shop, Window, settle, simulated


class UntouchedStore:
    """Takes audit entries and nothing else: whoever reads fails."""

    def __init__(self):
        self.noted = []

    def submit(self, operations, audit=()):
        assert not operations
        self.noted.extend(audit)
        done = asyncio.get_running_loop().create_future()
        done.set_result(())
        return done

    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked of the store")


class NotedBudget(Budget):
    def __init__(self, steps):
        super().__init__(SimulatedClock())
        self.steps = steps

    def spend_identity(self, identity, address, size=0):
        self.steps.append("budget")
        super().spend_identity(identity, address, size)


@simulated
async def test_each_step_comes_after_the_one_before():
    shop = Shop(caller=ANN)
    runtime = NodeRuntime(budget=NotedBudget(shop.steps))
    assert await runtime.take(shop) == "goods"
    assert shop.steps == ["identify", "budget", "hold", "admit", "handle", "seal", "let go"]
    assert await runtime.store.results() == ["SHOP_ADMITTED", "SHOP_OK"]
    assert await runtime.slot()
    assert await runtime.sale()


@pytest.mark.parametrize("refused_by", ["identity", "budget"])
@simulated
async def test_nothing_stored_is_read_for_a_refused_stranger(refused_by):
    store = UntouchedStore()
    budget = Budget(SimulatedClock(), Figures(requests=1))
    unknown = {"identify": UnauthenticatedError("who are you?")} if refused_by == "identity" else {}
    shop = Shop(caller=ANN, **unknown)
    pipeline = Pipeline(Recorder(store, SimulatedClock()), SimulatedClock(), budget=budget)
    budget.spend_identity("vacant:ann", ARRIVAL.caller.address)
    with pytest.raises(RateLimitedError if refused_by == "budget" else UnauthenticatedError):
        await pipeline.run(shop, ARRIVAL)
    assert shop.steps == ["identify"]
    assert store.noted == []


def limited(**figures):
    return NodeRuntime(budget=Budget(SimulatedClock(), Figures(**figures)))


@simulated
async def test_who_asks_too_often_hears_when_to_come_again_and_is_let_in_then():
    runtime = limited(requests=2)
    for _ in range(2):
        await runtime.take(Window(caller=ANN))
    with pytest.raises(RateLimitedError, match=r"try again in 30 seconds") as refusal:
        await runtime.take(Window(caller=ANN))
    assert refusal.value.retry_after == 30
    await asyncio.sleep(refusal.value.retry_after)
    assert await runtime.take(Window(caller=ANN)) == "a look"


@simulated
async def test_one_identity_does_not_use_up_what_another_may_ask_of_the_same_address():
    runtime = limited(requests=1)
    await runtime.take(Window(caller=ANN))
    with pytest.raises(RateLimitedError):
        await runtime.take(Window(caller=ANN))
    with pytest.raises(RateLimitedError):
        await runtime.take(
            Window(caller=ANN), Request(door="test", caller=anonymous("198.51.100.1"), body={})
        )
    await runtime.take(Window(caller=signer("bob")))


@simulated
async def test_a_refusal_is_excused_once_the_caller_has_proven_who_it_is_or_where_nothing_was_found():
    runtime = NodeRuntime()

    async def excused(room, refusal):
        begin_request("one")
        with pytest.raises(refusal):
            await runtime.take(room)
        return current_request().excused

    assert not await excused(
        Shop(identify=UnauthenticatedError("not signed by its sender")), UnauthenticatedError
    )
    assert not await excused(Window(caller=STRANGER, handle=InvalidError("no such number")), InvalidError)
    assert await excused(Window(caller=ANN, handle=InvalidError("no such number")), InvalidError)
    assert await excused(Window(caller=STRANGER, handle=NotFoundError("not here")), NotFoundError)


@simulated
async def test_the_bytes_of_a_message_are_charged_to_who_sent_it():
    runtime = limited(requests=10, bytes=1000)
    large = Request(door="test", caller=STRANGER, body={}, size=600)
    await runtime.take(Window(caller=ANN), large)
    with pytest.raises(RateLimitedError, match="too many bytes of this identity"):
        await runtime.take(Window(caller=ANN), large)
    await runtime.take(Window(caller=ANN))


@simulated
async def test_neither_the_owner_nor_who_calls_from_this_machine_is_charged():
    runtime = limited(requests=1)
    for _ in range(5):
        await runtime.take(Window(caller=ANN), Request(door="test", caller=OWNER, body={}))
        await runtime.take(Window(caller=ANN), Request(door="test", caller=anonymous("127.0.0.1"), body={}))
        await runtime.take(Window())


@simulated
async def test_a_state_change_and_its_audit_entry_are_one_transaction():
    runtime = NodeRuntime()
    await runtime.take(Shop())
    spaces = [[operation.space for operation in operations] for operations, _ in runtime.store.written]
    entries = [[draft.verification_result for draft in drafts] for _, drafts in runtime.store.written]
    assert spaces == [["slot"], ["sale"]]
    assert entries == [["SHOP_ADMITTED"], ["SHOP_OK"]]


@simulated
async def test_the_work_begins_only_when_the_admission_is_durable():
    runtime = NodeRuntime()
    shop = Shop()
    runtime.store.held = True
    call = runtime.begin(shop)
    await settle()
    assert shop.steps[-1] == "admit"
    runtime.store.held = False
    runtime.store.release()
    assert await call == "goods"


@simulated
async def test_the_reply_leaves_only_after_its_own_commit():
    runtime = NodeRuntime()

    async def hold(_call):
        runtime.store.held = True

    call = runtime.begin(Shop(seal=hold))
    await settle()
    assert not call.done()
    assert runtime.observed == []
    runtime.store.release()
    assert await call == "goods"


@simulated
async def test_a_call_that_changes_nothing_does_not_wait_for_its_audit_entry():
    runtime = NodeRuntime()
    runtime.store.held = True
    sealed = HandlerResult(reply="a look", audit={"content_hash": "sha256:abc"})
    assert await runtime.take(Window(sealed=sealed)) == "a look"
    assert await runtime.store.results() == []
    runtime.store.release()
    await settle()
    assert await runtime.store.results() == ["WINDOW_OK"]


@simulated
async def test_alike_calls_that_change_nothing_share_an_audit_entry():
    runtime = NodeRuntime()
    for _ in range(3):
        assert await runtime.take(Window()) == "a look"
    runtime.record.flush()
    await settle()
    (entry,) = await runtime.store.entries()
    assert (entry.verification_result, entry.checks_passed[-2]) == ("WINDOW_OK", "count:3")


@simulated
async def test_the_audit_entry_says_what_happened_and_not_who_by_name():
    runtime = NodeRuntime(level="full")

    async def slowly(_call):
        await asyncio.sleep(0.25)

    sealed = HandlerResult(reply="goods", audit={"content_hash": "sha256:abc"})
    await runtime.take(Shop(handle=slowly, sealed=sealed))
    await settle()
    entry = (await runtime.store.entries())[-1]
    assert entry.verification_result == "SHOP_OK"
    assert entry.checks_passed == ("rate", "identity", "stock", "caller:local:admin")
    assert entry.issuer_hash == privacy_hash("local")
    assert entry.content_hash == "sha256:abc"
    assert entry.audit_level == "full"
    assert 250 <= entry.duration_ms < 251
    assert entry.created_at.startswith("2026-01-01T00:00:00.25")


@simulated
async def test_an_answer_that_was_given_before_is_given_again_without_work():
    runtime = NodeRuntime()
    shop = Shop(admission=Admission(answered=HandlerResult(reply="the same as last time")))
    assert await runtime.take(shop) == "the same as last time"
    assert shop.steps == ["identify", "hold", "admit", "let go"]
    runtime.record.flush()
    await settle()
    assert await runtime.store.results() == ["SHOP_OK"]


FAILURES = {
    "a refusal": (InvalidError("no such goods"), InvalidError, "invalid"),
    "a fault": (ZeroDivisionError("secret-path"), ComityError, "internal"),
    "a timeout of its own": (TimeoutError("inner"), ComityError, "internal"),
}


@pytest.mark.parametrize("step", ["handle", "seal"])
@pytest.mark.parametrize("failure", FAILURES)
@simulated
async def test_work_that_fails_gives_its_admission_back(step, failure):
    raised, heard, code = FAILURES[failure]
    runtime = NodeRuntime()
    shop = Shop(**{step: raised})
    with pytest.raises(heard) as refusal:
        await runtime.take(shop)
    assert refusal.value.code == code
    assert shop.steps[-1] == "undo"
    assert not await runtime.slot()
    entries = await runtime.store.entries()
    assert [entry.verification_result for entry in entries] == ["SHOP_ADMITTED", "SHOP_FAILED"]
    assert entries[-1].failed_step == code
    operations, drafts = runtime.store.written[-1]
    assert len(operations) == len(drafts) == 1


@simulated
async def test_work_that_takes_too_long_is_ended_at_its_deadline_and_gives_its_admission_back():
    runtime = NodeRuntime()
    ended = []

    async def forever(_call):
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(runtime.clock.monotonic())

    with pytest.raises(DeadlineError, match="shop took longer than 5 seconds; try again later"):
        await runtime.take(Shop(handle=forever))
    assert ended == [5.0]
    assert not await runtime.slot()
    assert (await runtime.store.entries())[-1].failed_step == "deadline"


@pytest.mark.parametrize("step", ["identify", "admit", "handle", "seal"])
@simulated
async def test_a_fault_becomes_one_clean_error_and_a_line_in_the_log(step, caplog):
    runtime = NodeRuntime()
    with pytest.raises(ComityError) as refusal:
        await runtime.take(Shop(**{step: KeyError("/home/somebody/comity.db")}))
    assert type(refusal.value) is ComityError
    assert refusal.value.message == "shop failed on our side; the log of this node says why"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.records[0].name == "comity.walk"
    assert "comity.db" in caplog.text


@simulated
async def test_a_refusal_in_the_admission_is_heard_and_leaves_one_entry():
    runtime = NodeRuntime()
    shop = Shop(admit=InvalidError("closed today"))
    with pytest.raises(InvalidError, match="closed today"):
        await runtime.take(shop)
    await settle()
    entries = await runtime.store.entries()
    assert [(e.verification_result, e.failed_step) for e in entries] == [("SHOP_FAILED", "invalid")]
    assert "undo" not in shop.steps


@simulated
async def test_a_conflict_in_the_admission_is_heard_and_there_is_nothing_to_give_back():
    runtime = NodeRuntime()
    await runtime.store.commit(Put(space="slot", key="1", value=b"somebody else's"))
    shop = Shop()
    with pytest.raises(ConflictError) as refusal:
        await runtime.take(shop)
    assert refusal.value.current.value == b"somebody else's"
    await settle()
    assert shop.steps == ["identify", "hold", "admit"]
    assert await runtime.slot()
    assert await runtime.store.results() == ["SHOP_FAILED"]


@simulated
async def test_who_is_overtaken_while_he_works_gives_the_answer_of_the_other():
    runtime = NodeRuntime()
    sealed = HandlerResult(reply="mine", operations=(Put(space="sale", key="1", value=b"mine", expect=0),))

    async def meanwhile(_call):
        await runtime.store.commit(Put(space="sale", key="1", value=b"other"))

    shop = Shop(handle=meanwhile, sealed=sealed)
    assert await runtime.take(shop) == "what the other one sold"
    runtime.record.flush()
    await settle()
    assert "undo" not in shop.steps
    assert await runtime.store.results() == ["SHOP_ADMITTED", "SHOP_OK"]


def selling(expect):
    return HandlerResult(reply="mine", operations=(Put(space="sale", key="1", value=b"mine", expect=expect),))


@simulated
async def test_what_a_room_wants_stored_after_a_conflict_is_stored_with_one_entry():
    runtime = NodeRuntime()
    await runtime.store.commit(Put(space="sale", key="1", value=b"other"))
    shop = Shop(sealed=selling(expect=0), answered=selling(expect=None))
    assert await runtime.take(shop) == "mine"
    assert (await runtime.store.get("sale", "1")).value == b"mine"
    assert shop.steps.count("answer conflict") == 1
    assert await runtime.store.results() == ["SHOP_ADMITTED", "SHOP_OK"]


@simulated
async def test_a_room_that_is_overtaken_again_and_again_gives_up_in_the_end():
    runtime = NodeRuntime()
    await runtime.store.commit(Put(space="sale", key="1", value=b"other"))
    shop = Shop(sealed=selling(expect=0), answered=selling(expect=0))
    with pytest.raises(ConflictError):
        await runtime.take(shop)
    assert shop.steps.count("answer conflict") == 31
    assert (await runtime.store.get("sale", "1")).value == b"other"


@simulated
async def test_who_is_overtaken_and_has_no_answer_gives_his_admission_back():
    runtime = NodeRuntime()
    conflict = StoreConflict(Put(space="sale", key="1", value=b""), None)

    async def overtake(_call):
        runtime.store.refusals = [conflict]

    shop = Shop(seal=overtake, **{"answer conflict": conflict})
    with pytest.raises(ConflictError):
        await runtime.take(shop)
    assert not await runtime.slot()
    assert await runtime.store.results() == ["SHOP_ADMITTED", "SHOP_FAILED"]


@simulated
async def test_a_store_that_is_full_when_the_answer_is_sealed_gets_the_admission_back():
    runtime = NodeRuntime()

    async def fill_up(_call):
        runtime.store.refusals = [StoreFullError("no space is left for /data/comity.db")]

    with pytest.raises(StoreFullError):
        await runtime.take(Shop(seal=fill_up))
    assert not await runtime.slot()
    assert not await runtime.sale()
    assert (await runtime.store.entries())[-1].failed_step == "store_full"


@pytest.mark.parametrize("second", [StoreFullError("still full"), ValueError("a bug")])
@simulated
async def test_what_cannot_be_given_back_is_logged_and_does_not_hide_the_first_failure(second, caplog):
    runtime = NodeRuntime()
    with pytest.raises(InvalidError, match="the first"):
        await runtime.take(Shop(handle=InvalidError("the first"), undo=second))
    assert [record.getMessage() for record in caplog.records] == [
        "a failed call could not undo its admission"
    ]
    await settle()
    assert await runtime.slot()  # as after a crash: the slot is pending, and the room finds it so
    assert await runtime.store.results() == ["SHOP_ADMITTED", "SHOP_FAILED"]


@simulated
async def test_an_audit_entry_that_cannot_be_written_is_for_the_log_and_not_for_the_caller(caplog):
    runtime = NodeRuntime()
    runtime.store.refusals = [StoreFullError("no space is left")]
    assert await runtime.take(Window()) == "a look"
    runtime.record.flush()
    await settle()
    assert "an audit entry could not be written: no space is left" in caplog.text


@simulated
async def test_a_walk_without_a_trail_writes_state_and_no_entries():
    runtime = NodeRuntime(audited=False)
    await runtime.take(Shop())
    await runtime.take(Window())
    runtime.record.refuse("http", "forbidden")
    runtime.record.flush()
    assert [drafts for _, drafts in runtime.store.written] == [(), ()]


@simulated
async def test_calls_that_must_wait_for_each_other_do_so_until_the_last_commit():
    runtime = NodeRuntime()
    lock = asyncio.Lock()
    first, second = Shop(handle=InvalidError("sold out")), Shop()
    first.lock = second.lock = lock
    runtime.store.held = True
    calls = [runtime.begin(first), runtime.begin(second)]
    for _ in range(2):  # the admission of the first, then its give-back
        await settle()
        assert second.steps == ["identify", "hold"]
        runtime.store.release()
    await settle()
    assert second.steps == ["identify", "hold", "admit"]
    runtime.store.held = False
    runtime.store.release()
    assert await asyncio.gather(*calls, return_exceptions=True) == [first.instead["handle"], "goods"]


OUTCOMES = {
    "ok": {},
    "invalid": {"handle": InvalidError("no")},
    "unauthenticated": {"identify": UnauthenticatedError("who?")},
    "internal": {"handle": KeyError("bug")},
    "deadline": {"handle": lambda _call: asyncio.sleep(60)},
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@simulated
async def test_each_call_is_observed_once_with_its_outcome(outcome):
    runtime = NodeRuntime()
    logging.disable(logging.CRITICAL)
    try:
        await asyncio.gather(runtime.take(Shop(**OUTCOMES[outcome])), return_exceptions=True)
    finally:
        logging.disable(logging.NOTSET)
    assert runtime.observed == [("shop", outcome, 5.0 if outcome == "deadline" else 0.0)]
