"""The twin of `ManifestTable`: the rows of the manifest as one object that is compared and swapped.

`test_register` runs the same cases against it and against the real table. A snapshot answers what
edits ask of it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from tests.simulation.requests import REGISTER, Objects
from tiltyard.catalog import names
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.rows import MOVED, Row
from tiltyard.catalog.names import DELIMITER, NamespaceId, TableId
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.clock import Clock
from tiltyard.errors import ServiceUnavailableError
from tiltyard.store import AlreadyThere, Ambiguous, Blob, Changed, NotThere, Store, Tag


class Rows:
    """All rows of one version: what a `Snapshot` is, in a dictionary."""

    def __init__(self, version: int, rows: Mapping[str, Row], tag: Tag | None) -> None:
        self.version = version
        self.rows = rows
        self.tag = tag

    @property
    def managed(self) -> bool:
        return any(row.is_managed for row in self.rows.values())

    def get(self, wanted: str) -> Row | None:
        return self.rows.get(wanted)

    def has_version_rows(self, table: TableId) -> bool:
        row = self.get(names.object_id(table))
        return row is not None and row.has_version_rows

    def version_numbers(self, table: str) -> set[int]:
        start = table + DELIMITER
        return {
            int(key.removeprefix(start))
            for key, row in self.rows.items()
            if row.is_version and key.startswith(start) and key.removeprefix(start).isdecimal()
        }

    def has_version(self, table: str, number: int) -> bool:
        return number in self.version_numbers(table)

    def version_row(self, table: str, number: int) -> Row | None:
        row = self.rows.get(f"{table}{DELIMITER}{number}")
        return row if row is not None and row.is_version else None

    def head(self, table: str) -> int:
        return max(self.version_numbers(table), default=0)

    def below(self, namespace: NamespaceId) -> list[Row]:
        prefix = names.object_id(namespace) + DELIMITER if namespace else ""
        rows = (self.rows[key] for key in sorted(self.rows) if key.startswith(prefix))
        return [row for row in rows if not row.is_version]

    def holds_any(self, namespace: NamespaceId) -> bool:
        return bool(self.below(namespace))

    def unusual_owners(self, directory: str) -> Sequence[str]:
        return [
            row.object_id
            for row in self.rows.values()
            if row.location
            and names.top_directory(row.location) == directory
            and not names.is_own_location(row.object_id, row.location)
        ]

    @property
    def taken_directories(self) -> Collection[str]:
        return {
            row.location
            for row in self.rows.values()
            if row.location
            and MOVED not in row.metadata
            and not names.is_own_location(row.object_id, row.location)
        }

    def rows_at(self, directory: str) -> list[Row]:
        return [row for row in self.rows.values() if row.location == directory]

    def last_trashed(self, object_id: str) -> Row | None:
        trashed = self.below((names.TRASH,))
        drops = [row for row in trashed if names.object_id(row.id[2:]) == object_id]
        return max(drops, key=lambda row: row.object_id, default=None)


class Register:
    """One process's view of the rows: one request to read, one to commit."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def read(self) -> Rows:
        return self.read_for_writing()

    def known(self) -> Rows:
        """The real one remembers, and may be behind. Here it is behind from the next request on."""
        return self.read()

    def last_read(self) -> tuple[Rows, Mapping[str, str]]:
        """The real one remembers. Here it costs a request, which is one order more to search."""
        return self.read(), {}

    def read_for_writing(self) -> Rows:
        try:
            return decode(self._store.get(REGISTER))
        except NotThere:
            return Rows(0, {}, None)

    def commit(self, draft: Draft) -> None:
        """A strict swap. As with the real one, an error other than LostRaceError leaves doubt."""
        base = draft.base
        assert isinstance(base, Rows)
        kept = {key: row for key, row in base.rows.items() if key not in draft.removed}
        # The token stands for the transaction's UUID: no two commits are equal.
        body = encode(base.version + 1, self._clock.token(6), {**kept, **draft.added})
        try:
            if base.tag is None:
                self._store.put_new(REGISTER, body)
            else:
                self._store.replace(REGISTER, body, base.tag)
        except (AlreadyThere, Changed, Ambiguous) as outcome:
            self._read_back(body, outcome)

    def _read_back(self, body: bytes, outcome: Exception) -> None:
        """As `catalog.pylance` does: find out whose the commit is."""
        try:
            present = self._store.get(REGISTER).body
        except NotThere:
            present = b""
        if present == body:
            return
        if isinstance(outcome, Ambiguous):
            raise ServiceUnavailableError("no clear answer for a commit") from outcome
        raise LostRaceError("another commit was first") from outcome


def encode(version: int, commit: str, rows: Mapping[str, Row]) -> bytes:
    listed = [
        [row.object_id, row.object_type, row.location, dict(sorted(row.metadata.items()))]
        for _, row in sorted(rows.items())
    ]
    return json.dumps([version, commit, listed], separators=(",", ":")).encode()


def decode(blob: Blob) -> Rows:
    version, _, listed = json.loads(blob.body)
    return Rows(version, {entry[0]: Row(*entry) for entry in listed}, blob.tag)


def rows_of(objects: Objects) -> Mapping[str, Row]:
    """What the register holds, for the oracle."""
    body = objects.get(REGISTER)
    return decode(Blob(body, Tag())).rows if body else {}
