"""Writing a Lance directory that belongs to no catalog, by Lance's own commit.

Such a write is not fenced: it does not notice that the directory was dropped or purged meanwhile.
Its commit is strict all the same, and an overwrite never wins over a newer append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from tiltyard.catalog import version_files
from tiltyard.catalog.pylance import Lance, LostRaceError
from tiltyard.clock import SYSTEM_CLOCK
from tiltyard.errors import ConcurrentModificationError, TableAlreadyExistsError
from tiltyard.lifecycle.writing import AGAIN, WriteMode
from tiltyard.settings import STORAGE_PREFIX, Settings
from tiltyard.store import open_store
from tiltyard.tables import fragments as written_fragments
from tiltyard.tables.files import LanceFiles
from tiltyard.tables.fragments import Written


@dataclass(frozen=True, slots=True)
class PendingPathWrite:
    """A write to a path that has begun. It is sent to executors, as a `PendingWrite` is."""

    uri: str
    mode: WriteMode
    read_version: int
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: Any = None
    evolves: bool = False

    @property
    def base_version(self) -> int:
        return self.read_version

    @property
    def replaces(self) -> bool:
        return self.mode is WriteMode.OVERWRITE or not self.read_version or self.evolves

    @property
    def is_done(self) -> bool:
        return self.mode is WriteMode.EXIST_OK and self.read_version > 0


class PathTable:
    """One Lance directory, with the three steps of a write that a catalog has too."""

    def __init__(self, path: str, storage: Mapping[str, str]) -> None:
        parent, _, name = path.rstrip("/").rpartition("/")
        self._uri = path
        self._location = unquote(name) if "://" in path else name
        properties = {f"{STORAGE_PREFIX}{key}": value for key, value in storage.items()}
        self._settings = Settings.from_properties({"root": parent or "/", **properties})
        self._store = open_store(self._settings)
        self._lance = Lance(self._settings)
        self._files = LanceFiles(self._lance, self._store)

    def begin(self, mode: WriteMode) -> PendingPathWrite:
        newest = version_files.latest(self._store, self._location)
        version = newest.version if newest else 0
        if version and mode is WriteMode.CREATE:
            raise TableAlreadyExistsError(f"there is a table at '{self._uri}' already")
        schema = self._lance.open(self._location, version).schema if version else None
        uri = self._lance.uri(self._location)
        return PendingPathWrite(uri, mode, version, dict(self._settings.storage), schema)

    def finish(
        self,
        pending: PendingPathWrite,
        fragments: Sequence[str],
        schema: pa.Schema,
        *,
        transaction_properties: Mapping[str, str] | None = None,
        expected_version: int | None = None,
    ) -> int:
        rows = Written(
            self._location, schema, fragments, transaction_properties, evolves=pending.evolves
        )
        nonce = SYSTEM_CLOCK.token(12)
        try:
            if pending.replaces and not pending.evolves:
                base = expected_version or pending.read_version
                staged = self._files.stage(self._location, rows, base)
                return self._files.commit(staged, nonce)
            return self._files.append(
                self._location, rows, pending.read_version, nonce, expected_version
            )
        except LostRaceError as lost:
            raise ConcurrentModificationError(
                f"the table at '{self._uri}' was changed since version {pending.read_version}",
                hint=AGAIN,
            ) from lost

    def abandon(self, pending: PendingPathWrite, fragments: Sequence[str]) -> bool:
        files = written_fragments.file_names(fragments)
        return written_fragments.abandon(
            self._lance, self._store, self._location, pending.read_version, files
        )

    def sweep(
        self, pending: PendingPathWrite, fragments: Sequence[str], *, close: bool = False
    ) -> int:
        """Nothing to remove: files of a directory without a catalog are not noted."""
        return 0
