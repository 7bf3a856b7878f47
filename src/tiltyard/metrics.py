"""Counts and times of what goes on inside, for whoever wants to watch.

One registry for the process, in the text form that Prometheus reads. Nothing is sent anywhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class Counter:
    """A number that only grows."""

    def __init__(self, name: str, help: str) -> None:
        self.name, self.help = name, help
        self.value = 0
        self._lock = threading.Lock()
        _REGISTRY.append(self)

    def add(self, amount: int = 1) -> None:
        with self._lock:
            self.value += amount

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} counter"
        yield f"{self.name} {self.value}"


class Timer:
    """How long something takes: a histogram of seconds."""

    def __init__(self, name: str, help: str) -> None:
        self.name, self.help = name, help
        self.count, self.seconds = 0, 0.0
        self._within = [0] * len(BUCKETS)
        self._lock = threading.Lock()
        _REGISTRY.append(self)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Counts what fails too."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.record(time.perf_counter() - began)

    def record(self, seconds: float) -> None:
        """Count one that took so long."""
        with self._lock:
            self.count += 1
            self.seconds += seconds
            for at, limit in enumerate(BUCKETS):
                self._within[at] += seconds <= limit

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} histogram"
        for limit, within in zip(BUCKETS, self._within, strict=True):
            yield f'{self.name}_bucket{{le="{limit:g}"}} {within}'
        yield f'{self.name}_bucket{{le="+Inf"}} {self.count}'
        yield f"{self.name}_sum {self.seconds:.6f}"
        yield f"{self.name}_count {self.count}"


_REGISTRY: list[Counter | Timer] = []


def exposition() -> str:
    """Everything that is counted, as Prometheus reads it."""
    return "".join(f"{line}\n" for metric in _REGISTRY for line in metric.lines())
