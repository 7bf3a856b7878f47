"""How often somebody may ask: a bucket of tokens for each, and room for so many of them."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from tiltyard.errors import ThrottlingError

MOST_REMEMBERED = 10_000


class TooOftenError(ThrottlingError):
    """Somebody asked too often; `seconds` is when to try again."""

    seconds = 1


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
        """TooOftenError if there is none left."""
        if self._per_second <= 0:
            return
        now = self._clock()
        left, at = self._left.pop(name, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        if left < 1:
            self._left[name] = (left, now)
            error = TooOftenError("too many requests", hint="slow down and try again")
            error.seconds = math.ceil((1 - left) / self._per_second)
            raise error
        self._left[name] = (left - 1, now)
        if len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)


class WrongKeys:
    """Keys that were none: so many a minute from one address, and from all of them together."""

    def __init__(
        self, per_minute: float, overall: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._each = Rate(per_minute / 60, at_once=60, clock=clock)
        self._all = Rate(overall / 60, at_once=60, clock=clock)

    def note(self, address: str) -> None:
        """TooOftenError if there were too many. Not for the right key: that one can't be found by
        trying, so it opens however often others failed."""
        self._each.take(address)
        self._all.take("")
