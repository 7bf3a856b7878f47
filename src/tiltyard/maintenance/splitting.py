"""Optimizing a table that is too big for one process: its parts go to many, its commit to one.

The steps are for whoever spreads the work. Executing a part twice leaves files that nothing refers
to, and does no other harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.maintenance import compaction
from tiltyard.maintenance.compaction import Part, Parts, Written
from tiltyard.maintenance.ground import Ground
from tiltyard.maintenance.optimize import Optimized, OptimizeOptions, joined, measured
from tiltyard.maintenance.warnings import about
from tiltyard.names import TableId


class Splitter:
    """Compacts tables of one catalog in parts. Indexes are for the `Optimizer`."""

    def __init__(self, ground: Ground, options: OptimizeOptions | None = None) -> None:
        self._ground = ground
        self._options = options or OptimizeOptions()

    def plan(self, table: TableId) -> Parts:
        """What is to be done, from the latest version. ConcurrentModificationError for a table on
        which an operation of several steps has not ended."""
        self._ground.store.require_conditions()
        self._ground.recovery.require_uncovered([table])
        found = self._ground.find(table)
        try:
            dataset = self._ground.client(found).open()
            return compaction.parts_of(dataset, table, self._options.for_lance(dataset.config()))
        except FAILURES as error:
            doing = f"plan the compaction of table {names.display(table)}"
            raise self._ground.access.explain(error, doing) from error

    def execute(self, part: Part) -> Written:
        """Write the files of one part, from the version that was planned for."""
        found = self._ground.find(part.table)
        try:
            dataset = self._ground.client(found).open(part.version)
            return Written(part.task.execute(dataset))
        except FAILURES as error:
            doing = f"compact a part of table {names.display(part.table)}"
            raise self._ground.access.explain(error, doing) from error

    def commit(self, planned: Parts, written: Sequence[Written]) -> Optimized:
        """Make all parts one version. ConcurrentModificationError if another changed the same rows
        since: then nothing has happened, and what was written is gone."""
        found = self._ground.find(planned.table)
        client = self._ground.client(found)
        try:
            with self._ground.turn(planned.table), client.raising_refusals():
                dataset = client.open(planned.version)
                options = self._options.for_lance(dataset.config())
                files, size = measured(dataset)
                with compaction.covered(self._ground, found) as transaction:
                    dataset = compaction.commit(dataset, written, options, transaction)
        except (*FAILURES, TiltyardError) as error:
            ours = self._ground.access.explain(
                error, f"compact table {names.display(planned.table)}"
            )
            overtaken = isinstance(ours, ConcurrentModificationError)
            self.discard(planned, written, surely=overtaken and not client.in_doubt)
            raise ours from error
        row = Optimized(names.dotted(planned.table), files_before=files, bytes_before=size)
        files, size = measured(dataset)
        row = replace(row, files_after=files, bytes_after=size, version=dataset.version)
        return replace(joined(row, planned, written), warning=about(dataset))

    def discard(self, planned: Parts, written: Sequence[Written], *, surely: bool) -> None:
        """Remove what was written and not committed, as far as that is sure."""
        location = self._ground.find(planned.table).location
        files = {file for each in written for file in each.files}
        compaction.discard(self._ground, location, planned.version, files, surely=surely)
