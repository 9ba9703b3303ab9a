"""Callers who go away in the middle of the pipeline: no half step is left behind."""

import asyncio

import pytest

from comity.requests.caller import Caller
from comity.requests.handler import Admission, HandlerResult, Identified
from comity.store.group_commit import Written
from comity.store.interface import Delete, Put
from comity.testing import run_simulated
from comity.wire.errors import ComityError, InvalidError, StoreFullError
from tests.requests.pipelines import ARRIVAL, NodeRuntime, Shop, settle, simulated


async def cancelled(call):
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@simulated
async def test_who_goes_away_during_the_work_gets_the_admission_back():
    runtime = NodeRuntime()
    call = runtime.begin(Shop(handle=lambda _call: asyncio.sleep(3)))
    await asyncio.sleep(1)
    assert await runtime.slot()
    await cancelled(call)
    assert not await runtime.slot()
    assert (await runtime.store.entries())[-1].failed_step == "cancelled"
    assert runtime.observed == [("shop", "cancelled", 1.0)]


@simulated
async def test_who_goes_away_while_the_admission_is_written_gets_it_back_once_it_is():
    runtime = NodeRuntime()
    shop = Shop()
    runtime.store.held = True
    call = runtime.begin(shop)
    await settle()
    call.cancel()
    await settle()
    assert not call.done()  # what the store will do is not known yet
    runtime.store.held = False
    runtime.store.release()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert shop.steps == ["identify", "hold", "admit", "undo"]
    assert not await runtime.slot()
    assert await runtime.store.results() == ["SHOP_ADMITTED", "SHOP_FAILED"]


@simulated
async def test_who_goes_away_while_the_admission_is_refused_has_nothing_to_give_back():
    runtime = NodeRuntime()
    await runtime.store.commit(Put(space="slot", key="1", value=b"somebody else's"))
    shop = Shop()
    runtime.store.held = True
    call = runtime.begin(shop)
    await settle()
    call.cancel()
    await settle()
    runtime.store.held = False
    runtime.store.release()
    with pytest.raises(asyncio.CancelledError):
        await call
    await settle()
    assert "undo" not in shop.steps
    assert await runtime.slot()
    assert (await runtime.store.entries())[-1].failed_step == "cancelled"


@simulated
async def test_an_answer_that_is_being_stored_stays_stored_when_its_caller_goes_away():
    runtime = NodeRuntime()

    async def hold(_call):
        runtime.store.held = True

    shop = Shop(seal=hold)
    call = runtime.begin(shop)
    await settle()
    call.cancel()
    await settle()
    assert not call.done()
    runtime.store.release()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert "undo" not in shop.steps
    assert await runtime.slot()
    assert await runtime.sale()
    assert await runtime.store.results() == ["SHOP_ADMITTED", "SHOP_OK"]
    assert runtime.observed[0][1] == "cancelled"


@simulated
async def test_an_answer_that_could_not_be_stored_is_given_back_when_its_caller_went_away():
    runtime = NodeRuntime()
    stored = Written(loop=asyncio.get_running_loop())

    async def hold(_call):
        runtime.store.submit = lambda *_: stored

    shop = Shop(seal=hold)
    call = runtime.begin(shop)
    await settle()
    call.cancel()
    await settle()
    del runtime.store.submit
    stored.set_exception(StoreFullError("no space is left"))
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not await runtime.slot()
    assert (await runtime.store.entries())[-1].failed_step == "cancelled"


@simulated
async def test_the_admission_is_given_back_before_the_turn_ends_however_often_the_caller_is_cancelled():
    runtime = NodeRuntime()
    shop = Shop(handle=InvalidError("sold out"))
    shop.lock = asyncio.Lock()

    async def hold(_call):
        runtime.store.held = True

    shop.instead["undo"] = hold
    call = runtime.begin(shop)
    for _ in range(3):
        await settle()
        call.cancel()
    await settle()
    assert shop.lock.locked()
    runtime.store.release()
    with pytest.raises((InvalidError, asyncio.CancelledError)):
        await call
    assert not await runtime.slot()
    assert not shop.lock.locked()


class Till:
    """Many customers, each with a slot and a sale of his own."""

    name = "till"
    deadline = 2.0

    def __init__(self, customer, chance):
        self.customer = str(customer)
        self.chance = chance
        self.shop = Shop()

    def __getattr__(self, name):
        return getattr(self.shop, name)

    def identify(self, request):
        return Identified(Caller(kind="terminal", id=self.customer))

    async def _live(self, chances=0.2):
        if self.chance.random() < chances:
            raise self.chance.choice([InvalidError("no"), KeyError("bug"), StoreFullError("full")])
        await asyncio.sleep(self.chance.choice([0, 0, 0.3, 1.5, 3.0]))

    async def admit(self, call):
        await self._live(0.1)
        return Admission(operations=(Put(space="slot", key=self.customer, value=b"", expect=0),))

    async def handle(self, call):
        await self._live()
        return f"goods for {self.customer}"

    async def seal(self, call, result):
        await self._live()
        return HandlerResult(
            reply=result, operations=(Put(space="sale", key=self.customer, value=result.encode()),)
        )

    async def undo(self, call):
        return (Delete(space="slot", key=self.customer),)


@pytest.mark.parametrize("seed", range(25))
def test_the_books_balance_whatever_fails_and_whoever_goes_away(seed):
    """A slot is taken exactly when there is a sale; who was answered has one; the log says the same."""
    logging_off = pytest.MonkeyPatch()
    logging_off.setattr("comity.requests.pipeline.log.disabled", True)

    async def day():
        chance = asyncio.get_running_loop().random
        runtime = NodeRuntime()
        runtime.store._commit_delay = 0.2

        async def customer(number):
            call = asyncio.create_task(runtime.pipeline.run(Till(number, chance), ARRIVAL))
            if chance.random() < 0.4:
                asyncio.get_running_loop().call_later(chance.random() * 4, call.cancel)
            return await call

        answers = await asyncio.gather(*map(customer, range(40)), return_exceptions=True)
        await asyncio.sleep(10)
        slots = {key for key, _ in await runtime.store.scan("slot")}
        sales = {key for key, _ in await runtime.store.scan("sale")}
        assert slots == sales
        answered = {str(number) for number, answer in enumerate(answers) if isinstance(answer, str)}
        assert answered <= sales
        went_away = {str(n) for n, answer in enumerate(answers) if isinstance(answer, asyncio.CancelledError)}
        assert sales <= answered | went_away
        assert all(isinstance(a, str | ComityError | asyncio.CancelledError) for a in answers)
        assert len(runtime.observed) == 40
        results = await runtime.store.results()
        assert results.count("TILL_OK") == len(sales)
        assert results.count("TILL_OK") + results.count("TILL_FAILED") == 40
        return len(answered)

    try:
        run_simulated(day, seed)
    finally:
        logging_off.undo()
