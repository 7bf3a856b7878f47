"""What executors do in a search for orphans: rows about what versions refer to and about files,
and the second look at those files that nothing refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice

import pyarrow as pa

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.errors import translate
from tiltyard.maintenance.orphan_candidates import Candidate, candidate, state_of
from tiltyard.maintenance.orphans import Orphans
from tiltyard.maintenance.referenced_files import ReferencedFiles
from tiltyard.settings import Settings
from tiltyard.store import Entry

ROWS_PER_BATCH = 16 * 1024
# Names that one task remembers, so as not to send them again with each version.
REMEMBERED = 1_000_000

# What a row is about: a name that a version has, a manifest that was read, a file that nothing
# refers to, a table with too many names for one process, a table that can't be read.
NAME, SEEN, STRAY, BIG, ERROR = "name", "seen", "stray", "big", "error"
REFERENCES = "location string, kind string, value string, size long, modified_ms long"
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
        found = units.list_candidates(table, noted, floor_ms)
        while some := list(islice(found, ROWS_PER_BATCH)):
            yield batch(some)


def references(
    units: Orphans, tables: Sequence[Table], floor_ms: int, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """What all versions of tables refer to, and which manifests were read for it."""
    for table in tables:
        with _told(table, properties) as errors:
            yield from _names(table, *_read(units, table, floor_ms))
        yield from errors


def strays(
    units: Orphans,
    tables: Sequence[Table],
    floor_ms: int,
    properties: Mapping[str, str],
    *,
    most_names: int,
) -> Iterator[pa.RecordBatch]:
    """The files of tables that nothing refers to. A table that has more than `most_names` is left
    to a join: of it there are the names."""
    noted = units.noted(floor_ms)
    for table in tables:
        with _told(table, properties) as errors:
            seen, pieces = _read(units, table, floor_ms)
            needed = ReferencedFiles()
            for piece in pieces:
                needed.add(piece)
                if len(needed.files) + len(needed.uuids) > most_names:
                    yield _refer(table, BIG, [""])
                    yield from _names(table, seen, chain([needed], pieces))
                    break
            else:
                yield _refer(table, SEEN, seen)
                found = units.unreferenced(table, needed, noted, floor_ms)
                while some := list(islice(found, ROWS_PER_BATCH)):
                    yield _refer(table, STRAY, [each.entry.key for each in some], some)
        yield from errors


def _read(
    units: Orphans, table: Table, floor_ms: int
) -> tuple[list[str], Iterator[ReferencedFiles]]:
    """Which manifests a table has, and what they refer to."""
    manifests, indexes = units.manifests(table)
    seen = [state_of(each) for each in manifests]
    return seen, units.references(table, manifests, indexes, floor_ms)


def _names(
    table: Table, seen: Sequence[str], pieces: Iterable[ReferencedFiles]
) -> Iterator[pa.RecordBatch]:
    yield _refer(table, SEEN, seen)
    sent: set[str] = set()
    for needed in pieces:
        new = (needed.files | needed.uuids) - sent
        yield _refer(table, NAME, list(new))
        sent = sent | new if len(sent) < REMEMBERED else new


@contextmanager
def _told(table: Table, properties: Mapping[str, str]) -> Iterator[list[pa.RecordBatch]]:
    """An error of whatever kind becomes a row, and the other tables go on."""
    errors: list[pa.RecordBatch] = []
    try:
        yield errors
    except Exception as error:
        secrets = Settings.from_properties(properties).secrets
        ours = translate(error, f"read table {names.display(table.id)}", secrets)
        errors.append(_refer(table, ERROR, [str(ours)]))


def _refer(
    table: Table, kind: str, values: Sequence[str], files: Sequence[Candidate] = ()
) -> pa.RecordBatch:
    count = len(values)
    empty = [None] * (count - len(files))
    columns = {
        "location": pa.array([table.location] * count, pa.string()),
        "kind": pa.array([kind] * count, pa.string()),
        "value": pa.array(values, pa.string()),
        "size": pa.array([each.entry.size for each in files] + empty, pa.int64()),
        "modified_ms": pa.array([each.entry.modified_ms for each in files] + empty, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


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


def taken(
    units: Orphans,
    batches: Iterable[pa.RecordBatch],
    tables: Mapping[str, Table],
    floor_ms: int,
    root: str,
) -> Iterator[pa.RecordBatch]:
    """The files of a ready listing that could be orphans; `tables` are known by their location."""
    noted = units.noted(floor_ms)
    for each in batches:
        found: list[Candidate] = []
        for row in each.to_pylist():
            entry = entry_of(row, root)
            table = tables.get(location_of(entry.key, tables))
            if table is not None:
                found += units.candidates(table, [entry], noted, floor_ms)
        yield batch(found)


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
        candidates = units.refresh(candidates)
    return units.still_unreferenced(table, candidates, seen, floor_ms)


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
