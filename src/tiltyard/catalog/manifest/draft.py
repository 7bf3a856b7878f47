"""Changes on top of a snapshot: what the members of one commit see of each other.

An edit checks a draft and answers with a change, or raises. A change is applied whole, so one bad
member of a group leaves no trace in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiltyard.catalog import names
from tiltyard.catalog.base import already_exists, no_such_namespace, no_such_table
from tiltyard.catalog.manifest.rows import Row, RowIdentity, trash_id
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.names import DELIMITER, NamespaceId, TableId
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    TiltyardError,
)


@dataclass(frozen=True)
class Change:
    """Ids to remove, rows to add after that, and the answer for the caller."""

    remove: tuple[str, ...] = ()
    add: tuple[Row, ...] = ()
    answer: Any = None

    @property
    def is_empty(self) -> bool:
        return not (self.remove or self.add)


class Draft:
    """A snapshot, and the changes of the edits so far."""

    def __init__(self, base: Snapshot) -> None:
        self.base = base
        self.added: dict[str, Row] = {}
        self.removed: set[str] = set()
        self._owners: dict[str, list[str]] = {}
        self._versions: dict[str, dict[int, str]] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed)

    def copy(self) -> Draft:
        twin = Draft(self.base)
        twin.added, twin.removed = dict(self.added), set(self.removed)
        twin._owners = {directory: list(ids) for directory, ids in self._owners.items()}
        twin._versions = {table: dict(ids) for table, ids in self._versions.items()}
        return twin

    def apply(self, change: Change) -> None:
        for identifier in change.remove:
            if self.added.pop(identifier, None) is None:
                self.removed.add(identifier)
        for row in change.add:
            self.added[row.object_id] = row
            if row.location:
                directory = names.top_directory(row.location)
                self._owners.setdefault(directory, []).append(row.object_id)
            if row.is_version:
                table, _, number = row.object_id.rpartition(DELIMITER)
                self._versions.setdefault(table, {})[int(number)] = row.object_id

    def get(self, identifier: str) -> Row | None:
        if identifier in self.added:
            return self.added[identifier]
        return None if identifier in self.removed else self.base.get(identifier)

    def below(self, namespace: NamespaceId) -> list[Row]:
        """Every table and namespace inside a namespace, at any depth."""
        prefix = names.object_id(namespace) + DELIMITER
        kept = [row for row in self.base.below(namespace) if row.object_id not in self.removed]
        new = [
            row
            for identifier, row in self.added.items()
            if identifier.startswith(prefix) and not row.is_version
        ]
        return kept + new

    def version_row(self, table: str, number: int) -> Row | None:
        """The row of a version of the table with this id."""
        new = self.added.get(self._versions.get(table, {}).get(number, ""))
        if new is not None:
            return new
        row = self.base.version_row(table, number)
        return None if row is None or row.object_id in self.removed else row

    def version_rows(self, table: str) -> list[tuple[int, Row]]:
        """Every version of the table with this id, in no order."""
        numbers = self.base.version_numbers(table).union(self._versions.get(table, ()))
        rows = ((number, self.version_row(table, number)) for number in numbers)
        return [(number, row) for number, row in rows if row is not None]

    def head(self, table: str) -> int:
        """The last version of a table that is a row, 0 if there is none."""
        new = self._versions.get(table, {})
        head = max((number for number, row in new.items() if row in self.added), default=0)
        last = self.base.head(table)
        if last > head and self.removed:
            numbers = self.base.version_numbers(table)
            last = max((number for number in numbers if self.version_row(table, number)), default=0)
        return max(head, last)

    def holds_any(self, namespace: NamespaceId) -> bool:
        if not self.removed:
            prefix = names.object_id(namespace) + DELIMITER
            return self.base.holds_any(namespace) or any(
                identifier.startswith(prefix) for identifier in self.added
            )
        return bool(self.below(namespace))

    def owner(self, location: str) -> str | None:
        """The id that owns a location, or one inside or around it. Locations are owned once."""
        directory = names.top_directory(location)  # overlapping locations share it
        candidates: list[str] = [
            *names.natural_owners(directory),
            *self.base.unusual_owners(directory),
            *self._owners.get(directory, ()),
        ]
        for identifier in candidates:
            row = self.get(identifier)
            if row is not None and row.location and names.overlaps(row.location, location):
                return identifier
        return None

    # -- what an edit requires

    def require_namespace(self, namespace: NamespaceId) -> Row | None:
        """The row of a namespace that must exist; the root always does and has none."""
        if not namespace:
            return None
        row = self.get(names.object_id(namespace))
        if row is None or row.is_table:
            raise no_such_namespace(namespace)
        return row

    def require_table(self, table: TableId, location: str | None = None) -> Row:
        """The row of a table that must exist, at this location if one is given."""
        row = self.get(names.object_id(table))
        if row is None or not row.is_table:
            self.require_namespace(table[:-1])
            raise no_such_table(table)
        if location is not None and row.location != location:
            raise replaced(table)
        return row

    def require_trashed(self, table: TableId, generation: str) -> Row:
        """The row of a dropped table that must exist."""
        row = self.get(trash_id(table, generation))
        if row is None:
            raise no_such_table(table, hint=f"its generation {generation} is not in the trash")
        return row

    def require_free(self, object_id: str) -> None:
        """TableAlreadyExistsError or NamespaceAlreadyExistsError if a row has the id."""
        row = self.get(object_id)
        if row is not None:
            raise taken(row)

    def require_unowned(self, row: Row) -> None:
        """Locations are owned once: else dropping one table takes another's bytes away."""
        assert row.location is not None
        owner = self.owner(row.location)
        if owner is not None and owner != row.object_id:
            raise InvalidInputError(
                f"location '{row.location}' belongs to "
                f"{names.display(names.split_object_id(owner))}"
            )

    def has(self, row: RowIdentity) -> bool:
        """Whether a row is still there, at the same location and of the same rename."""
        present = self.get(row.object_id)
        return present is not None and present.identity == row


def taken(row: Row) -> TiltyardError:
    """The object that exists names the error."""
    if row.is_table:
        return already_exists(row.id)
    return NamespaceAlreadyExistsError(f"namespace {names.display(row.id)} already exists")


def replaced(table: TableId) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"table {names.display(table)} was replaced by another of that name meanwhile"
    )
