"""What Lance asks about versions, in the words of the specification, and what it is told.

The front door and the client of our own commits answer alike; both ask the same room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import lance_namespace as api
from lance_namespace_urllib3_client.models.create_table_version_entry import (
    CreateTableVersionEntry,
)
from lance_namespace_urllib3_client.models.table_version import TableVersion

from tiltyard import names
from tiltyard.catalog.version_files import Naming, VersionFile
from tiltyard.errors import InvalidInputError
from tiltyard.names import TableId
from tiltyard.paging import numbered_page
from tiltyard.versions.directory import NewVersion


class Versions(Protocol):
    """The room that keeps the versions of tables."""

    def create(self, new: NewVersion) -> VersionFile:
        """Publish a staged manifest as a version, or say who was first."""

    def visible(self, table: TableId, branch: str | None = None) -> Sequence[VersionFile]:
        """Every version that readers may see, oldest first."""

    def latest(self, table: TableId, branch: str | None = None) -> VersionFile | None:
        """The latest version."""

    def describe(
        self, table: TableId, version: int | None = None, branch: str | None = None
    ) -> VersionFile:
        """One version, the latest if no number is given. TableVersionNotFoundError."""


def create(
    versions: Versions, root: str, request: api.CreateTableVersionRequest
) -> api.CreateTableVersionResponse:
    created = versions.create(new_version(root, request))
    return api.CreateTableVersionResponse(version=as_version(root, created))


def listed(
    versions: Versions, root: str, request: api.ListTableVersionsRequest
) -> api.ListTableVersionsResponse:
    identifier = names.parse_table_id(request.id)
    newest_only = request.descending and request.limit == 1 and request.page_token is None
    if newest_only:  # what Lance asks for whenever it opens a table
        newest = versions.latest(identifier, request.branch)
        found: Sequence[VersionFile] = [newest] if newest else []
    else:
        found = versions.visible(identifier, request.branch)
    chosen, token = numbered_page(
        found,
        lambda each: each.version,
        request.page_token,
        request.limit,
        descending=bool(request.descending),
    )
    return api.ListTableVersionsResponse(
        versions=[as_version(root, each) for each in chosen],
        page_token=None if newest_only else token,
    )


def described(
    versions: Versions, root: str, request: api.DescribeTableVersionRequest
) -> api.DescribeTableVersionResponse:
    identifier = names.parse_table_id(request.id)
    found = versions.describe(identifier, request.version, request.branch)
    return api.DescribeTableVersionResponse(version=as_version(root, found))


def new_version(
    root: str, request: api.CreateTableVersionRequest | CreateTableVersionEntry
) -> NewVersion:
    if request.version < 1:
        raise InvalidInputError(f"{request.version} can't be a version: the first is 1")
    return NewVersion(
        names.parse_table_id(request.id),
        request.version,
        names.from_store_path(root, request.manifest_path),
        _naming(request.naming_scheme),
        request.branch,
    )


def _naming(text: str | None) -> Naming:
    try:
        return Naming.NEWEST_FIRST if text is None else Naming(text.lower())
    except ValueError as unknown:
        raise InvalidInputError(
            f"unknown naming scheme {text!r}", hint=f"one of {', '.join(Naming)}"
        ) from unknown


def as_version(root: str, found: VersionFile) -> TableVersion:
    return TableVersion(
        version=found.version,
        manifest_path=names.store_path(root, found.key),
        manifest_size=found.size,
        e_tag=found.e_tag,
        timestamp_millis=found.modified_ms,
    )
