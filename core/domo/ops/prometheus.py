"""Metrics for Prometheus: a table of what there is, and samples that are read at the scrape.

Each process has a registry of its own. Names follow Prometheus' conventions: base units in the
name, counters end in `_total`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# else every counter has a twin that says when it was made
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: As it is scraped.
        kind: What it is to Prometheus.
        text: What it means, and its unit.
        labels: Names of its labels.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    text: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One value of a metric; None: there is none now, and none is shown."""

    name: str
    value: float | None
    labels: tuple[str, ...] = ()


def families(table: Iterable[Metric], samples: Iterable[Sample]) -> list[Family]:
    """Samples by metric, in the order of the table.

    Raises:
        KeyError: A sample of a metric that is not in the table.
    """
    made = {
        m.name: (CounterMetricFamily if m.kind == "counter" else GaugeMetricFamily)(
            m.name, m.text, labels=m.labels
        )
        for m in table
        if m.kind != "histogram"
    }
    for name, value, labels in samples:
        family = made[name]
        if value is not None:
            family.add_metric(labels, float(value))
    return list(made.values())


class AtScrape(Collector):
    """Samples that are read when they are asked for.

    Args:
        table: The metrics that there may be.
        read: Called at each scrape.
    """

    def __init__(self, table: Sequence[Metric], read: Callable[[], Iterable[Sample]]):
        self._table, self._read = table, read

    def collect(self) -> Iterator[Family]:
        """The families of now."""
        yield from families(self._table, self._read())

    def describe(self) -> list[Family]:
        """None: nothing is read when this is registered."""
        return []


def process_registry() -> CollectorRegistry:
    """A registry with what Prometheus knows of every process: CPU, memory, files."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def counter(registry: CollectorRegistry, metric: Metric) -> Counter:
    """A counter of the table."""
    return Counter(metric.name, metric.text, metric.labels, registry=registry)


def histogram(registry: CollectorRegistry, metric: Metric, buckets: Sequence[float]) -> Histogram:
    """A histogram of the table."""
    return Histogram(metric.name, metric.text, metric.labels, registry=registry, buckets=buckets)
