"""Operations on the versions of a table, as the specification has them."""

from __future__ import annotations

import lance_namespace as api

from tiltyard import names
from tiltyard.namespace.requests import says
from tiltyard.namespace.rooms import Rooms
from tiltyard.versions import answers


class VersionOperations(Rooms):
    """Publishing, listing, describing and deleting versions."""

    @says("create a version of table")
    def create_table_version(
        self, request: api.CreateTableVersionRequest
    ) -> api.CreateTableVersionResponse:
        """Publish a staged manifest as the next version, if its number is free and its writer is
        not behind the boundary."""
        return answers.create(self._versions, self._root, request)

    @says("create versions of tables")
    def batch_create_table_versions(
        self, request: api.BatchCreateTableVersionsRequest
    ) -> api.BatchCreateTableVersionsResponse:
        """One after the other. All requests are checked before the first is carried out."""
        wanted = [answers.new_version(self._root, entry) for entry in request.entries]
        created = [self._versions.create(each) for each in wanted]
        return api.BatchCreateTableVersionsResponse(
            versions=[answers.as_version(self._root, each) for each in created]
        )

    @says("list versions of table")
    def list_table_versions(
        self, request: api.ListTableVersionsRequest
    ) -> api.ListTableVersionsResponse:
        """Versions that readers may see, oldest first unless `descending`."""
        return answers.listed(self._versions, self._root, request)

    @says("describe a version of table")
    def describe_table_version(
        self, request: api.DescribeTableVersionRequest
    ) -> api.DescribeTableVersionResponse:
        """One version, or the latest. TableVersionNotFoundError."""
        return answers.described(self._versions, self._root, request)

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
