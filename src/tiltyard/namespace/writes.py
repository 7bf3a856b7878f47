"""`catalog.writes`: writes in two steps, the files by any number of processes and one commit.

pending = catalog.writes.begin(["prod", "users"], "append")
fragments = fragments_of_every_process(pending)  # tiltyard.tables.fragments.write, anywhere
catalog.writes.finish(pending, fragments, schema)

Source files can be loaded so that each is loaded once: see `tables.ledger`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from tiltyard.catalog import names
from tiltyard.catalog.pylance import discard
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.lifecycle.creation import Created
from tiltyard.lifecycle.writing import PendingWrite, WriteMode
from tiltyard.namespace.access import NoDataYetError
from tiltyard.namespace.base import OperationGroup, choice, operation
from tiltyard.store import NotThere
from tiltyard.tables import describe, ledger
from tiltyard.tables.fragments import Written, abandon, file_names
from tiltyard.tables.ipc import check_schema
from tiltyard.tables.ledger import Ledger, Loaded
from tiltyard.tables.rewrites import Rewrite

# Says that a write was given up; no data file has such a name.
CLOSED = "closed"
# How often a load looks again after others committed to the table first.
LOAD_TRIES = 100


class Writes(OperationGroup):
    """Writing rows in two steps, and loading source files."""

    @operation("begin to write table")
    def begin(
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
        self.services.access.before_write([identifier])
        pending = self.services.writing.begin(identifier, wanted, properties or {})
        schema = None
        if pending.read_version:
            at = describe.At(pending.read_version)
            schema = self.services.access.open(pending.table, at).schema
        return replace(
            pending,
            uri=self.services.access.uri(pending.table),
            storage_options=dict(self.context.settings.storage),
            schema=schema,
        )

    @operation("finish writing table")
    def finish(
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
        self.services.access.before_write([pending.table.id])
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
                lambda: self.services.writing.finish(
                    pending, written, expected_version=expected_version
                ),
            )
        except TiltyardError:
            if not written.is_staged:  # no commit was tried, and none will be
                discard(self.context.store, written.files)
            raise

    @operation("rewrite rows of table")
    def rewrite(self, pending: PendingWrite, rewrite: Rewrite) -> Created:
        """Make the one commit of a rewrite: of `tables.rewrites.delete_rows` and new fragments.

        ConcurrentModificationError if another touched the same rows first, or, for a merge, any.
        """
        self.services.access.before_write([pending.table.id])
        return self._fenced(pending, lambda: self.services.writing.rewrite(pending, rewrite))

    def _fenced(self, pending: PendingWrite, commit: Callable[[], Created]) -> Created:
        """A commit between the two looks at the table's boundary. See `versions.file_versions`."""
        if not pending.read_version:
            return commit()
        self.services.versions.check_base(pending.table, pending.read_version)
        created = commit()
        self.services.versions.check_landed(created.table, created.version)
        return created

    @operation("abandon writing table")
    def abandon(self, pending: PendingWrite, fragments: Sequence[str]) -> bool:
        """Remove files that only this write can have made, unless a commit has them, or may have.

        Safe to call after a `finish` that failed, whatever became of its commit. Whether the
        files are gone is returned.
        """
        return self._abandon(pending, file_names(fragments))

    # -- files of processes that were killed, or came too late

    def note_file(self, pending: PendingWrite, name: str) -> None:
        """Note that a data file is complete, wherever it was written. One request."""
        self.context.store.put_many({f"{names.WRITES}/{pending.token}/{name}": b""})

    def sweep(self, pending: PendingWrite, fragments: Sequence[str], *, close: bool = False) -> int:
        """Remove the files that were noted and are not in `fragments`: of tasks that were killed,
        or came second. How many is returned.

        With `close` whoever is still writing can see that it is for nothing: files are noted
        before `is_closed` is asked, and closed before they are listed, so one of both sees the
        other. What says so stays, until orphans are removed.
        """
        folder = f"{names.WRITES}/{pending.token}"
        if close:
            self.context.store.put_many({f"{folder}/{CLOSED}": b""})
        noted = [entry for entry in self.context.store.list(folder).objects if entry.name != CLOSED]
        stray = {entry.name for entry in noted} - file_names(fragments)
        gone = self._abandon(pending, stray)
        self.context.store.delete_many(entry.key for entry in noted)
        return len(stray) if gone else 0

    def is_closed(self, pending: PendingWrite) -> bool:
        """Whether a write was given up, so that nothing will be done with its files."""
        try:
            self.context.store.head(f"{names.WRITES}/{pending.token}/{CLOSED}")
        except NotThere:
            return False
        return True

    # -- loading source files, each of them once

    @operation("tell what was loaded into table")
    def loaded_files(self, id: Sequence[str]) -> Ledger:
        """The source files whose rows the latest version of a table has had loaded into it."""
        table = self.services.access.find(id)
        if self.context.catalog.is_only_declared(table):
            raise NoDataYetError(f"table {names.display(table.id)} holds no data yet")
        dataset = self.services.access.open(table)
        metadata = dataset.schema.metadata or {}
        return ledger.read(self.context.store, table.location, dataset.version, metadata)

    @operation("load files into table")
    def finish_load(
        self,
        pending: PendingWrite,
        fragments: Sequence[str],
        schema: pa.Schema,
        files: Sequence[Loaded],
    ) -> Created | None:
        """Make one commit of the rows of source files, which notes that they are loaded.

        None if another has loaded one of them meanwhile: then nothing is committed, and the data
        files are there to be abandoned. Others may commit to the table first; it is looked at again
        then, and ConcurrentModificationError says that they did so too often.
        """
        for _ in range(LOAD_TRIES):
            known = self.loaded_files(pending.id)
            if any(map(known.has, files)):
                return None
            name = self.context.clock.token(32)
            notes = ledger.write(self.context.store, pending.table.location, known, files, name)
            try:
                return self.finish(
                    replace(pending, notes=notes),
                    fragments,
                    schema,
                    transaction_properties=notes,
                    expected_version=known.version,
                )
            except ConcurrentModificationError:
                if self.loaded_files(pending.id).version == known.version:
                    raise  # it was not another commit that came first
        raise ConcurrentModificationError(
            f"others committed to table {names.display(pending.id)} first, {LOAD_TRIES} times",
            hint="run the load again: no file is lost, and none will come twice",
        )

    def _abandon(self, pending: PendingWrite, files: set[str]) -> bool:
        location = pending.table.location
        return abandon(
            self.context.lance, self.context.store, location, pending.read_version, files
        )
