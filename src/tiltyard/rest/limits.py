"""How often somebody may ask: a bucket of tokens for each, and room for so many of them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from tiltyard.errors import ThrottlingError

MOST_REMEMBERED = 10_000


class Rate:
    """So many per second for each name; some seconds' worth at once. For the event loop only."""

    def __init__(
        self,
        per_second: float,
        *,
        at_once: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = max(1.0, at_once * per_second)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """ThrottlingError if there is none left."""
        if self._per_second <= 0:
            return
        now = self._clock()
        left, at = self._left.pop(name, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        if left < 1:
            self._left[name] = (left, now)
            raise ThrottlingError("too many requests", hint="slow down and try again")
        self._left[name] = (left - 1, now)
        if len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)
