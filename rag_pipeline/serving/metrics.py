"""Report metrics of a server in the text format of Prometheus, without questions and texts."""

import os
from collections import Counter
from collections.abc import Collection, Iterator

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client import Counter as Total
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from rag_pipeline.serving.memory import OpenReleases
from rag_pipeline.serving.turns import Turns

SHARED_FIGURES = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder for the counts of all workers of a server."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The metrics of a server: counts of its requests, and the state of its corpora.

    Counts are sums over all workers. Only `rag_working`, `rag_waiting`, `rag_release`,
    `rag_open_bytes`, `rag_closed` and `process_…` describe the worker that answers the scrape.
    """

    def __init__(self, opened: OpenReleases, turns: Turns, paths: Collection[str]) -> None:
        """Count each of `paths` separately, and all other paths as `other`."""
        self._paths = frozenset(paths)
        self._registry = CollectorRegistry()
        registry, labels = self._registry, ["path"]
        self._requests = Total("rag_requests", "Requests", ["path", "status"], registry=registry)
        self._seconds = Histogram(
            "rag_request_seconds", "Time to answer", labels, buckets=_BUCKETS, registry=registry
        )
        self._queued = Histogram(
            "rag_queue_seconds", "Time to wait", labels, buckets=_BUCKETS, registry=registry
        )
        self._searches = Total(
            "rag_searches", "Searches by cache result", ["corpus", "cache"], registry=registry
        )
        self._counted: Counter[tuple[str, bool]] = Counter()
        self._own = opened.corpora
        if SHARED_FIGURES in os.environ:
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._registry.register(_State(opened, turns))
        ProcessCollector(registry=self._registry)

    def count(self, path: str, status: int, seconds: float, queued: float) -> None:
        """Count an answered request. `queued` is the part of `seconds` in the queue."""
        short = "/".join(path.split("/")[:3])
        name = short if short in self._paths else "other"
        self._requests.labels(name, str(status)).inc()
        self._seconds.labels(name).observe(seconds)
        self._queued.labels(name).observe(queued)
        for one in self._own:
            for hit, total in list(one.cached.items()):
                more = total - self._counted[one.name, hit]
                self._searches.labels(one.name, "hit" if hit else "miss").inc(more)
                self._counted[one.name, hit] = total

    def shown(self) -> bytes:
        """Return all metrics. The call blocks, because it reads the ledgers."""
        return generate_latest(self._registry)


class _State:
    """Gauges at the time of a scrape, and counts of model calls since the start of the server."""

    def __init__(self, opened: OpenReleases, turns: Turns) -> None:
        self._opened, self._corpora = opened, opened.corpora
        self._turns = turns
        self._since = {one.name: one.corpus.workspace.ledger.position() for one in opened.corpora}

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield GaugeMetricFamily("rag_working", "Requests at work", self._turns.working)
        yield GaugeMetricFamily("rag_waiting", "Requests that wait", self._turns.waiting)
        releases = GaugeMetricFamily(
            "rag_release", "1 for the searched release", labels=["corpus", "release"]
        )
        for one in self._corpora:
            if (served := one.corpus.opened()) is not None:
                releases.add_metric([one.name, served.release.release_id], 1)
        yield releases
        held = GaugeMetricFamily("rag_open_bytes", "Memory of a release", labels=["corpus"])
        closed = CounterMetricFamily("rag_closed", "Closed for others", labels=["corpus"])
        for name, size in self._opened.held().items():
            held.add_metric([name], size)
        for name, count in list(self._opened.closed.items()):
            closed.add_metric([name], count)
        yield held
        yield closed
        yield from self._model_calls()

    def _model_calls(self) -> Iterator[Metric]:
        labels = ["corpus", "kind", "provider", "model", "purpose"]
        calls = CounterMetricFamily("rag_model_calls", "Paid calls to models", labels=labels)
        costs = CounterMetricFamily("rag_model_cost_usd", "Cost of the calls", labels=labels)
        for one in self._corpora:
            for labelled, count, usd in one.corpus.workspace.ledger.sums(self._since[one.name]):
                calls.add_metric([one.name, *labelled], count)
                costs.add_metric([one.name, *labelled], usd)
        yield calls
        yield costs
