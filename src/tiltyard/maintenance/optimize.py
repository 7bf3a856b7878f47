"""Making a table fast to read again: few large files instead of many small ones, no rows that are
only marked as deleted, and every row in the indexes that there are.

No row changes. What is replaced stays in the older versions until those are cleaned up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import lance
from lance.optimize import CompactionOptions

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import ConcurrentModificationError, InvalidInputError, TiltyardError
from tiltyard.maintenance import compaction
from tiltyard.maintenance.compaction import Parts, Written
from tiltyard.maintenance.ground import Ground
from tiltyard.maintenance.warnings import about
from tiltyard.names import TableId

log = logging.getLogger(__name__)

# Indexes that Lance keeps for itself.
_OWN_INDEXES = "__lance"
NO_VERSION = "it has no version yet"
TOO_BIG = "it is too big for one process"


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """What is worth rewriting: fragments with fewer rows than this, or with a larger share of
    deleted rows. What is None is for Lance to say, or the table's own `lance.compaction.*`."""

    target_rows_per_fragment: int | None = None
    deleted_share: float | None = None

    def __post_init__(self) -> None:
        if self.target_rows_per_fragment is not None and self.target_rows_per_fragment < 1:
            raise InvalidInputError("target_rows_per_fragment must be at least 1")
        if self.deleted_share is not None and not 0 <= self.deleted_share <= 1:
            raise InvalidInputError("deleted_share is a share, from 0 to 1")

    def for_lance(self, config: dict[str, str]) -> CompactionOptions:
        """Bytes are copied without decoding where files allow it, unless the table says how."""
        chosen: dict[str, Any] = {
            "target_rows_per_fragment": self.target_rows_per_fragment,
            "materialize_deletions_threshold": self.deleted_share,
        }
        if "lance.compaction.compaction_mode" not in config:
            chosen["compaction_mode"] = "try_binary_copy"
        given: Any = {name: value for name, value in chosen.items() if value is not None}
        options: CompactionOptions = given
        return options


@dataclass(frozen=True, slots=True)
class Optimized:
    """What became of one table, or would. `committed` tells whether it has a new version;
    `skipped` why it was left out; a `warning` is about its settings."""

    table: str
    fragments_removed: int = 0
    fragments_added: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    bytes_rewritten: int = 0
    version: int | None = None
    committed: bool = False
    skipped: str | None = None
    warning: str | None = None
    error: str | None = None


class Optimizer:
    """Optimizes tables of one catalog, one at a time."""

    def __init__(self, ground: Ground, options: OptimizeOptions | None = None) -> None:
        self._ground = ground
        self._options = options or OptimizeOptions()

    def plan(self, table: TableId) -> Optimized:
        """What would be joined now, and how many bytes would be written again. Changes nothing."""
        found = self._ground.find(table)
        row = Optimized(names.dotted(table))
        if self._ground.catalog.latest(found) is None:
            return replace(row, skipped=NO_VERSION)
        try:
            dataset = self._ground.client(found).open()
            files, size = measured(dataset)
            parts = compaction.parts_of(dataset, table, self._options.for_lance(dataset.config()))
        except FAILURES as error:
            raise self._ground.access.explain(error, f"plan for {names.display(table)}") from error
        return replace(
            row,
            fragments_removed=sum(len(each.task.fragments) for each in parts.parts),
            files_before=files,
            bytes_before=size,
            bytes_rewritten=parts.bytes,
            version=dataset.version,
            warning=about(dataset),
        )

    def run(self, table: TableId, most_bytes: int | None = None) -> Optimized:
        """Optimize one table. Without anything to do it costs no commit.

        A writer that changes the same rows meanwhile goes first, and the work is done again;
        ConcurrentModificationError if that happens too often. If it can be done in parts, and more
        than `most_bytes` would be written, the files are left as they are: `TOO_BIG`.
        """
        self._ground.store.require_conditions()
        with self._ground.turn(table):
            return self._persistently(table, most_bytes)

    def _persistently(self, table: TableId, most_bytes: int | None) -> Optimized:
        so_far = Optimized(names.dotted(table))
        retry = self._ground.retry
        for attempt in range(retry.attempts):
            found = self._ground.find(table)
            if self._ground.catalog.latest(found) is None:
                return replace(so_far, skipped=NO_VERSION)
            try:
                return _Work(self._ground, found, self._options, so_far, most_bytes).done()
            except _Overtaken as overtaken:
                so_far = overtaken.so_far
                log.info("table %s: another was first", names.display(table))
                retry.pause(attempt)
        raise ConcurrentModificationError(
            f"others changed table {names.display(table)} first, {retry.attempts} times in a row",
            hint="nothing is broken; optimize it when it is written to less",
        )


class _Overtaken(Exception):
    """A commit of another came first and touched the same rows."""

    def __init__(self, so_far: Optimized) -> None:
        super().__init__()
        self.so_far = so_far


class _Work:
    """One try at one table, from the version that is latest at its beginning."""

    def __init__(
        self,
        ground: Ground,
        table: Table,
        options: OptimizeOptions,
        so_far: Optimized,
        most_bytes: int | None,
    ) -> None:
        self._ground = ground
        self._table = table
        self._options = options
        self._row = so_far
        self._most_bytes = most_bytes
        self._base = 0
        self._files: set[str] = set()

    def done(self) -> Optimized:
        doing = f"optimize table {names.display(self._table.id)}"
        client = self._ground.client(self._table)
        try:
            with client.raising_refusals():
                dataset = client.open()
                self._base = dataset.version
                if not self._row.committed:
                    files, size = measured(dataset)
                    warning = about(dataset)
                    self._row = replace(
                        self._row, files_before=files, bytes_before=size, warning=warning
                    )
                self._fold_into_indexes(dataset)
                dataset = self._compact(dataset)
        except (*FAILURES, TiltyardError) as error:
            ours = self._ground.access.explain(error, doing)
            overtaken = isinstance(ours, ConcurrentModificationError)
            surely = overtaken and not client.in_doubt
            location = self._table.location
            compaction.discard(self._ground, location, self._base, self._files, surely=surely)
            if overtaken:
                raise _Overtaken(self._row) from error
            raise ours from error
        files, size = measured(dataset)
        return replace(self._row, files_after=files, bytes_after=size, version=dataset.version)

    def _fold_into_indexes(self, dataset: lance.LanceDataset) -> None:
        """First, because fragments that an index has and others that it lacks are not joined."""
        behind = _behind(dataset)
        if not behind:
            return
        dataset.optimize.optimize_indices(index_names=behind)
        self._row = replace(self._row, committed=True)

    def _compact(self, dataset: lance.LanceDataset) -> lance.LanceDataset:
        """The table as it is after that."""
        options = self._options.for_lance(dataset.config())
        found = compaction.parts_of(dataset, self._table.id, options)
        if not found.parts:
            return dataset
        if self._most_bytes is not None and len(found.parts) > 1 and found.bytes > self._most_bytes:
            self._row = replace(self._row, skipped=TOO_BIG)
            return dataset
        written: list[Written] = []
        for part in found.parts:
            written.append(Written(part.task.execute(dataset)))
            self._files |= written[-1].files
        dataset = compaction.commit(dataset, written, options)
        self._files = set()
        self._row = joined(self._row, found, written)
        return dataset


def joined(row: Optimized, found: Parts, written: Sequence[Written]) -> Optimized:
    """A row with what a compaction did that was committed."""
    metrics = [each.result.metrics for each in written]
    return replace(
        row,
        committed=True,
        fragments_removed=row.fragments_removed + sum(each.fragments_removed for each in metrics),
        fragments_added=row.fragments_added + sum(each.fragments_added for each in metrics),
        bytes_rewritten=row.bytes_rewritten + found.bytes,
    )


def _behind(dataset: lance.LanceDataset) -> list[str]:
    """The indexes that lack rows of the table."""
    present = {each.fragment_id for each in dataset.get_fragments()}
    return [
        index.name
        for index in dataset.describe_indices()
        if not index.name.startswith(_OWN_INDEXES)
        and present - {each for segment in index.segments for each in segment.fragment_ids}
    ]


def measured(dataset: lance.LanceDataset) -> tuple[int, int]:
    """The files that a reader of all rows opens, and the bytes of the data among them."""
    fragments = [each.metadata for each in dataset.get_fragments()]
    files = [file for each in fragments for file in each.files]
    deletions = sum(each.deletion_file is not None for each in fragments)
    return len(files) + deletions, sum(each.file_size_bytes or 0 for each in files)
