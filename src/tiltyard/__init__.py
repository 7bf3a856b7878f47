"""tiltyard: a catalog one can trust, for Lance tables in a directory on a disk or in a bucket.

    import tiltyard
    catalog = tiltyard.connect("s3://bucket/lake")

A `DirectoryNamespace` is a `lance_namespace.LanceNamespace`; pylance and lancedb take it as it is.
"""

from tiltyard.errors import TiltyardError
from tiltyard.namespace import DirectoryNamespace, connect
from tiltyard.settings import Settings

__all__ = ["DirectoryNamespace", "Settings", "TiltyardError", "connect"]
__version__ = "0.1.0"
