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
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.doctor import Doctor
from tiltyard.maintenance.inventory import Inventory
from tiltyard.maintenance.orphans import Orphans
from tiltyard.maintenance.recovery import BatchCommits, Recovery
from tiltyard.maintenance.unfinished import UnfinishedOperations
from tiltyard.namespace.access import CommitClients, TableAccess
from tiltyard.tables.files import LanceFiles
from tiltyard.versions.branches import Branches
from tiltyard.versions.file_versions import FileVersions
from tiltyard.versions.references import References
from tiltyard.versions.row_versions import RowVersions
from tiltyard.versions.table_versions import TableVersions


class Services:
    """Every service of one catalog, as an attribute. Constructing them makes no request.

    A subclass may name another class for a service, or override `make_files`: the simulation does,
    to check that each step of a protocol is needed.
    """

    file_versions_type: ClassVar[type[FileVersions]] = FileVersions
    row_versions_type: ClassVar[type[RowVersions]] = RowVersions
    references_type: ClassVar[type[References]] = References
    recreation_type: ClassVar[type[Recreation]] = Recreation
    renames_type: ClassVar[type[Renames]] = Renames
    marker_arbiter_type: ClassVar[type[MarkerArbiter]] = MarkerArbiter
    row_arbiter_type: ClassVar[type[RowArbiter]] = RowArbiter
    # How long the step of another process is waited for, before it is taken to have crashed.
    patience_ms: ClassVar[int] = PATIENCE_MS

    def __init__(self, context: CatalogContext) -> None:
        self.context = context
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
        other.purge = Purge(other.context, other.arbiters, other.trash)
        return other

    def _wire_versions(self) -> None:
        """The versions of tables, and the commits to them."""
        self.versions = TableVersions(self.context, self.file_versions_type, self.row_versions_type)
        self.clients = CommitClients(self.context, self.versions)
        self.branches = Branches(self.context)

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
        self.purge = Purge(context, self.arbiters, self.trash)
        self.creation = Creation(context, self.arbiters, self.files)
        self.writing = Writing(context, self.arbiters, self.creation, self.files)
        self.migration = Migration(context)

    def _wire_maintenance(self) -> None:
        """What ends operations that a crash interrupted, and maintains tables and the catalog."""
        context = self.context
        self.recovery = Recovery(context, self.versions, self.clients.of)
        self.access = TableAccess(context, self.versions, self.clients, self.recovery)
        self.references = self.references_type(context, self.versions, self.branches, self.access)
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
            context, self.recreation, self.renames, self.lifecycle
        )
        self.orphans = Orphans(self.maintenance)
        self.inventory = Inventory(self.maintenance, self.orphans)
        self.doctor = Doctor(self.maintenance, self.trash, self.unfinished)
