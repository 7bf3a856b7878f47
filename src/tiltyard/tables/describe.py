"""What has to be read from a table's own files to describe it: version, schema, statistics."""

from __future__ import annotations

from dataclasses import dataclass

import lance
import pyarrow as pa

from tiltyard import names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.pylance import Lance
from tiltyard.errors import (
    InvalidInputError,
    TableBranchNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    TiltyardError,
)
from tiltyard.tables.schema import as_stored


@dataclass(frozen=True, slots=True)
class Detail:
    """One version of a table."""

    version: int
    schema: pa.Schema
    rows: int
    deleted_rows: int
    fragments: int


@dataclass(frozen=True, slots=True)
class At:
    """Which version a request means: a number, a tag, a branch, or the latest."""

    version: int | None = None
    tag: str | None = None
    branch: str | None = None

    def __post_init__(self) -> None:
        if self.tag is not None and (self.version is not None or self.branch is not None):
            raise InvalidInputError("a tag can't be combined with a version or a branch")

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


def open_at(access: Lance, table: Table, at: At = LATEST) -> lance.LanceDataset:
    """Open the version that is meant; a missing one is told apart from a missing table."""
    try:
        if at.branch is not None:
            return access.open(table.location).checkout_version((at.branch, at.version))
        return access.open(table.location, at.version if at.tag is None else at.tag)
    except (OSError, ValueError, RuntimeError) as error:
        if "not found" in str(error).lower():
            raise at.missing(table) from error
        raise access.explain(error, f"open table {names.display(table.id)}") from error


def describe(access: Lance, table: Table, at: At = LATEST) -> Detail:
    """Read one version's schema and statistics."""
    dataset = open_at(access, table, at)
    counted = dataset.stats.dataset_stats()
    return Detail(
        version=dataset.version,
        schema=as_stored(dataset),
        rows=dataset.count_rows(),
        deleted_rows=counted["num_deleted_rows"],
        fragments=counted["num_fragments"],
    )
