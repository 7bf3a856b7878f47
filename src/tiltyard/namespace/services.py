"""The services of one catalog, constructed once: the only place where they are wired together."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import ClassVar, Self

from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.migration import Migration
from tiltyard.lifecycle.arbiter import Arbiters
from tiltyard.lifecycle.creation import Creation
from tiltyard.lifecycle.marker_arbiter import MarkerArbiter
from tiltyard.lifecycle.purge import Purge
from tiltyard.lifecycle.recreation import PATIENCE_MS, Files, Recreation
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
from tiltyard.maintenance.ground import Ground
from tiltyard.maintenance.inventory import Inventory
from tiltyard.maintenance.leftovers import LeftOvers
from tiltyard.maintenance.orphans import Orphans
from tiltyard.maintenance.recovery import Recovery
from tiltyard.namespace.access import CommitClients, TableAccess
from tiltyard.store import Retry
from tiltyard.tables.files import LanceFiles
from tiltyard.versions.room import TableVersions


class Services:
    """Every service of one catalog, as an attribute. Constructing them makes no request.

    A subclass may name another class for a service, or override `make_files`: the simulation does,
    to check that each step of a protocol is needed.
    """

    versions_type: ClassVar[type[TableVersions]] = TableVersions
    recreation_type: ClassVar[type[Recreation]] = Recreation
    renames_type: ClassVar[type[Renames]] = Renames
    marker_arbiter_type: ClassVar[type[MarkerArbiter]] = MarkerArbiter
    row_arbiter_type: ClassVar[type[RowArbiter]] = RowArbiter
    purge_type: ClassVar[type[Purge]] = Purge
    # How long the step of another process is waited for, before it is taken to have crashed.
    patience_ms: ClassVar[int] = PATIENCE_MS

    def __init__(self, context: CatalogContext) -> None:
        self.context = context
        self._manifest = context.manifest if context.settings.manifest_enabled else None
        self._wire_versions()
        self._wire_lifecycle()
        self._wire_recovery()
        self._wire_maintenance()

    def make_files(self) -> Files:
        """How the files of a table's versions are written and committed."""
        return LanceFiles(self.context.lance, self.context.store, self.clients.at)

    def acting_as(self, actor: str) -> Self:
        """The same services for another actor, whose name is noted with what they drop and purge.

        Nothing is opened again, and what is remembered is shared.
        """
        other = copy.copy(self)
        settings = replace(self.context.settings, actor=actor)
        other.context = replace(self.context, settings=settings)
        other.purge = other.purge_type(other.context, other.arbiters, other.trash)
        return other

    def _wire_versions(self) -> None:
        """The versions of tables, and the commits to them."""
        context, manifest = self.context, self._manifest
        store, clock, catalog = context.store, context.clock, context.catalog
        self.versions = self.versions_type(store, clock, catalog, manifest, context.retry)
        self.drifts = None if manifest is None else Drifts(store, clock, context.lance, manifest)
        self.tolerant_versions = TolerantVersions(self.versions, catalog, self.drifts)
        self.clients = CommitClients(context, self.tolerant_versions)
        self.branches = Branches(store, clock)

    def _wire_lifecycle(self) -> None:
        """How tables are created, dropped, restored, renamed and purged."""
        context = self.context
        self.files = self.make_files()
        self.recreation = self.recreation_type(context, self.files, self.patience_ms)
        self.renames = self.renames_type(context, self.recreation)
        self.arbiters = Arbiters(
            context,
            self.marker_arbiter_type(context, self.recreation, self.renames),
            self.row_arbiter_type(context, self.files, self.renames),
        )
        self.trash = TrashReader(context)
        self.lifecycle = TableLifecycle(context, self.arbiters, self.trash)
        self.purge = self.purge_type(context, self.arbiters, self.trash)
        self.creation = Creation(context, self.arbiters, self.files)
        self.writing = Writing(context, self.arbiters, self.creation, self.files)
        self.migration = Migration(context)

    def _wire_recovery(self) -> None:
        """Operations of several steps, and what ends those that a crash cut off."""
        context, manifest = self.context, self._manifest
        store, clock, catalog = context.store, context.clock, context.catalog
        self.recovery = Recovery(
            store,
            clock,
            catalog,
            manifest,
            self.versions,
            self.clients.of,
            context.settings.actor,
        )
        self.batches = Batches(store, catalog, self.versions, self.recovery)
        self.left_overs = LeftOvers(
            store,
            clock,
            context.directory,
            manifest,
            self.recreation,
            self.renames,
            self.lifecycle,
        )
        self.access = TableAccess(context, self.versions, self.clients, self.recovery)

    def _wire_maintenance(self) -> None:
        """What keeps a catalog in order."""
        context, manifest = self.context, self._manifest
        store, clock, catalog = context.store, context.clock, context.catalog
        sidecars = self.recovery.sidecars
        self.maintenance = Ground(
            store,
            context.lance,
            catalog,
            self.versions,
            context.settings,
            clock,
            Retry(attempts=10),
            self.recovery,
            self.branches,
            self.clients.of,
        )
        self.orphans = Orphans(
            store,
            clock,
            context.lance,
            catalog,
            manifest,
            sidecars,
            lists_directories=context.settings.dir_listing_enabled,
        )
        self.inventory = Inventory(store, context.lance, catalog, self.orphans, self.access.open)
        checkup = Checkup(store, self.versions, self.drifts, self.branches, self.access.open)
        self.doctor = Doctor(
            store,
            clock,
            catalog,
            context.directory,
            manifest,
            None if manifest is None else manifest.table,
            self.trash,
            sidecars,
            self.left_overs,
            self.orphans.beside,
            checkup,
        )
