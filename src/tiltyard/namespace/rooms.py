"""The rooms behind the front door, opened and introduced to each other. Nothing is written here."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import lance_namespace as api

from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.migration import Migration
from tiltyard.lifecycle.arbiter import Arbiters
from tiltyard.lifecycle.creation import Creation
from tiltyard.lifecycle.marker_arbiter import MarkerArbiter
from tiltyard.lifecycle.purge import Purge
from tiltyard.lifecycle.recreation import Recreation
from tiltyard.lifecycle.renames import Renames
from tiltyard.lifecycle.row_arbiter import RowArbiter
from tiltyard.lifecycle.tables import TableLifecycle
from tiltyard.lifecycle.trash import TrashReader
from tiltyard.lifecycle.writing import Writing
from tiltyard.maintenance.batches import Batches
from tiltyard.maintenance.branches import Branches
from tiltyard.maintenance.checkup import Checkup
from tiltyard.maintenance.doctor import Doctor
from tiltyard.maintenance.drift import Drifts, TolerantVersions
from tiltyard.maintenance.leftovers import LeftOvers
from tiltyard.maintenance.orphans import Orphans
from tiltyard.maintenance.recovery import Recovery
from tiltyard.names import TableId
from tiltyard.settings import Settings
from tiltyard.store import Retry
from tiltyard.tables import describe
from tiltyard.tables.files import LanceFiles
from tiltyard.versions.client import CommitClient
from tiltyard.versions.room import TableVersions

if TYPE_CHECKING:
    import lance


class Rooms(api.LanceNamespace):
    """What every family of operations stands on."""

    def __init__(self, context: CatalogContext | None = None, /, **properties: Any) -> None:
        """A `context` of one's own takes the place of one that the properties would open."""
        self.context = context or CatalogContext.open(Settings.from_properties(properties))
        self._settings = self.context.settings
        self._clock = self.context.clock
        self._store = self.context.store
        self._lance = self.context.lance
        self._directory = self.context.directory
        self._manifest = self.context.manifest if self._settings.manifest_enabled else None
        self._catalog = self.context.catalog
        self._migration = Migration(self._store, self._clock, self._directory, self._manifest)
        self._open_lives()
        self._open_versions()
        self._open_health()

    def _open_lives(self) -> None:
        """How tables come, go and come back."""
        context = self.context
        files = LanceFiles(self._lance, self._store, self._door_of)
        self._recreation = Recreation(context, files)
        self._renames = Renames(context, self._recreation)
        self._arbiters = Arbiters(
            context,
            MarkerArbiter(context, self._recreation, self._renames),
            RowArbiter(context, files, self._renames),
        )
        self._trash = TrashReader(context)
        self._lifecycle = TableLifecycle(context, self._arbiters, self._trash)
        self._purge = Purge(context, self._arbiters, self._trash)
        self._creation = Creation(context, self._arbiters, files)
        self._writing = Writing(context, self._arbiters, self._creation, files)

    def acting_as(self, actor: str) -> Self:
        """The same catalog through the same rooms, for what somebody else asks for: their name is
        noted with what they drop and purge. Nothing is opened anew."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._settings = replace(self._settings, actor=actor)
        context = replace(self.context, settings=other._settings)
        other._purge = Purge(context, self._arbiters, self._trash)
        return other

    def _open_versions(self) -> None:
        """The versions of tables, and what ends a change of several that a crash cut off."""
        store, clock, catalog, manifest = self._store, self._clock, self._catalog, self._manifest
        self._versions = TableVersions(store, clock, catalog, manifest, Retry())
        self._drifts = None if manifest is None else Drifts(store, clock, self._lance, manifest)
        self._for_writers = TolerantVersions(self._versions, catalog, self._drifts)
        self._recovery = Recovery(
            store, clock, catalog, manifest, self._versions, self._client, self._settings.actor
        )
        self._batches = Batches(store, catalog, self._versions, self._recovery)
        self._branches = Branches(store, clock)

    def _open_health(self) -> None:
        """What looks after a catalog."""
        store, clock, catalog, manifest = self._store, self._clock, self._catalog, self._manifest
        sidecars = self._recovery.sidecars
        self._left_overs = LeftOvers(
            store,
            clock,
            self._directory,
            manifest,
            self._recreation,
            self._renames,
            self._lifecycle,
        )
        self._orphans = Orphans(
            store,
            clock,
            self._lance,
            catalog,
            manifest,
            sidecars,
            lists_directories=self._settings.dir_listing_enabled,
        )
        self._doctor = Doctor(
            store,
            clock,
            catalog,
            self._directory,
            manifest,
            None if manifest is None else manifest.table,
            self._trash,
            sidecars,
            self._left_overs,
            self._orphans.beside,
            Checkup(store, self._versions, self._drifts, self._branches, self._open),
        )

    def __repr__(self) -> str:
        return self.namespace_id()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.as_properties())

    def as_properties(self) -> dict[str, str]:
        """What another process needs to open the same catalog."""
        return self._settings.as_properties()

    def namespace_id(self) -> str:
        """Equal for equal settings; never shows a credential."""
        modes = [
            name
            for name, on in (
                ("manifest", self._settings.manifest_enabled),
                ("directory", self._settings.dir_listing_enabled),
            )
            if on
        ]
        root = self._settings.root
        return f'tiltyard.DirectoryNamespace {{ root: "{root}", mode: "{"+".join(modes)}" }}'

    @property
    def _root(self) -> str:
        return self._settings.root

    def _open(self, table: Table, at: describe.At = describe.LATEST) -> lance.LanceDataset:
        """A table to read, at the version that is meant: where its rows say, or its files do."""
        if not table.managed or table.arriving:
            return describe.open_at(self._lance, table, at)
        shown = functools.cache(
            lambda: frozenset(each.version for each in self._versions.visible(table.id))
        )
        return describe.open_at(
            self._lance,
            table,
            at,
            opening=self._client(table).open,
            shows=lambda version: version in shown(),
        )

    def _open_to_change(self, table: Table, version: int | None = None) -> lance.LanceDataset:
        """A table whose commits are guarded: each arrives in the versions room, and counts if that
        says so. Lance wraps the reason of a refusal; `_changing` tells it."""
        self._before_write([table.id])
        return self._client(table).open(version)

    @contextmanager
    def _changing(self, table: Table, version: int | None = None) -> Iterator[lance.LanceDataset]:
        """A table to change, whose refused commits are raised as the errors that they are."""
        self._before_write([table.id])
        client = self._client(table)
        with client.plainly():
            yield client.open(version)

    def _before_write(self, tables: Sequence[TableId]) -> None:
        """End what crashes have left, once per client, and keep off tables where that failed."""
        if self._settings.recover_on_write:
            self._recovery.before_write(tables)

    def _door_of(self, location: str) -> CommitClient | None:
        """Where the commits at a location go, if its versions are rows."""
        if self._manifest is None or not self._manifest.known().managed:
            return None
        table = self._manifest.table_at(location)
        return self._client(table) if table is not None and table.managed else None

    def _client(self, table: Table) -> CommitClient:
        return CommitClient(table, self._for_writers, self._lance, self._root)

    def _uri(self, table: Table) -> str:
        return self._lance.uri(table.location)

    def _tracks_versions(self, table: Table) -> bool | None:
        """Whether Lance is to bring every commit to us."""
        return self._settings.table_version_tracking_enabled or table.managed or None

    def _vended(self, wanted: bool | None) -> dict[str, str] | None:
        """The caller's own storage options, if the catalog was opened to hand them out."""
        if not self._settings.vend_input_storage_options or wanted is False:
            return None
        options = dict(self._settings.storage)
        interval = self._settings.vend_input_storage_options_refresh_interval_millis
        if interval is not None:
            options["expires_at_millis"] = str(self._clock.now_ms() + interval)
        return options


def _reopen(kind: type[Rooms], properties: dict[str, str]) -> Rooms:
    return kind(**properties)
