"""tiltyard: a catalog one can trust, for Lance tables in a directory on a disk or in a bucket.

    import tiltyard
    catalog = tiltyard.connect("s3://bucket/lake")

A `DirectoryNamespace` is a `lance_namespace.LanceNamespace`; pylance and lancedb take it as it is.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltyard.catalog.migration import Migrated
    from tiltyard.errors import TiltyardError
    from tiltyard.namespace import DirectoryNamespace, connect
    from tiltyard.settings import Settings

__all__ = ["DirectoryNamespace", "Migrated", "Settings", "TiltyardError", "connect"]
__version__ = "0.1.0"

# Loaded on first use: the command line must answer --help without Lance and Arrow.
_HOMES = {
    "DirectoryNamespace": "tiltyard.namespace",
    "Migrated": "tiltyard.catalog.migration",
    "Settings": "tiltyard.settings",
    "TiltyardError": "tiltyard.errors",
    "connect": "tiltyard.namespace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tiltyard' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
