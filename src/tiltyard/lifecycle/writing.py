"""A write in two halves: data files first, by any number of processes, then one commit.

The files lie in the table's directory before anything claims it, so at `<name>.lance` a purge that
lists meanwhile would own them. Therefore the table must be the same, before the commit and after
it, as when the write began (`TableGuard`): a purge changes its state before it deletes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tiltyard.catalog import names
from tiltyard.catalog.base import CreateTarget, Table, already_exists
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.marker import NONCE_DIGITS
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import ConcurrentModificationError, TableAlreadyExistsError
from tiltyard.lifecycle.arbiter import Arbiters
from tiltyard.lifecycle.creation import Created, Creation
from tiltyard.lifecycle.recreation import Files
from tiltyard.store import NotThere

AGAIN = "write it again"


class WriteMode(StrEnum):
    """What to do if the table exists; one that does not is created in every mode."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"
    EXIST_OK = "exist_ok"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that has begun: where its files go, and what was there. Crosses to executors.

    The `guard` has the table, or the place for one. `read_version` is 0 for a table that is to be
    created; then `schema` is None. `base_version` is the latest version in the directory, be it of
    a dropped table, and `token` a name of this write alone. A write that `evolves` brings columns
    that the table lacks. `notes` are said by the metadata of the schema from its commit on.
    `is_done` says that there is nothing to write: the mode was `exist_ok`, and the table exists.
    """

    guard: TableGuard
    exists: bool
    mode: WriteMode
    read_version: int
    base_version: int
    token: str
    evolves: bool = False
    uri: str = ""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: Any = None
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        return self.guard.table

    @property
    def id(self) -> TableId:
        return self.table.id

    @property
    def replaces(self) -> bool:
        """Whether the files number their columns anew: nothing of the version before counts."""
        return self.mode is WriteMode.OVERWRITE or not self.read_version or self.evolves

    @property
    def is_done(self) -> bool:
        return self.mode is WriteMode.EXIST_OK and self.read_version > 0


class Writing:
    """Begins and finishes writes in one catalog."""

    def __init__(
        self, context: CatalogContext, arbiters: Arbiters, creation: Creation, files: Files
    ) -> None:
        self._context = context
        self._clock = context.clock
        self._catalog = context.catalog
        self._arbiters = arbiters
        self._creation = creation
        self._files = files

    def begin(self, table: TableId, mode: WriteMode, properties: Mapping[str, str]) -> PendingWrite:
        """What finding the table takes, the marker once more, and its latest version.

        Nothing is written. The guard is taken before the version is looked for, and both before any
        file is written, so that whoever claims what is there has changed the state since.
        """
        self._context.store.require_conditions()
        target = self._catalog.create_target(table, properties)
        guard = self._arbiters.arbiter_for(target.table).guard(target)
        newest = self._catalog.latest(target.table)
        base = newest.version if newest else 0
        version = base if target.exists else 0
        if version and mode is WriteMode.CREATE:
            raise already_exists(table)
        token = self._clock.token(32)
        return PendingWrite(guard, target.exists, mode, version, base, token)

    def finish(
        self, pending: PendingWrite, rows: Any, *, expected_version: int | None = None
    ) -> Created:
        """Make the one commit. `rows` are in files already, so no try can be repeated from here.

        An overwrite is a compare-and-swap on the version that was there at the beginning. An append
        goes well with others. With `expected_version` either is a compare-and-swap on that one,
        and the files stay where they are, for another try or for `abandon`.
        """
        if pending.is_done:
            self._files.discard(self._files.stage(pending.table.location, rows, 0))
            return Created(pending.table, pending.read_version)
        if not pending.read_version:
            return self._create(pending, rows)
        pending.guard.require_same(self._context)
        if pending.mode is WriteMode.OVERWRITE:
            version = self._overwrite(pending, rows, expected_version)
        else:
            version = self._append(pending, rows, expected_version)
        pending.guard.require_same(self._context)  # Guard C
        return Created(pending.table, version)

    def rewrite(self, pending: PendingWrite, rewrite: Any) -> Created:
        """Make the one commit of rows that go, and others that come instead.

        Nothing is removed if it is refused: the files are noted, and swept by whoever wrote them.
        """
        pending.guard.require_same(self._context)
        try:
            version = self._files.rewrite(
                pending.table.location,
                rewrite,
                pending.read_version,
                self._clock.token(NONCE_DIGITS),
            )
        except (NotThere, LostRaceError) as lost:
            raise self._changed(pending) from lost
        pending.guard.require_same(self._context)  # Guard C
        return Created(pending.table, version)

    def _create(self, pending: PendingWrite, rows: Any) -> Created:
        target = CreateTarget(pending.table, pending.exists)
        try:
            return self._creation.create_at(target, rows, pending.guard)
        except TableAlreadyExistsError as lost:
            if pending.mode is WriteMode.CREATE:
                raise
            winner = self._catalog.holder(pending.id)
            if pending.mode is WriteMode.EXIST_OK and winner is not None:
                newest = self._catalog.latest(winner)
                return Created(winner, newest.version if newest else 0)
            raise ConcurrentModificationError(
                f"table {names.display(pending.id)} was created by another meanwhile", hint=AGAIN
            ) from lost

    def _overwrite(self, pending: PendingWrite, rows: Any, expected_version: int | None) -> int:
        base = expected_version or pending.read_version
        try:
            staged = self._files.stage(pending.table.location, rows, base)
        except NotThere as gone:
            raise self._changed(pending) from gone
        try:
            return self._files.commit(staged, self._clock.token(NONCE_DIGITS))
        except LostRaceError as lost:
            if expected_version is None:
                self._files.discard(staged)
            raise self._changed(pending) from lost

    def _append(self, pending: PendingWrite, rows: Any, expected_version: int | None) -> int:
        try:
            return self._files.append(
                pending.table.location,
                rows,
                pending.read_version,
                self._clock.token(NONCE_DIGITS),
                expected_version,
            )
        except (NotThere, LostRaceError) as lost:
            raise self._changed(pending) from lost

    def _changed(self, pending: PendingWrite) -> ConcurrentModificationError:
        return ConcurrentModificationError(
            f"table {names.display(pending.id)} was changed since version {pending.read_version}",
            hint="look at what came since, and " + AGAIN,
        )
