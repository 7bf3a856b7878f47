"""Operations on versions, tags and branches, as the specification has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import lance_namespace as api

from tiltyard import names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.errors import (
    ConcurrentModificationError,
    TableVersionNotFoundError,
    TiltyardError,
)
from tiltyard.namespace.access import branch_of
from tiltyard.namespace.base import CatalogBase, operation
from tiltyard.paging import page
from tiltyard.tables import refs, transactions
from tiltyard.tables.refs import Point
from tiltyard.versions import answers

if TYPE_CHECKING:
    import lance


class ReferenceOperations(CatalogBase):
    """Publishing, listing, deleting and restoring versions; tags and branches."""

    # -- versions

    @operation("create a version of table")
    def create_table_version(
        self, request: api.CreateTableVersionRequest
    ) -> api.CreateTableVersionResponse:
        """Publish a staged manifest as the next version, if its number is free and its writer is
        not behind the boundary."""
        try:
            self.services.access.before_write([names.parse_table_id(request.id)])
        except ConcurrentModificationError:
            self.services.versions.note_refused(
                answers.new_version(self.context.settings.root, request)
            )
            raise
        return answers.create(self.services.tolerant_versions, self.context.settings.root, request)

    @operation("create versions of tables")
    def batch_create_table_versions(
        self, request: api.BatchCreateTableVersionsRequest
    ) -> api.BatchCreateTableVersionsResponse:
        """All of them or none, also if this process dies meanwhile: `recover` ends it then.

        All requests are checked before the first is carried out.
        """
        wanted = [
            answers.new_version(self.context.settings.root, entry) for entry in request.entries
        ]
        self.services.access.before_write([each.table for each in wanted])
        created = self.services.batches.create_all(wanted)
        return api.BatchCreateTableVersionsResponse(
            versions=[answers.as_version(self.context.settings.root, each) for each in created]
        )

    @operation("list versions of table")
    def list_table_versions(
        self, request: api.ListTableVersionsRequest
    ) -> api.ListTableVersionsResponse:
        """Versions that readers may see, oldest first unless `descending`."""
        return answers.listed(self.services.versions, self.context.settings.root, request)

    @operation("describe a version of table")
    def describe_table_version(
        self, request: api.DescribeTableVersionRequest
    ) -> api.DescribeTableVersionResponse:
        """One version, or the latest. TableVersionNotFoundError."""
        return answers.described(self.services.versions, self.context.settings.root, request)

    @operation("delete versions of table")
    def batch_delete_table_versions(
        self,
        request: api.BatchDeleteTableVersionsRequest,
        *,
        ignore_missing: bool = True,
    ) -> api.BatchDeleteTableVersionsResponse:
        """Delete ranges of versions, both ends included. The latest, tagged ones and the bases of
        branches are refused."""
        deleted = self.services.versions.delete(
            names.parse_table_id(request.id),
            [(each.start_version, each.end_version) for each in request.ranges],
            branch=request.branch,
            ignore_missing=ignore_missing,
        )
        return api.BatchDeleteTableVersionsResponse(deleted_count=len(deleted))

    @operation("restore table")
    def restore_table(self, request: api.RestoreTableRequest) -> api.RestoreTableResponse:
        """Make an older version the latest one again; what came since stays in the history."""
        branch = branch_of(request.branch)
        table = self.services.access.find(request.id)
        with self.services.access.change(table, branch) as dataset:
            self.services.versions.describe(
                names.parse_table_id(request.id), request.version, branch
            )
            restored = refs.restore(dataset, request.version)
            return api.RestoreTableResponse(transaction_id=transactions.of(restored))

    # -- tags

    @operation("list the tags of table")
    def list_table_tags(self, request: api.ListTableTagsRequest) -> api.ListTableTagsResponse:
        found = refs.tags(self.services.access.read(self.services.access.find(request.id)))
        chosen, token = page(list(found), request.page_token, request.limit)
        return api.ListTableTagsResponse(
            tags={name: found[name] for name in chosen}, page_token=token
        )

    @operation("look up a tag of table")
    def get_table_tag_version(
        self, request: api.GetTableTagVersionRequest
    ) -> api.GetTableTagVersionResponse:
        table = self.services.access.find(request.id)
        point = refs.tagged(self.services.access.read(table), table, request.tag)
        return api.GetTableTagVersionResponse(version=point.version, branch=point.branch)

    @operation("tag table")
    def create_table_tag(self, request: api.CreateTableTagRequest) -> api.CreateTableTagResponse:
        """Give a version a name; it is kept as long as it has one."""
        table = self.services.access.find(request.id)
        dataset = self.services.access.read(table)
        point = Point(request.version, branch_of(request.branch))
        self._must_exist(table, point)
        refs.create_tag(dataset, table, request.tag, point)
        self._must_stay(table, point, lambda: dataset.tags.delete(request.tag))
        return api.CreateTableTagResponse()

    @operation("move a tag of table")
    def update_table_tag(self, request: api.UpdateTableTagRequest) -> api.UpdateTableTagResponse:
        """Let a tag name another version."""
        table = self.services.access.find(request.id)
        dataset = self.services.access.read(table)
        before = refs.tagged(dataset, table, request.tag)
        point = Point(request.version, branch_of(request.branch))
        self._must_exist(table, point)
        dataset.tags.update(request.tag, point.reference)
        self._must_stay(table, point, lambda: dataset.tags.update(request.tag, before.reference))
        return api.UpdateTableTagResponse()

    @operation("delete a tag of table")
    def delete_table_tag(self, request: api.DeleteTableTagRequest) -> api.DeleteTableTagResponse:
        """Take a name away; the version stays until versions are deleted."""
        table = self.services.access.find(request.id)
        dataset = self.services.access.read(table)
        refs.tagged(dataset, table, request.tag)
        dataset.tags.delete(request.tag)
        return api.DeleteTableTagResponse()

    # -- branches

    @operation("list the branches of table")
    def list_table_branches(
        self, request: api.ListTableBranchesRequest
    ) -> api.ListTableBranchesResponse:
        found = refs.branches(self.services.access.read(self.services.access.find(request.id)))
        chosen, token = page(list(found), request.page_token, request.limit)
        return api.ListTableBranchesResponse(
            branches={name: found[name] for name in chosen}, page_token=token
        )

    @operation("create a branch of table")
    def create_table_branch(
        self, request: api.CreateTableBranchRequest
    ) -> api.CreateTableBranchResponse:
        """Let a branch grow from a version. No data is copied."""
        table, origin = self.services.access.find(request.id), branch_of(request.from_branch)
        with self.services.access.change(table, origin) as dataset:
            version = request.from_version
            base = Point(dataset.version if version is None else version, origin)
            self._must_exist(table, base)
            refs.must_be_free(dataset, table, request.name)
            self.services.versions.begin_branch(table, request.name)
            self.services.branches.create(
                table,
                request.name,
                dataset,
                lambda: refs.create_branch(dataset, request.name, base),
            )
            self._must_stay(table, base, lambda: self._remove_branch(table, request.name, dataset))
        return api.CreateTableBranchResponse()

    @operation("delete a branch of table")
    def delete_table_branch(
        self, request: api.DeleteTableBranchRequest
    ) -> api.DeleteTableBranchResponse:
        """Remove a branch with its versions, unless a tag or another branch needs them."""
        table = self.services.access.find(request.id)
        self._remove_branch(table, request.name, self.services.access.read(table))
        return api.DeleteTableBranchResponse()

    def _remove_branch(self, table: Table, name: str, dataset: lance.LanceDataset) -> None:
        self.services.branches.delete(
            table, name, dataset, lambda: refs.delete_branch(dataset, table, name)
        )

    # -- what they share

    def _must_exist(self, table: Table, point: Point) -> None:
        """TableBranchNotFoundError, TableVersionNotFoundError."""
        if point.branch is not None:
            refs.must_have_branch(self.services.access.read(table), table, point.branch)
        self.services.versions.describe(table.id, point.version, point.branch)

    def _must_stay(self, table: Table, point: Point, take_back: Callable[[], None]) -> None:
        """A name counts if, after it was written, its table and its version are still there."""
        try:
            if self.context.catalog.find(table.id).location != table.location:
                raise no_such_table(table.id)
            if not self.services.versions.shows(table, point.version, point.branch):
                raise TableVersionNotFoundError(
                    f"version {point.version} of table {names.display(table.id)} was deleted "
                    f"meanwhile",
                    hint="choose another version",
                )
        except TiltyardError:
            take_back()
            raise
