"""Operations on the versions of a table, as the specification has them."""

from __future__ import annotations

from collections.abc import Sequence

import lance_namespace as api
from lance_namespace_urllib3_client.models.create_table_version_entry import (
    CreateTableVersionEntry,
)
from lance_namespace_urllib3_client.models.table_version import TableVersion

from tiltyard import names
from tiltyard.catalog.version_files import Naming, VersionFile
from tiltyard.errors import InvalidInputError
from tiltyard.namespace.requests import choice, says
from tiltyard.namespace.rooms import Rooms
from tiltyard.paging import numbered_page
from tiltyard.versions.directory import NewVersion


class VersionOperations(Rooms):
    """Publishing, listing, describing and deleting versions."""

    @says("create a version of table")
    def create_table_version(
        self, request: api.CreateTableVersionRequest
    ) -> api.CreateTableVersionResponse:
        """Publish a staged manifest as the next version, if its number is free and its writer is
        not behind the boundary."""
        created = self._versions.create(self._new_version(request))
        return api.CreateTableVersionResponse(version=self._as_version(created))

    @says("create versions of tables")
    def batch_create_table_versions(
        self, request: api.BatchCreateTableVersionsRequest
    ) -> api.BatchCreateTableVersionsResponse:
        """One after the other. All requests are checked before the first is carried out."""
        wanted = [self._new_version(entry) for entry in request.entries]
        created = [self._versions.create(each) for each in wanted]
        return api.BatchCreateTableVersionsResponse(
            versions=[self._as_version(each) for each in created]
        )

    @says("list versions of table")
    def list_table_versions(
        self, request: api.ListTableVersionsRequest
    ) -> api.ListTableVersionsResponse:
        """Versions that readers may see, oldest first unless `descending`."""
        identifier = names.parse_table_id(request.id)
        newest_only = request.descending and request.limit == 1 and request.page_token is None
        if newest_only:  # what Lance asks for whenever it opens a table
            newest = self._versions.latest(identifier, request.branch)
            found: Sequence[VersionFile] = [newest] if newest else []
        else:
            found = self._versions.visible(identifier, request.branch)
        chosen, token = numbered_page(
            found,
            lambda each: each.version,
            request.page_token,
            request.limit,
            descending=bool(request.descending),
        )
        return api.ListTableVersionsResponse(
            versions=[self._as_version(each) for each in chosen],
            page_token=None if newest_only else token,
        )

    @says("describe a version of table")
    def describe_table_version(
        self, request: api.DescribeTableVersionRequest
    ) -> api.DescribeTableVersionResponse:
        """One version, or the latest. TableVersionNotFoundError."""
        identifier = names.parse_table_id(request.id)
        found = self._versions.describe(identifier, request.version, request.branch)
        return api.DescribeTableVersionResponse(version=self._as_version(found))

    @says("delete versions of table")
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

    def _new_version(
        self, request: api.CreateTableVersionRequest | CreateTableVersionEntry
    ) -> NewVersion:
        if request.version < 1:
            raise InvalidInputError(f"{request.version} can't be a version: the first is 1")
        return NewVersion(
            names.parse_table_id(request.id),
            request.version,
            names.from_store_path(self._settings.root, request.manifest_path),
            choice(Naming, request.naming_scheme, "naming scheme"),
            request.branch,
        )

    def _as_version(self, found: VersionFile) -> TableVersion:
        return TableVersion(
            version=found.version,
            manifest_path=names.store_path(self._settings.root, found.key),
            manifest_size=found.size,
            e_tag=found.e_tag,
            timestamp_millis=found.modified_ms,
        )
