"""What a reader would see in the objects of a catalog, at one moment.

A table at a V1 location is what its marker says, with the files of its newest version; rows are
what the register says. Content is told by its creator: every data file holds its writer's name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tests.simulation.files import decode_version
from tests.simulation.register import rows_of
from tests.simulation.requests import Objects
from tiltyard.catalog import marker, names, version_files
from tiltyard.catalog.manifest.rows import HOLD, PURGING, STATE
from tiltyard.catalog.marker import Marker, State
from tiltyard.store import Entry

# Writers that do not look at markers sign with this; they add to what others made.
UNAWARE = "zombie"
# The newest version names a data file that is not there.
BROKEN = "BROKEN"
# A directory without a version that somebody has reserved.
RESERVED = "reserved"
TABLE = "t"
OTHER = "u"


class View(NamedTuple):
    """A table at a V1 location: the state of its marker, its content, and how far it counted."""

    kind: str
    content: str | None
    version: int
    floor: int


class Held(NamedTuple):
    """A table in a directory of its own: where it is (a name, or the trash), and its content."""

    place: str
    content: str | None


RowsView = frozenset[Held]


def of_marker(objects: Objects) -> View:
    """The table `t` at `t.lance`."""
    present = _marker(objects)
    content, version = content_at(objects, names.table_directory(TABLE))
    return View(_kind(objects, present), content, version, present.floor)


def state_of(objects: Objects) -> str:
    """The state of the table `t` alone."""
    return _kind(objects, _marker(objects))


def _marker(objects: Objects) -> Marker:
    body = objects.get(names.marker_key(TABLE))
    return _decoded(body) if body is not None else marker.ABSENT


def _kind(objects: Objects, present: Marker) -> str:
    if present.state is State.DELETED and present.hold:
        return "held"
    if present.state is State.MOVED:
        return _kind_of_moved(objects, present)
    return present.state.value


def _kind_of_moved(objects: Objects, present: Marker) -> str:
    """A renamed table is where the row is that names the marker's nonce.

    Until the marker says that it has arrived it may still come back: `moved`, and `landed` with its
    row. Then it is `arrived`, `returned` if its row has the name of the directory again, `trashed`
    in the trash, `loose` if it was deregistered; `emptied` and at last `buried` by a purge.
    """
    rows = rows_of(objects)
    if present.buried:
        return "emptied" if present.buried in rows else "buried"
    for row in rows.values():
        if present.handed_to(row):
            if row.id[0] == names.TRASH:
                return "emptied" if row.metadata[STATE] == PURGING else "trashed"
            if row.object_id == TABLE:
                return "returned"
            return "arrived" if present.arrived else "landed"
    return "loose" if present.arrived else "moved"


def of_rows(objects: Objects) -> RowsView:
    """Every table of the register."""
    tables = set()
    for row in rows_of(objects).values():
        place = row.object_id
        if row.id[0] == names.TRASH:
            place = "held" if HOLD in row.metadata else "trash"
            if row.metadata[STATE] == PURGING:
                place = "purging"
        location = row.location or ""
        # While it is purged, only the name of its directory still tells who made it.
        content = location[0] if place == "purging" else content_at(objects, location)[0]
        tables.add(Held(place, content))
    return frozenset(tables)


def content_at(objects: Objects, location: str) -> tuple[str | None, int]:
    """Who made what the newest version holds, and its number."""
    start = f"{location}/{names.VERSIONS_DIRECTORY}/"
    newest = min((key for key in objects if key.startswith(start)), default=None)
    if newest is None:
        reserved = f"{location}/{names.RESERVATION}" in objects
        return (RESERVED if reserved else None), 0
    version = version_files.parse(Entry(newest, 0, 0))
    assert version is not None
    writers = [objects.get(key) for key in _files(objects[newest])]
    if None in writers:
        return BROKEN, version.version
    told = [writer.decode() for writer in writers if writer is not None]
    aware = [writer for writer in told if not writer.startswith(UNAWARE)]
    return (aware or told)[0], version.version


@lru_cache(maxsize=100_000)
def _files(version: bytes) -> tuple[str, ...]:
    return tuple(decode_version(version)["files"])


@lru_cache(maxsize=100_000)
def _decoded(body: bytes) -> Marker:
    return marker.decode(body, "t.deleted")
