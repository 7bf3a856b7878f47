"""One version of a table, cut into pieces that many processes read at once.

A snapshot names the version and how to reach its files; it travels. The pieces of a scan hold about
the same number of rows each and overlap nowhere: a large fragment is cut into ranges of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import lance
import pyarrow as pa

from tiltyard.catalog.pylance import FAILURES, is_bad_input, is_missing
from tiltyard.errors import InvalidInputError, TableNotFoundError, TiltyardError, translate
from tiltyard.settings import STORAGE_PREFIX, Settings
from tiltyard.tables.describe import At

ROWS_PER_ADDRESS = 1 << 32  # a row's address is its fragment times this, plus its place in it


@dataclass(frozen=True)
class Snapshot:
    """One version of the table at a URI."""

    uri: str
    at: At
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    def open(self) -> lance.LanceDataset:
        """The dataset, opened once in each process: a version never changes."""
        return _opened(self.uri, self.at, tuple(sorted(self.storage.items())))

    def explain(self, error: Exception) -> TiltyardError:
        """An error of pylance as ours, without credentials."""
        properties = {f"{STORAGE_PREFIX}{key}": value for key, value in self.storage.items()}
        secrets = Settings.from_properties({"root": "/", **properties}).secrets
        if is_bad_input(error):
            return InvalidInputError(translate(error, f"read {self.uri}", secrets).message)
        return translate(error, f"read {self.uri}", secrets)


@lru_cache(maxsize=32)
def _opened(uri: str, at: At, storage: tuple[tuple[str, str], ...]) -> lance.LanceDataset:
    return _open(uri, at, dict(storage))


def _open(uri: str, at: At, storage: dict[str, str]) -> lance.LanceDataset:
    return at.open(
        lambda version: lance.dataset(uri, version=version, storage_options=storage or None)
    )


def snapshot_of_path(uri: str, at: At, storage: Mapping[str, str]) -> Snapshot:
    """A snapshot of a table that no catalog knows."""
    try:
        dataset = _open(uri, at, dict(storage))
    except FAILURES as error:
        if is_missing(error):
            which = "" if at == At() else " in that version"
            raise TableNotFoundError(f"there is no Lance table at {uri!r}{which}") from error
        raise Snapshot(uri, at, storage).explain(error) from error
    return Snapshot(uri, at.pinned(dataset), dict(storage))


@dataclass(frozen=True)
class Wanted:
    """What a scan brings: everything, unless said otherwise. A filter is in Lance's own SQL."""

    columns: tuple[str, ...] | None = None
    filter: str | None = None
    limit: int | None = None
    batch_size: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    nearest: dict[str, Any] | None = None
    full_text: str | dict[str, Any] | None = None
    expects_few: bool = False  # of what the filter leaves; only then are other columns read

    @property
    def is_search(self) -> bool:
        """A search ranks the rows of the whole table, so it can't be cut into pieces."""
        return self.nearest is not None or self.full_text is not None

    @property
    def is_divisible(self) -> bool:
        return not self.is_search and self.limit is None

    def scanner(
        self, dataset: lance.LanceDataset, piece: Piece | None = None
    ) -> lance.LanceScanner:
        """pylance's scanner of the whole table or of a piece of it."""
        chosen: dict[str, Any] = {"filter": self.filter, "limit": self.limit}
        if piece is not None and not self.is_search:
            chosen |= {
                "fragments": [dataset.get_fragment(fragment) for fragment in piece.fragments],
                "filter": piece.narrowed(self.filter),
                "offset": piece.offset,
                "limit": piece.limit,
            }
        return dataset.scanner(
            columns=None if self.columns is None else list(self.columns),
            batch_size=self.batch_size,
            with_row_id=self.with_row_id,
            with_row_address=self.with_row_address,
            nearest=self.nearest,
            full_text_query=self.full_text,
            prefilter=self.is_search or None,  # the best of those that pass, not the reverse
            blob_handling="all_binary",
            late_materialization=self.expects_few or None,
            **chosen,
        )


@dataclass(frozen=True)
class Piece:
    """Rows of some fragments, in order: all of them, a range by count, or all but some addresses.

    A range counts rows before a filter does, so with a filter the rows of a cut fragment are told
    apart by their addresses.
    """

    fragments: tuple[int, ...]
    offset: int | None = None
    limit: int | None = None
    without: tuple[tuple[int, int], ...] = ()

    def narrowed(self, condition: str | None) -> str | None:
        cuts = [f"NOT (_rowaddr >= {low} AND _rowaddr < {high})" for low, high in self.without]
        if not cuts:
            return condition
        return " AND ".join([f"({condition})", *cuts] if condition else cuts)


def schema_of(snapshot: Snapshot, wanted: Wanted) -> pa.Schema:
    """What a scan brings. A wrong column, filter or search is found here, before any row."""
    try:
        return wanted.scanner(snapshot.open()).projected_schema
    except (*FAILURES, KeyError, TypeError) as error:
        raise snapshot.explain(error) from error


def stored_schema(snapshot: Snapshot) -> pa.Schema:
    """The columns as a filter sees them: a blob is then not its bytes."""
    return snapshot.open().schema


def read(snapshot: Snapshot, wanted: Wanted, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The batches of one piece."""
    if not piece.fragments and not wanted.is_search:
        return
    try:
        yield from wanted.scanner(snapshot.open(), piece).to_batches()
    except FAILURES as error:
        raise snapshot.explain(error) from error


def count(snapshot: Snapshot) -> int:
    """The rows of a snapshot, from its metadata alone."""
    return snapshot.open().count_rows()


# ---------------------------------------------------------------- cutting


@dataclass(frozen=True)
class Extent:
    """A fragment as the cutting sees it: the rows that are left, of those that were written."""

    id: int
    rows: int
    written: int


def pieces_of(snapshot: Snapshot, wanted: Wanted, count: int) -> list[Piece]:
    """At most `count` pieces of about equal numbers of rows; searches and limits take one."""
    extents = _extents(snapshot.open())
    if wanted.is_search:
        return [Piece(())]
    if wanted.limit is not None:
        return _limited(extents, wanted.limit, wanted.filter is None)
    return cut(extents, count, filtered=wanted.filter is not None)


def groups_of(snapshot: Snapshot, fragments_per_piece: int) -> list[Piece]:
    """Pieces of so many whole fragments each."""
    ids = [extent.id for extent in _extents(snapshot.open())]
    return [
        Piece(tuple(ids[start : start + fragments_per_piece]))
        for start in range(0, len(ids), fragments_per_piece)
    ]


def _extents(dataset: lance.LanceDataset) -> list[Extent]:
    return [
        Extent(fragment.fragment_id, fragment.count_rows(), fragment.physical_rows)
        for fragment in dataset.get_fragments()
    ]


def _limited(extents: Sequence[Extent], limit: int, rows_are_known: bool) -> list[Piece]:
    """The first rows; without a filter it is known which fragments have them."""
    if rows_are_known:
        ends = list(accumulate(extent.rows for extent in extents))
        needed = next((at + 1 for at, end in enumerate(ends) if end >= limit), len(extents))
        extents = extents[:needed]
    return [Piece(tuple(extent.id for extent in extents), limit=limit)] if extents else []


def cut(extents: Sequence[Extent], count: int, *, filtered: bool) -> list[Piece]:
    """Cut fragments into pieces of about equal numbers of rows, each row in exactly one."""
    extents = [extent for extent in extents if extent.rows]
    total = sum(extent.rows for extent in extents)
    count = max(1, min(count, total))
    bounds = [total * at // count for at in range(count + 1)]
    starts = [0, *accumulate(extent.rows for extent in extents)]
    pieces = []
    for low, high in pairwise(bounds):
        inside = [
            (extent, start)
            for extent, start in zip(extents, starts, strict=False)
            if start < high and start + extent.rows > low
        ]
        if inside:
            pieces.append((_by_address if filtered else _by_count)(inside, low, high))
    return pieces


def _by_count(inside: Sequence[tuple[Extent, int]], low: int, high: int) -> Piece:
    first, last = inside[0], inside[-1]
    whole = low <= first[1] and high >= last[1] + last[0].rows
    fragments = tuple(extent.id for extent, _ in inside)
    return Piece(fragments) if whole else Piece(fragments, low - first[1], high - low)


def _by_address(inside: Sequence[tuple[Extent, int]], low: int, high: int) -> Piece:
    without = []
    for extent, start in inside:
        base = extent.id * ROWS_PER_ADDRESS
        if low > start:
            without.append((base, base + _place(extent, low - start)))
        if high < start + extent.rows:
            without.append((base + _place(extent, high - start), base + ROWS_PER_ADDRESS))
    return Piece(tuple(extent.id for extent, _ in inside), without=tuple(without))


def _place(extent: Extent, row: int) -> int:
    """About where a row lies among those that were written; equal rows have equal places."""
    return extent.written * row // extent.rows
