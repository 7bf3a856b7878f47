"""DirectoryNamespace, the front door: a method checks its request, asks a room, shapes the answer.

It is a `lance_namespace.LanceNamespace`, so pylance, lancedb and whatever else speaks that
interface use it as it is. A constructor and a read never write.
"""

from __future__ import annotations

import os
from typing import Any

from tiltyard.namespace.columns import ColumnOperations
from tiltyard.namespace.health import HealthOperations
from tiltyard.namespace.indexes import IndexOperations
from tiltyard.namespace.inventories import InventoryOperations
from tiltyard.namespace.loads import LoadOperations
from tiltyard.namespace.namespaces import NamespaceOperations
from tiltyard.namespace.queries import QueryOperations
from tiltyard.namespace.refs import ReferenceOperations
from tiltyard.namespace.rows import RowOperations
from tiltyard.namespace.tables import TableOperations
from tiltyard.namespace.transactions import TransactionOperations
from tiltyard.namespace.versions import VersionOperations

__all__ = ["DirectoryNamespace", "connect"]


class DirectoryNamespace(
    TransactionOperations,
    NamespaceOperations,
    TableOperations,
    LoadOperations,
    VersionOperations,
    QueryOperations,
    RowOperations,
    ColumnOperations,
    IndexOperations,
    ReferenceOperations,
    InventoryOperations,
    HealthOperations,
):
    """A catalog of Lance tables in one directory, on a disk or in a bucket.

    Properties are those of pylance's own DirectoryNamespace: `root`, `manifest_enabled`,
    `dir_listing_enabled`, `storage.*` and so on, as strings or as Python values.
    """


def connect(root: str | os.PathLike[str], **properties: Any) -> DirectoryNamespace:
    """Open the catalog in a directory: a path, or a URI like s3://bucket/prefix.

    Properties with a dot in their name go in as a mapping: `**{"storage.region": "eu-west-1"}`.
    """
    return DirectoryNamespace(root=root, **properties)
