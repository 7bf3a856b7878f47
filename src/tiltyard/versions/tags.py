"""Referring to a version by name, while others delete versions.

A collector moves the boundary, looks at tags and branches once more, and deletes. So whoever puts a
tag looks at the boundary after that: either the collector sees the tag, or the tagger sees that
its version was given up.
"""

from __future__ import annotations

from collections.abc import Callable

from tiltyard.catalog.boundary import Boundary


def refer(
    boundary: Boundary, version: int, put: Callable[[], object], take_back: Callable[[], object]
) -> None:
    """Write what refers to a version, and take it back if the version was given up before.

    VersionBehindBoundaryError. Beyond what `put` does, one request; two once any was deleted.
    """
    put()
    kept = boundary.kept()
    if not kept.shows(version):
        take_back()
        raise boundary.behind(version, kept.boundary)
