"""What the node counts about itself, in the form that Prometheus reads.

Every call is counted, but metrics are read rarely. So a call only adds to plain numbers, and the metrics are made when they
are read.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_BOUNDS = [*(str(float(bound)) for bound in _SECONDS), "+Inf"]


class Metric(NamedTuple):
    """One number, or one for each value of a label. A counter gets `_total` behind its name where it is read."""

    name: str
    help: str
    value: float | Mapping[str, float]
    label: str = ""
    kind: Literal["gauge", "counter"] = "gauge"


class Metrics(Collector):
    def __init__(
        self, version: str, uptime: Callable[[], float], of_parts: Callable[[], Iterable[Metric]] = lambda: ()
    ) -> None:
        """`of_parts` is called at every read."""
        self._version = version
        self._uptime = uptime
        self._of_parts = of_parts
        self._outcomes: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._durations: defaultdict[str, _Durations] = defaultdict(_Durations)
        self._acts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def observe(self, feature: str, outcome: str, seconds: float) -> None:
        self._outcomes[feature, outcome] += 1
        self._durations[feature].add(seconds)

    def count(self, feature: str, outcome: str) -> None:
        """Count a call without a duration."""
        self._outcomes[feature, outcome] += 1

    def count_act(self, feature: str, kind: str) -> None:
        """Count an act that is no call to this node."""
        self._acts[feature, kind] += 1

    @property
    def calls(self) -> int:
        return sum(self._outcomes.values())

    def exposition(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Family]:
        yield _counter("comity_calls", "Messages that ran the pipeline.", ("room", "outcome"), self._outcomes)
        seconds = HistogramMetricFamily(
            "comity_call_seconds", "Seconds from the door to the reply.", labels=["room"]
        )
        for feature, found in self._durations.items():
            buckets = list(zip(_BOUNDS, accumulate(found.counts), strict=True))
            seconds.add_metric([feature], buckets, found.sum)
        yield seconds
        yield _counter("comity_acts", "Acts that are no calls to this node.", ("room", "kind"), self._acts)
        own = (
            Metric("comity_build", "Always 1; the release is a label.", {self._version: 1}, "version"),
            Metric("comity_uptime_seconds", "Seconds since the node started.", self._uptime()),
        )
        for metric in (*own, *self._of_parts()):
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = make(metric.name, metric.help, labels=[metric.label] if metric.label else [])
            if isinstance(metric.value, Mapping):
                for label, value in metric.value.items():
                    family.add_metric([label], value)
            else:
                family.add_metric([], metric.value)
            yield family


class _Durations:
    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_SECONDS, seconds)] += 1
        self.sum += seconds


def _counter(name: str, help_: str, labels: tuple[str, str], counts: Mapping[tuple[str, str], int]) -> Family:
    family = CounterMetricFamily(name, help_, labels=labels)
    for values, number in counts.items():
        family.add_metric(values, number)
    return family
