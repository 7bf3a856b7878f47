"""The doctor's look at one table: does it open, who goes past the catalog, what would help it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import lance

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import TableNotFoundError, TiltyardError, redact
from tiltyard.maintenance.findings import Finding, error, info, warning
from tiltyard.maintenance.inventory import TableInventory, counted
from tiltyard.store import Store
from tiltyard.versions.branches import Branches
from tiltyard.versions.table_versions import TableVersions

AUTO_CLEANUP = "lance.auto_cleanup."
MANY_VERSIONS = 500
MANY_FRAGMENTS = 100
SMALL_FRAGMENT_ROWS = 10_000

Opening = Callable[[Table], lance.LanceDataset]


class Checkup:
    """Looks at tables of one catalog, and changes nothing."""

    def __init__(
        self,
        store: Store,
        versions: TableVersions,
        branches: Branches,
        opening: Opening,
    ) -> None:
        self._store = store
        self._versions = versions
        self._branches = branches
        self._opening = opening

    def of(self, table: Table) -> list[Finding]:
        """What is amiss with one table, its own errors included."""
        shown = names.dotted(table.id)
        try:
            return list(self._look(table, shown))
        except TableNotFoundError:  # dropped since it was listed
            return []
        except (TiltyardError, *FAILURES) as problem:
            return [error("unreadable table", shown, redact(str(problem)))]

    def _look(self, table: Table, shown: str) -> Iterator[Finding]:
        files = version_files.every(self._store, table.location)
        if not files:
            folder = f"{table.location}/{names.VERSIONS_DIRECTORY}"
            if table.only_declared is False and self._store.first(folder) is None:
                yield error("missing versions", shown, "none of its versions has a file")
            return
        if table.managed and not table.becoming_managed:
            yield from self._drift(table, shown)
        dataset = self._opening(table)
        yield from self._settings(dataset, shown)
        yield from self._shape(dataset, len(files), shown)
        for name in self._branches.orphans(table, dataset):
            yield warning(
                "orphaned branch",
                f"{shown}@{name}",
                "Lance has this branch, and the catalog's list does not",
                f"tiltyard repair {shown} --branches --apply",
            )
        stale = self._versions.stale(table)
        if stale:
            yield info(
                "stale versions",
                shown,
                f"{len(stale)} versions were written behind the boundary and count for nothing",
                f"tiltyard repair {shown} --scrub --apply",
            )

    def _drift(self, table: Table, shown: str) -> Iterator[Finding]:
        drift = self._versions.drifts.of(table)
        if not drift:
            return
        if drift.is_benign:
            yield info(
                "drift",
                shown,
                f"{drift.summary}; no row differs",
                f"tiltyard repair {shown} --apply",
            )
            return
        mend = f"tiltyard repair {shown} --adopt or --discard, and --apply"
        yield error("drift", shown, f"{drift.summary}, and readers do not see them", mend)

    def _settings(self, dataset: lance.LanceDataset, shown: str) -> Iterator[Finding]:
        found = sorted(key for key in dataset.config() if key.startswith(AUTO_CLEANUP))
        if found:
            yield warning(
                "auto cleanup",
                shown,
                f"Lance deletes its versions behind the catalog's back: {', '.join(found)}",
                f"tiltyard repair {shown} --no-auto-cleanup --apply",
            )

    def _shape(self, dataset: lance.LanceDataset, versions: int, shown: str) -> Iterator[Finding]:
        if versions > MANY_VERSIONS:
            told = f"it has {versions:,} versions"
            yield info("many versions", shown, told, f"tiltyard cleanup {shown}")
        found = counted(TableInventory(shown), dataset)
        is_small = found.rows < SMALL_FRAGMENT_ROWS * found.fragments
        if found.fragments > MANY_FRAGMENTS and is_small:
            each = found.rows // found.fragments
            told = f"it has {found.fragments:,} fragments of {each:,} rows each"
            yield info("small fragments", shown, told, f"tiltyard optimize {shown}")
