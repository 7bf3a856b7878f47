"""The only package that touches raw objects: get, list, create if absent, compare and swap."""

from tiltyard.settings import Settings
from tiltyard.store.base import (
    AlreadyThere,
    Ambiguous,
    Blob,
    Changed,
    Entry,
    Listing,
    NotThere,
    Outcome,
    Progress,
    Store,
    Tag,
    Unchanged,
)
from tiltyard.store.local import LocalStore
from tiltyard.store.memory import MemoryStore
from tiltyard.store.retry import Retry

__all__ = [
    "AlreadyThere",
    "Ambiguous",
    "Blob",
    "Changed",
    "Entry",
    "Listing",
    "LocalStore",
    "MemoryStore",
    "NotThere",
    "Outcome",
    "Progress",
    "Retry",
    "Store",
    "Tag",
    "Unchanged",
    "open_store",
]


def open_store(settings: Settings) -> Store:
    """The store that a root names. Touches nothing."""
    if settings.is_local:
        return LocalStore(settings.root)
    from tiltyard.store.cloud import CloudStore  # obstore is not needed for a local catalog

    return CloudStore(settings)
