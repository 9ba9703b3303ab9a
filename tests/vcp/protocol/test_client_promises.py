"""Alerts about promises that a server no longer makes, and the waits between attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.vcp.protocol.agreement import V1_0, V3_0
from comity.vcp.protocol.client import alerts, retry_delay
from comity.vcp.protocol.messages import Ack
from tests.vcp.protocol.negotiation_samples import (
    ALL_FEATURES,
    EVERY_EXTENSION,
    hello,
    negotiate,
    policy,
    registry,
)
from tests.vcp.protocol.test_messages import acks


def names_of_alerts(before, now):
    return [(notice.about, notice.name) for notice in alerts(before, now)]


def ack(*extensions, **settings):
    return negotiate(hello(*extensions), policy(**settings))


def with_capability(value, key="limit"):
    return Ack(
        version="3.1",
        supported=("VCP-X-A",),
        unsupported=(),
        capabilities={"VCP-X-A": {} if value is None else {key: value}},
        core_features=ALL_FEATURES,
    )


@given(acks())
def test_the_same_answer_alerts_nobody(same):
    assert names_of_alerts(same, same) == []


def test_encryption_that_is_gone_is_told():
    assert names_of_alerts(ack(), ack(core_features=ALL_FEATURES | {"encryption": False})) == [
        ("feature", "encryption")
    ]


def test_a_feature_that_is_new_is_not():
    assert names_of_alerts(ack(core_features={}), ack()) == []


def test_an_extension_that_is_lost_is_told():
    lost = ack("VCP-X-Personal", "VCP-X-Intent", registry=registry("VCP-X-Intent"))
    assert names_of_alerts(ack("VCP-X-Personal", "VCP-X-Intent"), lost) == [("extension", "VCP-X-Personal")]


def test_an_extension_that_is_no_longer_asked_for_is_not_missed():
    assert names_of_alerts(ack(*EVERY_EXTENSION), ack("VCP-X-Torch", "VCP-X-Intent")) == []


def test_a_lower_version_is_told_with_what_goes_with_it():
    before, now = ack("VCP-X-Torch"), ack("VCP-X-Torch", versions=(V1_0, V3_0))
    assert names_of_alerts(before, now) == [("version", "3.0"), ("extension", "VCP-X-Torch")]


@pytest.mark.parametrize(
    ("had", "has"),
    [
        (True, False),
        (True, None),
        (True, 1),
        (100, 99),
        (1.5, 1),
        (100, True),
        (100, "100"),
        ([1, 2], [2]),
        ([1], 1),
        ("schulze", None),
    ],
)
def test_a_capability_that_shrinks_is_told(had, has):
    assert names_of_alerts(with_capability(had), with_capability(has)) == [("capability", "VCP-X-A.limit")]


@pytest.mark.parametrize(("had", "has"), [(False, True), (5, 6), ([1], [2, 1]), ("a", "b"), ({"x": 1}, {})])
def test_a_capability_that_grows_or_changes_its_name_is_not(had, has):
    assert names_of_alerts(with_capability(had), with_capability(has)) == []


def test_an_alert_is_a_sentence_about_its_subject():
    (notice,) = alerts(ack(), ack(core_features=ALL_FEATURES | {"revocation": False}))
    assert "revocation" in notice.message


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
