"""Data files that are written apart from their commit: by many processes, for one version.

An executor gets a `Place`, writes, and sends back the fragments as JSON texts; whoever makes the
commit hands them over as one `Written`. Nothing refers to the files until then, and Lance takes
back what it wrote when a write fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.pylance import (
    FAILURES,
    MOST_ROWS_PER_FILE,
    STORAGE_VERSION,
    Lance,
    Staged,
    discard,
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


def write(
    place: Place, rows: pa.RecordBatchReader, limits: FileLimits = DEFAULT_LIMITS
) -> list[str]:
    """Write rows into files of their own and return the fragments; none for no rows."""
    options = dict(place.storage_options) or None
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
        )
    except FAILURES as error:
        if not place.base_version and "already exists" in str(error):
            raise ConcurrentModificationError(
                "the table was created by another process meanwhile", hint="write it again"
            ) from error
        secrets = Settings(place.uri, storage=place.storage_options).secrets
        raise translate(error, "write the data", secrets) from error
    return [as_text(each) for each in fragments]


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
    return sum(FragmentMetadata.from_json(each).num_rows for each in fragments)


class Written:
    """Rows that are in files already, for a commit that has not been made.

    They can be staged once. A create that starts over has to write its data again under fresh
    names, which is beyond whoever makes the commit.
    """

    def __init__(
        self,
        location: str,
        schema: pa.Schema,
        fragments: Sequence[str],
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.location = location
        self.schema = schema
        self.properties = dict(properties or {})
        self.fragments = [FragmentMetadata.from_json(each) for each in fragments]
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


def abandon(access: Lance, store: Store, written: Written, since: int) -> bool:
    """Remove the files of a write that was given up, unless a commit owns them or may come to.

    Their names are only ours. A commit that was tried has left its transaction beside the table
    before it put a manifest, so files that one names are left alone: its answer may be lost, and
    the manifest on its way. Whether the files are gone is returned.
    """
    files = {key.rpartition("/")[2] for key in written.files.files}
    if not files:
        return True
    if _is_tried(store, written.location, since, files):
        return False
    if _is_owned(access, store, written.location, since, files):
        return False
    discard(store, written.files)
    return True


def _is_tried(store: Store, location: str, since: int, files: set[str]) -> bool:
    wanted = [each.encode() for each in files]
    for entry in store.list(f"{location}/{TRANSACTIONS}").objects:
        read_version = entry.name.partition("-")[0]
        if not read_version.isdigit() or int(read_version) < since:
            continue
        try:
            body = store.get(entry.key).body
        except NotThere:
            continue
        if any(each in body for each in wanted):
            return True
    return False


def _is_owned(access: Lance, store: Store, location: str, since: int, files: set[str]) -> bool:
    """Whether a version that came since refers to one of the files."""
    for entry in store.list(f"{location}/{names.VERSIONS_DIRECTORY}").objects:
        found = version_files.parse(entry)
        if found is None or found.version <= since:
            continue
        dataset = access.open(location, found.version)
        every = (file.path for each in dataset.get_fragments() for file in each.data_files())
        if not files.isdisjoint(every):
            return True
    return False


def must_still_fit(before: lance.LanceDataset, now: lance.LanceDataset) -> None:
    """Files name columns by number, so a column that was changed since would read as nulls."""
    columns = _columns(now.lance_schema.fields())
    for number, column in _columns(before.lance_schema.fields()).items():
        if columns.get(number, column) != column:
            raise ConcurrentModificationError(
                f"column {column[0]!r} was changed while the data was written",
                hint=f"the table is at version {now.version}; write it again",
            )


def _columns(fields: Iterable[Any]) -> dict[int, tuple[str, str]]:
    found = {}
    for each in fields:
        found[each.id()] = (each.name(), str(each.to_arrow().type))
        found.update(_columns(each.children()))
    return found
