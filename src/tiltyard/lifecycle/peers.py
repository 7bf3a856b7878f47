"""The nested file by which Lance's own clients know that a table at a V1 location is hidden.

It follows a hide and precedes a show, so that a crash in between leaves them seeing more than we
do, never a lost table. For us it only counts together with the marker.
"""

from __future__ import annotations

from tiltyard import names
from tiltyard.catalog import marker
from tiltyard.catalog.marker import Marker
from tiltyard.store import Store


def hide_from_peers(store: Store, name: str, hidden: Marker) -> None:
    """Write the file, unless the table came back meanwhile. Two requests."""
    key = _nested(name)
    store.put(key, marker.nested_body(hidden.generation or ""))
    if not marker.read(store, name).hides:
        store.delete(key)


def show_to_peers(store: Store, name: str) -> None:
    """Remove the file. One request."""
    store.delete(_nested(name))


def _nested(name: str) -> str:
    return f"{names.table_directory(name)}/{names.DEREGISTERED}"
