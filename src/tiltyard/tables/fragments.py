"""Data files that are written apart from their commit: by many processes, for one version.

An executor gets a `Place`, writes, and sends back the fragments as JSON texts; whoever makes the
commit hands them over as one `Written`. Nothing refers to the files until then, and Lance takes
back what it wrote when a write fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments
from lance.progress import FragmentWriteProgress
from lance.schema import LanceSchema

from tiltyard.catalog import names, version_files
from tiltyard.catalog.pylance import (
    FAILURES,
    MOST_ROWS_PER_FILE,
    STORAGE_VERSION,
    Lance,
    Staged,
    is_taken,
)
from tiltyard.errors import ConcurrentModificationError, InvalidInputError, translate
from tiltyard.settings import Settings
from tiltyard.store import NotThere, Store

MOST_BYTES_PER_FILE = 90 * 1024**3
TRANSACTIONS = "_transactions"
STORAGE_VERSIONS = ("2.0", "2.1", "2.2", "2.3")


class Place(Protocol):
    """Where files go: `lifecycle.writing.PendingWrite` is one.

    `base_version` is the version to open for it, 0 if the directory has none. With `replaces` the
    files are for a version that holds nothing of the one before.
    """

    @property
    def uri(self) -> str: ...

    @property
    def base_version(self) -> int: ...

    @property
    def replaces(self) -> bool: ...

    @property
    def storage_options(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How large a data file may get, and in which format a new table is written."""

    rows: int = MOST_ROWS_PER_FILE
    bytes: int = MOST_BYTES_PER_FILE
    storage_version: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_rows_per_file", self.rows), ("max_bytes_per_file", self.bytes)):
            if value < 1:
                raise InvalidInputError(f"{name} must be at least 1, not {value}")
        if self.storage_version not in (None, *STORAGE_VERSIONS):
            raise InvalidInputError(
                f"unknown storage version {self.storage_version!r}",
                hint=f"one of {', '.join(STORAGE_VERSIONS)}",
            )


DEFAULT_LIMITS = FileLimits()


class _Notes(FragmentWriteProgress):
    """Tells the name of every file that is complete, once. Lance itself is silent on the last."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._noted: set[str] = set()

    def begin(self, fragment: Any, multipart_id: Any = None, **kwargs: Any) -> None:
        """A file has no name before it is complete."""

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        for file in fragment.files:
            if file.path not in self._noted:
                self._noted.add(file.path)
                self._note(file.path)


def write(
    place: Place,
    rows: pa.RecordBatchReader,
    limits: FileLimits = DEFAULT_LIMITS,
    note: Callable[[str], None] | None = None,
) -> list[str]:
    """Write rows into files of their own and return the fragments; none for no rows.

    `note` gets the name of every file that is complete, at once: should this process be killed,
    somebody else can remove it.
    """
    options = dict(place.storage_options) or None
    notes = None if note is None else _Notes(note)
    try:
        onto: Any = place.uri
        if place.base_version:
            onto = lance.dataset(place.uri, version=place.base_version, storage_options=options)
        fragments = write_fragments(
            rows,
            onto,
            mode=_mode(place),
            max_rows_per_file=limits.rows,
            max_bytes_per_file=limits.bytes,
            data_storage_version=_storage_version(place, limits),
            enable_stable_row_ids=True,
            storage_options=options,
            progress=notes,
        )
    except FAILURES as error:
        if not place.base_version and is_taken(error):
            raise ConcurrentModificationError(
                "the table was created by another process meanwhile", hint="write it again"
            ) from error
        secrets = Settings(place.uri, storage=place.storage_options).secrets
        raise translate(error, "write the data", secrets) from error
    if notes is not None:
        for fragment in fragments:
            notes.complete(fragment)
    return [as_text(fragment) for fragment in fragments]


def _mode(place: Place) -> str:
    if not place.base_version:
        return "create"
    return "overwrite" if place.replaces else "append"


def _storage_version(place: Place, limits: FileLimits) -> str | None:
    """A table keeps the format that it has; only a new one gets ours, or the one asked for."""
    return None if place.base_version else limits.storage_version or STORAGE_VERSION


def as_text(fragment: FragmentMetadata) -> str:
    return json.dumps(fragment.to_json())


def rows_of(fragments: Iterable[str]) -> int:
    """How many rows fragments hold, deleted ones not counted."""
    return sum(FragmentMetadata.from_json(fragment).num_rows for fragment in fragments)


class Written:
    """Rows that are in files already, for a commit that has not been made.

    They can be staged once. A create that starts over has to write its data again under fresh
    names, which is beyond whoever makes the commit. `evolves` says that they have columns that the
    table lacks, and number their columns anew. `notes` are for the metadata of the table's schema;
    only a commit onto an expected version can make them.
    """

    def __init__(
        self,
        location: str,
        schema: pa.Schema,
        fragments: Sequence[str],
        properties: Mapping[str, str] | None = None,
        *,
        evolves: bool = False,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        self.evolves = evolves
        self.notes = dict(notes or {})
        self.location = location
        self.schema = schema
        self.properties = dict(properties or {})
        self.fragments = [FragmentMetadata.from_json(fragment) for fragment in fragments]
        self._is_staged = False

    def stage(self, location: str) -> Staged:
        if self._is_staged or location != self.location:
            raise ConcurrentModificationError(
                f"others changed {names.display([self.location])} while its data was written",
                hint="write it again",
            )
        self._is_staged = True
        return self.files

    @property
    def files(self) -> Staged:
        return Staged(self.location, self.schema, self.fragments)

    @property
    def is_staged(self) -> bool:
        """Whether a commit may have been tried with these files."""
        return self._is_staged


def file_names(fragments: Iterable[str]) -> set[str]:
    """The names of the data files of fragments."""
    parsed = (FragmentMetadata.from_json(fragment) for fragment in fragments)
    return {file.path for fragment in parsed for file in fragment.files}


def abandon(access: Lance, store: Store, location: str, since: int, files: set[str]) -> bool:
    """Remove the files of a write that was given up, unless a commit owns them or may come to.

    Their names are only ours. A commit that was tried has left its transaction beside the table
    before it put a manifest, so files that one names are left alone: its answer may be lost, and
    the manifest on its way. Whether the files are gone is returned.
    """
    if not files:
        return True
    if _is_tried(store, location, since, files) or _is_owned(access, store, location, since, files):
        return False
    store.delete_many(f"{location}/data/{file}" for file in sorted(files))
    return True


def _is_tried(store: Store, location: str, since: int, files: set[str]) -> bool:
    wanted = [file.encode() for file in files]
    for entry in store.list(f"{location}/{TRANSACTIONS}").objects:
        read_version = entry.name.partition("-")[0]
        if not read_version.isdigit() or int(read_version) < since:
            continue
        try:
            body = store.get(entry.key).body
        except NotThere:
            continue
        if any(name in body for name in wanted):
            return True
    return False


def _is_owned(access: Lance, store: Store, location: str, since: int, files: set[str]) -> bool:
    """Whether a version that came since refers to one of the files."""
    for entry in store.list(f"{location}/{names.VERSIONS_DIRECTORY}").objects:
        file = version_files.parse(entry)
        if file is None or file.version <= since:
            continue
        dataset = access.open(location, file.version)
        paths = (data.path for part in dataset.get_fragments() for data in part.data_files())
        if not files.isdisjoint(paths):
            return True
    return False


def must_still_fit(before: lance.LanceDataset, now: lance.LanceDataset) -> None:
    """Files name columns by number, so a column that was changed since would read as nulls."""
    present = _columns(now.lance_schema.fields())
    for path, column in _columns(before.lance_schema.fields()).items():
        if present.get(path, column) != column:
            raise ConcurrentModificationError(
                f"column {'.'.join(path)!r} was changed while the data was written",
                hint=f"the table is at version {now.version}; write it again",
            )


def widened(onto: lance.LanceDataset, schema: pa.Schema) -> LanceSchema:
    """The table's schema and the columns of another that it lacks, numbered after all of its own.

    Lance numbers the columns of an Arrow schema from 0, so as many others as the table ever had
    go before the new ones. A schema pickles as its list of fields; those are put together.
    """
    present = onto.schema
    for field in schema:
        if field.name in present.names and present.field(field.name).type != field.type:
            raise ConcurrentModificationError(
                f"column {field.name!r} was added with another type meanwhile",
                hint="write it again",
            )
    new = [field.with_nullable(True) for field in schema if field.name not in present.names]
    before = [pa.field(f"{number}", pa.int8()) for number in range(onto.max_field_id + 1)]
    rebuild, metadata, known = _parts(onto.lance_schema)
    _, _, numbered = _parts(LanceSchema.from_pyarrow(pa.schema([*before, *new])))
    return rebuild(metadata, *known, *numbered[len(before) :])


def _parts(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], str, list[bytes]]:
    reduced: Any = schema.__reduce__()
    rebuild, (metadata, *fields) = reduced
    return rebuild, metadata, fields


def renumbered(
    fragment: FragmentMetadata, written: pa.Schema, table: LanceSchema
) -> FragmentMetadata:
    """A fragment that numbers its columns from 0, in the numbers of a table."""
    theirs = _paths(table.fields())
    mine = _paths(LanceSchema.from_pyarrow(written).fields())
    numbers = {number: theirs[path] for path, number in mine.items()}
    body = fragment.to_json()
    for file in body["files"]:
        file["fields"] = [numbers[number] for number in file["fields"]]
    return FragmentMetadata.from_json(json.dumps(body))


def _columns(fields: Iterable[Any]) -> dict[tuple[str, ...], tuple[int, str]]:
    """Every column at any depth: its number and its type."""
    return {path: (column.id(), str(column.to_arrow().type)) for path, column in _walk(fields)}


def _paths(fields: Iterable[Any]) -> dict[tuple[str, ...], int]:
    return {path: column.id() for path, column in _walk(fields)}


def _walk(fields: Iterable[Any], above: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for column_field in fields:
        path = (*above, column_field.name())
        yield path, column_field
        yield from _walk(column_field.children(), path)
