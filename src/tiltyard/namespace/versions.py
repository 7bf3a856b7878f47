"""Operations on the versions of a table, as the specification has them."""

from __future__ import annotations

from collections.abc import Sequence

import lance_namespace as api

from tiltyard import names
from tiltyard.errors import ConcurrentModificationError, UnsupportedOperationError
from tiltyard.namespace.requests import operation
from tiltyard.namespace.rooms import Rooms
from tiltyard.versions import answers
from tiltyard.versions.management import ManagedTable, Progress
from tiltyard.versions.snapshots import CatalogSnapshot, Snapshots


class VersionOperations(Rooms):
    """Publishing, listing, describing and deleting versions."""

    @operation("create a version of table")
    def create_table_version(
        self, request: api.CreateTableVersionRequest
    ) -> api.CreateTableVersionResponse:
        """Publish a staged manifest as the next version, if its number is free and its writer is
        not behind the boundary."""
        try:
            self._before_write([names.parse_table_id(request.id)])
        except ConcurrentModificationError:
            self._versions.note_refused(answers.new_version(self._root, request))
            raise
        return answers.create(self._for_writers, self._root, request)

    @operation("create versions of tables")
    def batch_create_table_versions(
        self, request: api.BatchCreateTableVersionsRequest
    ) -> api.BatchCreateTableVersionsResponse:
        """All of them or none, also if this process dies meanwhile: `recover` ends it then.

        All requests are checked before the first is carried out.
        """
        wanted = [answers.new_version(self._root, entry) for entry in request.entries]
        self._before_write([each.table for each in wanted])
        created = self._batches.create_all(wanted)
        return api.BatchCreateTableVersionsResponse(
            versions=[answers.as_version(self._root, each) for each in created]
        )

    @operation("list versions of table")
    def list_table_versions(
        self, request: api.ListTableVersionsRequest
    ) -> api.ListTableVersionsResponse:
        """Versions that readers may see, oldest first unless `descending`."""
        return answers.listed(self._versions, self._root, request)

    @operation("describe a version of table")
    def describe_table_version(
        self, request: api.DescribeTableVersionRequest
    ) -> api.DescribeTableVersionResponse:
        """One version, or the latest. TableVersionNotFoundError."""
        return answers.described(self._versions, self._root, request)

    @operation("delete versions of table")
    def batch_delete_table_versions(
        self,
        request: api.BatchDeleteTableVersionsRequest,
        *,
        ignore_missing: bool = True,
    ) -> api.BatchDeleteTableVersionsResponse:
        """Delete ranges of versions, both ends included. The latest, tagged ones and the bases of
        branches are refused."""
        deleted = self._versions.delete(
            names.parse_table_id(request.id),
            [(each.start_version, each.end_version) for each in request.ranges],
            branch=request.branch,
            ignore_missing=ignore_missing,
        )
        return api.BatchDeleteTableVersionsResponse(deleted_count=len(deleted))

    # -- managed versions

    @operation("manage versions of")
    def manage_versions(
        self, *, dry_run: bool = False, progress: Progress | None = None
    ) -> list[ManagedTable]:
        """Keep versions as rows of the manifest from now on, for every table that can have it.

        Safe to repeat: a second run does what is left. Lance's own clients can't change such a
        catalog any more, only use it through this one. There is no way back.
        """
        return self._versions.management.run(dry_run=dry_run, progress=progress)

    @operation("hide a version of table")
    def hide_version(self, id: Sequence[str], version: int, *, reason: str | None = None) -> None:
        """Keep readers from one version of a managed table, without deleting it.

        The latest can't be hidden. TableVersionNotFoundError.
        """
        self._store.require_conditions()
        self._versions.hide(names.parse_table_id(id), version, reason)

    @operation("show a version of table")
    def show_version(self, id: Sequence[str], version: int) -> None:
        """Let readers see a version again that was hidden; one that was not is fine."""
        self._store.require_conditions()
        self._versions.show(names.parse_table_id(id), version)

    @operation("take a snapshot of")
    def snapshot(
        self, version: int | None = None, *, managed_only: bool = False
    ) -> CatalogSnapshot:
        """Which version each table had, all at once: now, or at an earlier version of the catalog.

        InvalidTableStateError if the catalog can't tell for some table, unless `managed_only`
        leaves those out.
        """
        if self._manifest is None or self._versions.rows is None:
            raise UnsupportedOperationError(
                "without a manifest nothing tells which versions tables had together",
                hint="open the catalog with manifest_enabled=true",
            )
        snapshots = Snapshots(self._lance, self.context.manifest.table, self._versions.rows)
        return snapshots.take(version, managed_only=managed_only)
