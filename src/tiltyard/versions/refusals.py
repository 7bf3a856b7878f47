"""Numbers that a stale writer wanted and did not get, remembered for a moment.

Lance asks after a refusal who has the number that it wanted. If nobody has, it tells its user that
the outcome of the commit is unknown, which it is not: the commit was refused. So for the writer's
next questions the latest version stands in. Lance sees that it is another's, and says "conflict".
"""

from __future__ import annotations

import threading

from tiltyard.clock import Clock

# Lance asks twice after each try; what it does not ask at once it never asks.
QUESTIONS = 2
LONGEST_MS = 5_000


class Refusals:
    """Refused numbers, each with the questions that it still answers and the end of its time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[tuple[str, int], tuple[int, int]] = {}
        self._lock = threading.Lock()

    def note(self, location: str, version: int) -> None:
        now = self._clock.now_ms()
        with self._lock:
            self._left = {key: left for key, left in self._left.items() if left[1] > now}
            self._left[location, version] = (QUESTIONS, now + LONGEST_MS)

    def answers(self, location: str, version: int) -> bool:
        """Whether a question for a number is one that its refused writer would ask."""
        with self._lock:
            questions, until = self._left.pop((location, version), (0, 0))
            if not questions or self._clock.now_ms() > until:
                return False
            if questions > 1:
                self._left[location, version] = (questions - 1, until)
            return True
