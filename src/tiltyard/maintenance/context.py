"""What the units of maintenance work with, and the lock that gives a table to one of them.

A unit works on one table, returns one row, and may be run again after any crash. Its commits go
through `versions` like those of every other writer.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

import lance

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.errors import InvalidInputError, TiltyardError, translate
from tiltyard.maintenance.recovery import Recovery
from tiltyard.store import Outcome, Retry
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


# -- many tables at once

log = logging.getLogger(__name__)

VARIABLE = "TILTYARD_MAINTENANCE_CONCURRENCY"
DEFAULT = 8
MOST = 256


class TableRow(Protocol):
    """The result of a unit of work on one table."""

    @property
    def table(self) -> str:
        """The table's id, as it can be typed."""

    @property
    def error(self) -> str | None:
        """Why the unit failed, if it did."""


R = TypeVar("R", bound=TableRow)

# How many are done, of how many.
Progress = Callable[[int, int], None]
# The row of the table that was done last, how many are done, of how many.
RowProgress = Callable[[R, int, int], None]


def concurrency() -> int:
    """How many tables are worked on at the same time."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST:
        raise InvalidInputError(
            f"{VARIABLE} must be a number from 1 to {MOST}, not {text!r}",
            hint=f"without it, {DEFAULT} tables are maintained at a time",
        )
    return int(text)


def tables_of(object_ids: Sequence[str], namespace: NamespaceId | None) -> list[TableId]:
    """Ids of tables, those in a namespace and below it if one is given; in their order."""
    tables = [names.split_object_id(object_id) for object_id in object_ids]
    prefix = namespace or ()
    return [
        table for table in tables if table[: len(prefix)] == prefix and len(table) > len(prefix)
    ]


def run(
    tables: Sequence[TableId],
    work: Callable[[TableId], R],
    failed: Callable[[TableId, str], R],
    progress: RowProgress[R] | None = None,
    secrets: Sequence[str] = (),
) -> list[R]:
    """The rows of all tables, in the order of `tables`. `failed` makes the row of an error."""
    if not tables:
        return []

    def row_of(table: TableId) -> R:
        try:
            return work(table)
        except (TiltyardError, Outcome, OSError, ValueError, RuntimeError) as error:
            ours = translate(error, f"maintain table {names.display(table)}", secrets)
            log.info("table %s: %s", names.display(table), ours)
            return failed(table, str(ours))

    rows: dict[TableId, R] = {}
    with ThreadPoolExecutor(min(concurrency(), len(tables))) as pool:
        pending = {pool.submit(row_of, table): table for table in tables}
        try:
            for done in as_completed(pending):
                row = rows[pending[done]] = done.result()
                if progress is not None:
                    progress(row, len(rows), len(tables))
        except BaseException:  # Ctrl-C: units that run are finished, and no other is started
            pool.shutdown(cancel_futures=True)
            raise
    return [rows[table] for table in tables]
