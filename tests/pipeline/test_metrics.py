"""What Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from comity.pipeline.budget import Budget, Figures
from comity.pipeline.metrics import Metrics
from comity.pipeline.storage import Quota
from comity.store.memory import MemoryStore
from comity.store.operations import Hold
from comity.testing import VirtualClock


def samples(metrics):
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for f in families for sample in f.samples
    }


def test_calls_are_counted_by_room_and_outcome_with_their_seconds():
    metrics = Metrics("1.2.3", lambda: 42.0)
    metrics.observe("ping", "ok", 0.002)
    metrics.observe("ping", "ok", 0.2)
    metrics.observe("ping", "invalid", 0.0)
    seen = samples(metrics)
    assert seen["comity_calls_total", ("outcome", "ok"), ("room", "ping")] == 2
    assert seen["comity_calls_total", ("outcome", "invalid"), ("room", "ping")] == 1
    assert seen["comity_call_seconds_count", ("room", "ping")] == 3
    assert seen["comity_call_seconds_bucket", ("le", "0.0025"), ("room", "ping")] == 2
    assert abs(seen["comity_call_seconds_sum", ("room", "ping")] - 0.202) < 1e-9
    assert metrics.calls == 3


def test_release_and_uptime_are_told_and_two_nodes_in_one_process_do_not_mix():
    one, other = Metrics("1.2.3", lambda: 42.0), Metrics("9", lambda: 7.0)
    one.observe("ping", "ok", 0.0)
    assert samples(one)["comity_build", ("version", "1.2.3")] == 1
    assert samples(one)[("comity_uptime_seconds",)] == 42
    assert samples(other)[("comity_uptime_seconds",)] == 7
    assert other.calls == 0
    assert not any(name.startswith("comity_call") for name, *_ in samples(other))


async def test_budgets_that_ran_out_and_bytes_stored_for_others_are_told():
    metrics, clock = Metrics("1", lambda: 1.0), VirtualClock()
    budget, store = Budget(clock, Figures(requests=1)), MemoryStore(clock)
    quota = Quota(store, clock, name="cards", total=1000, has_share=lambda _address: True)
    metrics.show_limits(budget, [quota])
    await store.commit(Hold(quota="cards", item="x", holder="a", bytes=42))
    await quota.look()
    for _ in range(3):
        budget.take("192.0.2.7")
    seen = samples(metrics)
    assert seen["comity_budget_refused_total", ("kind", "address")] == 2
    assert seen["comity_budget_refused_total", ("kind", "identity")] == 0
    assert seen["comity_stored_bytes", ("quota", "cards")] == 42
    assert seen["comity_stored_limit_bytes", ("quota", "cards")] == 1000
