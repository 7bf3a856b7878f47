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
from lance_namespace_urllib3_client.models.version_range import VersionRange

from tiltyard import names
from tiltyard.catalog.version_files import Naming, VersionFile
from tiltyard.errors import InvalidInputError
from tiltyard.paging import numbered_page
from tiltyard.versions.base import NewVersion, VersionSpan
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


def version_span(wanted: VersionRange) -> VersionSpan:
    """A range of the specification: its start belongs to it, its end does not. A start of 0 is the
    first version, an end of -1 is after the latest."""
    start, end = wanted.start_version, wanted.end_version
    if start < 0 or (end != -1 and end < start):
        raise InvalidInputError(
            f"{start} to {end} is not a range of versions",
            hint="the end is not part of it; 0 starts at the first, -1 ends with the latest",
        )
    return start or None, None if end == -1 else end - 1


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
