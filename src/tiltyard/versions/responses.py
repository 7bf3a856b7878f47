"""What the specification's operations on versions ask, and the responses to them.

`DirectoryNamespace` and the client of our own commits respond alike; both ask `TableVersions`.
"""

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
from tiltyard.paging import numbered_page
from tiltyard.versions.base import NewVersion
from tiltyard.versions.table_versions import TableVersions


def create(
    versions: TableVersions, root: str, request: api.CreateTableVersionRequest
) -> api.CreateTableVersionResponse:
    created = versions.create(new_version(root, request))
    return api.CreateTableVersionResponse(version=table_version(root, created))


def list_versions(
    versions: TableVersions, root: str, request: api.ListTableVersionsRequest
) -> api.ListTableVersionsResponse:
    identifier = names.parse_table_id(request.id)
    newest_only = request.descending and request.limit == 1 and request.page_token is None
    if newest_only:  # what Lance asks for whenever it opens a table
        newest = versions.latest(identifier, request.branch)
        files: Sequence[VersionFile] = [newest] if newest else []
    else:
        files = versions.visible(identifier, request.branch)
    page, token = numbered_page(
        files,
        lambda file: file.version,
        request.page_token,
        request.limit,
        descending=bool(request.descending),
    )
    return api.ListTableVersionsResponse(
        versions=[table_version(root, file) for file in page],
        page_token=None if newest_only else token,
    )


def describe(
    versions: TableVersions, root: str, request: api.DescribeTableVersionRequest
) -> api.DescribeTableVersionResponse:
    identifier = names.parse_table_id(request.id)
    file = versions.describe(identifier, request.version, request.branch)
    return api.DescribeTableVersionResponse(version=table_version(root, file))


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


def table_version(root: str, file: VersionFile) -> TableVersion:
    return TableVersion(
        version=file.version,
        manifest_path=names.store_path(root, file.key),
        manifest_size=file.size,
        e_tag=file.e_tag,
        timestamp_millis=file.modified_ms,
    )
