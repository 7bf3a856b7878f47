"""Any DataFrame into a table, once: it is known by the name of its batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from tiltyard import names
from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark import columns
from tiltyard.spark.jobs import loading
from tiltyard.spark.jobs.ingest_plan import Action, Ingested, ledger_of
from tiltyard.spark.target import Target
from tiltyard.spark.tuning import bounded_batches
from tiltyard.spark.write import as_stored, write_files
from tiltyard.tables.fragments import DEFAULT_LIMITS, rows_of
from tiltyard.tables.ledger import Loaded


@dataclass(frozen=True)
class Frame:
    """Rows for a table. A `batch` of that name is loaded once, whatever its rows are."""

    rows: DataFrame
    batch: str

    def __post_init__(self) -> None:
        if not self.batch:
            raise InvalidInputError(
                "a DataFrame needs the name of a batch", hint="nothing else tells it from another"
            )

    @property
    def source(self) -> str:
        return f"batch {self.batch}"


def load(
    catalog: DirectoryNamespace, name: str, frame: Frame, *, dry_run: bool = False
) -> Ingested:
    """Load one DataFrame in one commit, unless its batch is there. An error is a row."""
    try:
        return _load(catalog, name, frame, dry_run=dry_run)
    except TiltyardError as error:
        return Ingested(name, frame.source, Action.FAILED, error=str(error))


def _load(catalog: DirectoryNamespace, name: str, frame: Frame, *, dry_run: bool) -> Ingested:
    table = names.parse_table_id(names.parse_dotted(name))
    identity = Loaded(frame.source, 0, "")
    if ledger_of(catalog, table).has(identity):
        return Ingested(name, frame.source, Action.PRESENT)
    if dry_run:
        return Ingested(name, frame.source, Action.PLANNED)
    given = frame.rows.schema
    pending = loading.create(catalog, table, columns.for_new_table(given).schema)
    chosen = columns.for_adding(given, pending.schema, merge=False, case_sensitive=False)
    target = Target(table, properties=catalog.as_properties())

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = write_files(target, pending, as_stored(batches, chosen), DEFAULT_LIMITS)
        yield pa.record_batch({"fragment": pa.array(found, pa.string())})

    fragments: list[str] = []
    done = False
    try:
        with bounded_batches(frame.rows):
            answers = frame.rows.mapInArrow(write, "fragment string").collect()
        fragments = [row.fragment for row in answers]
        created = catalog.writes.finish_load(pending, fragments, chosen.schema, [identity])
        done = created is not None
    finally:
        catalog.writes.sweep(pending, fragments if done else (), close=not done)
    if created is None:  # another has loaded it meanwhile
        return Ingested(name, frame.source, Action.PRESENT)
    return Ingested(name, frame.source, Action.LOADED, rows_of(fragments), version=created.version)
