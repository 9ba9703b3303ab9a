"""The budget: requests and bytes, for an address and then for an identity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.requests.budget import Budget, Figures
from comity.testing import VirtualClock
from comity.wire.errors import RateLimitedError

STRANGER = "192.0.2.7"


def budget(**figures):
    return Budget(VirtualClock(), Figures(**figures))


def spent(call):
    """How often it can be done before it is refused."""
    for number in range(100_000):
        try:
            call()
        except RateLimitedError:
            return number
    raise AssertionError("it was never refused")


def test_small_messages_are_limited_by_their_number_and_large_ones_by_their_bytes():
    figures = {"requests": 100, "bytes": 10_000}
    for size, granted in ((0, 100), (1, 100), (100, 100), (200, 50), (1000, 10), (10_000, 1)):
        one = budget(**figures)
        assert spent(lambda one=one, size=size: one.spend(STRANGER, size)) == granted


def test_a_message_larger_than_the_whole_budget_takes_all_of_it():
    one = budget(requests=100, bytes=10_000)
    one.spend(STRANGER, 10**9)
    with pytest.raises(RateLimitedError, match=r"of this address; try again in 1 second$") as refusal:
        one.spend(STRANGER)
    assert 0 < refusal.value.retry_after <= 0.61


@given(st.lists(st.integers(0, 5000), max_size=60))
def test_neither_requests_nor_bytes_are_ever_exceeded(sizes):
    one = budget(requests=20, bytes=10_000)
    granted = []
    for size in sizes:
        try:
            one.spend(STRANGER, size)
        except RateLimitedError:
            continue
        granted.append(size)
    assert len(granted) <= 20
    assert sum(granted) <= 10_001


def test_bytes_that_come_later_cost_no_request():
    one = budget(requests=10, bytes=1000)
    one.spend(STRANGER)
    one.spend_bytes(STRANGER, 0)
    assert spent(lambda: one.spend_bytes(STRANGER, 10)) == 90


def test_addresses_and_identities_are_charged_apart():
    one = budget(requests=2)
    assert spent(lambda: one.spend(STRANGER)) == 2
    assert spent(lambda: one.spend_identity("vacant:ann", STRANGER)) == 2
    assert spent(lambda: one.spend_identity("vacant:bob", "198.51.100.1")) == 2
    assert spent(lambda: one.spend("198.51.100.1")) == 2
    assert one.refused == {"address": 2, "identity": 2}


@pytest.mark.parametrize("own", ["127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_has_no_limit_unless_it_is_asked_for(own):
    one = budget(requests=1, new_pairs=1)
    for _ in range(5):
        one.spend(own, 10**9)
        one.spend_bytes(own, 10**9)
        one.spend_identity("vacant:ann", own)
        one.spend_new_pair(own)
    limited = budget(requests=1, new_pairs=1, limit_loopback=True)
    assert spent(lambda: limited.spend(own)) == 1
    assert spent(lambda: limited.spend_identity("vacant:ann", own)) == 1
    assert spent(lambda: limited.spend_new_pair(own)) == 1


def test_who_can_wait_is_told_for_how_long_and_nothing_was_taken():
    one = budget(requests=2, per_seconds=60)
    assert one.take(STRANGER, 5) == one.take(STRANGER) == 0.0
    assert one.take(STRANGER) == one.take(STRANGER) == 30.0
    assert one.take_identity("vcp:ann", STRANGER) == 0.0


def test_handshakes_have_figures_of_their_own_which_loopback_keeps():
    one = budget(handshakes=2, loopback_handshakes=3, limit_loopback=True, requests=1)
    for address, granted in ((STRANGER, 2), ("127.0.0.1", 3)):
        waits = [one.handshakes(address).take(address, 0.0) for _ in range(granted + 1)]
        assert [bool(wait) for wait in waits] == [False] * granted + [True]
    repeats = one.handshakes(STRANGER, repeats=True)
    assert not any(repeats.take(STRANGER, 0.0) for _ in range(100))
