"""The one retry helper: bounded, with backoff and jitter, for requests that are safe to repeat."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tiltyard.errors import TiltyardError

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """How often, how long between, and with whose clock and dice."""

    attempts: int = 5
    first_pause: float = 0.05
    longest_pause: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    dice: Callable[[], float] = field(default=random.random, repr=False)

    def pause(self, attempt: int) -> None:
        """Wait before try number `attempt + 1`: doubling, somewhere in the upper half."""
        span = min(self.longest_pause, self.first_pause * 2.0**attempt)
        self.sleep(span * (0.5 + self.dice() / 2))

    def reading(self, request: Callable[[], T]) -> T:
        """Repeat a request that changes nothing until it answers or the tries are used up."""
        for attempt in range(self.attempts - 1):
            try:
                return request()
            except TiltyardError as error:
                if not error.retryable:
                    raise
                self.pause(attempt)
        return request()
