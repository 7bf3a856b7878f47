"""What the units of maintenance work with, and the lock that gives a table to one of them.

A unit works on one table, returns one row, and may be run again after any crash. Its commits go
through `versions` like those of every other writer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import lance

from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.maintenance.recovery import Recovery
from tiltyard.store import Retry
from tiltyard.versions.branches import Branches
from tiltyard.versions.commit_client import CommitClient
from tiltyard.versions.table_versions import TableVersions

# Locks that some thread holds or waits for, by the catalog's root and the table's id.
_TABLE_LOCKS: WeakValueDictionary[tuple[str, TableId], threading.Lock] = WeakValueDictionary()
_GUARD = threading.Lock()


@dataclass(frozen=True)
class MaintenanceContext:
    """The context of one catalog, and the services that units of maintenance share.

    `client` takes the commits of a table, `open_table` opens one to read it. `retry` is for units
    that lose a race to other writers.
    """

    context: CatalogContext
    versions: TableVersions
    recovery: Recovery
    branches: Branches
    client: Callable[[Table], CommitClient]
    open_table: Callable[[Table], lance.LanceDataset]
    retry: Retry = field(default_factory=lambda: Retry(attempts=10))

    @contextmanager
    def lock_table(self, table: TableId) -> Iterator[None]:
        """Let one unit of this process at a time work on a table; the others wait.

        ConcurrentModificationError if an operation of several steps on it has not ended. One
        request, and one for each sidecar.
        """
        key = (self.context.settings.root, table)
        with _GUARD:
            lock = _TABLE_LOCKS.setdefault(key, threading.Lock())
        with lock:
            self.recovery.require_uncovered([table])
            yield
