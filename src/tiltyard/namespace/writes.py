"""Writes in two halves: the files by any number of processes, and one commit by the first.

pending = namespace.begin_write(["prod", "users"], "append")
fragments = fragments_of_everybody(pending)  # tiltyard.tables.fragments.write, anywhere
namespace.finish_write(pending, fragments, schema)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from tiltyard import names
from tiltyard.catalog.pylance import discard
from tiltyard.errors import TiltyardError
from tiltyard.lifecycle.creation import Created
from tiltyard.lifecycle.writing import PendingWrite, WriteMode
from tiltyard.namespace.requests import choice, operation
from tiltyard.namespace.rooms import Rooms
from tiltyard.store import NotThere
from tiltyard.tables import describe
from tiltyard.tables.fragments import Written, abandon, file_names
from tiltyard.tables.ipc import check_schema
from tiltyard.tables.rewrites import Rewrite

# Says that a write was given up; no data file has such a name.
CLOSED = "closed"


class WriteOperations(Rooms):
    """Writing rows in two halves."""

    @operation("begin to write table")
    def begin_write(
        self,
        id: Sequence[str],
        mode: str | WriteMode = WriteMode.CREATE,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> PendingWrite:
        """Choose where the files go. Nothing is written yet, so a write may simply end here.

        TableAlreadyExistsError for `create` over a table that has data. `properties` are those of
        a table that the write creates.
        """
        wanted = choice(WriteMode, str(mode), "write mode")
        identifier = names.parse_table_id(id)
        self._before_write([identifier])
        pending = self._writing.begin(identifier, wanted, properties or {})
        schema = None
        if pending.read_version:
            at = describe.At(pending.read_version)
            schema = self._open(pending.table, at).schema
        return replace(
            pending,
            uri=self._uri(pending.table),
            storage_options=dict(self._settings.storage),
            schema=schema,
        )

    @operation("finish writing table")
    def finish_write(
        self,
        pending: PendingWrite,
        fragments: Sequence[str],
        schema: pa.Schema,
        *,
        transaction_properties: Mapping[str, str] | None = None,
        expected_version: int | None = None,
    ) -> Created:
        """Make the one commit, with every fragment that was written for it.

        `schema` is that of the rows. An append lets other changes of rows come first, an overwrite
        is refused if any did: ConcurrentModificationError, and its files are removed. With
        `expected_version` either is refused unless that is the latest version; then the files
        stay, to finish again or to abandon. So they do where an operation of several steps has not
        ended.
        """
        check_schema(schema)
        self._before_write([pending.table.id])
        written = Written(
            pending.table.location,
            schema,
            fragments,
            transaction_properties,
            evolves=pending.evolves,
            notes=pending.notes,
        )
        try:
            return self._fenced(
                pending,
                lambda: self._writing.finish(pending, written, expected_version=expected_version),
            )
        except TiltyardError:
            if not written.is_staged:  # no commit was tried, and none will be
                discard(self._store, written.files)
            raise

    @operation("rewrite rows of table")
    def finish_rewrite(self, pending: PendingWrite, rewrite: Rewrite) -> Created:
        """Make the one commit of a rewrite: of `tables.rewrites.delete_rows` and new fragments.

        ConcurrentModificationError if another touched the same rows first, or, for a merge, any.
        """
        self._before_write([pending.table.id])
        return self._fenced(pending, lambda: self._writing.rewrite(pending, rewrite))

    def _fenced(self, pending: PendingWrite, commit: Callable[[], Created]) -> Created:
        """A commit between the two looks at the table's boundary. See `versions.directory`."""
        if not pending.read_version:
            return commit()
        self._versions.check_base(pending.table, pending.read_version)
        created = commit()
        self._versions.check_landed(created.table, created.version)
        return created

    @operation("abandon writing table")
    def abandon_write(self, pending: PendingWrite, fragments: Sequence[str]) -> bool:
        """Remove files that only this write can have made, unless a commit has them, or may have.

        Safe to call after a `finish_write` that failed, whatever became of its commit. Whether the
        files are gone is returned.
        """
        return self._abandon(pending, file_names(fragments))

    # -- files of processes that were killed, or came too late

    def note_file(self, pending: PendingWrite, name: str) -> None:
        """Note that a data file is complete, wherever it was written. One request."""
        self._store.put_many({f"{names.WRITES}/{pending.token}/{name}": b""})

    def sweep_write(
        self, pending: PendingWrite, fragments: Sequence[str], *, close: bool = False
    ) -> int:
        """Remove the files that were noted and are not in `fragments`: of tasks that were killed,
        or came second. How many is returned.

        With `close` whoever is still writing can see that it is for nothing: files are noted
        before `is_closed` is asked, and closed before they are listed, so one of both sees the
        other. What says so stays, until orphans are removed.
        """
        folder = f"{names.WRITES}/{pending.token}"
        if close:
            self._store.put_many({f"{folder}/{CLOSED}": b""})
        noted = [each for each in self._store.list(folder).objects if each.name != CLOSED]
        stray = {each.name for each in noted} - file_names(fragments)
        gone = self._abandon(pending, stray)
        self._store.delete_many(each.key for each in noted)
        return len(stray) if gone else 0

    def is_closed(self, pending: PendingWrite) -> bool:
        """Whether a write was given up, so that nothing will be done with its files."""
        try:
            self._store.head(f"{names.WRITES}/{pending.token}/{CLOSED}")
        except NotThere:
            return False
        return True

    def _abandon(self, pending: PendingWrite, files: set[str]) -> bool:
        location = pending.table.location
        return abandon(self._lance, self._store, location, pending.read_version, files)
