"""The arbiter of tables at `<name>.lance`: every change is one swap of the marker `<name>.deleted`.

    absent, live, deregistered ── drop ──▶ deleted ── undrop ──▶ live
    deleted, purging ── purge ──▶ purging ──▶ purged
    deleted, purged ── create ──▶ reviving ──▶ live
    absent, live ── deregister ──▶ deregistered ── register ──▶ live

Creating is in `recreation`, renaming in `renames`. The loser of a swap has changed nothing. The row
that such a table has in the manifest is an index: it is removed after the marker hides the table,
and counts for nothing until the marker shows it. See docs/design/lifecycle.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from tiltyard.catalog import marker, names, version_files
from tiltyard.catalog.base import (
    CreateTarget,
    DropTerms,
    RegisterMode,
    Table,
    already_exists,
    no_such_table,
)
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.directory import DirectoryState, no_namespaces, no_properties, why_hidden
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.manifest.catalog import as_row
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import AllOf, Edit, IndexTable, RemoveIndex, ReplaceTable
from tiltyard.catalog.manifest.rows import check_properties
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import KeptManifest, Marker, State
from tiltyard.catalog.names import TableId
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from tiltyard.lifecycle.arbiter import CheckedRegistration, PurgeClaim, Registration
from tiltyard.lifecycle.recreation import (
    Recreation,
)
from tiltyard.lifecycle.renames import Renames
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.store import Entry, NotThere

T = TypeVar("T")


class MarkerArbiter:
    """Decides about root tables at `<name>.lance`. See `arbiter.Arbiter` for what each does."""

    def __init__(self, context: CatalogContext, recreation: Recreation, renames: Renames) -> None:
        self._store = context.store
        self._clock = context.clock
        self._retry = context.retry
        self._catalog = context.catalog
        self._directory = context.directory
        self._manifest = context.manifest
        self._lists_directories = context.settings.dir_listing_enabled
        self._recreation = recreation
        self._renames = renames

    def _swap(self, name: str, present: Marker, following: Marker) -> Marker:
        return marker.swap(self._store, name, present, following, self._clock)

    def _again(self, change: Callable[[], T]) -> T:
        """Look again after a lost swap; each time the change decides anew whether it may."""
        return self._retry.on(ConcurrentModificationError, change)

    # -- create

    def guard(self, target: CreateTarget) -> TableGuard:
        """One request."""
        present = self._recreation.decided_marker(target.table.id[0])
        allowed = (State.LIVE,) if target.exists else (State.LIVE, State.DELETED, State.PURGED)
        if present.state not in allowed:
            raise ConcurrentModificationError(
                f"table {names.display(target.table.id)} was dropped, or its state changed, at the "
                f"same time",
                hint="write it again",
            )
        return TableGuard(target.table, present.tag)

    def create(self, target: CreateTarget, rows: Any, guard: TableGuard | None) -> int:
        """The marker tells whether what was written counts, so no second look is needed."""
        return self._recreation.create(target.table.id[0], rows, guard)

    def withdraw(self, table: Table) -> None:
        terms = DropTerms(0, "tiltyard", "its name was taken while it was created")
        self._drop(table.id[0], terms, None)

    # -- drop

    def check_drop(self, table: Table) -> None:
        """Two requests."""
        self._renames.finish_return(table)
        self._droppable(table.id[0])

    def hide(self, table: Table, terms: DropTerms) -> None:
        """Five requests, whatever the size of the table."""
        self._renames.finish_return(table)
        self._drop(table.id[0], terms, table.properties)

    def drop_edit(self, table: Table, terms: DropTerms) -> Edit:
        return RemoveIndex(table.id, table.location)

    def _drop(self, name: str, terms: DropTerms, properties: Mapping[str, str] | None) -> None:
        def change() -> None:
            present, version = self._droppable(name)
            following = replace(
                present.forgotten(),
                state=State.DELETED,
                generation=self._clock.generation(),
                location=names.table_directory(name),
                deleted_at_ms=self._clock.now_ms(),
                ttl_ms=terms.ttl_ms,
                version_at_drop=version,
                reason=terms.reason,
                dropped_by=terms.by,
                properties=properties,
            )
            marker.hide_from_peers(self._store, name, self._swap(name, present, following))

        self._again(change)

    def _droppable(self, name: str) -> tuple[Marker, int | None]:
        """The marker of a table that can be dropped and its latest version, or why it can't."""
        present = self._recreation.decided_marker(name)
        newest = version_files.latest(self._store, names.table_directory(name))
        if present.state not in (State.LIVE, State.DEREGISTERED):
            raise _not_found(name, present)
        if newest is None and self._is_empty(name):
            raise _not_found(name, present)
        if present.protected:
            raise InvalidTableStateError(
                f"table '{name}' is protected", hint="unprotect it before dropping it"
            )
        return present, newest.version if newest else None

    def adopt(self, directory: str, terms: DropTerms, version: int) -> TableId:
        name = names.table_name(directory)
        if name is None:
            raise UnsupportedOperationError(
                "without a manifest only <name>.lance can be in the trash",
                hint="open the catalog with manifest_enabled=true",
            )
        owner = Draft(self._manifest.read()).owner(directory)
        if owner is not None:
            belongs = names.display(names.split_object_id(owner))
            raise InvalidTableStateError(f"'{directory}' belongs to {belongs}")
        self._drop(name, terms, None)
        return (name,)

    # -- undrop

    def undrop(self, dropped: DroppedTable, target: TableId, keep_newer: bool) -> Table:
        name = dropped.id[0]
        if target != dropped.id:
            table = Table(dropped.id, dropped.location, properties=dict(dropped.properties or {}))
            present = self._restorable(name, dropped.generation, keep_newer)
            return self._renames.hand_over(present, table, target)
        if not self._manifest.is_enabled:
            _require_no_properties(dropped.id, dropped.properties, "bring it back")
            self._undrop(name, dropped.generation, keep_newer)
            return Table(dropped.id, dropped.location)
        return self._undrop_with_index(dropped, keep_newer)

    def _undrop_with_index(self, dropped: DroppedTable, keep_newer: bool) -> Table:
        """The row counts for nothing until the marker shows the table, so that a crash loses none.

        It would replace that of a table which another process has created meanwhile.
        """
        name = dropped.id[0]
        table = Table(dropped.id, dropped.location, properties=dict(dropped.properties or {}))
        if marker.read(self._store, name).generation != dropped.generation:
            raise ConcurrentModificationError(
                f"another process changed the state of table '{name}' meanwhile"
            )
        self._manifest.submit_at([name], IndexTable(as_row(table)))
        former = self._undrop(name, dropped.generation, keep_newer)
        try:
            self._manifest.submit_at([name], IndexTable(as_row(table), keep=True))
        except (TableAlreadyExistsError, NamespaceAlreadyExistsError):
            terms = DropTerms(former.ttl_ms, former.dropped_by or "tiltyard", former.reason)
            self._drop(name, terms, former.properties)
            raise
        except InvalidInputError:  # it was renamed by another process as soon as it was shown
            pass
        return table

    def _undrop(self, name: str, generation: str, keep_newer: bool) -> Marker:
        """Show a table again. The marker that hid it is returned."""

        def change() -> Marker:
            present = self._restorable(name, generation, keep_newer)
            marker.show_to_peers(self._store, name)
            self._swap(name, present, present.forgotten())
            return present

        return self._again(change)

    def _restorable(self, name: str, generation: str, keep_newer: bool) -> Marker:
        """The marker of a table that can be brought back, or why it can't."""
        present = self._recreation.decided_marker(name)
        if present.state is not State.DELETED:
            raise _not_found(name, present)
        _require_generation(name, present, generation)
        newest = version_files.latest(self._store, names.table_directory(name))
        if newest is None and (present.version_at_drop or self._is_empty(name)):
            raise TableNotFoundError(
                f"table '{name}' can't be brought back: another client has deleted its files"
            )
        # A marker of the proposal's form does not tell at which version the table was dropped.
        tells_version = present.dropped_by is not None
        at_drop = present.version_at_drop or 0
        if (
            newest is not None
            and newest.version > at_drop
            and tells_version
            and not keep_newer
            and not self._recreation.is_only_fenced(name, at_drop, newest.version)
        ):
            raise InvalidTableStateError(
                f"table '{name}' was written to after it was dropped: it is at version "
                f"{newest.version}, and was dropped at {at_drop}",
                hint="undrop it with keep_newer to keep what was written",
            )
        return present

    # -- flags

    def hold(self, dropped: DroppedTable, held: bool) -> None:
        """Two requests."""
        name = dropped.id[0]

        def change() -> None:
            present = self._recreation.decided_marker(name)
            if present.state is not State.DELETED or present.generation != dropped.generation:
                raise _not_found(name, present)
            self._swap(name, present, replace(present, hold=held))

        self._again(change)

    def protect(self, table: Table, protected: bool) -> None:
        """Three requests."""
        self._renames.finish_return(table)

        def change() -> None:
            present = self._visible(table.id[0])
            if present.protected != protected:
                following = replace(present.forgotten(), protected=protected)
                self._swap(table.id[0], present, following)

        self._again(change)

    # -- names

    def rename(self, table: Table, target: TableId) -> Table:
        if self._catalog.holder(target) is not None:
            raise already_exists(target)
        self._renames.finish_return(table)
        state = self._directory.look(table.id)
        if not state.is_visible:
            raise no_such_table(table.id, hint=why_hidden(state))
        return self._renames.hand_over(state.marker, table, target)

    def deregister(self, table: Table) -> Table:
        """Hide a table without a time limit; it can't be purged."""
        name = table.id[0]
        self._renames.finish_return(table)

        def change() -> None:
            present = self._visible(name)
            following = replace(
                present.forgotten(),
                state=State.DEREGISTERED,
                generation=self._clock.generation(),
                properties=table.properties,
            )
            marker.hide_from_peers(self._store, name, self._swap(name, present, following))

        self._again(change)
        self._manifest.submit(RemoveIndex(table.id, table.location))
        return table

    def check_registration(self, wanted: Registration, snapshot: Snapshot) -> CheckedRegistration:
        """A directory `<name>.lance` is a name, so it can be shown again under that name only.

        Two requests, and one more if the table was renamed.
        """
        table, location = wanted.table, wanted.location
        has_rows = self._manifest.is_enabled
        if not has_rows:
            no_properties(wanted.properties)
        check_properties(wanted.properties)
        if len(table) > 1 and not has_rows:
            raise no_namespaces(table[:-1])
        if len(table) > 1 or location != names.table_directory(table[-1]):
            raise InvalidInputError(
                f"{names.display(table)} can't be registered at '{location}'",
                hint="a directory '<name>.lance' belongs to the root table of that name; "
                "register it there, and rename it",
            )
        state = self._directory.look(table)
        if state.is_empty:
            raise InvalidInputError(f"there is no Lance table at '{location}' to register")
        self._require_no_owner(state)
        if wanted.mode is RegisterMode.CREATE:
            row = snapshot.get(table[0])
            is_listed = row is not None or self._lists_directories
            if (state.is_visible and is_listed) or (row is not None and row.location != location):
                raise already_exists(table)
        if not has_rows:
            _require_no_properties(table, state.marker.properties, "register it")
            return CheckedRegistration(state.as_table(), AllOf(()), state.marker)
        placed = replace(state.as_table(), properties=dict(wanted.properties))
        is_new = wanted.mode is RegisterMode.CREATE
        edit = IndexTable(as_row(placed)) if is_new else ReplaceTable(as_row(placed))
        return CheckedRegistration(placed, edit, state.marker)

    def _require_no_owner(self, state: DirectoryState) -> None:
        """Whether a table that was renamed is still there under that name, its row can tell."""
        owner = self._renames.owner(state)
        if owner is not None and owner.id == (state.name,):
            self._renames.finish(owner)
            raise already_exists(owner.id)
        if owner is not None:
            location = names.table_directory(state.name)
            raise InvalidInputError(f"'{location}' belongs to {names.display(owner.id)} now")

    def show(self, registration: CheckedRegistration) -> None:
        """Show a table again that was deregistered, or whose rename did not arrive."""
        name, present = registration.table.id[0], registration.marker
        assert present is not None
        if present.state not in (State.LIVE, State.DEREGISTERED, State.MOVED) or present.buried:
            raise _not_found(name, present)
        marker.show_to_peers(self._store, name)
        if present.hides:
            self._swap(name, present, present.forgotten())

    # -- purge: list, claim, delete, note that nothing is left

    def claim(self, dropped: DroppedTable) -> PurgeClaim:
        """What may be deleted is listed before the claim, so that a purge which stalls and is taken
        over never touches a table that came after. Whoever claims again lists for itself."""
        return self._again(lambda: self._claim(dropped))

    def _claim(self, dropped: DroppedTable) -> PurgeClaim:
        name = dropped.id[0]
        present = self._recreation.decided_marker(name)
        if present.state not in (State.DELETED, State.PURGING):
            raise _not_found(name, present)
        _require_generation(name, present, dropped.generation)
        if present.hold:
            raise InvalidTableStateError(
                f"table '{name}' is held", hint="release it before purging it"
            )
        entries = list(self._store.walk(names.table_directory(name)))
        kept = self._last_manifest(present, entries)
        floor = max(present.floor, present.version_at_drop or 0, kept.version if kept else 0)
        following = replace(present, state=State.PURGING, floor=floor, last_manifest=kept)
        claimed = self._swap(name, present, following)
        size = sum(entry.size for entry in entries)
        return PurgeClaim(dropped, versions_last(entries), size, claimed)

    def _last_manifest(self, present: Marker, entries: list[Entry]) -> KeptManifest | None:
        """The highest version's manifest, from the listing or from an earlier claim."""
        files = [version_files.parse(entry) for entry in entries if _is_version(entry.key)]
        newest = max((file for file in files if file), key=lambda file: file.version, default=None)
        kept = present.last_manifest
        if newest is None or (kept is not None and kept.version >= newest.version):
            return kept
        try:
            body = self._store.get(newest.key).body
        except NotThere as gone:  # another purge deletes at this moment
            raise ConcurrentModificationError(f"table '{present.table}' is being purged") from gone
        return KeptManifest(newest.version, newest.key, body)

    def finish(self, claim: PurgeClaim) -> bool:
        """One request."""
        assert claim.marker is not None
        following = replace(claim.marker, state=State.PURGED, purged_at_ms=self._clock.now_ms())
        with suppress(ConcurrentModificationError):
            self._swap(claim.dropped.id[0], claim.marker, following)
            return True
        return False

    # -- what they share

    def _visible(self, name: str) -> Marker:
        """The marker of a table that can be seen. Two requests."""
        present = self._recreation.decided_marker(name)
        if present.hides or self._is_empty(name):
            raise _not_found(name, present)
        return present

    def _is_empty(self, name: str) -> bool:
        inside = self._store.list(names.table_directory(name))
        return not (inside.objects or inside.directories)


def versions_last(entries: list[Entry]) -> tuple[str, ...]:
    """While a version is left, an interrupted purge can still be seen for what it is."""
    return tuple(sorted((entry.key for entry in entries), key=_is_version))


def _is_version(key: str) -> bool:
    return f"/{names.VERSIONS_DIRECTORY}/" in key


def _not_found(name: str, present: Marker) -> TableNotFoundError:
    return no_such_table((name,), hint=marker.why_hidden(present))


def _require_generation(name: str, present: Marker, generation: str) -> None:
    if present.generation != generation:
        raise TableNotFoundError(f"table '{name}' has no generation {generation} in the trash")


def _require_no_properties(
    table: TableId, properties: Mapping[str, str] | None, instead: str
) -> None:
    """A live marker has no place for properties, and a client without a manifest no other one."""
    if properties:
        raise UnsupportedOperationError(
            f"table {names.display(table)} has properties, which directory mode would lose",
            hint=f"{instead} with manifest_enabled=true",
        )
