"""What the node counts about itself, in the form that Prometheus reads."""

from collections.abc import Callable
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    def __init__(self, version: str, uptime: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        calls = Counter(
            "comity_calls", "Messages that took the walk.", ["room", "outcome"], registry=self._registry
        )
        seconds = Histogram(
            "comity_call_seconds",
            "Seconds from the door to the reply.",
            ["room"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        Gauge(
            "comity_build", "Always 1; the release is a label.", ["version"], registry=self._registry
        ).labels(version).set(1)
        Gauge(
            "comity_uptime_seconds", "Seconds since the node started.", registry=self._registry
        ).set_function(uptime)
        # rooms and outcomes are few, and finding the one of a call costs more than counting it
        self._counter_of = cache(calls.labels)
        self._histogram_of = cache(seconds.labels)
        self._total = 0

    def observe(self, room: str, outcome: str, seconds: float) -> None:
        self._total += 1
        self._counter_of(room, outcome).inc()
        self._histogram_of(room).observe(seconds)

    def count(self, room: str, outcome: str, number: int) -> None:
        """Calls that were counted together, without their seconds."""
        self._total += number
        self._counter_of(room, outcome).inc(number)

    @property
    def calls(self) -> int:
        return self._total

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
