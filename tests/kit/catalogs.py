"""Catalogs over a store, or with a clock, that a test brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tests.kit.stores import FaultyStore
from tiltyard import DirectoryNamespace, Settings
from tiltyard.catalog.context import CatalogContext
from tiltyard.clock import Clock
from tiltyard.store import Store, open_store

if TYPE_CHECKING:
    import lance

AnyStore = TypeVar("AnyStore", bound=Store)


def open_over(
    wrap: Callable[[Store], AnyStore], *, clock: Clock | None = None, **properties: Any
) -> tuple[DirectoryNamespace, AnyStore]:
    """A catalog whose requests go through the store that `wrap` puts around the real one."""
    settings = Settings.from_properties(properties)
    store = wrap(open_store(settings))
    return DirectoryNamespace(CatalogContext.open(settings, store=store, clock=clock)), store


def open_faulty(
    catalog: DirectoryNamespace, *, bulk: int = 1_000
) -> tuple[DirectoryNamespace, FaultyStore]:
    """Another client of the same catalog, and the store through which its requests go."""
    properties: dict[str, Any] = dict(catalog.as_properties())
    return open_over(lambda store: FaultyStore(store, bulk), **properties)


def to_change(
    catalog: DirectoryNamespace, *id: str, version: int | None = None
) -> lance.LanceDataset:
    """A table for Lance's own methods, whose commits are published through the catalog."""
    return catalog.services.clients.of(catalog.services.access.find(id)).open(version)
