import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from comity.wire.errors import InvalidError
from comity.wire.rate_limit import RateLimiter


class TestOneKey:
    def test_has_its_capacity_at_once_and_no_more(self):
        limiter = RateLimiter(10, 60)
        assert [limiter.take("a", 0.0) for _ in range(10)] == [0.0] * 10
        assert limiter.take("a", 0.0) == pytest.approx(6.0)

    def test_is_told_how_long_to_wait_and_then_granted(self):
        limiter = RateLimiter(2, 1)
        limiter.take("a", 5.0)
        limiter.take("a", 5.0)
        wait = limiter.take("a", 5.1)
        assert wait == pytest.approx(0.4)
        assert limiter.take("a", 5.1 + wait) == 0.0

    def test_is_not_charged_for_a_refusal(self):
        limiter = RateLimiter(1, 1)
        limiter.take("a", 0.0)
        for _ in range(100):
            assert limiter.take("a", 0.5) == pytest.approx(0.5)
        assert limiter.take("a", 1.0) == 0.0

    def test_never_saves_up_more_than_the_capacity(self):
        limiter = RateLimiter(3, 1)
        limiter.take("a", 0.0)
        assert [limiter.take("a", 1e6) for _ in range(4)] == [0.0, 0.0, 0.0, pytest.approx(1 / 3)]

    def test_does_not_pay_for_another(self):
        limiter = RateLimiter(1, 60)
        limiter.take("a", 0.0)
        assert limiter.take("a", 0.0) > 0
        assert limiter.take("b", 0.0) == 0.0

    def test_may_pay_several_at_once(self):
        limiter = RateLimiter(10, 10)
        assert limiter.take("a", 0.0, cost=7) == 0.0
        assert limiter.take("a", 0.0, cost=4) == pytest.approx(1.0)
        assert limiter.take("a", 0.0, cost=3) == 0.0

    @pytest.mark.parametrize("cost", [0, -1, 11, math.inf, math.nan])
    def test_a_cost_that_can_never_be_paid_is_refused(self, cost):
        with pytest.raises(InvalidError, match="capacity of 10"):
            RateLimiter(10, 10).take("a", 0.0, cost=cost)

    @given(
        st.integers(1, 100), st.floats(0.01, 3600), st.floats(0, 4e9), st.lists(st.floats(0, 10), max_size=50)
    )
    def test_waiting_as_long_as_told_is_always_enough(self, capacity, period, now, pauses):
        limiter = RateLimiter(capacity, period)
        for pause in pauses:
            now += pause
            wait = limiter.take("a", now)
            if wait:
                now += wait
                assert limiter.take("a", now) == 0.0


class TestTheClock:
    def test_going_back_gives_nothing_and_takes_nothing(self):
        limiter = RateLimiter(1, 10)
        limiter.take("a", 1000.0)
        assert limiter.take("a", 1004.0) == pytest.approx(6.0)
        assert limiter.take("a", 4.0) == pytest.approx(6.0)
        assert limiter.take("a", 9.0) == pytest.approx(1.0)
        assert limiter.take("a", 10.0) == 0.0

    def test_going_back_and_forth_only_its_progress_counts(self):
        limiter = RateLimiter(1, 10)
        limiter.take("a", 0.0)
        for _ in range(9):
            assert limiter.take("a", 1.0) > 0
            assert limiter.take("a", 0.0) > 0
        assert limiter.take("a", 1.0) == 0.0

    def test_may_start_anywhere(self):
        for start in (-1e9, 0.0, 1e9):
            limiter = RateLimiter(1, 1)
            assert limiter.take("a", start) == 0.0
            assert limiter.take("a", start) == pytest.approx(1.0)


class TestMemory:
    def test_a_flood_of_keys_is_bounded(self):
        limiter = RateLimiter(5, 60, max_keys=100)
        for number in range(10_000):
            limiter.take(number, 0.0)
        assert len(limiter) == 100

    def test_a_flood_does_not_wash_a_debt_away(self):
        limiter = RateLimiter(1, 60, max_keys=100)
        limiter.take("debtor", 0.0)
        for number in range(10_000):
            limiter.take(number, 0.0)
        assert limiter.take("debtor", 0.0) == pytest.approx(60.0)

    def test_newcomers_in_a_flood_share_one_bucket(self):
        limiter = RateLimiter(2, 60, max_keys=3)
        for known in range(3):
            limiter.take(known, 0.0)
        assert [limiter.take(f"new{number}", 0.0) for number in range(3)] == [0.0, 0.0, pytest.approx(30.0)]
        assert limiter.take(0, 0.0) == 0.0

    def test_after_the_flood_newcomers_are_themselves_again(self):
        limiter = RateLimiter(2, 60, max_keys=3)
        for key in range(6):
            limiter.take(key, 0.0)
        assert limiter.take("new", 0.0) > 0
        assert [limiter.take("late", 30.0) for _ in range(2)] == [0.0, 0.0]
        assert [limiter.take("later", 30.0) for _ in range(2)] == [0.0, 0.0]

    def test_keys_that_owe_nothing_are_forgotten_while_others_come(self):
        limiter = RateLimiter(1, 1, max_keys=1000)
        for number in range(500):
            limiter.take(number, 0.0)
        for number in range(200):
            limiter.take(f"new{number}", 10.0)
        assert len(limiter) <= 200

    def test_a_debtor_does_not_keep_the_rest_from_being_forgotten(self):
        limiter = RateLimiter(100, 100, max_keys=1000)
        limiter.take("debtor", 0.0, cost=100)
        for number in range(500):
            limiter.take(number, 0.0)
        for number in range(300):
            limiter.take(f"new{number}", 50.0)
        assert len(limiter) <= 301
        assert limiter.take("debtor", 50.0, cost=100) == pytest.approx(50.0)


@pytest.mark.parametrize(
    "settings_", [(0, 1), (-1, 1), (1, 0), (1, -1), (math.inf, 1), (1, math.inf), (math.nan, 1), (1, 1, 0)]
)
def test_a_limit_that_is_none_is_refused(settings_):
    with pytest.raises(InvalidError, match="above zero"):
        RateLimiter(*settings_)


class Fairness(RuleBasedStateMachine):
    """Nobody who is known gets more than capacity plus refill, whatever the clock and the others do."""

    def __init__(self):
        super().__init__()
        self.limiter = RateLimiter(4, 8, max_keys=5)
        self.clock = 100.0
        self.elapsed = 0.0
        self.granted = 0.0

    @rule(seconds=st.floats(0, 5))
    def wait(self, seconds):
        before, self.clock = self.clock, self.clock + seconds
        self.elapsed += self.clock - before
        self.limiter.take("somebody", self.clock)

    @rule(seconds=st.floats(0, 1000))
    def step_back(self, seconds):
        self.clock -= seconds
        self.limiter.take("somebody", self.clock)

    @rule(cost=st.integers(1, 4))
    def take(self, cost):
        if self.limiter.take("watched", self.clock, cost) == 0.0:
            self.granted += cost

    @rule(first=st.integers(0, 50), count=st.integers(1, 20))
    def flood(self, first, count):
        for number in range(first, first + count):
            self.limiter.take(number, self.clock)

    @invariant()
    def stays_within_its_allowance(self):
        # a newcomer may start on the shared bucket and get one of its own later
        assert self.granted <= 2 * 4 + self.elapsed / 2 * 2 + 1e-3

    @invariant()
    def memory_is_bounded(self):
        assert len(self.limiter) <= 5


TestFairness = Fairness.TestCase
TestFairness.settings = settings(max_examples=50, stateful_step_count=30)
