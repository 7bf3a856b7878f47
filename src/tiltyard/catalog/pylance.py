"""Everything that tiltyard expects of pylance's commits, in one place.

pylance moves quickly, so what is relied on here is pinned down by tests/catalog/test_pylance.py:
a commit without retries is a strict compare-and-swap, a failed one may still have landed and is
recognised by its transaction UUID, and data files are named by random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from tiltyard import names
from tiltyard.errors import ConcurrentModificationError, translate
from tiltyard.settings import Settings
from tiltyard.store import Store

LATEST = None


@dataclass(frozen=True)
class Staged:
    """Data files that were written below a location and belong to no version yet."""

    location: str
    schema: pa.Schema
    fragments: Sequence[FragmentMetadata]

    @property
    def files(self) -> list[str]:
        return [
            f"{self.location}/data/{file.path}" for each in self.fragments for file in each.files
        ]


class LostRaceError(ConcurrentModificationError):
    """The version that we wanted to write exists and is somebody else's."""


class Lance:
    """pylance, bound to one root: its storage options and one session of shared caches."""

    def __init__(self, settings: Settings) -> None:
        self._root = settings.root
        self._options = dict(settings.storage) or None
        self._secrets = settings.secrets
        self._session = lance.Session()

    def uri(self, location: str) -> str:
        return names.uri(self._root, location)

    def open(self, location: str, version: int | str | None = LATEST) -> lance.LanceDataset:
        """Open a table at its latest version, a version number, or a tag."""
        return lance.dataset(
            self.uri(location),
            version=version,
            storage_options=self._options,
            session=self._session,
        )

    def stage(self, location: str, data: pa.Table | pa.RecordBatchReader) -> Staged:
        """Write data files under fresh random names. Nothing refers to them yet."""
        try:
            fragments = write_fragments(
                data,
                self.uri(location),
                mode="overwrite",  # "create" would look for a table first, and refuse ours
                enable_stable_row_ids=True,
                storage_options=self._options,
                session=self._session,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise translate(error, f"write the data of {location}", self._secrets) from error
        return Staged(location, data.schema, fragments)

    def commit(self, staged: Staged, base: int, properties: dict[str, str] | None = None) -> int:
        """Make the staged files version `base + 1` of the table, or nothing.

        A strict compare-and-swap: it never rebases, so LostRaceError means that version `base + 1`
        is another's. Any other error leaves it open whether the commit landed.
        """
        operation = lance.LanceOperation.Overwrite(staged.schema, staged.fragments)
        transaction = lance.Transaction(base, operation, transaction_properties=properties or {})
        try:
            return lance.LanceDataset.commit(
                self.uri(staged.location),
                transaction,
                storage_options=self._options,
                max_retries=0,
                enable_v2_manifest_paths=True,
                enable_stable_row_ids=True,
            ).version
        except (OSError, ValueError, RuntimeError) as error:
            return self._settle(staged.location, base + 1, transaction.uuid, error)

    def _settle(self, location: str, version: int, uuid: str, error: Exception) -> int:
        """Find out whose the version is. Only another's proves that ours can't come any more."""
        try:
            landed = self.open(location, version).read_transaction(version)
        except (OSError, ValueError, RuntimeError):
            raise translate(error, f"commit version {version} of {location}", self._secrets) from error
        if landed is not None and landed.uuid == uuid:
            return version
        raise LostRaceError(f"version {version} of {location} was written by another process") from error


def discard(store: Store, staged: Staged) -> None:
    """Remove staged files that no version can come to refer to. Their names are only ours."""
    store.delete_many(staged.files)
