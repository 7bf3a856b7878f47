"""Operations on versions, tags and branches, as the specification has them."""

from __future__ import annotations

import lance_namespace as api

from tiltyard.catalog import names
from tiltyard.errors import ConcurrentModificationError
from tiltyard.namespace.access import branch_of
from tiltyard.namespace.base import CatalogBase, operation
from tiltyard.paging import page
from tiltyard.tables import refs, transactions
from tiltyard.tables.refs import Point
from tiltyard.versions import commit_client


class ReferenceOperations(CatalogBase):
    """Publishing, listing, deleting and restoring versions; tags and branches."""

    # -- versions

    @operation("create a version of table")
    def create_table_version(
        self, request: api.CreateTableVersionRequest
    ) -> api.CreateTableVersionResponse:
        """Publish a staged manifest as the next version, if its number is free and its writer is
        not behind the boundary."""
        root = self.context.settings.root
        new = commit_client.new_version(root, request)
        try:
            self.services.access.before_write([new.table])
        except ConcurrentModificationError:
            self.services.versions.note_refused(new)
            raise
        created = self.services.versions.create(new)
        return api.CreateTableVersionResponse(version=commit_client.table_version(root, created))

    @operation("create versions of tables")
    def batch_create_table_versions(
        self, request: api.BatchCreateTableVersionsRequest
    ) -> api.BatchCreateTableVersionsResponse:
        """All of them or none, also if this process dies meanwhile: `recover` ends it then.

        All requests are checked before the first is carried out.
        """
        wanted = [
            commit_client.new_version(self.context.settings.root, entry)
            for entry in request.entries
        ]
        self.services.access.before_write([version.table for version in wanted])
        created = self.services.batches.create_all(wanted)
        return api.BatchCreateTableVersionsResponse(
            versions=[
                commit_client.table_version(self.context.settings.root, file) for file in created
            ]
        )

    @operation("list versions of table")
    def list_table_versions(
        self, request: api.ListTableVersionsRequest
    ) -> api.ListTableVersionsResponse:
        """Versions that readers may see, oldest first unless `descending`."""
        return commit_client.list_versions(
            self.services.versions, self.context.settings.root, request
        )

    @operation("describe a version of table")
    def describe_table_version(
        self, request: api.DescribeTableVersionRequest
    ) -> api.DescribeTableVersionResponse:
        """One version, or the latest. TableVersionNotFoundError."""
        return commit_client.describe(self.services.versions, self.context.settings.root, request)

    @operation("delete versions of table")
    def batch_delete_table_versions(
        self,
        request: api.BatchDeleteTableVersionsRequest,
        *,
        ignore_missing: bool = True,
    ) -> api.BatchDeleteTableVersionsResponse:
        """Delete ranges of versions, each without its end. The latest, tagged ones and the bases of
        branches are refused."""
        deleted = self.services.versions.delete(
            names.parse_table_id(request.id),
            [commit_client.version_span(wanted) for wanted in request.ranges],
            branch=request.branch,
            ignore_missing=ignore_missing,
        )
        return api.BatchDeleteTableVersionsResponse(deleted_count=len(deleted))

    @operation("restore table")
    def restore_table(self, request: api.RestoreTableRequest) -> api.RestoreTableResponse:
        """Make an older version the latest one again; what came since stays in the history."""
        restored = self.services.references.restore(
            names.parse_table_id(request.id), request.version, branch_of(request.branch)
        )
        return api.RestoreTableResponse(transaction_id=transactions.of(restored))

    # -- tags

    @operation("list the tags of table")
    def list_table_tags(self, request: api.ListTableTagsRequest) -> api.ListTableTagsResponse:
        """The tags of a table, in the order of their names."""
        tags = refs.tags(self.services.access.read(self.services.access.find(request.id)))
        chosen, token = page(list(tags), request.page_token, request.limit)
        return api.ListTableTagsResponse(
            tags={name: tags[name] for name in chosen}, page_token=token
        )

    @operation("look up a tag of table")
    def get_table_tag_version(
        self, request: api.GetTableTagVersionRequest
    ) -> api.GetTableTagVersionResponse:
        """The version that a tag names. TableTagNotFoundError."""
        table = self.services.access.find(request.id)
        point = refs.tagged(self.services.access.read(table), table, request.tag)
        return api.GetTableTagVersionResponse(version=point.version, branch=point.branch)

    @operation("tag table")
    def create_table_tag(self, request: api.CreateTableTagRequest) -> api.CreateTableTagResponse:
        """Give a version a name; it is kept as long as it has one."""
        point = Point(request.version, branch_of(request.branch))
        table = names.parse_table_id(request.id)
        self.services.references.create_tag(table, request.tag, point)
        return api.CreateTableTagResponse()

    @operation("move a tag of table")
    def update_table_tag(self, request: api.UpdateTableTagRequest) -> api.UpdateTableTagResponse:
        """Let a tag name another version."""
        point = Point(request.version, branch_of(request.branch))
        table = names.parse_table_id(request.id)
        self.services.references.update_tag(table, request.tag, point)
        return api.UpdateTableTagResponse()

    @operation("delete a tag of table")
    def delete_table_tag(self, request: api.DeleteTableTagRequest) -> api.DeleteTableTagResponse:
        """Take a name away; the version stays until versions are deleted."""
        self.services.references.delete_tag(names.parse_table_id(request.id), request.tag)
        return api.DeleteTableTagResponse()

    # -- branches

    @operation("list the branches of table")
    def list_table_branches(
        self, request: api.ListTableBranchesRequest
    ) -> api.ListTableBranchesResponse:
        """The branches of a table, in the order of their names."""
        branches = refs.branches(self.services.access.read(self.services.access.find(request.id)))
        chosen, token = page(list(branches), request.page_token, request.limit)
        return api.ListTableBranchesResponse(
            branches={name: branches[name] for name in chosen}, page_token=token
        )

    @operation("create a branch of table")
    def create_table_branch(
        self, request: api.CreateTableBranchRequest
    ) -> api.CreateTableBranchResponse:
        """Let a branch grow from a version. No data is copied."""
        self.services.references.create_branch(
            names.parse_table_id(request.id),
            request.name,
            version=request.from_version,
            origin=branch_of(request.from_branch),
        )
        return api.CreateTableBranchResponse()

    @operation("delete a branch of table")
    def delete_table_branch(
        self, request: api.DeleteTableBranchRequest
    ) -> api.DeleteTableBranchResponse:
        """Remove a branch with its versions, unless a tag or another branch needs them."""
        self.services.references.delete_branch(names.parse_table_id(request.id), request.name)
        return api.DeleteTableBranchResponse()
