"""`catalog.versions`: managed versions, the history of a table, and snapshots."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.catalog import names
from tiltyard.namespace.base import OperationGroup, operation
from tiltyard.tables import describe
from tiltyard.tables.scan import Snapshot
from tiltyard.versions.management import ManagedTable, ManageProgress
from tiltyard.versions.snapshots import CatalogSnapshot, Snapshots


class Versions(OperationGroup):
    """Operations on the versions of tables, beyond those of the specification."""

    @operation("manage versions of")
    def manage(
        self, *, dry_run: bool = False, progress: ManageProgress | None = None
    ) -> list[ManagedTable]:
        """Keep versions as rows of the manifest from now on, for every table that can have it.

        Safe to repeat: a second run does what is left. Lance's own clients can't change such a
        catalog any more, only use it through this one. There is no way back.
        """
        return self.services.versions.management.run(dry_run=dry_run, progress=progress)

    @operation("hide a version of table")
    def hide(self, id: Sequence[str], version: int, *, reason: str | None = None) -> None:
        """Keep readers from one version of a managed table, without deleting it.

        The latest can't be hidden. TableVersionNotFoundError.
        """
        self.context.store.require_conditions()
        self.services.versions.hide(names.parse_table_id(id), version, reason)

    @operation("show a version of table")
    def show(self, id: Sequence[str], version: int) -> None:
        """Let readers see a version again that was hidden; one that was not is fine."""
        self.context.store.require_conditions()
        self.services.versions.show(names.parse_table_id(id), version)

    @operation("delete stale versions of table")
    def scrub(self, id: Sequence[str], *, dry_run: bool = False) -> list[int]:
        """Delete versions that a stale writer left behind the boundary; they count for nothing."""
        identifier = names.parse_table_id(id)
        if dry_run:
            return list(self.services.versions.stale(self.context.catalog.find(identifier)))
        return list(self.services.versions.scrub(identifier))

    @operation("list the versions of table")
    def history(self, id: Sequence[str]) -> list[describe.Version]:
        """Every version of a table that is still there, oldest first."""
        table = self.services.access.find(id)
        shown = {file.version for file in self.services.versions.visible(table.id)}
        versions = describe.history(self.services.access.open(table))
        return [version for version in versions if version.version in shown]

    @operation("take a snapshot of")
    def snapshot(
        self, version: int | None = None, *, managed_only: bool = False
    ) -> CatalogSnapshot:
        """Which version each table had, all at once: now, or at an earlier version of the catalog.

        InvalidTableStateError if the catalog can't tell for some table, unless `managed_only`
        leaves those out.
        """
        snapshots = Snapshots(self.context, self.services.versions.rows)
        return snapshots.take(version, managed_only=managed_only)

    @operation("read table")
    def snapshot_table(self, id: Sequence[str], at: describe.At = describe.LATEST) -> Snapshot:
        """One version of a table, fixed, in a form that other processes can open."""
        table = self.services.access.find(id)
        dataset = self.services.access.open(table, at)
        storage = dict(self.context.settings.storage)
        return Snapshot(self.services.access.uri(table), at.pinned(dataset), storage)
