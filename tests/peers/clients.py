"""Lance's own clients, opened on the place of a test."""

from __future__ import annotations

from typing import Any

import lance.namespace
import lance_namespace as api
import lancedb
from lancedb.namespace import LanceNamespaceDBConnection

from tests.behaviours.modes import Mode
from tests.behaviours.places import Place

OURS = "tiltyard.DirectoryNamespace"
THEIRS = "dir"


def properties(mode: Mode, place: Place) -> dict[str, str]:
    """The same for tiltyard and for pylance."""
    storage = {f"storage.{name}": value for name, value in place.storage_options.items()}
    return {"root": place.root, **mode.properties, **storage}


def open_pylance(properties: dict[str, str]) -> api.LanceNamespace:
    kind: type[Any] = lance.namespace.DirectoryNamespace  # which has no types
    client: api.LanceNamespace = kind(**properties)
    return client


def open_lancedb(kind: str, mode: Mode, place: Place) -> LanceNamespaceDBConnection:
    """lancedb over its own namespace, or over ours."""
    return lancedb.connect_namespace(
        kind, properties(mode, place), storage_options=place.storage_options or None
    )
