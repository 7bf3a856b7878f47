"""What every service of one catalog works with. It is made once and never changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiltyard import clock as clocks
from tiltyard.catalog.base import Catalog
from tiltyard.catalog.boundary import Boundary
from tiltyard.catalog.compatible import CompatibleCatalog
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.committer import Committer
from tiltyard.catalog.manifest.table import BOUNDARY, ManifestTable, NoManifestTable
from tiltyard.catalog.pylance import Lance
from tiltyard.clock import Clock
from tiltyard.settings import Settings
from tiltyard.store import Retry, Store, open_store


@dataclass(frozen=True)
class CatalogContext:
    """The store, the clock, access to Lance, and the catalogs of one directory.

    `catalog` answers by the mode: `directory`, `manifest`, or both together. Without a manifest in
    the settings, `manifest` is one that is always empty and refuses every change.
    """

    settings: Settings
    store: Store
    clock: Clock
    lance: Lance
    directory: DirectoryCatalog
    manifest: ManifestCatalog
    catalog: Catalog
    retry: Retry = field(default_factory=Retry)

    @classmethod
    def open(
        cls, settings: Settings, *, store: Store | None = None, clock: Clock | None = None
    ) -> CatalogContext:
        """Open the catalog that settings describe. No request.

        A caller may bring a store or a clock of its own.
        """
        store = store or open_store(settings)
        clock = clock or clocks.SYSTEM_CLOCK
        lance = Lance(settings)
        directory = DirectoryCatalog(store, clock)
        manifest = _open_manifest(settings, store, clock, lance)
        catalog: Catalog = directory
        if settings.manifest_enabled:
            both = settings.dir_listing_enabled
            catalog = CompatibleCatalog(manifest, directory) if both else manifest
        return cls(settings, store, clock, lance, directory, manifest, catalog)


def _open_manifest(settings: Settings, store: Store, clock: Clock, lance: Lance) -> ManifestCatalog:
    retry = Retry(attempts=settings.commit_retries + 1, first_pause=0.005, longest_pause=0.25)
    table_type = ManifestTable if settings.manifest_enabled else NoManifestTable
    table = table_type(store, lance, settings, retry, Boundary(store, BOUNDARY, clock, Retry()))
    return ManifestCatalog(store, table, Committer(table, retry), clock)
