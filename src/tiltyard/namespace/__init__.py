"""`DirectoryNamespace`, the catalog. A method checks its request, calls a service, and answers.

It is a `lance_namespace.LanceNamespace`, so pylance, lancedb and whatever else speaks that
interface use it as it is. A constructor and a read never write.
"""

from __future__ import annotations

import os
from typing import Any, Self

from tiltyard.catalog.context import CatalogContext
from tiltyard.namespace.data import DataOperations
from tiltyard.namespace.health import Health
from tiltyard.namespace.maintenance import Maintenance
from tiltyard.namespace.references import ReferenceOperations
from tiltyard.namespace.services import Services
from tiltyard.namespace.tables import TableOperations
from tiltyard.namespace.transactions import TransactionOperations
from tiltyard.namespace.trash import TrashOperations
from tiltyard.namespace.versions import Versions
from tiltyard.namespace.writes import Writes
from tiltyard.settings import Settings

__all__ = ["DirectoryNamespace", "connect"]


class DirectoryNamespace(
    TableOperations,
    TrashOperations,
    DataOperations,
    ReferenceOperations,
    TransactionOperations,
):
    """A catalog of Lance tables in one directory, on a disk or in a bucket.

    Properties are those of pylance's own DirectoryNamespace: `root`, `manifest_enabled`,
    `dir_listing_enabled`, `storage.*` and so on, as strings or as Python values.

    The operations of the Lance Namespace specification, the trash and the batches are methods.
    The others are grouped:

    - `maintenance`: optimizing tables, cleaning up versions, inventories, migration.
    - `versions`: managed versions, the history of a table, snapshots of the catalog.
    - `writes`: writing rows in two steps, the files by many processes and one commit.
    - `health`: recovery, drift, orphans, the doctor.

    `services` has what they are built on, and `context` the store, the clock and the settings.
    """

    maintenance: Maintenance
    versions: Versions
    writes: Writes
    health: Health

    def __init__(self, context: CatalogContext | None = None, /, **properties: Any) -> None:
        """A `context` takes the place of the one that the properties would open. No request."""
        self._use(Services(context or CatalogContext.open(Settings.from_properties(properties))))

    def _use(self, services: Services) -> None:
        self.context = services.context
        self.services = services
        self.maintenance = Maintenance(services)
        self.versions = Versions(services)
        self.writes = Writes(services)
        self.health = Health(services)

    def acting_as(self, actor: str) -> Self:
        """The same catalog for another actor, whose name is noted with what they drop and purge.

        Nothing is opened again.
        """
        other = object.__new__(type(self))
        other._use(self.services.acting_as(actor))
        return other

    def __repr__(self) -> str:
        return self.namespace_id()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.as_properties())

    def as_properties(self) -> dict[str, str]:
        """What another process needs to open the same catalog."""
        return self.context.settings.as_properties()

    def namespace_id(self) -> str:
        """Equal for equal settings; never shows a credential."""
        settings = self.context.settings
        modes = []
        if settings.manifest_enabled:
            modes.append("manifest")
        if settings.dir_listing_enabled:
            modes.append("directory")
        return (
            f'tiltyard.DirectoryNamespace {{ root: "{settings.root}", mode: "{"+".join(modes)}" }}'
        )


def _reopen(kind: type[DirectoryNamespace], properties: dict[str, str]) -> DirectoryNamespace:
    return kind(**properties)


def connect(root: str | os.PathLike[str], **properties: Any) -> DirectoryNamespace:
    """Open the catalog in a directory: a path, or a URI like s3://bucket/prefix.

    Properties with a dot in their name go in as a mapping: `**{"storage.region": "eu-west-1"}`.
    """
    return DirectoryNamespace(root=root, **properties)
