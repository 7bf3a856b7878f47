"""The one retry helper: bounded, with backoff and jitter, for what is safe to repeat.

    for _ in retry:
        try:
            return attempt()
        except LostRaceError:
            continue
    raise ConcurrentModificationError(f"others were first, {retry.attempts} times in a row")

`retry.on(errors, attempt)` is the same where the error of the last attempt says enough.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from tiltyard.errors import TiltyardError

T = TypeVar("T")


@dataclass(frozen=True)
class Retry:
    """How often, how long between, and with whose clock and dice. No `first_pause` is no pause."""

    attempts: int = 5
    first_pause: float = 0.05
    longest_pause: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    dice: Callable[[], float] = field(default=random.random, repr=False)

    def __iter__(self) -> Iterator[int]:
        """The numbers of the attempts, from 0, with a pause before each but the first."""
        for attempt in range(self.attempts):
            if attempt:
                self.pause(attempt - 1)
            yield attempt

    def pause(self, attempt: int) -> None:
        """Wait before try number `attempt + 1`: doubling, somewhere in the upper half."""
        span = min(self.longest_pause, self.first_pause * 2.0**attempt)
        if span:
            self.sleep(span * (0.5 + self.dice() / 2))

    def on(
        self, errors: type[Exception] | tuple[type[Exception], ...], request: Callable[[], T]
    ) -> T:
        """Repeat a request while it raises one of these errors; the last one goes to the caller."""
        for attempt in range(self.attempts - 1):
            try:
                return request()
            except errors:
                self.pause(attempt)
        return request()

    def reading(self, request: Callable[[], T]) -> T:
        """Repeat a request that changes nothing while the store can't answer it."""
        for attempt in range(self.attempts - 1):
            try:
                return request()
            except TiltyardError as error:
                if not error.retryable:
                    raise
                self.pause(attempt)
        return request()
