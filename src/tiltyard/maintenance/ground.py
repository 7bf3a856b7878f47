"""What every unit of work stands on: the catalog, one table of it, and that table's place in line.

A unit works on one table, returns one row, and may be run again after any crash. What it commits
goes through the versions room like everybody's commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.pylance import Lance
from tiltyard.clock import Clock
from tiltyard.maintenance.branches import Branches
from tiltyard.maintenance.recovery import Recovery
from tiltyard.names import TableId
from tiltyard.settings import Settings
from tiltyard.store import Retry, Store
from tiltyard.versions.client import CommitClient
from tiltyard.versions.room import TableVersions


class _Turn:
    """Whose turn it is with one table. Forgotten when nobody waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_TURNS: WeakValueDictionary[tuple[str, TableId], _Turn] = WeakValueDictionary()
_TURNS_LOCK = threading.Lock()


@dataclass(frozen=True)
class Ground:
    """One catalog, as the units of work see it."""

    store: Store
    access: Lance
    catalog: Catalog
    versions: TableVersions
    settings: Settings
    clock: Clock
    retry: Retry
    recovery: Recovery
    branches: Branches
    client: Callable[[Table], CommitClient]

    def find(self, table: TableId) -> Table:
        return self.catalog.find(table)

    @contextmanager
    def turn(self, table: TableId) -> Iterator[None]:
        """Wait until no other unit of this process works on a table: two would only race, and one
        of them do its work twice.

        ConcurrentModificationError for a table on which an operation of several steps has not
        ended.
        """
        key = (self.settings.root, table)
        with _TURNS_LOCK:
            turn = _TURNS.get(key)
            if turn is None:
                turn = _TURNS[key] = _Turn()
        with turn.lock:
            self.recovery.require_uncovered([table])
            yield
