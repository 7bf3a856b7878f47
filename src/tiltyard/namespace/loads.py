"""Loading source files into tables, each of them once: see `tables.ledger`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tiltyard import names
from tiltyard.errors import ConcurrentModificationError
from tiltyard.lifecycle.creation import Created
from tiltyard.lifecycle.writing import PendingWrite
from tiltyard.namespace.data import NoDataYetError
from tiltyard.namespace.requests import operation
from tiltyard.namespace.writes import WriteOperations
from tiltyard.tables import ledger
from tiltyard.tables.ledger import Ledger, Loaded

# How often a load looks again after others committed to the table first.
TRIES = 100


class LoadOperations(WriteOperations):
    """What was loaded, and loading more."""

    @operation("tell what was loaded into table")
    def loaded_files(self, id: Sequence[str]) -> Ledger:
        """The source files whose rows the latest version of a table has had loaded into it."""
        table = self._catalog.find(names.parse_table_id(id))
        if self._catalog.is_only_declared(table):
            raise NoDataYetError(f"table {names.display(table.id)} holds no data yet")
        dataset = self._open(table)
        metadata = dataset.schema.metadata or {}
        return ledger.read(self._store, table.location, dataset.version, metadata)

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
        for _ in range(TRIES):
            known = self.loaded_files(pending.id)
            if any(map(known.has, files)):
                return None
            name = self._clock.token(32)
            notes = ledger.write(self._store, pending.table.location, known, files, name)
            try:
                return self.finish_write(
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
            f"others committed to table {names.display(pending.id)} first, {TRIES} times",
            hint="run the load again: no file is lost, and none will come twice",
        )
