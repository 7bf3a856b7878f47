"""What has to be read from a table's own files to describe it: version, schema, statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import lance
import pyarrow as pa
from lance_namespace import GetTableStatsResponse
from lance_namespace_urllib3_client.models.fragment_stats import FragmentStats
from lance_namespace_urllib3_client.models.fragment_summary import FragmentSummary

from tiltyard.catalog import names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.pylance import FAILURES, Lance, is_missing
from tiltyard.errors import (
    InvalidInputError,
    TableBranchNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    TiltyardError,
)
from tiltyard.tables.schema import as_stored

# A fragment with fewer rows is worth compacting, as lancedb counts them.
SMALL_FRAGMENT_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Detail:
    """One version of a table."""

    version: int
    schema: pa.Schema
    rows: int
    deleted_rows: int
    fragments: int


@dataclass(frozen=True, slots=True)
class Version:
    """One line of a table's history."""

    version: int
    created_at: datetime
    rows: int
    fragments: int
    bytes: int


@dataclass(frozen=True, slots=True)
class At:
    """Which version a request means: a number, a tag, a branch, a time, or the latest."""

    version: int | None = None
    tag: str | None = None
    branch: str | None = None
    as_of: datetime | None = None

    def __post_init__(self) -> None:
        if self.tag is not None and (self.version is not None or self.branch is not None):
            raise InvalidInputError("a tag can't be combined with a version or a branch")
        if self.as_of is not None and (self.version is not None or self.tag is not None):
            raise InvalidInputError("a time can't be combined with a version or a tag")

    def open(
        self, dataset: Opening, shows: Callable[[int], bool] = lambda version: True
    ) -> lance.LanceDataset:
        """Open what is meant; `dataset` opens a version number, a tag, or the latest for None.

        By a time only versions are found that the table `shows`.
        """
        if self.as_of is not None:
            latest = dataset(None)
            if self.branch is not None:
                latest = latest.checkout_version((self.branch, None))
            return latest.checkout_version((self.branch, self._number_at(latest, shows)))
        if self.branch is not None:
            return dataset(None).checkout_version((self.branch, self.version))
        return dataset(self.version if self.tag is None else self.tag)

    def _number_at(self, latest: lance.LanceDataset, shows: Callable[[int], bool]) -> int:
        assert self.as_of is not None
        numbers = [
            number for number, when in _times(latest) if when <= self.as_of and shows(number)
        ]
        if not numbers:
            raise TableVersionNotFoundError(f"the table has no version as old as {self.as_of}")
        return max(numbers)

    def pinned(self, dataset: lance.LanceDataset) -> At:
        """The very version that was opened, for whoever opens it again. A tag may move."""
        branch = self.branch
        if self.tag is not None:
            branch = dataset.tags.list()[self.tag]["branch"]
        return At(dataset.version, branch=branch)

    def missing(self, table: Table) -> TiltyardError:
        name = names.display(table.id)
        if self.tag is not None:
            return TableTagNotFoundError(f"table {name} has no tag '{self.tag}'")
        if self.version is not None:
            return TableVersionNotFoundError(f"table {name} has no version {self.version}")
        if self.branch is not None:
            return TableBranchNotFoundError(f"table {name} has no branch '{self.branch}'")
        return no_such_table(table.id)  # dropped since it was found, or never a table


LATEST = At()

Opening = Callable[[int | str | None], lance.LanceDataset]


def open_at(
    access: Lance,
    table: Table,
    at: At = LATEST,
    *,
    opening: Opening | None = None,
    shows: Callable[[int], bool] = lambda version: True,
) -> lance.LanceDataset:
    """Open the version that is meant; a missing one is told apart from a missing table.

    `opening` is another way to open a version than by the table's location.
    """
    opening = opening or (lambda version: access.open(table.location, version))
    try:
        return at.open(opening, shows if at.branch is None else lambda version: True)
    except FAILURES as error:
        if is_missing(error):
            raise at.missing(table) from error
        raise access.explain(error, f"open table {names.display(table.id)}") from error


def describe(dataset: lance.LanceDataset) -> Detail:
    """The schema and the statistics of a version that is open."""
    counted = dataset.stats.dataset_stats()
    return Detail(
        version=dataset.version,
        schema=as_stored(dataset),
        rows=dataset.count_rows(),
        deleted_rows=counted["num_deleted_rows"],
        fragments=counted["num_fragments"],
    )


def history(dataset: lance.LanceDataset) -> list[Version]:
    """Every version that is still there, oldest first. A request for each."""
    return [
        Version(
            version["version"],
            _utc(version["timestamp"]),
            int(version["metadata"]["total_rows"]),
            int(version["metadata"]["total_fragments"]),
            int(version["metadata"]["total_files_size"]),
        )
        for version in dataset.versions()
    ]


def _times(dataset: lance.LanceDataset) -> list[tuple[int, datetime]]:
    return [(version["version"], _utc(version["timestamp"])) for version in dataset.versions()]


def _utc(when: object) -> datetime:
    """pylance tells times without a zone, meant in the machine's own."""
    assert isinstance(when, datetime)
    return when.astimezone(UTC)


# -- statistics


def statistics(dataset: lance.LanceDataset) -> GetTableStatsResponse:
    """Sizes come from the footers of the data files, everything else from the manifest."""
    rows = sorted(fragment.count_rows() for fragment in dataset.get_fragments())
    fields: list[object] = dataset.stats.data_stats().fields  # type: ignore[assignment]
    return GetTableStatsResponse(
        total_bytes=sum(column_field.bytes_on_disk for column_field in fields),  # type: ignore[attr-defined]
        num_rows=sum(rows),
        num_indices=len(dataset.describe_indices()),
        fragment_stats=FragmentStats(
            num_fragments=len(rows),
            num_small_fragments=sum(row < SMALL_FRAGMENT_ROWS for row in rows),
            lengths=FragmentSummary(
                min=rows[0] if rows else 0,
                max=rows[-1] if rows else 0,
                mean=sum(rows) // len(rows) if rows else 0,
                p25=_percentile(rows, 25),
                p50=_percentile(rows, 50),
                p75=_percentile(rows, 75),
                p99=_percentile(rows, 99),
            ),
        ),
    )


def _percentile(ordered: list[int], percent: int) -> int:
    """The value that so many percent do not exceed, by nearest rank."""
    if not ordered:
        return 0
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
