"""The manifest as of one version, in memory: Arrow columns and one sorted list of ids per fragment.

A fragment never changes, so it is read once and shared by all snapshots that still contain it: a
new version costs only what is new in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata

from tiltyard.catalog.manifest.rows import (
    MOVED,
    NAMESPACE,
    OUR_COLUMNS,
    TABLE,
    TABLE_VERSION,
    Row,
    decode_metadata,
)
from tiltyard.catalog.names import (
    DELIMITER,
    RESERVED_PREFIX,
    TRASH,
    NamespaceId,
    TableId,
    is_own_location,
    natural_owners,
    object_id,
    table_directory,
    top_directory,
)

FragmentKey = tuple[str, ...]

# How many decoded rows a snapshot keeps.
REMEMBERED = 1_000


def fragment_key(fragment: FragmentMetadata) -> FragmentKey:
    """What makes two fragments the same: their files. Ids are given anew by every commit."""
    deletions = fragment.deletion_file
    gone = f"{deletions.read_version}-{deletions.id}" if deletions is not None else ""
    return (*(file.path for file in fragment.files), gone)


class Children(NamedTuple):
    """What lies directly in one namespace: names, sorted."""

    tables: list[str]
    namespaces: list[str]


class FragmentRows:
    """The rows of one fragment, sorted by id."""

    def __init__(self, fragment: FragmentMetadata, rows: pa.Table) -> None:
        ids = rows.column("object_id").to_pylist()
        if any(left > right for left, right in pairwise(ids)):
            order = pc.sort_indices(rows.column("object_id"))
            rows = rows.take(order)
            ids = rows.column("object_id").to_pylist()
        self.metadata = fragment
        self.key = fragment_key(fragment)
        self.ids: list[str] = ids
        self.rows: pa.Table = rows.combine_chunks()
        self._types = _column(self.rows, "object_type")
        self._locations = _column(self.rows, "location")
        self._metadata = _column(self.rows, "metadata")
        self._other_columns = [
            name
            for name in self.rows.column_names
            if name not in OUR_COLUMNS and self.rows[name].null_count < len(ids)
        ]
        self._children: dict[str, Children] = {}
        self._versions: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, wanted: str) -> int | None:
        """The position of an id."""
        at = bisect_left(self.ids, wanted)
        return at if at < len(self.ids) and self.ids[at] == wanted else None

    def row(self, at: int) -> Row:
        identifier = self.ids[at]
        return Row(
            identifier,
            self._types[at].as_py(),
            self._locations[at].as_py(),
            decode_metadata(self._metadata[at].as_py(), identifier),
            {name: self.rows.column(name)[at].as_py() for name in self._other_columns},
        )

    def below(self, prefix: str) -> range:
        """The positions of all ids that start with `prefix`."""
        start = bisect_left(self.ids, prefix)
        # Ids sort by code point, so what starts with the prefix ends before its successor.
        end = (
            bisect_left(self.ids, prefix[:-1] + chr(ord(prefix[-1]) + 1))
            if prefix
            else len(self.ids)
        )
        return range(start, end)

    def is_version(self, at: int) -> bool:
        return bool(self._types[at].as_py() == TABLE_VERSION)

    def versions(self, table: str) -> Mapping[int, int]:
        """The versions of a table that has this id, and their positions. Computed once.

        Numbers are written plainly, or filled up with zeros.
        """
        known = self._versions.get(table)
        if known is None:
            prefix = table + DELIMITER
            size = len(prefix)
            known = self._versions[table] = {
                int(self.ids[at][size:]): at
                for at in self.below(prefix)
                if self.ids[at][size:].isdecimal() and self.is_version(at)
            }
        return known

    def children(self, prefix: str) -> Children:
        """Tables and namespaces one level below. Computed once."""
        known = self._children.get(prefix)
        if known is None:
            known = self._children[prefix] = self._find_children(prefix)
        return known

    def _find_children(self, prefix: str) -> Children:
        tables, namespaces = [], []
        size = len(prefix)
        positions = self.below(prefix)
        types = self._types.slice(positions.start, len(positions)).to_pylist()
        for at, kind in zip(positions, types, strict=True):
            name = self.ids[at][size:]
            if DELIMITER in name or (not prefix and name.startswith(RESERVED_PREFIX)):
                continue
            if kind == TABLE:
                tables.append(name)
            elif kind == NAMESPACE:
                namespaces.append(name)
        return Children(tables, namespaces)

    def table_ids(self) -> Iterator[str]:
        for identifier, kind in zip(self.ids, self._types.to_pylist(), strict=True):
            if kind == TABLE and not identifier.startswith(RESERVED_PREFIX):
                yield identifier

    @cached_property
    def unusual(self) -> list[tuple[str, str]]:
        """Locations that do not follow from their row's id (renamed, registered), and that id."""
        return [
            (location, identifier)
            for identifier, location in zip(self.ids, self._locations.to_pylist(), strict=True)
            if location is not None and not is_own_location(identifier, location)
        ]

    @cached_property
    def v1_root_tables(self) -> list[str]:
        """Root tables whose directory is `<name>.lance`."""
        others = set(self.other_root_tables)
        return [name for name in self.children("").tables if name not in others]

    @cached_property
    def other_root_tables(self) -> list[str]:
        """Root tables whose directory is not `<name>.lance`."""
        return [
            name
            for name in self.children("").tables
            if self._locations[bisect_left(self.ids, name)].as_py() != table_directory(name)
        ]


class ManifestSnapshot:
    """All rows of one version of the manifest. Immutable; version 0 is a manifest not yet made.

    `managed` says that versions of tables are to be rows, too.
    """

    def __init__(
        self, version: int, fragments: Sequence[FragmentRows], *, managed: bool = False
    ) -> None:
        self.version = version
        self.managed = managed
        self.fragments = tuple(fragments)
        self._rows: dict[str, Row] = {}
        self._children: dict[str, Children] = {}

    def __len__(self) -> int:
        return sum(map(len, self.fragments))

    def get(self, wanted: str) -> Row | None:
        known = self._rows.get(wanted)
        if known is not None:
            return known
        for fragment in self.fragments:
            at = fragment.find(wanted)
            if at is not None:
                return self._remember(fragment.row(at))
        return None

    def has_version_rows(self, table: TableId) -> bool:
        """Whether all versions of a table are rows."""
        row = self.get(object_id(table))
        return row is not None and row.has_version_rows

    def _remember(self, row: Row) -> Row:
        """A commit asks for the row of its table again and again."""
        if len(self._rows) >= REMEMBERED:
            self._rows.clear()
        self._rows[row.object_id] = row
        return row

    def children(self, namespace: NamespaceId) -> Children:
        prefix = _prefix(namespace)
        known = self._children.get(prefix)
        if known is None:
            children = [fragment.children(prefix) for fragment in self.fragments]
            known = self._children[prefix] = Children(
                _merged(tables for tables, _ in children),
                _merged(namespaces for _, namespaces in children),
            )
        return known

    def below(self, namespace: NamespaceId) -> list[Row]:
        """Every table and namespace inside a namespace, at any depth."""
        prefix = _prefix(namespace)
        return [
            fragment.row(at)
            for fragment in self.fragments
            for at in fragment.below(prefix)
            if not fragment.is_version(at)
        ]

    def holds_any(self, namespace: NamespaceId) -> bool:
        prefix = _prefix(namespace)
        return any(len(fragment.below(prefix)) for fragment in self.fragments)

    @cached_property
    def table_ids(self) -> list[str]:
        """The ids of all tables, sorted."""
        return _merged(fragment.table_ids() for fragment in self.fragments)

    def last_trashed(self, object_id: str) -> Row | None:
        """The row of the table of this id that was dropped last. Generations sort by time."""
        last: tuple[str, FragmentRows, int] | None = None
        for fragment in self.fragments:
            for at in fragment.below(f"{TRASH}{DELIMITER}"):
                _, generation, original = fragment.ids[at].split(DELIMITER, 2)
                is_later = last is None or generation > last[0]
                if original == object_id and is_later and not fragment.is_version(at):
                    last = (generation, fragment, at)
        return None if last is None else last[1].row(last[2])

    # -- versions

    def version_numbers(self, table: str) -> set[int]:
        """The versions that are rows, of the table with this id."""
        return {number for fragment in self.fragments for number in fragment.versions(table)}

    def has_version(self, table: str, number: int) -> bool:
        return any(number in fragment.versions(table) for fragment in self.fragments)

    def version_row(self, table: str, number: int) -> Row | None:
        for fragment in self.fragments:
            at = fragment.versions(table).get(number)
            if at is not None:
                return fragment.row(at)
        return None

    def head(self, table: str) -> int:
        """The last version of a table that is a row, 0 if there is none."""
        heads = (max(fragment.versions(table), default=0) for fragment in self.fragments)
        return max(heads, default=0)

    # -- locations

    @cached_property
    def unusual_locations(self) -> Mapping[str, str]:
        """Locations that do not follow from an id → an id that has them. Few."""
        return dict(self._unusual)

    @cached_property
    def taken_directories(self) -> Collection[str]:
        """V1 directories that a row has under another name, and no marker says so.

        A renamed table is not among them: its marker hides the old name, or the row is stale.
        """
        rows = ((location, self.get(owner)) for location, owner in self._unusual)
        return {location for location, row in rows if row and MOVED not in row.metadata}

    def unusual_owners(self, directory: str) -> Sequence[str]:
        """The ids whose location is this directory or inside it, against their names."""
        return self._unusual_owners.get(directory, ())

    @cached_property
    def _unusual_owners(self) -> dict[str, list[str]]:
        owners: dict[str, list[str]] = {}
        for location, identifier in self._unusual:
            owners.setdefault(top_directory(location), []).append(identifier)
        return owners

    @property
    def _unusual(self) -> Iterator[tuple[str, str]]:
        return (pair for fragment in self.fragments for pair in fragment.unusual)

    def rows_at(self, directory: str) -> list[Row]:
        """Every row that has a V1 directory, or had it and was not removed yet."""
        owners = [*natural_owners(directory), *self.unusual_owners(directory)]
        rows = (self.get(identifier) for identifier in owners)
        return [row for row in rows if row is not None and row.location == directory]

    @cached_property
    def v1_root_tables(self) -> Sequence[str]:
        """Root tables whose directory is `<name>.lance`."""
        return [name for fragment in self.fragments for name in fragment.v1_root_tables]

    @cached_property
    def other_root_tables(self) -> Sequence[str]:
        """Root tables whose directory is not `<name>.lance`."""
        return [name for fragment in self.fragments for name in fragment.other_root_tables]


EMPTY = ManifestSnapshot(0, ())


def _prefix(namespace: NamespaceId) -> str:
    return object_id(namespace) + DELIMITER if namespace else ""


def _merged(runs: Iterable[Iterable[str]]) -> list[str]:
    """Sorted runs as one list; sorting finds the runs and merges them."""
    merged = [name for run in runs for name in run]
    merged.sort()
    return merged


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)
