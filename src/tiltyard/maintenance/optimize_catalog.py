"""Optimizing `__manifest` itself: its fragments are folded together, its old versions removed.

Lance's own clients look for the version after the one that they have open, and never find a newer
one if both are deleted. So a version is deleted only a long time after the next one came, by the
store's clock: a client that used the catalog since then has a newer one open.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.catalog import version_files
from tiltyard.catalog.manifest.rows import DIRECTORY
from tiltyard.catalog.manifest.table import BOUNDARY, ManifestTable
from tiltyard.errors import InvalidInputError
from tiltyard.maintenance.cleanup import FileRemoval
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.policy import CleanupPolicy, Duration, choose
from tiltyard.maintenance.referenced_files import (
    BranchVersion,
    FilesByVersion,
    on_branch,
    read_by_version,
)
from tiltyard.settings import duration
from tiltyard.versions.retention import referenced_versions

DEFAULT_MIN_AGE = "7d"
# Far more than what a commit may take before it looks at the boundary.
LOWEST_MIN_AGE_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class CatalogOptimized:
    """What was done to the manifest: `committed` tells whether its fragments were folded."""

    fragments_before: int = 0
    fragments_after: int = 0
    version: int = 0
    committed: bool = False
    versions_removed: int = 0
    files_removed: int = 0
    bytes_removed: int = 0


class CatalogOptimizer:
    """Optimizes the manifest of one catalog."""

    def __init__(self, maintenance: MaintenanceContext) -> None:
        self._context = maintenance.context
        self._store = maintenance.context.store
        self._retry = maintenance.retry

    def run(self, min_age: Duration = DEFAULT_MIN_AGE) -> CatalogOptimized:
        """Fold fragments, and remove versions that were superseded longer ago than `min_age`.

        Nothing to do costs a few requests and no commit; without a manifest there is nothing to do.
        """
        manifest = self._context.manifest
        if not manifest.is_enabled:
            return CatalogOptimized()
        seconds = duration(min_age, "min_age")
        if seconds is None or seconds < LOWEST_MIN_AGE_SECONDS:
            raise InvalidInputError(
                "versions of the catalog are kept for a day at least",
                hint="clients that have one open would never find another",
            )
        table = manifest.table
        if not table.exists():
            return CatalogOptimized()
        self._store.require_conditions()
        before = len(table.read().fragments)
        committed = table.fold()
        after = table.read()
        return CatalogOptimized(
            before, len(after.fragments), after.version, committed, *self._clean_up(table, seconds)
        )

    def _clean_up(self, table: ManifestTable, seconds: float) -> tuple[int, int, int]:
        """How many versions and files were removed, and the bytes of the files.

        The boundary moves first, as for tables. Two processes may do this at once, and any may
        crash.
        """
        going = self._superseded(seconds)
        removal = FileRemoval(self._context, DIRECTORY)
        lists = removal.read_lists()
        if not going and not lists:
            return 0, 0, 0
        files = {file.version: file for file in version_files.every(self._store, DIRECTORY)}
        if going:
            removal.write_list(self._read_references().only_of(on_branch(None, going)))
            kept = table.boundary.retention()
            highest = max(going)
            staying = {
                version
                for version in files
                if version <= highest and version not in going and kept.shows(version)
            }
            table.boundary.advance(highest, staying, going)
            references = referenced_versions(self._store, DIRECTORY, None)
            going = [version for version in going if version not in references]
            self._store.delete_many(files[version].key for version in going)
        lists = removal.read_lists()
        referenced = self._read_references().except_of(())
        return len(going), *removal.remove(lists, referenced)

    def _superseded(self, seconds: float) -> list[int]:
        """The versions that were superseded longer ago than that."""
        files = version_files.every(self._store, DIRECTORY)
        policy = CleanupPolicy(older_than=seconds)
        references = referenced_versions(self._store, DIRECTORY, None)
        choice = choose(files, references, policy, self._now_ms(), round(seconds * 1000))
        return list(choice.going)

    def _now_ms(self) -> int:
        """The store's time, by which versions have their age: with a clock of ours that is ahead,
        versions in use would be deleted."""
        key = f"{BOUNDARY}/clock"
        self._store.put(key, b"", durable=False)
        return self._store.head(key).modified_ms

    def _read_references(self) -> FilesByVersion:
        def present() -> set[BranchVersion]:
            files = version_files.every(self._store, DIRECTORY)
            return on_branch(None, (file.version for file in files))

        return read_by_version(self._context, DIRECTORY, self._retry, present)
