"""What Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from comity.requests.metrics import Metric, Metrics


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


def test_the_metrics_of_parts_are_asked_for_each_time_plain_or_by_a_label():
    counts = {"red": 1}
    metrics = Metrics(
        "1",
        lambda: 1.0,
        lambda: [
            Metric("comity_doors_open", "Doors that are open.", len(counts)),
            Metric("comity_balls", "Balls thrown.", counts, "colour", "counter"),
        ],
    )
    assert samples(metrics)["comity_balls_total", ("colour", "red")] == 1
    counts |= {"red": 5, "blue": 2}
    seen = samples(metrics)
    assert seen[("comity_doors_open",)] == 2
    assert seen["comity_balls_total", ("colour", "red")] == 5
    assert seen["comity_balls_total", ("colour", "blue")] == 2
