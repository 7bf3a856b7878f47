"""Clients that are slow at a chosen request, so that others come in between."""

from __future__ import annotations

from tests.kit.stores import FaultyStore
from tiltyard import DirectoryNamespace
from tiltyard.catalog.compatible import CompatibleCatalog


def slow_to_find_versions(client: DirectoryNamespace) -> FaultyStore:
    """The store through which a client finds the latest version of a table, to plan faults for."""
    store = FaultyStore(client.context.store)
    catalog = client.context.catalog
    if isinstance(catalog, CompatibleCatalog):
        catalog = client.context.manifest
    catalog.context.store = store  # type: ignore[attr-defined]
    return store
