"""What executors do in a search for orphans: rows about what versions refer to and about files,
and the second look at those files that nothing refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice

import pyarrow as pa

from tiltyard.catalog import names
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
NAME, SEEN, UNREFERENCED, BIG, ERROR = "name", "seen", "unreferenced", "big", "error"
REFERENCES = "location string, kind string, value string, size long, modified_ms long"
CANDIDATES = "location string, path string, size long, modified_ms long, name string"
NAMES = "location string, path string, name string"
ANSWER = "location string, path string, size long, modified_ms long, error string"

OrphanWork = Callable[[Orphans, Sequence[Table], int, Mapping[str, str]], Iterator[pa.RecordBatch]]


def listing(
    units: Orphans, tables: Sequence[Table], floor_ms: int, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """The files of tables that could be orphans, each table a stream."""
    noted = units.noted(floor_ms)
    for table in tables:
        candidates = units.list_candidates(table, noted, floor_ms)
        while chunk := list(islice(candidates, ROWS_PER_BATCH)):
            yield batch(chunk)


def references(
    units: Orphans, tables: Sequence[Table], floor_ms: int, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """What all versions of tables refer to, and which manifests were read for it."""
    for table in tables:
        with _errors_as_rows(table, properties) as errors:
            yield from _names(table, *_read(units, table, floor_ms))
        yield from errors


def unreferenced(
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
        with _errors_as_rows(table, properties) as errors:
            seen, pieces = _read(units, table, floor_ms)
            referenced = ReferencedFiles()
            for piece in pieces:
                referenced.add(piece)
                if len(referenced.files) + len(referenced.uuids) > most_names:
                    yield _refer(table, BIG, [""])
                    yield from _names(table, seen, chain([referenced], pieces))
                    break
            else:
                yield _refer(table, SEEN, seen)
                orphans = units.unreferenced(table, referenced, noted, floor_ms)
                while chunk := list(islice(orphans, ROWS_PER_BATCH)):
                    keys = [orphan.entry.key for orphan in chunk]
                    yield _refer(table, UNREFERENCED, keys, chunk)
        yield from errors


def _read(
    units: Orphans, table: Table, floor_ms: int
) -> tuple[list[str], Iterator[ReferencedFiles]]:
    """Which manifests a table has, and what they refer to."""
    manifests, indexes = units.manifests(table)
    seen = [state_of(manifest) for manifest in manifests]
    return seen, units.references(table, manifests, indexes, floor_ms)


def _names(
    table: Table, seen: Sequence[str], pieces: Iterable[ReferencedFiles]
) -> Iterator[pa.RecordBatch]:
    yield _refer(table, SEEN, seen)
    sent: set[str] = set()
    for referenced in pieces:
        new = (referenced.files | referenced.uuids) - sent
        yield _refer(table, NAME, list(new))
        sent = sent | new if len(sent) < REMEMBERED else new


@contextmanager
def _errors_as_rows(table: Table, properties: Mapping[str, str]) -> Iterator[list[pa.RecordBatch]]:
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
        "size": pa.array([file.entry.size for file in files] + empty, pa.int64()),
        "modified_ms": pa.array([file.entry.modified_ms for file in files] + empty, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def batch(candidates: Sequence[Candidate]) -> pa.RecordBatch:
    """Candidates as rows."""
    columns = {
        "location": pa.array([file.location for file in candidates], pa.string()),
        "path": pa.array([file.entry.key for file in candidates], pa.string()),
        "size": pa.array([file.entry.size for file in candidates], pa.int64()),
        "modified_ms": pa.array([file.entry.modified_ms for file in candidates], pa.int64()),
        "name": pa.array([file.likeliest_name for file in candidates], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def every_name(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each name by which a version could refer to a candidate, a row for each."""
    for rows in batches:
        files = [candidate(str(row["location"]), as_entry(row)) for row in rows.to_pylist()]
        named = [
            (file.location, file.entry.key, name) for file in files if file for name in file.names
        ]
        columns = [pa.array(column, pa.string()) for column in zip(*named, strict=True)]
        if columns:
            yield pa.RecordBatch.from_arrays(columns, names=["location", "path", "name"])


def from_inventory(
    units: Orphans,
    batches: Iterable[pa.RecordBatch],
    tables: Mapping[str, Table],
    floor_ms: int,
    root: str,
) -> Iterator[pa.RecordBatch]:
    """The files of a ready listing that could be orphans; `tables` are known by their location."""
    noted = units.noted(floor_ms)
    for rows in batches:
        candidates: list[Candidate] = []
        for row in rows.to_pylist():
            entry = entry_of(row, root)
            table = tables.get(location_of(entry.key, tables))
            if table is not None:
                candidates += units.candidates(table, [entry], noted, floor_ms)
        yield batch(candidates)


def still_unreferenced(
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
    files = [candidate(location, as_entry(row)) for row in rows]
    candidates = [file for file in files if file is not None]
    if fresh:
        candidates = units.refresh(candidates)
    return units.still_unreferenced(table, candidates, seen, floor_ms)


def as_entry(row: Mapping[str, object]) -> Entry:
    """A row as the store lists it."""
    return Entry(str(row["path"]), int(str(row["size"])), int(str(row["modified_ms"])))


def entry_of(row: Mapping[str, object], root: str) -> Entry:
    """A row of a ready listing, whose path may be a full address."""
    entry = as_entry(row)
    return Entry(entry.key.removeprefix(root), entry.size, entry.modified_ms)


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
            "path": orphan.entry.key,
            "size": orphan.entry.size,
            "modified_ms": orphan.entry.modified_ms,
        }
        for orphan in going
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
