import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.vcp.protocol.client import retry_delay

draws = st.floats(0, 1, exclude_max=True)


def test_steps_double_from_one_second_to_thirty():
    assert [retry_delay(failures, 0.5) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


@given(st.integers(1, 10_000), draws)
def test_each_wait_is_half_to_one_and_a_half_of_its_step_and_at_most_thirty_seconds(failures, random):
    step = min(2 ** min(failures - 1, 5), 30)
    assert 0.5 * step <= retry_delay(failures, random) <= min(1.5 * step, 30)


@given(st.integers(1, 10), draws, st.integers(0, 10_000))
def test_no_wait_is_shorter_than_the_server_asked_for(failures, random, asked_for):
    assert retry_delay(failures, random, at_least=asked_for) == max(asked_for, retry_delay(failures, random))


@pytest.mark.parametrize(("random", "wait"), [(0.0, 0.5), (0.25, 0.75), (0.75, 1.25)])
def test_the_draw_decides_where_between(random, wait):
    assert retry_delay(1, random) == wait
