"""Metrics for Prometheus. Workers share files, through which their numbers are summed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from hyperfront.apps.shared.cache import WeightCache

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Metrics:
    """The metrics of a server."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("hyperfront_requests", "Requests answered", ["route", "status"], registry=own)
        self.seconds = Histogram(
            "hyperfront_request_seconds", "Time from request to response", ["route"], buckets=SECONDS, registry=own
        )
        self.in_flight = Gauge(
            "hyperfront_requests_in_flight", "Requests in progress", registry=own, multiprocess_mode="livesum"
        )
        self.batch_queries = Histogram(
            "hyperfront_batch_requests", "Requests that were answered together", buckets=ROWS, registry=own
        )
        self.batch_rows = Histogram(
            "hyperfront_batch_rows", "Rows that were predicted together", buckets=ROWS, registry=own
        )
        self.hits = Counter("hyperfront_cache_hits", "Rays whose weights were cached", registry=own)
        self.misses = Counter("hyperfront_cache_misses", "Rays whose weights were generated", registry=own)
        self.evictions = Counter("hyperfront_cache_evictions", "Rays removed from the cache", registry=own)
        self.cache_bytes = Gauge(
            "hyperfront_cache_bytes", "Bytes of the cached weights", registry=own, multiprocess_mode="livesum"
        )
        self.cache_rays = Gauge(
            "hyperfront_cache_rays", "Rays with cached weights", registry=own, multiprocess_mode="livesum"
        )
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._seen: WeakKeyDictionary[WeightCache, list[int]] = WeakKeyDictionary()

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        found = self._children.get((route, status))
        if found is None:
            found = self.requests.labels(route, status), self.seconds.labels(route)
            self._children[route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def batch(self, queries: int, rows: int) -> None:
        """Count a predicted batch."""
        self.batch_queries.observe(queries)
        self.batch_rows.observe(rows)

    def caches(self, caches: Sequence[WeightCache]) -> None:
        """Add up the counts of the caches. This is done from time to time, since it costs as much as a lookup."""
        for cache in caches:
            now = [cache.hits, cache.misses, cache.evictions]
            before = self._seen.get(cache, [0, 0, 0])
            for counter, old, new in zip((self.hits, self.misses, self.evictions), before, now):
                counter.inc(new - old)
            self._seen[cache] = now
        self.cache_bytes.set(sum(cache.nbytes for cache in caches))
        self.cache_rays.set(sum(len(cache) for cache in caches))

    def text(self) -> tuple[bytes, str]:
        """The text that Prometheus reads, and its content type."""
        registry = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            for file in Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]).glob("gauge_live*_*.db"):
                worker = int(file.stem.rpartition("_")[2])
                if not _lives(worker):  # another worker has replaced it
                    mark_process_dead(worker)
            MultiProcessCollector(registry)
        return generate_latest(registry), CONTENT_TYPE_LATEST


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
