"""The fetcher of revocation lists, in simulated time: what it asks for, when, and what it hands out."""

import asyncio

import pytest
from msgspec.structs import replace

from comity.http.client import GuardedHttp, HttpResponse
from comity.identity.protocol.revocation import RevocationList, Unavailable
from comity.runtime.system_clock import SystemClock
from comity.testing.loop import SimulatedClock, run_simulated
from comity.vcp.issuers import CRL_LIMIT, CRL_TIMEOUT, CrlFetcher, StoredLists
from comity.wire.errors import UnreachableError
from comity.wire.strict_json import dumps
from tests.http.local_server import reply, serving
from tests.identity.protocol.samples import (
    HOUR,
    KEY,
    NOW,
    SOURCE,
    STRANGER,
    UNSIGNED_SOURCE,
    alternate,
    crl_body,
    entry,
)
from tests.waiting import eventually

# shorter than the hour after which every list is asked for again
LIFE = 600
GRACE = 300
PAUSE = 10


class FakeHttp:
    """Gives `body` with `status` after `delay`, or raises `error`."""

    def __init__(self, body=None):
        self.body = crl_body(KEY, next_update=NOW + LIFE) if body is None else body
        self.status = 200
        self.delay = 0.0
        self.error = None
        self.asked = []

    async def request(self, method, url):
        self.asked.append((method, url))
        await asyncio.sleep(self.delay)
        if self.error is not None:
            raise self.error
        return HttpResponse(self.status, {}, self.body)


class World:
    """A fetcher with its loop's clock; `step` moves the wall clock alone."""

    def __init__(self, body=None, **settings):
        self.http = FakeHttp(body)
        self._clock = SimulatedClock()
        self.monotonic = self._clock.monotonic
        self.step = 0.0
        self.fetcher = CrlFetcher(self.http, self, **settings)

    def now(self):
        return self._clock.now() + self.step

    async def current(self, source=SOURCE):
        return await self.fetcher.current(source)

    @property
    def requests(self):
        return len(self.http.asked)

    async def at(self, seconds):
        """Let time pass until so many seconds after the start."""
        await asyncio.sleep(seconds - self.monotonic())


def simulated(test):
    """Run the test in simulated time; its argument makes a world."""

    def run():
        async def simulation():
            worlds = []

            def world(*arguments, **settings):
                worlds.append(World(*arguments, **settings))
                return worlds[-1]

            await test(world)
            for made in worlds:
                await made.fetcher.aclose()

        run_simulated(simulation)

    run.__name__ = test.__name__
    return run


def source(number):
    return replace(SOURCE, uri=f"https://creed.example/{number}")


@simulated
async def test_a_list_is_fetched_once_and_kept_while_it_is_fresh(world):
    at = world(crl_body(KEY, entry("j-1"), next_update=NOW + LIFE))
    found = await at.current()
    assert isinstance(found, RevocationList)
    assert "j-1" in found.jtis
    await at.at(LIFE - 1)
    assert await at.current() is found
    assert at.http.asked == [("GET", "https://creed.example/crl")]


@simulated
async def test_all_who_wait_share_one_request(world):
    at = world()
    at.http.delay = 1.0
    found = await asyncio.gather(*(at.current() for _ in range(20)))
    assert at.requests == 1
    assert all(one is found[0] for one in found)


@simulated
async def test_somebody_who_stops_waiting_does_not_stop_the_others(world):
    at = world()
    at.http.delay = 2.0
    impatient, patient = (asyncio.create_task(at.current()) for _ in range(2))
    await asyncio.sleep(1)
    impatient.cancel()
    assert isinstance(await patient, RevocationList)
    assert impatient.cancelled()
    assert at.requests == 1


class TestStaleLists:
    @staticmethod
    async def aged(at, seconds):
        """A world whose list has been out of date for so many seconds."""
        found = await at.current()
        await at.at(LIFE + seconds)
        return found

    def test_an_old_list_is_handed_out_at_once_while_the_next_one_is_fetched(self):
        @simulated
        async def run(world):
            at = world()
            old = await self.aged(at, 0)
            at.http.body = crl_body(KEY, published_at=NOW + LIFE, next_update=NOW + HOUR)
            at.http.delay = 1.0
            assert await at.current() is old
            assert at.monotonic() == pytest.approx(LIFE)
            assert await at.current() is old
            await asyncio.sleep(1.1)
            new = await at.current()
            assert new.published_at == NOW + LIFE
            assert at.requests == 2

        run()

    @pytest.mark.parametrize(("seconds", "usable"), [(GRACE - 1, True), (GRACE, False)])
    def test_the_grace_ends(self, seconds, usable):
        @simulated
        async def run(world):
            at = world()
            old = await self.aged(at, seconds)
            at.http.error = UnreachableError("gone")
            found = await at.current()
            assert (found is old) is usable
            assert isinstance(found, Unavailable) is not usable

        run()

    def test_after_the_grace_everybody_waits_for_the_next_list(self):
        @simulated
        async def run(world):
            at = world()
            await self.aged(at, GRACE)
            at.http.body = crl_body(KEY, published_at=NOW + LIFE, next_update=NOW + HOUR)
            assert (await at.current()).published_at == NOW + LIFE

        run()

    def test_a_failed_refresh_is_tried_again_after_a_pause_and_the_old_list_stays(self):
        @simulated
        async def run(world):
            at = world()
            old = await self.aged(at, 0)
            at.http.error = UnreachableError("gone")
            assert await at.current() is old
            await asyncio.sleep(1)
            assert await at.current() is old
            assert at.requests == 2
            await asyncio.sleep(PAUSE)
            assert await at.current() is old
            await asyncio.sleep(1)
            assert at.requests == 3

        run()

    def test_an_older_list_never_replaces_a_newer_one(self):
        @simulated
        async def run(world):
            at = world(crl_body(KEY, entry("j-1"), published_at=NOW + 10, next_update=NOW + LIFE))
            newer = await self.aged(at, 0)
            at.http.body = crl_body(KEY, published_at=NOW + 9, next_update=NOW + HOUR)
            assert await at.current() is newer
            await asyncio.sleep(1)
            assert await at.current() is newer

        run()


@simulated
async def test_a_list_dated_for_years_is_asked_for_again_every_hour(world):
    at = world(crl_body(KEY, next_update=NOW + 10**8))
    old = await at.current()
    await at.at(HOUR - 1)
    assert await at.current() is old
    assert at.requests == 1
    await at.at(HOUR)
    at.http.body = crl_body(KEY, entry("j-1"), published_at=NOW + HOUR, next_update=NOW + 10**8)
    assert await at.current() is old
    await asyncio.sleep(1)
    assert "j-1" in (await at.current()).jtis
    assert at.requests == 2


@simulated
async def test_an_issuer_that_signs_a_new_list_every_week_is_followed_for_a_quarter(world):
    week, revoked, at = 7 * 24 * HOUR, [], world()

    async def request(_method, _url):
        published = int(NOW + (at.now() - NOW) // week * week)
        body = crl_body(KEY, *revoked, published_at=published, next_update=published + week)
        return HttpResponse(200, {}, body)

    at.http.request = request
    seen = 0
    for hour in range(13 * 7 * 24):
        await at.at(hour * HOUR)
        if hour == 1000:
            revoked.append(entry("stolen"))
        found = await at.current()
        assert isinstance(found, RevocationList), f"hour {hour}: {found}"
        assert found.is_fresh(at.now(), GRACE)
        seen = seen or ("stolen" in found.jtis and hour)
    assert 1000 <= seen <= 1002
    assert "stolen" in at.fetcher.held(SOURCE).jtis


@simulated
async def test_the_same_list_again_is_no_failure(world):
    at = world(crl_body(KEY, next_update=NOW + 10**8))
    await at.current()
    await at.at(HOUR)
    await at.current()
    await at.at(2 * HOUR - 1)
    await at.current()
    await asyncio.sleep(0.5)
    assert at.requests == 2


class TestClocks:
    @staticmethod
    def seen(step, seconds, error=None):
        """What is handed out after so many seconds when the wall clock was moved, and after one more."""
        seen = []

        @simulated
        async def run(world):
            at = world()
            seen.append(await at.current())
            at.http.body = crl_body(KEY, published_at=NOW + LIFE, next_update=NOW + 10 * HOUR)
            at.http.error = error
            at.step = float(step)
            await at.at(seconds)
            seen.append(await at.current())
            await asyncio.sleep(1)
            seen.append(await at.current())

        run()
        return seen

    def test_a_wall_clock_set_back_does_not_keep_a_list_alive(self):
        old, at_the_end, then = self.seen(-HOUR, LIFE)
        assert at_the_end is old
        assert then.published_at == NOW + LIFE
        _, after_the_grace, _ = self.seen(-HOUR, LIFE + GRACE, UnreachableError("gone"))
        assert isinstance(after_the_grace, Unavailable)

    def test_a_machine_that_was_asleep_asks_again(self):
        old, awake, then = self.seen(LIFE, 1)
        assert awake is old
        assert then.published_at == NOW + LIFE
        _, late, _ = self.seen(LIFE + GRACE, 1)
        assert late.published_at == NOW + LIFE


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ({"status": 404}, "status 404"),
        ({"status": 302}, "status 302"),
        ({"body": b" " * (CRL_LIMIT + 1)}, "1,048,576 bytes"),
        ({"body": b"<html>"}, "JSON"),
        ({"body": b"[" * 100_000}, "nested"),
        ({"body": crl_body(STRANGER)}, "signature"),
        ({"body": crl_body(KEY, issuer_id="other")}, "not of creed"),
        ({"body": crl_body(KEY, published_at=NOW - HOUR, next_update=NOW)}, "out of date"),
        ({"body": dumps(alternate())}, "signature"),
        ({"error": UnreachableError("nobody there")}, "nobody there"),
        ({"delay": CRL_TIMEOUT + 0.1}, "5 seconds"),
        ({"error": RuntimeError("a defect")}, "broke"),
    ],
)
def test_what_does_not_count_was_not_had(fault, complaint):
    @simulated
    async def run(world):
        at = world()
        for name, value in fault.items():
            setattr(at.http, name, value)
        found = await at.current()
        assert isinstance(found, Unavailable)
        assert complaint in found.reason
        assert at.monotonic() <= CRL_TIMEOUT + 0.001

    run()


@simulated
async def test_the_limits_themselves_are_allowed(world):
    at = world()
    at.http.body = crl_body(KEY).ljust(CRL_LIMIT)
    at.http.delay = CRL_TIMEOUT - 0.1
    assert isinstance(await at.current(), RevocationList)


@simulated
async def test_after_a_failure_nobody_asks_for_a_while(world):
    at = world()
    at.http.error = UnreachableError("gone")
    first = await at.current()
    assert await at.current() == first
    await at.at(PAUSE - 0.1)
    assert await at.current() == first
    assert at.requests == 1
    at.http.error = None
    await at.at(PAUSE)
    assert isinstance(await at.current(), RevocationList)


@simulated
async def test_only_so_many_lists_are_kept_and_the_last_used_stay(world):
    at = world(kept=3)
    for number in (1, 2, 3, 1, 4):
        await at.current(source(number))
    assert at.requests == 4
    for number in (4, 1, 3):
        await at.current(source(number))
    assert at.requests == 4
    await at.current(source(2))
    assert at.requests == 5


@simulated
async def test_failures_count_among_what_is_kept(world):
    at = world(kept=2)
    at.http.error = UnreachableError("gone")
    for number in (1, 2, 3, 1):
        await at.current(source(number))
    assert at.requests == 4


@simulated
async def test_a_hundred_addresses_by_default(world):
    at = world()
    for number in range(101):
        await at.current(source(number))
    await at.current(source(1))
    assert at.requests == 101
    await at.current(source(0))
    assert at.requests == 102


@simulated
async def test_only_so_many_are_fetched_at_once(world):
    at = world(kept=2)
    at.http.delay = 1.0
    found = await asyncio.gather(*(at.current(source(number)) for number in range(3)))
    assert [type(one) for one in found] == [RevocationList, RevocationList, Unavailable]
    assert isinstance(await at.current(source(2)), RevocationList)


@simulated
async def test_another_key_for_the_same_address_is_another_list(world):
    at = world()
    assert isinstance(await at.current(), RevocationList)
    assert isinstance(await at.current(UNSIGNED_SOURCE), Unavailable)
    assert at.requests == 2


@simulated
async def test_without_https_nothing_is_asked_where_https_is_demanded(world):
    plain = replace(SOURCE, uri="http://creed.example/crl")
    strict, loose = world(), world(https_only=False)
    assert "https://" in (await strict.current(plain)).reason
    assert strict.requests == 0
    assert isinstance(await loose.current(plain), RevocationList)


@simulated
async def test_the_unsigned_shape_is_taken_where_it_was_allowed(world):
    at = world(dumps(alternate("j-1")))
    assert "j-1" in (await at.current(UNSIGNED_SOURCE)).jtis


@simulated
async def test_closing_lets_nobody_wait(world):
    at = world()
    at.http.delay = 4.0
    waiting = asyncio.create_task(at.current())
    await asyncio.sleep(1)
    await at.fetcher.aclose()
    assert "closed" in (await waiting).reason
    assert "closed" in (await at.current()).reason
    assert at.monotonic() == pytest.approx(1)


@simulated
async def test_closing_ends_what_is_fetched_in_the_background(world):
    at = world()
    await at.current()
    await at.at(LIFE)
    at.http.delay = 4.0
    await at.current()
    await asyncio.sleep(1)
    assert len(asyncio.all_tasks()) == 2
    await at.fetcher.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_failure_is_told_to_the_log_and_a_defect_with_its_place(caplog):
    @simulated
    async def run(world):
        for error in (UnreachableError("nobody there"), RuntimeError("a defect")):
            at = world()
            at.http.error = error
            await at.current()

    run()
    result, defect, _ = caplog.records
    assert "creed" in result.message
    assert "nobody there" in result.message
    assert defect.exc_info[0] is RuntimeError


@pytest.mark.usefixtures("patience")
async def test_the_guarded_client_carries_it_and_refuses_private_addresses():
    clock = SystemClock()
    now = int(clock.now())
    body = crl_body(KEY, entry("j-1"), published_at=now, next_update=now + HOUR)
    async with serving(lambda _: reply(body)) as server:
        local = replace(SOURCE, uri=server.url("/crl"))
        for allowed in (True, False):
            http = GuardedHttp(allow_loopback=allowed, timeout=CRL_TIMEOUT, answer_limit=CRL_LIMIT)
            fetcher = CrlFetcher(http, clock, https_only=False)
            found = await fetcher.current(local)
            assert isinstance(found, RevocationList) is allowed
            await fetcher.aclose()
            await http.aclose()
        assert len(server.requests) == 1


class TestStoredLists:
    """In real files, with a clock of the test."""

    class Clock:
        def __init__(self, now):
            self.at = now

        def now(self):
            return self.at

        def monotonic(self):
            return self.at - NOW

    def opened(self, folder, http, now=NOW, **settings):
        return CrlFetcher(http, self.Clock(now), stored=StoredLists(folder), **settings)

    async def fetched(self, folder, body):
        fetcher = self.opened(folder, FakeHttp(body))
        assert isinstance(await fetcher.current(SOURCE), RevocationList)
        await fetcher.aclose()

    def unreachable(self):
        http = FakeHttp()
        http.error = UnreachableError("no answer")
        return http

    async def test_a_list_counts_after_a_restart_while_its_issuer_is_down(self, tmp_path):
        await self.fetched(tmp_path, crl_body(KEY, entry("j-1"), next_update=NOW + LIFE))
        http = self.unreachable()
        fetcher = self.opened(tmp_path, http, NOW + LIFE - 1)
        await fetcher.restore([SOURCE])
        assert "j-1" in fetcher.held(SOURCE).jtis
        assert "j-1" in (await fetcher.current(SOURCE)).jtis
        await fetcher.aclose()

    @pytest.mark.parametrize(("now", "counts"), [(NOW + LIFE + GRACE - 1, True), (NOW + LIFE + GRACE, False)])
    async def test_it_counts_no_longer_than_without_a_restart(self, tmp_path, now, counts):
        await self.fetched(tmp_path, crl_body(KEY, next_update=NOW + LIFE))
        fetcher = self.opened(tmp_path, self.unreachable(), now)
        await fetcher.restore([SOURCE])
        assert (fetcher.held(SOURCE) is not None) is counts

    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"x" * (CRL_LIMIT + 2), crl_body(STRANGER, next_update=NOW + LIFE)],
        ids=["empty", "torn", "too large", "of another key"],
    )
    async def test_a_file_that_is_not_such_a_list_is_removed(self, tmp_path, body):
        await self.fetched(tmp_path, crl_body(KEY, next_update=NOW + LIFE))
        [file] = tmp_path.iterdir()
        file.write_bytes(body)
        fetcher = self.opened(tmp_path, self.unreachable())
        await fetcher.restore([SOURCE])
        assert fetcher.held(SOURCE) is None
        assert not file.exists()

    async def test_lists_that_the_settings_name_no_more_are_removed(self, tmp_path):
        await self.fetched(tmp_path, crl_body(KEY, next_update=NOW + LIFE))
        await self.opened(tmp_path, self.unreachable()).restore([source(1)])
        assert list(tmp_path.iterdir()) == []

    async def test_an_older_list_than_the_stored_one_is_refused(self, tmp_path):
        await self.fetched(tmp_path, crl_body(KEY, entry("j-1"), published_at=NOW, next_update=NOW + LIFE))
        older = FakeHttp(crl_body(KEY, published_at=NOW - 60, next_update=NOW + LIFE))
        fetcher = self.opened(tmp_path, older, NOW + 1)
        await fetcher.restore([SOURCE])
        await fetcher.current(SOURCE)
        await eventually(lambda: older.asked)
        assert "j-1" in (await fetcher.current(SOURCE)).jtis
        await fetcher.aclose()

    async def test_a_folder_that_cannot_be_written_costs_only_the_restart(self, tmp_path):
        (tmp_path / "file").write_bytes(b"")
        fetcher = self.opened(tmp_path / "file", FakeHttp())
        assert isinstance(await fetcher.current(SOURCE), RevocationList)
        await fetcher.aclose()

    async def test_how_often_it_is_fetched_is_a_setting(self, tmp_path):
        http = FakeHttp(crl_body(KEY, next_update=NOW + LIFE))
        fetcher = self.opened(tmp_path, http, refresh=60)
        await fetcher.current(SOURCE)
        fetcher._clock.at = NOW + 59
        await fetcher.current(SOURCE)
        assert len(http.asked) == 1
        fetcher._clock.at = NOW + 60
        await fetcher.current(SOURCE)
        await eventually(lambda: len(http.asked) == 2)
        await fetcher.aclose()
