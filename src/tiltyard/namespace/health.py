"""Operations that look after a catalog: ending what crashes left, and finding what is amiss."""

from __future__ import annotations

from tiltyard.maintenance.recovery import PATIENCE_MS, Recovered
from tiltyard.namespace.requests import says
from tiltyard.namespace.rooms import Rooms
from tiltyard.settings import duration


class HealthOperations(Rooms):
    """Recovering, repairing, finding orphans, and the doctor."""

    @says("recover")
    def recover(self, *, older_than: str | float | None = None) -> list[Recovered]:
        """End the operations that a crash interrupted: forward where all of it can be done, else
        back. What began less than a minute ago, or than `older_than`, is left to its owner.
        """
        seconds = None if older_than is None else duration(older_than, "older_than")
        patience_ms = PATIENCE_MS if seconds is None else round(seconds * 1000)
        self._store.require_conditions()
        return self._recovery.sweep(patience_ms=patience_ms)
