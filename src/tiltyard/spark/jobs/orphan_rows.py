"""What executors do in a search for orphans: rows about what versions refer to, rows about files,
and the second look at those that nothing refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.errors import translate
from tiltyard.maintenance.candidates import Candidate, candidate, state_of
from tiltyard.maintenance.orphans import Orphans
from tiltyard.settings import Settings
from tiltyard.store import Entry

ROWS_PER_BATCH = 16 * 1024
# Names that one task remembers, so as not to send them again with each version.
REMEMBERED = 1_000_000

NAME, SEEN, ERROR = "name", "seen", "error"
REFERENCES = "location string, kind string, value string"
CANDIDATES = "location string, path string, size long, modified_ms long, name string"
NAMES = "location string, path string, name string"
FOUND = "location string, path string, size long, modified_ms long, error string"

Work = Callable[[Orphans, Sequence[Table], int, Mapping[str, str]], Iterator[pa.RecordBatch]]


def listing(
    units: Orphans, tables: Sequence[Table], floor_ms: int, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """The files of tables that could be orphans, each table a stream."""
    noted = units.noted(floor_ms)
    for table in tables:
        found = units.listed(table, noted, floor_ms)
        while some := list(islice(found, ROWS_PER_BATCH)):
            yield batch(some)


def references(
    units: Orphans, tables: Sequence[Table], floor_ms: int, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """What all versions of tables refer to, and which manifests were read for it."""
    secrets = Settings.from_properties(properties).secrets
    for table in tables:
        sent: set[str] = set()
        try:
            manifests, indexes = units.manifests(table)
            yield _refer(table, SEEN, [state_of(each) for each in manifests])
            for needed in units.references(table, manifests, indexes, floor_ms):
                new = (needed.files | needed.uuids) - sent
                yield _refer(table, NAME, list(new))
                sent = sent | new if len(sent) < REMEMBERED else new
        except Exception as error:  # of whatever kind: the others go on
            ours = translate(error, f"read table {names.display(table.id)}", secrets)
            yield _refer(table, ERROR, [str(ours)])


def _refer(table: Table, kind: str, values: Sequence[str]) -> pa.RecordBatch:
    count = len(values)
    columns = [
        pa.array([table.location] * count, pa.string()),
        pa.array([kind] * count, pa.string()),
        pa.array(values, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["location", "kind", "value"])


def batch(found: Sequence[Candidate]) -> pa.RecordBatch:
    """Candidates as rows."""
    columns = {
        "location": pa.array([each.location for each in found], pa.string()),
        "path": pa.array([each.entry.key for each in found], pa.string()),
        "size": pa.array([each.entry.size for each in found], pa.int64()),
        "modified_ms": pa.array([each.entry.modified_ms for each in found], pa.int64()),
        "name": pa.array([each.likeliest_name for each in found], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def every_name(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each name by which a version could refer to a candidate, a row for each."""
    for each in batches:
        rows = each.to_pylist()
        found = [candidate(str(row["location"]), as_entry(row)) for row in rows]
        named = [(it.location, it.entry.key, name) for it in found if it for name in it.names]
        columns = [pa.array(column, pa.string()) for column in zip(*named, strict=True)]
        if columns:
            yield pa.RecordBatch.from_arrays(columns, names=["location", "path", "name"])


def still(
    units: Orphans, rows: Sequence[dict[str, object]], seen: set[str], floor_ms: int, fresh: bool
) -> list[Candidate]:
    """Those files of one table that are orphans after the second look; with `fresh` they are looked
    at themselves, too."""
    if not rows:
        return []
    location = str(rows[0]["location"])
    table = units.table_at(location)
    if table is None:  # dropped since: all of it belongs to the trash now
        return []
    found = [candidate(location, as_entry(row)) for row in rows]
    candidates = [each for each in found if each is not None]
    if fresh:
        candidates = units.fresh(candidates)
    return units.still(table, candidates, seen, floor_ms)


def as_entry(row: Mapping[str, object]) -> Entry:
    """A row as the store lists it."""
    return Entry(str(row["path"]), int(str(row["size"])), int(str(row["modified_ms"])))


def entry_of(row: Mapping[str, object], root: str) -> Entry:
    """A row of a ready listing, whose path may be a full address."""
    found = as_entry(row)
    return Entry(found.key.removeprefix(root), found.size, found.modified_ms)


def location_of(key: str, known: Mapping[str, Table]) -> str:
    """The directory of a table that a key lies in, the innermost one."""
    above = key
    while "/" in above:
        above = above.rpartition("/")[0]
        if above in known:
            return above
    return ""


def answer(location: str, going: Sequence[Candidate], error: str | None = None) -> pa.Table:
    """The rows that one table has in the end."""
    rows = [
        {
            "location": location,
            "path": each.entry.key,
            "size": each.entry.size,
            "modified_ms": each.entry.modified_ms,
        }
        for each in going
    ]
    if error is not None:
        rows = [{"location": location, "error": error}]
    schema = pa.schema(
        [
            ("location", pa.string()),
            ("path", pa.string()),
            ("size", pa.int64()),
            ("modified_ms", pa.int64()),
            ("error", pa.string()),
        ]
    )
    return pa.Table.from_pylist(rows, schema)
