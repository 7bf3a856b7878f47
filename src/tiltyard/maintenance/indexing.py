"""Building one index in segments: planned once, each segment built anywhere, committed once.

A segment covers some fragments of the version that was planned for. The model of a vector index is
trained once, for all segments. Building a segment twice leaves files that nothing refers to.
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

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.optimize import TOO_BIG
from tiltyard.maintenance.referenced_files import INDEXES
from tiltyard.tables.indexes import TEXT_TYPES, VECTOR_TYPES, checked
from tiltyard.tables.sql import as_asked

log = logging.getLogger(__name__)

EXISTS = "it is there already"
NO_ROWS = "the table has no rows yet"

# Options that train a model; segments take the model in place of them.
_TRAINING_OPTIONS = ("sample_rate", "max_iters", "target_partition_size")
SAMPLE_RATE = 256
BITS = 8


@dataclass(frozen=True, slots=True)
class Indexed:
    """What was done about one index. `skipped` tells why nothing was."""

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
class IndexSegment:
    """One segment to build: its fragments, and the options of the index. Picklable."""

    table: TableId
    version: int
    index_name: str
    column: str
    index_type: str
    fragments: tuple[int, ...]
    options: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class IndexPlan:
    """The segments of an index; none if `row` says why it is skipped."""

    row: Indexed
    table: TableId
    version: int = 0
    segments: tuple[IndexSegment, ...] = ()


class IndexBuilder:
    """Builds indexes of tables of one catalog."""

    def __init__(self, maintenance: MaintenanceContext) -> None:
        self._maintenance = maintenance
        self._context = maintenance.context

    def plan(
        self, request: api.CreateTableIndexRequest, segments: int, most_rows: int | None = None
    ) -> IndexPlan:
        """Check the request, divide the fragments, and train a model if the index needs one.

        Skipped are an index whose name exists already, an empty table, and one with more rows than
        `most_rows`.
        """
        table = names.parse_table_id(request.id)
        self._context.store.require_conditions()
        self._maintenance.recovery.require_uncovered([table])
        try:
            dataset = self._maintenance.client(self._context.catalog.find(table)).open()
            index_type, column, options = checked(dataset, request)
            name = request.name or f"{column}_idx"
            row = Indexed(names.dotted(table), name, column, index_type, version=dataset.version)
            if any(index.name == name for index in dataset.describe_indices()):
                return IndexPlan(replace(row, skipped=EXISTS), table)
            rows = dataset.count_rows()
            if not rows or (most_rows is not None and rows > most_rows):
                return IndexPlan(replace(row, skipped=TOO_BIG if rows else NO_ROWS), table)
            with as_asked(f"build an index of type {index_type} on column '{column}'"):
                options = _trained(dataset, index_type, column, options)
        except FAILURES as error:
            doing = f"build an index of table {names.display(table)}"
            raise self._context.lance.explain(error, doing) from error
        index_type = "INVERTED" if index_type in TEXT_TYPES else index_type
        planned = (
            IndexSegment(table, dataset.version, name, column, index_type, group, options)
            for group in _groups(dataset, segments)
        )
        return IndexPlan(row, table, dataset.version, tuple(planned))

    def build(self, segment: IndexSegment) -> Index:
        """Write one segment, from the version that was planned for."""
        table = self._context.catalog.find(segment.table)
        try:
            dataset = self._maintenance.client(table).open(segment.version)
            return dataset.create_index_uncommitted(
                segment.column,
                segment.index_type,
                name=segment.index_name,
                fragment_ids=list(segment.fragments),
                **segment.options,
            )
        except FAILURES as error:
            doing = f"build a segment of index '{segment.index_name}'"
            raise self._context.lance.explain(error, doing) from error

    def commit(self, planned: IndexPlan, built: Sequence[Index]) -> Indexed:
        """Make all segments one index. ConcurrentModificationError if a fragment that they cover
        was replaced since: then nothing was committed, and the segments are deleted."""
        client = self._maintenance.client(self._context.catalog.find(planned.table))
        row = planned.row
        try:
            with self._maintenance.lock_table(planned.table), client.raising_refusals():
                dataset = client.open(planned.version)
                dataset.commit_existing_index_segments(row.index_name, row.column, list(built))
        except (*FAILURES, TiltyardError) as error:
            ours = self._context.lance.explain(error, f"commit index '{row.index_name}'")
            if isinstance(ours, ConcurrentModificationError) and not client.in_doubt:
                self.discard(planned, built)
            raise ours from error
        (index,) = [index for index in dataset.describe_indices() if index.name == row.index_name]
        return replace(
            row,
            segments=len(index.segments),
            rows_indexed=index.num_rows_indexed,
            version=dataset.version,
            committed=True,
        )

    def discard(self, planned: IndexPlan, built: Sequence[Index]) -> None:
        """Delete segments that were not committed. Only their builder knows their names."""
        location = self._context.catalog.find(planned.table).location
        store = self._context.store
        try:
            for segment in built:
                files = store.walk(f"{location}/{INDEXES}/{segment.uuid}")
                store.delete_many(file.key for file in files)
        except (*FAILURES, TiltyardError) as error:
            log.warning("%s: segments of an index are left over: %s", location, error)


def _trained(
    dataset: lance.LanceDataset, index_type: str, column: str, options: dict[str, Any]
) -> dict[str, Any]:
    """The options of every segment, with the trained model. A table with few rows trains on what
    it has."""
    if index_type not in VECTOR_TYPES:
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
    chosen = {key: value for key, value in options.items() if key not in _TRAINING_OPTIONS}
    chosen |= {"num_partitions": ivf.num_partitions, "ivf_centroids": ivf.centroids}
    if "PQ" in index_type:
        bits = options.get("num_bits", BITS)
        most = max(1, rows // 2**bits)
        training["sample_rate"] = min(training.get("sample_rate", SAMPLE_RATE), most)
        sub_vectors = options["num_sub_vectors"]
        pq = builder.train_pq(ivf, sub_vectors, num_bits=bits, **training)
        chosen["pq_codebook"] = pq.codebook
    return chosen


def _groups(dataset: lance.LanceDataset, segments: int) -> list[tuple[int, ...]]:
    """The fragments in so many groups of about as many rows, neighbours together."""
    sizes = [(fragment.fragment_id, fragment.count_rows()) for fragment in dataset.get_fragments()]
    total = sum(rows for _, rows in sizes)
    groups: list[list[int]] = [[] for _ in range(min(segments, len(sizes)))]
    before = 0
    for fragment, rows in sizes:
        groups[min(before * len(groups) // max(1, total), len(groups) - 1)].append(fragment)
        before += rows
    return [tuple(group) for group in groups if group]
