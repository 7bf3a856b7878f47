"""The rows that came and went between versions of a table, a fragment at a time.

`AddedRows` and `RemovedRows` are work for one process each, made from a `Commit` without a request,
and small enough to travel. Rows that came are read at any version that still has their fragment as
it was; rows that went are those of the version before whose addresses are no longer there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import LanceFragment

from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import InternalError, TableSchemaValidationError
from tiltyard.tables.describe import At
from tiltyard.tables.history import Commit, Kind, name_of
from tiltyard.tables.scan import Snapshot

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
CHANGE_FIELDS = (
    pa.field(CHANGE_TYPE, pa.string(), nullable=False),
    pa.field(COMMIT_VERSION, pa.int64(), nullable=False),
)

_CREATED = "_row_created_at_version"
_UPDATED = "_row_last_updated_at_version"
_ROW_ID = "_rowid"
_ADDRESS = "_rowaddr"
_ADDRESSES_AT_ONCE = 4096


class Change(StrEnum):
    """What happened to a row."""

    INSERT = "insert"
    UPDATE = "update_postimage"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Rows that a version brought, in one fragment; `at` is the version to read them from.

    With `mixed` only those are meant that the version touched: what it created was inserted, what
    is older was updated.
    """

    version: int
    at: int
    name: str
    rows: int
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """Rows that a version took out of one fragment: all, or those whose addresses are gone.

    Those that are found again in fragments that came, by their row ids, were updated.
    """

    version: int
    number: int
    rows: int
    entire: bool = False
    came: tuple[str, ...] = ()


Work = AddedRows | RemovedRows


# ---------------------------------------------------------------- planning


def inserts(commits: Sequence[Commit]) -> list[list[Work]]:
    """For each version the rows that it added; none for one that did anything else."""
    return [
        [AddedRows(commit.version, at, piece.name, piece.rows) for piece in commit.came]
        if commit.kind is Kind.APPEND
        else []
        for commit, at in zip(commits, _readable_at(commits), strict=True)
    ]


def all_changes(commits: Sequence[Commit]) -> list[list[Work]]:
    """For each version everything that it did to rows. An update needs stable row ids."""
    return [_changes(commit, at) for commit, at in zip(commits, _readable_at(commits), strict=True)]


def _changes(commit: Commit, at: int) -> list[Work]:
    version, mixed = commit.version, commit.kind is Kind.UPDATE
    found_again = tuple(piece.name for piece in commit.came) if mixed else ()
    went = [
        RemovedRows(version, piece.number, piece.rows, commit.kind is Kind.REPLACE, found_again)
        for piece in commit.went or ()
    ]
    came = [
        AddedRows(version, version if mixed else at, piece.name, piece.rows, mixed)
        for piece in (*commit.came, *commit.in_place)
    ]
    return [*went, *came]


def _readable_at(commits: Sequence[Commit]) -> list[int]:
    """For each version the last of the given ones that has its fragments just as they came.

    Many small appends are then read from one version instead of one each.
    """
    readable: list[int] = []
    last = 0
    for index in range(len(commits) - 1, -1, -1):
        follower = commits[index + 1] if index + 1 < len(commits) else None
        if follower is None or follower.moves:
            last = commits[index].version
        readable.append(last)
    return readable[::-1]


# ---------------------------------------------------------------- reading


def read(
    table: Snapshot,
    work: Iterable[Work],
    columns: Sequence[str],
    *,
    with_changes: bool = False,
    batch_size: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the work, in its order; if wanted with their changes, as two more columns."""
    versions = _Versions(table, columns, batch_size)
    try:
        for version, several in groupby(work, lambda item: item.version if with_changes else 0):
            for batch, change in versions.changes(list(several)):
                yield _marked(batch, change, version) if with_changes else batch
    except FAILURES as error:
        raise table.explain(error) from error


def _marked(batch: pa.RecordBatch, change: Change | pa.Array, version: int) -> pa.RecordBatch:
    kinds = pa.array([str(change)] * len(batch)) if isinstance(change, Change) else change
    versions = pa.array([version] * len(batch), pa.int64())
    return pa.RecordBatch.from_arrays(
        [*batch.columns, kinds, versions], schema=pa.schema([*batch.schema, *CHANGE_FIELDS])
    )


Marked = Iterator[tuple[pa.RecordBatch, Change | pa.Array]]


class _Versions:
    """The versions of one table, opened as they are needed, each once."""

    def __init__(self, table: Snapshot, columns: Sequence[str], batch_size: int | None) -> None:
        self._table = table
        self._columns = list(columns)
        self._batch_size = batch_size
        self._opened: dict[int, tuple[lance.LanceDataset, dict[str, LanceFragment]]] = {}

    def changes(self, work: Sequence[Work]) -> Marked:
        for at, several in groupby(work, _scanned_together):
            if at is None:
                for item in several:
                    yield from (
                        self._touched(item) if isinstance(item, AddedRows) else self._gone(item)
                    )
            else:
                names = [item.name for item in several if isinstance(item, AddedRows)]
                for batch in self._scan(at, [self._fragment(at, name) for name in names]):
                    yield batch, Change.INSERT

    def _touched(self, came: AddedRows) -> Marked:
        """Rows that a version created or gave new values; which, their row versions tell."""
        fragment = self._fragment(came.at, came.name)
        wanted = f"{_UPDATED} = {came.version}"
        for batch in self._scan(came.at, [fragment], [_CREATED], filter=wanted):
            is_new = pc.equal(batch.column(_CREATED), came.version)
            yield batch.select(self._columns), pc.if_else(is_new, *_INSERT_OR_UPDATE)

    def _gone(self, went: RemovedRows) -> Marked:
        """Rows of the version before that are no longer there, whatever their place."""
        before, _ = self._at(went.version - 1)
        fragment = before.get_fragment(went.number)
        if fragment is None:
            raise InternalError(f"version {before.version} has no fragment {went.number}")
        if went.entire:
            for batch in self._scan(before.version, [fragment]):
                yield batch, Change.DELETE
            return
        addresses = self._lost_addresses(went, before, fragment)
        for start in range(0, len(addresses), _ADDRESSES_AT_ONCE):
            some = ", ".join(map(str, addresses[start : start + _ADDRESSES_AT_ONCE]))
            for batch in self._scan(before.version, [fragment], filter=f"{_ADDRESS} IN ({some})"):
                yield batch, Change.DELETE

    def _lost_addresses(
        self, went: RemovedRows, before: lance.LanceDataset, fragment: LanceFragment
    ) -> list[int]:
        after, _ = self._at(went.version)
        rows = self._addresses(before, fragment, with_row_ids=bool(went.came))
        is_lost = pa.array([True] * len(rows))
        left = after.get_fragment(went.number)
        if left is not None:
            remaining = self._addresses(after, left).column(_ADDRESS)
            is_lost = pc.invert(pc.is_in(rows.column(_ADDRESS), remaining))
        for name in went.came:
            moved = self._addresses(after, self._fragment(went.version, name), with_row_ids=True)
            is_lost = pc.and_not(is_lost, pc.is_in(rows.column(_ROW_ID), moved.column(_ROW_ID)))
        lost: list[int] = rows.column(_ADDRESS).filter(is_lost).to_pylist()
        return lost

    def _scan(
        self, at: int, fragments: list[LanceFragment], more: Sequence[str] = (), **options: Any
    ) -> Iterator[pa.RecordBatch]:
        dataset, _ = self._at(at)
        yield from dataset.scanner(
            columns=[*self._columns, *more],
            fragments=fragments,
            batch_size=self._batch_size,
            blob_handling="all_binary",
            **options,
        ).to_batches()

    def _addresses(
        self, dataset: lance.LanceDataset, fragment: LanceFragment, *, with_row_ids: bool = False
    ) -> pa.Table:
        return dataset.scanner(
            columns=[], fragments=[fragment], with_row_address=True, with_row_id=with_row_ids
        ).to_table()

    def _fragment(self, at: int, name: str) -> LanceFragment:
        _, fragments = self._at(at)
        if name not in fragments:
            raise InternalError(f"version {at} has no fragment with the data file {name}")
        return fragments[name]

    def _at(self, version: int) -> tuple[lance.LanceDataset, dict[str, LanceFragment]]:
        if version not in self._opened:
            dataset = replace(self._table, at=At(version)).open()
            missing = [column for column in self._columns if column not in dataset.schema.names]
            if missing:
                raise TableSchemaValidationError(
                    f"version {version} has no column {missing[0]!r}",
                    hint="leave it out by the option 'columns', or start at a version that has it",
                )
            fragments = {
                name_of(fragment.metadata): fragment for fragment in dataset.get_fragments()
            }
            self._opened[version] = dataset, fragments
        return self._opened[version]


_INSERT_OR_UPDATE = (pa.scalar(str(Change.INSERT)), pa.scalar(str(Change.UPDATE)))


def _scanned_together(work: Work) -> int | None:
    """Whole fragments of one version are read by one scan, anything else by itself."""
    return work.at if isinstance(work, AddedRows) and not work.mixed else None
