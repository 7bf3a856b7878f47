"""One unit of work for each of many tables, a bounded number of them at a time.

A table that fails has a row that says why, and the others go on.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol, TypeVar

from tiltyard import names
from tiltyard.errors import InvalidInputError, TiltyardError, translate
from tiltyard.names import NamespaceId, TableId
from tiltyard.store import Outcome

log = logging.getLogger(__name__)

VARIABLE = "TILTYARD_MAINTENANCE_CONCURRENCY"
DEFAULT = 8
MOST = 256


class Row(Protocol):
    """What became of one table."""

    @property
    def table(self) -> str:
        """Its id, as it can be typed."""

    @property
    def error(self) -> str | None:
        """Why nothing more was done, if something went wrong."""


R = TypeVar("R", bound=Row)
Progress = Callable[[R, int, int], None]


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
    every = [names.split_object_id(each) for each in object_ids]
    inside = namespace or ()
    return [each for each in every if each[: len(inside)] == inside and len(each) > len(inside)]


def run(
    tables: Sequence[TableId],
    work: Callable[[TableId], R],
    failed: Callable[[TableId, str], R],
    progress: Progress[R] | None = None,
    secrets: Sequence[str] = (),
) -> list[R]:
    """The rows of all tables, in their order, whichever was done first."""
    if not tables:
        return []

    def guarded(table: TableId) -> R:
        try:
            return work(table)
        except (TiltyardError, Outcome, OSError, ValueError, RuntimeError) as error:
            ours = translate(error, f"maintain table {names.display(table)}", secrets)
            log.info("table %s: %s", names.display(table), ours)
            return failed(table, str(ours))

    rows: dict[TableId, R] = {}
    with ThreadPoolExecutor(min(concurrency(), len(tables))) as pool:
        waiting = {pool.submit(guarded, table): table for table in tables}
        try:
            for done in as_completed(waiting):
                row = rows[waiting[done]] = done.result()
                if progress is not None:
                    progress(row, len(rows), len(tables))
        except BaseException:  # Ctrl-C: what was begun is ended, and nothing else begins
            pool.shutdown(cancel_futures=True)
            raise
    return [rows[table] for table in tables]
