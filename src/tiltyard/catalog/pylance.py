"""Everything that tiltyard expects of pylance's commits, in one place.

pylance moves quickly, so what is relied on here is pinned down by tests/catalog/test_pylance.py:
a commit without retries is a strict compare-and-swap, a failed one may still have landed and is
recognised by its transaction UUID, and data files are named by random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import lance
import lance_namespace as api
import pyarrow as pa
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, write_fragments
from lance.schema import LanceSchema

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.errors import ConcurrentModificationError, TiltyardError, translate
from tiltyard.settings import Settings
from tiltyard.store import Store

T = TypeVar("T")

STORAGE_VERSION = "2.2"
MOST_ROWS_PER_FILE = 1024 * 1024
# How often Lance itself rebases a change onto commits that were first.
RETRIES = 20

# What pylance raises, for whatever reason; the functions below read the text.
FAILURES = (OSError, ValueError, RuntimeError)


def is_missing(error: BaseException) -> bool:
    """Whether pylance did not find a table, a version or a file of it."""
    return "not found" in str(error).lower()


def is_taken(error: BaseException) -> bool:
    """Whether pylance found a table where it was to create one."""
    return "already exists" in str(error)


def is_bad_input(error: BaseException) -> bool:
    """Whether pylance rejects what its caller wants: a filter, a column, a projection."""
    return isinstance(error, ValueError) and "user input" in str(error)


def is_unreadable_compaction(error: BaseException) -> bool:
    """Whether a transaction is a compaction that rewrote an index, which pylance 14 can't read."""
    return isinstance(error, TypeError) and "RewrittenIndex" in str(error)


@dataclass(frozen=True)
class Staged:
    """Data files that were written below a location and belong to no version yet."""

    location: str
    schema: pa.Schema
    fragments: Sequence[FragmentMetadata]

    @property
    def files(self) -> list[str]:
        return [
            f"{self.location}/data/{file.path}"
            for fragment in self.fragments
            for file in fragment.files
        ]


class CommitClient(Protocol):
    """A namespace that the commits of one table go to. See `versions.commit_client`."""

    @property
    def table_id(self) -> TableId:
        """The table whose commits it takes."""

    def open(self, version: int | str | None = None) -> lance.LanceDataset:
        """The table, at its latest version, a version number or a tag, ready to be changed."""

    def raising_refusals(self) -> AbstractContextManager[None]:
        """Raise the error for which a commit was refused, where Lance only tells that it was."""


class LostRaceError(ConcurrentModificationError):
    """The version that we wanted to write exists and is somebody else's."""


class Lance:
    """pylance, bound to one root: its storage options and one session of shared caches."""

    def __init__(self, settings: Settings) -> None:
        self._root = settings.root
        self._options = dict(settings.storage) or None
        self._secrets = settings.secrets
        self._session = lance.Session()  # type: ignore[attr-defined]

    def uri(self, location: str) -> str:
        return names.uri(self._root, location)

    def explain(self, error: Exception, doing: str) -> TiltyardError:
        """An error of pylance as ours, without credentials."""
        return translate(error, doing, self._secrets)

    def open(self, location: str, version: int | str | None = None) -> lance.LanceDataset:
        """Open a table at its latest version, a version number, or a tag."""
        return lance.dataset(
            self.uri(location),
            version=version,
            storage_options=self._options,
            session=self._session,
        )

    def open_through(
        self, client: api.LanceNamespace, table: TableId, version: int | str | None = None
    ) -> lance.LanceDataset:
        """Open a table by a namespace that its commits go to."""
        return lance.dataset(
            namespace_client=client,
            table_id=list(table),
            version=version,
            storage_options=self._options,
            session=self._session,
        )

    def stage(
        self,
        location: str,
        data: pa.Table,
        onto: lance.LanceDataset | None = None,
        *,
        stable_row_ids: bool = True,
        rows_per_file: int = MOST_ROWS_PER_FILE,
    ) -> Staged:
        """Write data files under fresh random names. Nothing refers to them yet.

        `onto` is the table that they are for, open; without it they are for a table that does
        not exist, and LostRaceError says that it does.
        """
        try:
            fragments = write_fragments(
                data,
                self.uri(location) if onto is None else onto,
                mode="create" if onto is None else "overwrite",
                max_rows_per_file=rows_per_file,
                data_storage_version=STORAGE_VERSION if onto is None else None,
                enable_stable_row_ids=stable_row_ids,
                storage_options=self._options,
                session=self._session if onto is None else None,  # else it has its own
            )
        except FAILURES as error:
            if onto is None and is_taken(error):
                raise LostRaceError(f"{location} was written by another process") from error
            raise self.explain(error, f"write the data of {location}") from error
        return Staged(location, data.schema, fragments)

    def commit(
        self,
        staged: Staged,
        onto: lance.LanceDataset | None = None,
        *,
        keep: Sequence[FragmentMetadata] = (),
        stable_row_ids: bool = True,
        properties: dict[str, str] | None = None,
        through: CommitClient | None = None,
    ) -> lance.LanceDataset:
        """Make the staged files, and the kept fragments, the next version of the table, or nothing.

        A strict compare-and-swap on the version that `onto` has open: it never rebases, so
        LostRaceError means that the next version is another's. Any other error leaves it open
        whether the commit landed. Two requests with `onto`, three without. The first version of a
        table whose commits go `through` a namespace is brought there; `onto` knows by itself.
        """
        base = 0 if onto is None else onto.version
        operation = lance.LanceOperation.Overwrite(staged.schema, [*keep, *staged.fragments])
        transaction = lance.Transaction(base, operation, transaction_properties=properties or {})
        try:
            return lance.LanceDataset.commit(
                self.uri(staged.location) if onto is None else onto,
                transaction,
                storage_options=self._options,
                max_retries=0,
                enable_v2_manifest_paths=True,
                enable_stable_row_ids=stable_row_ids,
                **_arguments(through if onto is None else None),
            )
        except FAILURES as error:
            return self._resolve(staged.location, base + 1, transaction.uuid, error)

    def append(
        self, staged: Staged, onto: lance.LanceDataset, *, properties: dict[str, str] | None = None
    ) -> lance.LanceDataset:
        """Add staged files to a table, after whatever goes well with the version open in `onto`.

        Other appends, deletes and index builds do, an overwrite does not: LostRaceError.
        """
        operation = lance.LanceOperation.Append(staged.fragments)
        transaction = lance.Transaction(
            onto.version, operation, transaction_properties=properties or {}
        )
        return self.commit_change(staged.location, onto, transaction)

    def append_strictly(
        self,
        staged: Staged,
        onto: lance.LanceDataset,
        schema: LanceSchema,
        properties: dict[str, str] | None = None,
    ) -> lance.LanceDataset:
        """Add staged files, and columns, to the very version open in `onto`: LostRaceError.

        A merge names every fragment of its version, so Lance rebases it over nothing that touches
        a row. It keeps the indexes, which an overwrite would not.
        """
        present = [fragment.metadata for fragment in onto.get_fragments()]
        operation = lance.LanceOperation.Merge([*present, *staged.fragments], schema)
        transaction = lance.Transaction(
            onto.version, operation, transaction_properties=properties or {}
        )
        return self.commit_change(staged.location, onto, transaction, retries=False)

    def commit_change(
        self,
        location: str,
        onto: lance.LanceDataset,
        transaction: lance.Transaction,
        *,
        retries: bool = True,
    ) -> lance.LanceDataset:
        """Commit a change of a table as far as Lance sees no conflict: LostRaceError.

        Any other error leaves it open whether the commit landed.
        """
        try:
            return lance.LanceDataset.commit(
                onto,
                transaction,
                storage_options=self._options,
                max_retries=RETRIES if retries else 0,
            )
        except FAILURES as error:
            landed = self._landed(location, onto.version, transaction.uuid)
            if landed is not None:
                return landed
            if isinstance(error, CommitConflictError):
                raise LostRaceError(f"{location} was changed by another process") from error
            raise self.explain(error, f"commit to {location}") from error

    def restore(self, dataset: lance.LanceDataset, version: int) -> lance.LanceDataset:
        """Make an older version the next one of the branch that is open.

        The commit builds on what is latest, not on the older version: that may be one of those that
        stay behind the boundary, where nobody else may build on it.
        """
        operation = lance.LanceOperation.Restore(version)
        return lance.LanceDataset.commit(dataset, lance.Transaction(dataset.version, operation))

    def _landed(self, location: str, after: int, uuid: str) -> lance.LanceDataset | None:
        """The version that a transaction made, if it can be seen now."""
        try:
            latest = self.open(location)
            for version in range(latest.version, after, -1):
                written_by = latest.read_transaction(version)
                if written_by is not None and written_by.uuid == uuid:
                    return self.open(location, version)
        except FAILURES:
            return None
        return None

    def commit_anywhere(
        self, dataset: lance.LanceDataset, transaction: lance.Transaction
    ) -> lance.LanceDataset:
        """Commit a change that goes well with any other, at whatever version is next."""
        try:
            return lance.LanceDataset.commit(dataset, transaction, storage_options=self._options)
        except FAILURES as error:
            raise self.explain(error, f"commit to {dataset.uri}") from error

    def _resolve(
        self, location: str, version: int, uuid: str, error: Exception
    ) -> lance.LanceDataset:
        """Find out whose the version is. Only another's proves that ours can't come any more."""
        try:
            landed = self.open(location, version)
            written_by = landed.read_transaction(version)
        except FAILURES:
            raise self.explain(error, f"commit version {version} of {location}") from error
        if written_by is not None and written_by.uuid == uuid:
            return landed
        raise LostRaceError(f"version {version} of {location} is another process's") from error


def in_a_thread(scan: Callable[[], T]) -> T:
    """Scan a table in a thread of ours, and wait for it.

    Lance asks a namespace in threads of its own, and a scan in one of those ends the process.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(scan).result()


def _arguments(client: CommitClient | None) -> dict[str, Any]:
    if client is None:
        return {}
    return {
        "namespace_client": client,
        "table_id": list(client.table_id),
        "namespace_client_managed_versioning": True,
    }


def discard(store: Store, staged: Staged) -> None:
    """Remove staged files that no version can come to refer to. Their names are only ours."""
    store.delete_many(staged.files)
