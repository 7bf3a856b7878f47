"""The namespace through which our own commits go, so that they are guarded like everybody's.

Lance brings each commit of a table that was opened like this to `TableVersions`, whether or not the
catalog tracks the commits of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import lance
import lance_namespace as api
from pydantic import BaseModel

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES, Lance, LostRaceError
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.versions import responses
from tiltyard.versions.base import NewVersion
from tiltyard.versions.table_versions import TableVersions

Request = TypeVar("Request", bound=BaseModel)


class CommitClient(api.LanceNamespace):
    """Answers what Lance asks when it opens one table and commits to it.

    It serves the table at the location where it was found: a table of the same name that came later
    is another.
    """

    def __init__(self, table: Table, versions: TableVersions, access: Lance, root: str) -> None:
        self._table = table
        self._versions = versions
        self._lance = access
        self._root = root
        self._refusal: TiltyardError | None = None
        self._in_doubt = False

    @property
    def in_doubt(self) -> bool:
        """Whether a commit got neither a clear yes nor a clear no, and may have landed."""
        return self._in_doubt

    @property
    def table_id(self) -> TableId:
        return self._table.id

    def namespace_id(self) -> str:
        return f"tiltyard commits to {names.display(self._table.id)}"

    def open(self, version: int | str | None = None) -> lance.LanceDataset:
        """The table, at its latest version, a version number or a tag, ready to be changed."""
        return self._lance.open_through(self, self._table.id, version)

    @contextmanager
    def raising_refusals(self) -> Iterator[None]:
        """Raise the error for which a commit was refused, where Lance only tells that it was."""
        self._refusal = None
        try:
            yield
        except LostRaceError:
            raise
        except (*FAILURES, TiltyardError) as error:
            if self._refusal is not None:
                raise self._refusal from error
            raise

    # -- what Lance asks

    def describe_table(self, request: api.DescribeTableRequest) -> api.DescribeTableResponse:
        return api.DescribeTableResponse(
            location=self._lance.uri(self._table.location), managed_versioning=True
        )

    def create_table_version(
        self, request: api.CreateTableVersionRequest
    ) -> api.CreateTableVersionResponse:
        parsed = _parsed(api.CreateTableVersionRequest, request)
        new = replace(responses.new_version(self._root, parsed), location=self._table.location)
        created = self._create(new)
        return api.CreateTableVersionResponse(version=responses.table_version(self._root, created))

    def list_table_versions(
        self, request: api.ListTableVersionsRequest
    ) -> api.ListTableVersionsResponse:
        parsed = _parsed(api.ListTableVersionsRequest, request)
        return responses.list_versions(self._versions, self._root, parsed)

    def describe_table_version(
        self, request: api.DescribeTableVersionRequest
    ) -> api.DescribeTableVersionResponse:
        parsed = _parsed(api.DescribeTableVersionRequest, request)
        return responses.describe(self._versions, self._root, parsed)

    def _create(self, new: NewVersion) -> VersionFile:
        """Publish a version, and note a refusal."""
        try:
            created = self._versions.create(new)
        except ConcurrentModificationError as refusal:
            self._refusal = refusal
            raise
        except TiltyardError as refusal:
            self._refusal, self._in_doubt = refusal, True
            raise
        except BaseException:
            self._in_doubt = True
            raise
        self._refusal = None
        return created


def _parsed(model: type[Request], request: Any) -> Request:
    """Lance hands over a dict, less the keys that it has no value for."""
    return model.model_validate(request) if isinstance(request, dict) else request
