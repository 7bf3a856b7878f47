"""Building one index in segments: planned once, each segment built anywhere, committed once.

A segment covers some fragments of the version that was planned for. Models of vector indexes are
trained once, for all segments. Building one twice leaves files that nothing refers to.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import lance_namespace as api
from lance.dataset import Index
from lance.indices import IndicesBuilder

from tiltyard import names
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.maintenance.ground import Ground
from tiltyard.maintenance.optimize import TOO_BIG
from tiltyard.names import TableId
from tiltyard.tables.indexes import TEXT_TYPES, VECTOR_TYPES, checked
from tiltyard.tables.sql import as_asked

log = logging.getLogger(__name__)

INDEXES = "_indices"
THERE = "it is there already"
NO_ROWS = "the table has no rows yet"

# What trains a model, and is not for those who use it.
_FOR_TRAINING = ("sample_rate", "max_iters", "target_partition_size")
SAMPLE_RATE = 256
BITS = 8


@dataclass(frozen=True, slots=True)
class Indexed:
    """What became of one index. `skipped` tells why nothing was to do."""

    table: str
    index_name: str
    column: str
    index_type: str
    segments: int = 0
    rows_indexed: int = 0
    version: int | None = None
    committed: bool = False
    skipped: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Segment:
    """Some fragments to be covered, and all that it takes. Picklable."""

    table: TableId
    version: int
    index_name: str
    column: str
    kind: str
    fragments: tuple[int, ...]
    options: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class IndexPlan:
    """The segments of an index, or why there are none."""

    row: Indexed
    table: TableId
    version: int = 0
    segments: tuple[Segment, ...] = ()


class IndexBuilder:
    """Builds indexes of tables of one catalog."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def plan(
        self, asked: api.CreateTableIndexRequest, segments: int, most_rows: int | None = None
    ) -> IndexPlan:
        """Check what is asked for, share the fragments out, and train a model if one is needed.

        An index of that name is taken for the same one, and left as it is. So is a table with more
        rows than `most_rows`.
        """
        table = names.parse_table_id(asked.id)
        self._ground.store.require_conditions()
        self._ground.recovery.require_uncovered([table])
        doing = f"build an index of table {names.display(table)}"
        try:
            dataset = self._ground.client(self._ground.find(table)).open()
            kind, column, options = checked(dataset, asked)
            name = asked.name or f"{column}_idx"
            row = Indexed(names.dotted(table), name, column, kind, version=dataset.version)
            if any(each.name == name for each in dataset.describe_indices()):
                return IndexPlan(replace(row, skipped=THERE), table)
            rows = dataset.count_rows()
            if not rows or (most_rows is not None and rows > most_rows):
                return IndexPlan(replace(row, skipped=TOO_BIG if rows else NO_ROWS), table)
            with as_asked(f"build an index of type {kind} on column '{column}'"):
                options = _trained(dataset, kind, column, options)
        except FAILURES as error:
            raise self._ground.access.explain(error, doing) from error
        kind = "INVERTED" if kind in TEXT_TYPES else kind
        made = (
            Segment(table, dataset.version, name, column, kind, group, options)
            for group in _groups(dataset, segments)
        )
        return IndexPlan(row, table, dataset.version, tuple(made))

    def build(self, segment: Segment) -> Index:
        """Write one segment, from the version that was planned for."""
        found = self._ground.find(segment.table)
        try:
            dataset = self._ground.client(found).open(segment.version)
            return dataset.create_index_uncommitted(
                segment.column,
                segment.kind,
                name=segment.index_name,
                fragment_ids=list(segment.fragments),
                **segment.options,
            )
        except FAILURES as error:
            doing = f"build a segment of index '{segment.index_name}'"
            raise self._ground.access.explain(error, doing) from error

    def commit(self, planned: IndexPlan, built: Sequence[Index]) -> Indexed:
        """Make all segments one index. ConcurrentModificationError if a fragment that they cover
        was replaced since: then nothing has happened, and what was built is gone."""
        client = self._ground.client(self._ground.find(planned.table))
        row = planned.row
        try:
            with self._ground.turn(planned.table), client.raising_refusals():
                dataset = client.open(planned.version)
                dataset.commit_existing_index_segments(row.index_name, row.column, list(built))
        except (*FAILURES, TiltyardError) as error:
            ours = self._ground.access.explain(error, f"commit index '{row.index_name}'")
            if isinstance(ours, ConcurrentModificationError) and not client.in_doubt:
                self.discard(planned, built)
            raise ours from error
        (made,) = [each for each in dataset.describe_indices() if each.name == row.index_name]
        return replace(
            row,
            segments=len(made.segments),
            rows_indexed=made.num_rows_indexed,
            version=dataset.version,
            committed=True,
        )

    def discard(self, planned: IndexPlan, built: Sequence[Index]) -> None:
        """Remove segments that were not committed. Only their builder knows their names."""
        location = self._ground.find(planned.table).location
        store = self._ground.store
        try:
            for each in built:
                found = store.walk(f"{location}/{INDEXES}/{each.uuid}")
                store.delete_many(entry.key for entry in found)
        except (*FAILURES, TiltyardError) as error:
            log.warning("%s: segments of an index are left over: %s", location, error)


def _trained(
    dataset: lance.LanceDataset, kind: str, column: str, options: dict[str, Any]
) -> dict[str, Any]:
    """The options of every segment. A table with few rows trains on what it has."""
    if kind not in VECTOR_TYPES:
        return options
    rows, metric = dataset.count_rows(), options.get("metric", "l2")
    partitions = options.get("num_partitions")
    if partitions is None and "target_partition_size" in options:
        partitions = max(1, rows // options["target_partition_size"])
    training = {key: options[key] for key in ("sample_rate", "max_iters") if key in options}
    if partitions is None:  # as many as Lance would take, and no more than the rows can train
        most = max(1, rows // training.get("sample_rate", SAMPLE_RATE))
        partitions = min(round(math.sqrt(rows)), most)
    builder = IndicesBuilder(dataset, column)
    ivf = builder.train_ivf(partitions, distance_type=metric, **training)
    chosen = {key: value for key, value in options.items() if key not in _FOR_TRAINING}
    chosen |= {"num_partitions": ivf.num_partitions, "ivf_centroids": ivf.centroids}
    if "PQ" in kind:
        bits = options.get("num_bits", BITS)
        most = max(1, rows // 2**bits)
        training["sample_rate"] = min(training.get("sample_rate", SAMPLE_RATE), most)
        parts = options["num_sub_vectors"]
        chosen["pq_codebook"] = builder.train_pq(ivf, parts, num_bits=bits, **training).codebook
    return chosen


def _groups(dataset: lance.LanceDataset, segments: int) -> list[tuple[int, ...]]:
    """The fragments in so many groups of about as many rows, neighbours together."""
    found = [(each.fragment_id, each.count_rows()) for each in dataset.get_fragments()]
    total = sum(rows for _, rows in found)
    groups: list[list[int]] = [[] for _ in range(min(segments, len(found)))]
    before = 0
    for number, rows in found:
        groups[min(before * len(groups) // max(1, total), len(groups) - 1)].append(number)
        before += rows
    return [tuple(each) for each in groups if each]
