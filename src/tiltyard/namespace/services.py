"""The services of one catalog, constructed once: the only place where they are wired together."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import ClassVar, Self

from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.migration import Migration
from tiltyard.lifecycle.creation import Creation
from tiltyard.lifecycle.files import Files
from tiltyard.lifecycle.marker_purge import MarkerPurge
from tiltyard.lifecycle.markers import Markers
from tiltyard.lifecycle.moves import Moves
from tiltyard.lifecycle.purge import Purge
from tiltyard.lifecycle.recreation import PATIENCE_MS, Recreation
from tiltyard.lifecycle.registration import Registrar
from tiltyard.lifecycle.tables import TableLifecycle
from tiltyard.lifecycle.writing import Writing
from tiltyard.maintenance.batch_commits import BatchCommits
from tiltyard.maintenance.catalog_orphans import Adoption
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.doctor import Doctor
from tiltyard.maintenance.inventory import Inventory
from tiltyard.maintenance.orphans import Orphans
from tiltyard.maintenance.recovery import Recovery
from tiltyard.maintenance.unfinished import UnfinishedOperations
from tiltyard.namespace.access import CommitClients, TableAccess
from tiltyard.tables.files import LanceFiles
from tiltyard.versions.branches import Branches
from tiltyard.versions.references import References
from tiltyard.versions.table_versions import TableVersions


class Services:
    """Every service of one catalog, as an attribute. Constructing them makes no request.

    A subclass may name another class for a service, or override `make_files`: the simulation does,
    to check that each step of a protocol is needed.
    """

    versions_type: ClassVar[type[TableVersions]] = TableVersions
    recreation_type: ClassVar[type[Recreation]] = Recreation
    markers_type: ClassVar[type[Markers]] = Markers
    moves_type: ClassVar[type[Moves]] = Moves
    registrar_type: ClassVar[type[Registrar]] = Registrar
    lifecycle_type: ClassVar[type[TableLifecycle]] = TableLifecycle
    marker_purge_type: ClassVar[type[MarkerPurge]] = MarkerPurge
    purge_type: ClassVar[type[Purge]] = Purge
    creation_type: ClassVar[type[Creation]] = Creation
    writing_type: ClassVar[type[Writing]] = Writing
    # How long the step of another process is waited for, before it is taken to have crashed.
    patience_ms: ClassVar[int] = PATIENCE_MS

    def __init__(self, context: CatalogContext) -> None:
        self.context = context
        self._manifest = context.manifest if context.settings.manifest_enabled else None
        self._wire_versions()
        self._wire_lifecycle()
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
        other.purge = other._make_purge()
        return other

    def _wire_versions(self) -> None:
        """The versions of tables, and the commits to them."""
        self.versions = self.versions_type(self.context)
        self.clients = CommitClients(self.context, self.versions)
        self.branches = Branches(self.context)

    def _wire_lifecycle(self) -> None:
        """How tables are created, dropped, restored, renamed and purged."""
        context, manifest = self.context, self._manifest
        store, clock, catalog = context.store, context.clock, context.catalog
        self.files = self.make_files()
        self.recreation = self.recreation_type(store, clock, self.files, self.patience_ms)
        self.markers = self.markers_type(store, clock, self.recreation)
        self.moves = None if manifest is None else self.moves_type(store, clock, manifest)
        self.registrar = self.registrar_type(
            store,
            catalog,
            context.directory,
            manifest,
            self.markers,
            self.moves,
            lists_directories=context.settings.dir_listing_enabled,
        )
        self.lifecycle = self.lifecycle_type(
            store, clock, catalog, context.directory, manifest, self.markers, self.registrar
        )
        self.marker_purge = self.marker_purge_type(store, clock, self.recreation)
        self.purge = self._make_purge()
        self.creation = self.creation_type(
            store, clock, catalog, self.files, self.recreation, self.markers, context.retry
        )
        self.writing = self.writing_type(
            store, clock, catalog, self.files, self.recreation, self.creation
        )
        self.migration = Migration(context)

    def _make_purge(self) -> Purge:
        return self.purge_type(
            self.context.store,
            self.context.clock,
            self.lifecycle.bin,
            self.marker_purge,
            self._manifest,
            self.moves,
            self.context.settings.actor,
        )

    def _wire_maintenance(self) -> None:
        """What ends operations that a crash interrupted, and maintains tables and the catalog."""
        context = self.context
        self.recovery = Recovery(context, self.versions, self.clients.of)
        self.access = TableAccess(context, self.versions, self.clients, self.recovery)
        self.references = References(context, self.versions, self.branches, self.access)
        self.maintenance = MaintenanceContext(
            context,
            self.versions,
            self.recovery,
            self.branches,
            self.clients.of,
            self.access.open,
        )
        self.batches = BatchCommits(self.maintenance)
        self.unfinished = UnfinishedOperations(
            context,
            self.recreation,
            self.moves_type(context.store, context.clock, context.manifest),
            self.registrar,
        )
        self.orphans = Orphans(self.maintenance)
        self.adoption = Adoption(context, self.markers)
        self.inventory = Inventory(self.maintenance, self.orphans)
        self.doctor = Doctor(self.maintenance, self.lifecycle.bin, self.unfinished)
